//! Schemas that are there already: whose they are, and what of them the target cannot take.

use dmbench::mysql::{Flavor, Session, owner};
use dmbench::trial::preflight::{End, Level};

use super::{faults, inspect, of, plan, servers};
use crate::support::schema;

async fn run(session: &mut Session, statements: &[&str], schema: &str) {
    for statement in statements {
        session.execute(&statement.replace("$S", schema)).await.expect(statement);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_of_somebody_else_fails_on_either_end() {
    for flavor in [Flavor::Mysql, Flavor::Mariadb] {
        let (pair, _guard) = servers(flavor).await;
        let (mut source, mut target) = (pair.source_session().await, pair.target_session().await);
        let name = schema("preflight");
        let plan = plan(&name);
        for (end, name) in [
            (End::Source, name.as_str()),
            (End::Target, name.as_str()),
            (End::Target, "dmbench_meta"),
        ] {
            let session = if end == End::Source { &mut source } else { &mut target };
            run(session, &["CREATE DATABASE $S"], name).await;
            let checks = inspect(pair.source(), pair.target(), &plan).await;
            assert_eq!(faults(&checks), [format!("fail schema-owner {end}")], "{name}");
            run(session, &["DROP DATABASE $S"], name).await;
            owner::recreate(session, name, "a run").await.expect("ours");
            let checks = inspect(pair.source(), pair.target(), &plan).await;
            assert_eq!(faults(&checks), [""; 0], "{name} of ours");
            owner::drop_if_ours(session, name).await.expect("dropped");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_are_hard_to_replicate_are_named() {
    for flavor in [Flavor::Mysql, Flavor::Mariadb] {
        let (pair, _guard) = servers(flavor).await;
        let (mut source, mut target) = (pair.source_session().await, pair.target_session().await);
        let name = schema("preflight");
        let plan = plan(&name);
        let own = "CREATE DATABASE $S";
        let tables = [
            own,
            "CREATE TABLE $S.good (id INT PRIMARY KEY, v VARCHAR(20))",
            "CREATE TABLE $S.keyless (a INT, b INT, UNIQUE KEY (a))",
            "CREATE TABLE $S.child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES $S.good (id))",
            "CREATE TABLE $S.long_one (id INT PRIMARY KEY, v LONGTEXT)",
        ];
        run(&mut source, &tables, &name).await;
        run(&mut target, &[own, "CREATE TABLE $S.good (id INT PRIMARY KEY)"], &name).await;
        let trigger = "CREATE TRIGGER $S.g BEFORE INSERT ON $S.good FOR EACH ROW SET NEW.id = 1";
        run(&mut target, &[trigger], &name).await;
        let checks = inspect(pair.source(), pair.target(), &plan).await;
        run(&mut source, &["DROP DATABASE $S"], &name).await;
        run(&mut target, &["DROP DATABASE $S"], &name).await;
        for (code, end, word) in [
            ("table-key", End::Source, "keyless"),
            ("foreign-key", End::Source, "foreign keys: 1"),
            ("row-size", End::Target, "long_one"),
            ("trigger", End::Target, ": 1;"),
        ] {
            let found = of(&checks, code, end)[0];
            assert_eq!(found.level, Level::Warn, "{found}");
            assert!(found.evidence.contains(word), "{found}");
            assert!(!found.evidence.contains("good"), "{found}");
        }
        for (code, end) in [("column-type", End::Target), ("collation", End::Target)] {
            assert_eq!(of(&checks, code, end)[0].level, Level::Pass);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_flavour_lacks_fails() {
    let (mysql, _first) = servers(Flavor::Mysql).await;
    let (mariadb, _second) = servers(Flavor::Mariadb).await;
    let name = schema("preflight");
    let plan = plan(&name);
    let mut source = mysql.source_session().await;
    let table = "CREATE TABLE $S.t (id INT PRIMARY KEY, v VARCHAR(9) COLLATE utf8mb4_0900_ai_ci)";
    run(&mut source, &["CREATE DATABASE $S", table], &name).await;
    let checks = inspect(mysql.source(), mariadb.target(), &plan).await;
    run(&mut source, &["DROP DATABASE $S"], &name).await;
    let found = of(&checks, "collation", End::Target)[0];
    assert_eq!(found.level, Level::Fail, "{found}");
    assert!(found.evidence.contains("utf8mb4_0900_ai_ci"), "{found}");

    let mut source = mariadb.source_session().await;
    let table = "CREATE TABLE $S.t (id INT PRIMARY KEY, u UUID, i INET6, v VARCHAR(9))";
    run(&mut source, &["CREATE DATABASE $S", table], &name).await;
    let checks = inspect(mariadb.source(), mysql.target(), &plan).await;
    run(&mut source, &["DROP DATABASE $S"], &name).await;
    let found = of(&checks, "column-type", End::Target)[0];
    assert_eq!(found.level, Level::Fail, "{found}");
    assert!(found.evidence.contains("t.u (uuid), t.i (inet6)"), "{found}");
    assert!(!faults(&checks).contains(&"fail collation target".to_owned()), "{checks:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduled_events_warn() {
    for flavor in [Flavor::Mysql, Flavor::Mariadb] {
        let (pair, _guard) = servers(flavor).await;
        let mut target = pair.target_session().await;
        let (events, plan) = (schema("events"), plan("dmbench_events"));
        let event =
            "CREATE EVENT $S.e ON SCHEDULE EVERY 1 DAY STARTS '2037-01-01 00:00:00' DO DO 1";
        run(
            &mut target,
            &["CREATE DATABASE $S", event, "SET GLOBAL event_scheduler = ON"],
            &events,
        )
        .await;
        let checks = inspect(pair.source(), pair.target(), &plan).await;
        assert_eq!(faults(&checks), ["warn event target"]);
        run(&mut target, &["SET GLOBAL event_scheduler = OFF"], &events).await;
        let checks = inspect(pair.source(), pair.target(), &plan).await;
        assert_eq!(faults(&checks), [""; 0], "nothing runs them");
        run(&mut target, &["DROP DATABASE $S"], &events).await;
    }
}
