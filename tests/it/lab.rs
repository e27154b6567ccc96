//! The sandbox: real servers start, answer, and are gone afterwards, whatever happens.

use dmbench::mysql::Flavor;

use crate::support;

async fn both_ends_answer(flavor: Flavor) {
    let pair = support::pair(flavor);
    for mut session in [pair.source_session().await, pair.target_session().await] {
        assert_eq!(session.server().flavor, flavor);
        session.binlog_position().await.expect("there is a binlog");
        let zone: Option<String> = session.value("SELECT @@global.time_zone").await.expect("asked");
        assert_eq!(zone.as_deref(), Some("+00:00"));
        let format: Option<String> =
            session.value("SELECT @@global.binlog_format").await.expect("asked");
        assert_eq!(format.as_deref(), Some("ROW"));
    }
}

#[tokio::test]
async fn mysql_answers_on_both_ends() {
    both_ends_answer(Flavor::Mysql).await;
}

#[tokio::test]
async fn mariadb_answers_on_both_ends() {
    both_ends_answer(Flavor::Mariadb).await;
}

#[tokio::test]
async fn a_mixed_pair_has_a_server_of_each_flavour_and_schemas_keep_tests_apart() {
    let pair = support::mixed_pair();
    let (mut source, mut target) = (pair.source_session().await, pair.target_session().await);
    assert_eq!(source.server().flavor, Flavor::Mysql);
    assert_eq!(target.server().flavor, Flavor::Mariadb);
    let schema = support::schema("mixed");
    assert_ne!(schema, support::schema("mixed"));
    for session in [&mut source, &mut target] {
        dmbench::mysql::owner::recreate(session, &schema, "test").await.expect("made");
        dmbench::mysql::owner::drop_if_ours(session, &schema).await.expect("dropped");
    }
}
