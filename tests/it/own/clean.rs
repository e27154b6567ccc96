//! What `clean` drops, and the look-alikes that it does not.

use dmbench::mysql::{Flavor, Session, owner};

use super::{BULK, Desk, execute, servers};

/// Schemas that hold something named like the owner table.
const ALIKE: [(&str, &str); 4] = [
    ("t_alike_none", "CREATE TABLE t_alike_none.t (a INT)"),
    ("t_alike_view", "CREATE VIEW t_alike_view._dmbench AS SELECT 'r' AS run, NOW() AS created"),
    (
        "t_alike_shape",
        "CREATE TABLE t_alike_shape._dmbench (run VARCHAR(128), created TIMESTAMP, x INT)",
    ),
    ("t_alike_type", "CREATE TABLE t_alike_type._dmbench (run INT, created INT)"),
];

#[tokio::test(flavor = "multi_thread")]
async fn only_what_runs_left_is_dropped_and_only_when_asked() {
    for flavor in [Flavor::Mysql, Flavor::Mariadb] {
        let (pair, _guard) = servers(flavor).await;
        for endpoint in [pair.source(), pair.target()] {
            let mut session = Session::connect(endpoint).await.expect("reached");
            owner::recreate(&mut session, "dmbench", "crashed").await.expect("made");
            owner::recreate(&mut session, "dmbench_drive", "drive").await.expect("made");
            for (schema, statement) in ALIKE {
                let make = format!("CREATE DATABASE {schema}");
                execute(endpoint, &[&make, statement]).await;
                assert_eq!(owner::is_ours(&mut session, schema).await.expect("asked"), Some(false));
                owner::drop_if_ours(&mut session, schema).await.expect_err("not ours");
            }
        }
        let desk = Desk::new(pair, BULK, "");
        let (code, stdout, stderr) = desk.dmbench(&["clean", "--lab", "lab.toml"]);
        assert_eq!(code, 0, "{stderr}");
        assert_eq!(stdout.matches("to drop").count(), 2, "{stdout}");
        assert!(stdout.contains("run crashed of 20") && !stdout.contains("t_alike"), "{stdout}");
        let (_, json, _) = desk.dmbench(&["clean", "--lab", "lab.toml", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(json["schemas"].as_array().map(Vec::len), Some(4), "{json}");
        let (code, stdout, stderr) = desk.dmbench(&["clean", "--lab", "lab.toml", "--yes"]);
        assert_eq!((code, stdout.matches("dropped").count()), (0, 2), "{stdout} {stderr}");
        for endpoint in [pair.source(), pair.target()] {
            let mut session = Session::connect(endpoint).await.expect("reached");
            assert!(!session.has_schema("dmbench").await.expect("asked"));
            for schema in ALIKE.map(|(schema, _)| schema).iter().chain(&["dmbench_drive"]) {
                assert!(session.has_schema(schema).await.expect("asked"), "{schema} is there");
                session.execute(format!("DROP DATABASE {schema}")).await.expect("dropped");
            }
        }
    }
}
