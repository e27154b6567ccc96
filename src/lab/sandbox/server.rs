//! One private server: from nothing to the first connection.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::find::Found;
use super::flags::{self, Home, Role};
use super::guard::{Launch, Leash};
use super::ledger::make_private;
use super::process::Process;
use super::settings::{Program, Settings};
use super::{log_tail, template};
use crate::lab::Error;
use crate::mysql::{Endpoint, Secret, Session};

/// How long a server may take until it accepts a connection.
const READY_WITHIN: Duration = Duration::from_secs(90);

/// How often a start is tried when somebody else takes the free port first.
const PORT_ATTEMPTS: u32 = 5;

/// A server that accepts connections.
#[derive(Debug, Clone)]
pub(super) struct Running {
    pub(super) endpoint: Endpoint,
    pub(super) process: Process,
}

/// What a start needs to know.
pub(super) struct Start<'a> {
    pub(super) found: &'a Found,
    pub(super) home: Home,
    pub(super) role: Role,
    pub(super) settings: &'a Settings,
    pub(super) password: &'a Secret,
    pub(super) leash: &'a Leash,
    pub(super) outlives_guard: bool,
    pub(super) cancel: &'a CancellationToken,
}

impl Start<'_> {
    /// Makes the data folder, starts the server and waits until it accepts a connection.
    pub(super) async fn run(&self) -> Result<Running, Error> {
        let folder = &self.home.folder;
        for folder in [folder.clone(), self.home.temporary()] {
            make_private(&folder).map_err(|e| Error::file("make", &folder, e))?;
        }
        for folder in [self.home.data(), self.home.temporary(), self.home.first_statements()] {
            self.leash.remove_at_end(folder)?;
        }
        template::fill(self.found, &self.home, self.role.name, self.leash, self.cancel).await?;
        self.write_first_statements()?;
        let mut attempt = 1;
        let running = loop {
            match self.attempt(attempt).await {
                Err(Error::Start { log, .. }) if attempt < PORT_ATTEMPTS && is_port_taken(&log) => {
                    attempt += 1;
                }
                other => break other?,
            }
        };
        if self.found.program == Program::Tidb {
            self.protect_tidb(&running.endpoint).await?;
        }
        super::ledger::remove(&self.home.first_statements());
        Ok(running)
    }

    async fn attempt(&self, number: u32) -> Result<Running, Error> {
        let ports = free_ports().map_err(|e| Error::Guard { why: format!("free port: {e}") })?;
        let name = format!("{} {number}", self.role.name);
        let launch = Launch {
            name: name.clone(),
            program: self.found.path.clone(),
            arguments: flags::start(self.found, &self.home, self.role, ports, self.settings),
            environment: flags::environment(self.found, &self.home),
            output: self.home.log(),
            parent: (!self.outlives_guard).then_some(0),
        };
        let process = self.leash.launch(launch).await?;
        let password = if self.found.program == Program::Tidb {
            Secret::default()
        } else {
            self.password.clone()
        };
        let endpoint = Endpoint::tcp("127.0.0.1", ports[0], "root", password);
        let why = tokio::select! {
            () = self.cancel.cancelled() => return Err(Error::Interrupted),
            (_, how) = self.leash.ended(&name) => format!("it ended ({how})"),
            ready = until_ready(&endpoint) => match ready {
                Ok(()) => return Ok(Running { endpoint: self.final_endpoint(&endpoint), process }),
                Err(why) => why,
            },
        };
        let server = format!("{} as {}", self.found, self.role.name);
        Err(Error::Start { server, why, log: log_tail(&self.home.log()) })
    }

    fn final_endpoint(&self, endpoint: &Endpoint) -> Endpoint {
        Endpoint { password: self.password.clone(), ..endpoint.clone() }
    }

    /// Writes what the server runs before it lets anybody in: the only accounts left are root's,
    /// from this machine, with the password. None of it goes to the binlog.
    fn write_first_statements(&self) -> Result<(), Error> {
        let password = self.password.expose();
        let mut lines = vec!["SET SESSION sql_log_bin = 0;".to_owned()];
        if self.found.program == Program::Mariadb {
            lines.push(
                "DELETE FROM mysql.global_priv WHERE User = '' OR (User = 'root' AND Host <> \
                 'localhost');"
                    .to_owned(),
            );
            lines.push("FLUSH PRIVILEGES;".to_owned());
        }
        lines.push(format!("ALTER USER 'root'@'localhost' IDENTIFIED BY '{password}';"));
        lines.push(format!("CREATE USER 'root'@'127.0.0.1' IDENTIFIED BY '{password}';"));
        lines.push("GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;".to_owned());
        write_private(&self.home.first_statements(), &(lines.join("\n") + "\n"))
    }

    /// TiDB starts with a root account without password and reads no file: set it at once.
    async fn protect_tidb(&self, endpoint: &Endpoint) -> Result<(), Error> {
        let open = Endpoint { password: Secret::default(), ..endpoint.clone() };
        let mut session = Session::connect(&open).await?;
        let password = self.password.expose();
        let protect = format!("ALTER USER 'root'@'%' IDENTIFIED BY '{password}'");
        // Neither the statement nor what the server says of it may be shown: both hold the password.
        session.execute(&protect).await.map_err(|error| Error::Start {
            server: format!("{} as {}", self.found, self.role.name),
            why: match error.code() {
                Some(code) => format!("its root account takes no password (error {code})"),
                None => "the connection was lost while its root account was protected".to_owned(),
            },
            log: log_tail(&self.home.log()),
        })?;
        session.close().await;
        Ok(())
    }
}

/// Writes a file that only its owner can read.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), Error> {
    let mut options = std::fs::File::options();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|e| Error::file("write", path, e))
}

/// Tries to connect until it works.
async fn until_ready(endpoint: &Endpoint) -> Result<(), String> {
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        let why = match tokio::time::timeout_at(deadline, Session::connect(endpoint)).await {
            Ok(Ok(session)) => {
                session.close().await;
                return Ok(());
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        if Instant::now() >= deadline {
            return Err(format!("no connection within {} s: {why}", READY_WITHIN.as_secs()));
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

/// Two ports that were free a moment ago. Both are held until both are known, so they differ.
fn free_ports() -> std::io::Result<[u16; 2]> {
    let listeners = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    Ok([listeners[0].local_addr()?.port(), listeners[1].local_addr()?.port()])
}

fn is_port_taken(log: &str) -> bool {
    let log = log.to_ascii_lowercase();
    log.contains("address already in use") || log.contains("bind on tcp/ip port")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_told_from_other_failures() {
        let taken = "[ERROR] Can't start server: Bind on TCP/IP port. Got error: 98: Address \
                     already in use";
        assert!(is_port_taken(taken));
        assert!(!is_port_taken("[ERROR] unknown variable 'bind=1'"));
    }

    #[test]
    fn free_ports_differ() {
        let [a, b] = free_ports().expect("there are free ports");
        assert_ne!(a, b);
    }
}
