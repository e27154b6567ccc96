//! The user's own servers: lab files, the lock, what is left and what is cleaned, TLS, secrets.
//!
//! Runs write schema `dmbench` and hold one lock, so that one test at a time has a pair of servers.

mod addresses;
mod clean;
mod interrupt;
mod lock;
mod login;
mod prompt;
mod runs;
mod secrets;
mod tls;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use dmbench::mysql::{Address, Endpoint, Flavor, Secret, Session};
use tempfile::TempDir;
use tokio::sync::MutexGuard;

use crate::support::{self, DMBENCH, Pair};

/// A pair of servers, as long as this is held.
async fn servers(flavor: Flavor) -> (&'static Pair, MutexGuard<'static, ()>) {
    let pair = support::own_pair(flavor);
    (pair, pair.alone().await)
}

/// A small task; `[sandbox]` describes servers that these are not.
const BULK: &str = r#"
question = "How long does an import take?"
model = "bulk"
[workload]
kind = "sysbench"
script = "oltp_insert"
tables = 2
table-size = 500
[pipeline]
kind = "builtin"
[sandbox]
target-round-trip = "50ms"
[repeat]
blocks = 1
"#;

/// A stream that takes as long as it is told.
fn stream(measure: &str) -> String {
    format!(
        r#"
question = "Does it keep up?"
model = "stream"
[workload]
kind = "sysbench"
script = "oltp_insert"
tables = 1
table-size = 200
[pace]
kind = "closed"
clients = 2
[phases]
warm = "200ms"
measure = "{measure}"
drain-limit = "60s"
[pipeline]
kind = "builtin"
[repeat]
blocks = 1
"#
    )
}

/// A folder with `lab.toml`, `t.toml` and the passwords.
struct Desk {
    folder: TempDir,
}

impl Desk {
    /// With both ends of a pair; `extra` is put below each URL.
    fn new(pair: &Pair, task: &str, extra: &str) -> Desk {
        Desk::of(pair.source(), pair.target(), task, extra)
    }

    fn of(source: &Endpoint, target: &Endpoint, task: &str, extra: &str) -> Desk {
        let folder = tempfile::Builder::new().prefix("dmbench-own-").tempdir().expect("folder");
        let mut lab = String::new();
        for (end, endpoint) in [("source", source), ("target", target)] {
            let Endpoint { address, user, password, .. } = endpoint;
            let Address::Tcp { host, port } = address else { panic!("{address}") };
            let url = format!("mysql://{user}@{host}:{port}");
            lab +=
                &format!("[{end}]\nurl = \"{url}\"\npassword-file = \"{end}.secret\"\n{extra}\n");
            let file = folder.path().join(format!("{end}.secret"));
            fs::write(file, format!("{}\n", password.expose())).expect("written");
        }
        fs::write(folder.path().join("lab.toml"), lab).expect("written");
        fs::write(folder.path().join("t.toml"), task).expect("written");
        Desk { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(DMBENCH);
        command.args(words).current_dir(self.path()).env_remove("RUST_LOG");
        command
    }

    /// Runs dmbench to its end: exit code, stdout, stderr.
    fn dmbench(&self, words: &[&str]) -> (i32, String, String) {
        let output = self.command(words).output().expect("dmbench starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code().expect("a code"), text(output.stdout), text(output.stderr))
    }

    /// Starts dmbench; its stderr goes to a file.
    fn start(&self, words: &[&str]) -> Child {
        let stderr = fs::File::create(self.path().join("stderr")).expect("a file");
        self.command(words).stdout(Stdio::null()).stderr(stderr).spawn().expect("dmbench starts")
    }

    fn stderr(&self) -> String {
        fs::read_to_string(self.path().join("stderr")).unwrap_or_default()
    }

    /// The only run's record.
    fn run_json(&self) -> serde_json::Value {
        json(&only(&self.path().join("out")).join("run.json"))
    }

    /// The only trial's record.
    fn trial_json(&self) -> serde_json::Value {
        json(&only(&only(&self.path().join("out")).join("trials")))
    }
}

/// What is alone in a folder.
fn only(folder: &Path) -> PathBuf {
    fs::read_dir(folder).expect("a folder").next().expect("an entry").expect("an entry").path()
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(path).expect("read")).expect("JSON")
}

/// Schemas with dmbench's names.
async fn schemas(endpoint: &Endpoint) -> Vec<String> {
    let mut session = Session::connect(endpoint).await.expect("reached");
    let sql = "SELECT schema_name FROM information_schema.schemata WHERE schema_name IN \
               ('dmbench', 'dmbench_meta') ORDER BY 1";
    let rows = session.rows(sql).await.expect("asked");
    rows.into_iter().map(mysql_async::from_row).collect()
}

async fn execute(endpoint: &Endpoint, statements: &[&str]) {
    let mut session = Session::connect(endpoint).await.expect("reached");
    for statement in statements {
        session.execute(statement).await.unwrap_or_else(|error| panic!("failed to {error}"));
    }
}

/// An account with all privileges and another password.
async fn account(endpoint: &Endpoint, user: &str, plugin: &str, password: &str) -> Endpoint {
    let quoted = password.replace('\\', "\\\\").replace('\'', "''");
    let name = format!("'{}'@'127.0.0.1'", user.replace('\'', "''"));
    let how = match plugin {
        "" => format!("IDENTIFIED BY '{quoted}'"),
        "mysql_native_password" => {
            format!("IDENTIFIED VIA {plugin} USING PASSWORD('{quoted}')")
        }
        plugin => format!("IDENTIFIED WITH {plugin} BY '{quoted}'"),
    };
    let statements = [
        "SET SESSION sql_log_bin = 0, sql_mode = ''".to_owned(),
        format!("DROP USER IF EXISTS {name}"),
        format!("CREATE USER {name} {how}"),
        format!("GRANT ALL ON *.* TO {name}"),
    ];
    execute(endpoint, &statements.each_ref().map(String::as_str)).await;
    Endpoint { user: user.to_owned(), password: Secret::new(password), ..endpoint.clone() }
}
