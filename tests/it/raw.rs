//! Raw connections against real servers.

use std::time::Duration;

use dmbench::mysql::Flavor;
use dmbench::mysql::raw::{Answer, Parameter, Raw, cells};

use crate::support::{pair, schema};

async fn connections() -> Vec<Raw> {
    let mut connections = Vec::new();
    for flavor in [Flavor::Mysql, Flavor::Mariadb] {
        connections.push(Raw::connect(pair(flavor).source()).await.expect("let in"));
    }
    connections
}

#[tokio::test]
async fn rows_are_counted_and_cells_are_what_the_server_holds() {
    for mut raw in connections().await {
        let sql = "SELECT NULL, '', 'é', REPEAT('x', 300), REPEAT('y', 70000) UNION ALL \
                   SELECT 1, 2, 3, 4, 5";
        let mut rows = Vec::new();
        let keep = |row: &[u8]| {
            rows.push(cells(row).map(|cell| cell.map(<[u8]>::to_vec)).collect::<Vec<_>>());
        };
        let answer = raw.rows(sql, keep).await.expect("asked");
        assert_eq!(answer, Answer { affected: 0, rows: 2 });
        let text = |text: &str| Some(text.as_bytes().to_vec());
        let long = [text(&"x".repeat(300)), text(&"y".repeat(70_000))];
        assert_eq!(rows[0][..3], [None, text(""), text("é")]);
        assert_eq!(rows[0][3..], long);
        assert_eq!(rows[1], ["1", "2", "3", "4", "5"].map(text));
        raw.close().await;
    }
}

#[tokio::test]
async fn prepared_statements_say_what_they_did() {
    for mut raw in connections().await {
        let name = schema("raw");
        raw.query(&format!("CREATE DATABASE {name}")).await.expect("made");
        let table = format!("{name}.t");
        let made = format!("CREATE TABLE {table} (id BIGINT UNSIGNED PRIMARY KEY, t LONGBLOB)");
        raw.query(&made).await.expect("made");
        let insert = format!("INSERT INTO {table} VALUES (?, ?), (?, ?)");
        let insert = raw.prepare(&insert).await.expect("prepared");
        let long = vec![0xFE_u8; 300_000];
        let values = [
            Parameter::Number(1),
            Parameter::Bytes(b""),
            Parameter::Number(u64::MAX),
            Parameter::Bytes(&long),
        ];
        let answer = raw.execute(&insert, &values).await.expect("inserted");
        assert_eq!(answer, Answer { affected: 2, rows: 0 });
        let select = format!("SELECT t, id FROM {table} WHERE id >= ?");
        let select = raw.prepare(&select).await.expect("prepared");
        for (from, rows) in [(0, 2), (2, 1)] {
            let answer = raw.execute(&select, &[Parameter::Number(from)]).await.expect("read");
            assert_eq!(answer, Answer { affected: 0, rows });
        }
        // An error is a whole answer: the connection goes on.
        let twice = raw.execute(&insert, &values).await.expect_err("the keys are taken");
        assert_eq!(raw.error("INSERT", twice).code(), Some(1062));
        let delete = raw.prepare(&format!("DELETE FROM {table}")).await.expect("prepared");
        assert_eq!(raw.execute(&delete, &[]).await.expect("deleted").affected, 2);
        let wrong = raw.prepare("SELECT FROM").await.expect_err("no statement");
        assert_eq!(raw.error("SELECT FROM", wrong).code(), Some(1064));
        raw.query(&format!("DROP DATABASE {name}")).await.expect("dropped");
        raw.close().await;
    }
}

/// The late answer would be taken for that of the next statement.
#[tokio::test]
async fn nothing_is_sent_while_an_answer_is_owed() {
    for mut raw in connections().await {
        let late = raw.query("SELECT SLEEP(60)");
        tokio::time::timeout(Duration::from_millis(1), late).await.expect_err("it sleeps");
        let next = raw.query("SELECT 1").await.expect_err("an answer is owed");
        let error = raw.error("SELECT 1", next);
        assert!(error.is_disconnect(), "{error}");
        assert!(error.to_string().contains("was not waited for"), "{error}");
    }
}
