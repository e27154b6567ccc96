//! The command lines of sandbox servers.
//!
//! Both ends are set up alike: the same buffer pool, redo log, durability, character set, time zone
//! and packet size, so that a difference between two points comes from the point. Flags that only
//! some versions know carry the prefix `loose-`, which turns an unknown one into a warning.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::find::Found;
use super::settings::{Durability, Program, Settings};

/// Redo log of each server in MiB: large enough not to stall a trial of some minutes.
const REDO_MIB: u32 = 512;

/// Where one server lives.
#[derive(Debug, Clone)]
pub(super) struct Home {
    /// Folder of this server.
    pub(super) folder: PathBuf,
    /// Its Unix socket, in a short path: the system allows 107 bytes.
    pub(super) socket: PathBuf,
}

impl Home {
    pub(super) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    pub(super) fn temporary(&self) -> PathBuf {
        self.folder.join("tmp")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("error.log")
    }

    /// Statements run before the server lets anybody in: they set the password.
    pub(super) fn first_statements(&self) -> PathBuf {
        self.folder.join("first.sql")
    }
}

/// What a server is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Role {
    /// `source` or `target`.
    pub(super) name: &'static str,
    /// Server id; differs between the ends.
    pub(super) server_id: u32,
    /// Whether it writes a binlog.
    pub(super) binlog: bool,
    /// Time added to each commit.
    pub(super) commit_delay: Duration,
}

/// Arguments that make an empty data folder, and the program that takes them.
///
/// The folder for temporary files is the server's own: a MariaDB that starts removes the temporary
/// tables that it finds in its folder, those of another one that is just starting included.
pub(super) fn initialise(found: &Found, home: &Home) -> (PathBuf, Vec<String>) {
    let mut arguments = vec!["--no-defaults".to_owned()];
    if rustix::process::geteuid().is_root() {
        arguments.push("--user=root".to_owned());
    }
    arguments.push(format!("--datadir={}", home.data().display()));
    arguments.push(format!("--tmpdir={}", home.temporary().display()));
    // Small, since the folder is kept as a template; a start makes it as large as it should be.
    if found.program == Program::Mysql {
        arguments.push("--initialize-insecure".to_owned());
        arguments.push("--loose-innodb-redo-log-capacity=8M".to_owned());
        return (found.path.clone(), arguments);
    }
    arguments.push("--auth-root-authentication-method=normal".to_owned());
    arguments.push("--skip-test-db".to_owned());
    arguments.push("--innodb-log-file-size=8M".to_owned());
    (install_script(&found.path), arguments)
}

/// `mariadb-install-db` that belongs to a `mariadbd`: beside it, or in the `bin` next to its `sbin`.
fn install_script(server: &Path) -> PathBuf {
    let name = "mariadb-install-db";
    let beside = server.parent().map(|folder| folder.join(name));
    let parallel = server.parent().and_then(Path::parent).map(|p| p.join("bin").join(name));
    let scripts = server.parent().and_then(Path::parent).map(|p| p.join("scripts").join(name));
    let known = [beside, parallel, scripts].into_iter().flatten().find(|path| path.is_file());
    known.unwrap_or_else(|| PathBuf::from(name))
}

/// Arguments of a start.
pub(super) fn start(
    found: &Found,
    home: &Home,
    role: Role,
    ports: [u16; 2],
    settings: &Settings,
) -> Vec<String> {
    if found.program == Program::Tidb {
        return start_tidb(home, ports);
    }
    let mut flags = place_flags(home, ports[0]);
    flags.extend(equal_flags(settings));
    flags.push(format!("--server-id={}", role.server_id));
    match (role.binlog, found.program) {
        (true, _) => flags.push(format!("--log-bin={}", home.data().join("binlog").display())),
        (false, Program::Mysql) => flags.push("--disable-log-bin".to_owned()),
        (false, _) => flags.push("--skip-log-bin".to_owned()),
    }
    if found.program == Program::Mysql {
        flags.extend(
            [
                "--gtid-mode=ON",
                "--enforce-gtid-consistency=ON",
                "--secure-file-priv=NULL",
                "--loose-mysqlx=OFF",
            ]
            .map(str::to_owned),
        );
        flags.push(format!("--loose-innodb-redo-log-capacity={REDO_MIB}M"));
    } else {
        flags.push(format!("--innodb-log-file-size={REDO_MIB}M"));
    }
    flags.extend(commit_delay(found.program, role.commit_delay));
    flags
}

fn place_flags(home: &Home, port: u16) -> Vec<String> {
    let mut flags = vec!["--no-defaults".to_owned()];
    if rustix::process::geteuid().is_root() {
        flags.push("--user=root".to_owned());
    }
    flags.extend([
        format!("--datadir={}", home.data().display()),
        format!("--tmpdir={}", home.temporary().display()),
        format!("--socket={}", home.socket.display()),
        format!("--pid-file={}", home.data().join("server.pid").display()),
        format!("--log-error={}", home.log().display()),
        format!("--init-file={}", home.first_statements().display()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--port={port}"),
        "--skip-name-resolve".to_owned(),
    ]);
    flags
}

/// What is the same on both ends.
fn equal_flags(settings: &Settings) -> Vec<String> {
    let (sync_binlog, flush) = match settings.durability {
        Durability::Full => (1, 1),
        Durability::Relaxed => (0, 2),
    };
    vec![
        format!("--sync-binlog={sync_binlog}"),
        format!("--innodb-flush-log-at-trx-commit={flush}"),
        format!("--innodb-buffer-pool-size={}M", settings.buffer_pool),
        "--loose-binlog-format=ROW".to_owned(),
        "--binlog-row-image=FULL".to_owned(),
        "--character-set-server=utf8mb4".to_owned(),
        "--collation-server=utf8mb4_bin".to_owned(),
        "--default-time-zone=+00:00".to_owned(),
        "--max-connections=600".to_owned(),
        "--max-allowed-packet=64M".to_owned(),
        "--local-infile=ON".to_owned(),
        // The data is thrown away with the server: no need to write it out first.
        "--innodb-fast-shutdown=2".to_owned(),
    ]
}

/// MySQL delays each group of commits; MariaDB does once it is told to wait for more transactions
/// than there are connections.
fn commit_delay(program: Program, delay: Duration) -> Vec<String> {
    let micros = delay.as_micros();
    match program {
        _ if micros == 0 => Vec::new(),
        Program::Mysql => vec![format!("--binlog-group-commit-sync-delay={micros}")],
        Program::Mariadb => vec![
            format!("--binlog-commit-wait-usec={micros}"),
            "--binlog-commit-wait-count=10000".to_owned(),
        ],
        Program::Tidb => Vec::new(),
    }
}

/// Environment variables of a server. TiDB makes folders of its own below `TMPDIR`, which no flag
/// moves, and leaves them behind.
pub(super) fn environment(found: &Found, home: &Home) -> BTreeMap<String, String> {
    let temporary = home.temporary().display().to_string();
    let wanted = (found.program == Program::Tidb).then(|| ("TMPDIR".to_owned(), temporary));
    wanted.into_iter().collect()
}

fn start_tidb(home: &Home, [port, status]: [u16; 2]) -> Vec<String> {
    let path = |path: PathBuf| path.display().to_string();
    let mut arguments = Vec::new();
    for (flag, value) in [
        ("-store", "unistore".to_owned()),
        ("-path", path(home.data())),
        ("-temp-dir", path(home.temporary())),
        ("-host", "127.0.0.1".to_owned()),
        ("-P", port.to_string()),
        ("-status-host", "127.0.0.1".to_owned()),
        ("-status", status.to_string()),
        ("-socket", path(home.socket.clone())),
        ("-log-file", path(home.log())),
        // Its default is a file in the folder that dmbench was called in.
        ("-log-slow-query", path(home.folder.join("slow.log"))),
        ("-L", "warn".to_owned()),
    ] {
        arguments.extend([flag.to_owned(), value]);
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(program: Program, role: Role) -> Vec<String> {
        let path = PathBuf::from("/usr/sbin").join(program.command());
        let found = Found { program, path, version: String::new() };
        let home = Home { folder: "/f".into(), socket: "/s".into() };
        start(&found, &home, role, [3306, 10080], &Settings::default())
    }

    #[test]
    fn both_flavours_get_the_same_durability_and_sizes() {
        let role =
            Role { name: "target", server_id: 2, binlog: false, commit_delay: Duration::ZERO };
        for program in [Program::Mysql, Program::Mariadb] {
            let flags = flags(program, role);
            assert_eq!(flags[0], "--no-defaults", "must come first");
            for flag in [
                "--sync-binlog=1",
                "--innodb-flush-log-at-trx-commit=1",
                "--innodb-buffer-pool-size=512M",
                "--default-time-zone=+00:00",
            ] {
                assert!(flags.iter().any(|f| f == flag), "{program:?} lacks {flag}");
            }
            assert!(!flags.iter().any(|f| f.starts_with("--log-bin")));
        }
    }

    #[test]
    fn tidb_listens_on_loopback_and_writes_nowhere_but_at_home() {
        let role =
            Role { name: "target", server_id: 2, binlog: true, commit_delay: Duration::ZERO };
        let flags = flags(Program::Tidb, role);
        let value = |flag: &str| {
            let at = flags.iter().position(|known| known == flag);
            at.and_then(|at| flags.get(at + 1)).map(String::as_str)
        };
        assert_eq!((value("-host"), value("-status-host")), (Some("127.0.0.1"), Some("127.0.0.1")));
        for flag in ["-path", "-temp-dir", "-log-file", "-log-slow-query"] {
            assert!(value(flag).is_some_and(|path| path.starts_with("/f/")), "{flag}");
        }
        let found = Found { program: Program::Tidb, path: "t".into(), version: String::new() };
        let home = Home { folder: "/f".into(), socket: "/s".into() };
        assert_eq!(environment(&found, &home)["TMPDIR"], "/f/tmp");
    }

    #[test]
    fn a_data_folder_is_made_with_temporary_files_apart_from_those_of_others() {
        for program in [Program::Mysql, Program::Mariadb] {
            let path = PathBuf::from("/usr/sbin").join(program.command());
            let found = Found { program, path, version: String::new() };
            let home = Home { folder: "/f".into(), socket: "/s".into() };
            let (_, arguments) = initialise(&found, &home);
            for flag in ["--datadir=/f/data", "--tmpdir=/f/tmp"] {
                assert!(arguments.iter().any(|a| a == flag), "{program:?} lacks {flag}");
            }
        }
    }

    #[test]
    fn a_commit_delay_is_asked_of_each_flavour_in_its_words() {
        let role = Role {
            name: "target",
            server_id: 2,
            binlog: true,
            commit_delay: Duration::from_millis(3),
        };
        let mysql = flags(Program::Mysql, role);
        assert!(mysql.contains(&"--binlog-group-commit-sync-delay=3000".to_owned()));
        let mariadb = flags(Program::Mariadb, role);
        assert!(mariadb.contains(&"--binlog-commit-wait-usec=3000".to_owned()));
    }
}
