//! Which server programs this machine has, and which of them a sandbox takes.
//!
//! A program is what its `--version` says, not what its file is called: Debian's
//! `mariadb-server-core` installs `/usr/sbin/mysqld` as a link to `mariadbd`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::settings::{Program, Settings};
use crate::lab::Error;
use crate::mysql::{Flavor, Server};

/// A program that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Which.
    pub program: Program,
    /// Where.
    pub path: PathBuf,
    /// What it says of itself: `9.7.4-2`, `10.11.19-MariaDB-0+deb12u1`, `8.4.0`.
    pub version: String,
}

/// The programs of both ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Source.
    pub source: Found,
    /// Target.
    pub target: Found,
}

impl Program {
    /// File name of the program.
    pub fn command(self) -> &'static str {
        match self {
            Program::Mysql => "mysqld",
            Program::Mariadb => "mariadbd",
            Program::Tidb => "tidb-server",
        }
    }

    /// Environment variable that names its path.
    pub fn variable(self) -> &'static str {
        match self {
            Program::Mysql => "DMBENCH_MYSQLD",
            Program::Mariadb => "DMBENCH_MARIADBD",
            Program::Tidb => "DMBENCH_TIDB",
        }
    }

    /// Family of the server.
    pub fn flavor(self) -> Flavor {
        match self {
            Program::Mysql => Flavor::Mysql,
            Program::Mariadb => Flavor::Mariadb,
            Program::Tidb => Flavor::Tidb,
        }
    }
}

impl Found {
    /// Looks at one file: `None` where it does not run or is another program.
    pub fn at(program: Program, path: &Path) -> Option<Found> {
        let flag = if program == Program::Tidb { "-V" } else { "--version" };
        let output = Command::new(path).arg(flag).stdin(Stdio::null()).output().ok()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let (seen, version) = read_version(&said)?;
        (seen == program).then(|| Found { program, path: path.to_owned(), version })
    }
}

/// As `MySQL 9.7.4`.
impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.program {
            Program::Tidb => write!(f, "TiDB {}", self.version),
            _ => Server::from_version(&self.version).fmt(f),
        }
    }
}

/// Finds a program, in this order: the path in its environment variable, what `./dev servers` put
/// under `.servers/` of the current folder, `PATH` and the usual folders of servers, TiUP's newest.
/// A variable that is set is the only place looked at.
pub fn find(program: Program) -> Option<Found> {
    if let Some(path) = std::env::var_os(program.variable()).filter(|path| !path.is_empty()) {
        return Found::at(program, Path::new(&path));
    }
    places(program).iter().filter(|path| path.is_file()).find_map(|path| Found::at(program, path))
}

/// Takes what the settings name, else the best found: source `mysqld`, then `mariadbd`; target
/// `tidb-server`, then `mysqld`, then `mariadbd`.
///
/// # Errors
/// [`Error::Missing`] with the package to install; [`Error::Settings`] for a source that cannot be
/// replicated from.
pub fn choose(settings: &Settings) -> Result<Chosen, Error> {
    if settings.source == Some(Program::Tidb) {
        let why = "tidb-server writes no binlog, so it can be a target only".to_owned();
        return Err(Error::Settings { why });
    }
    Ok(Chosen {
        source: first(settings.source, &[Program::Mysql, Program::Mariadb])?,
        target: first(settings.target, &[Program::Tidb, Program::Mysql, Program::Mariadb])?,
    })
}

fn first(asked: Option<Program>, best: &[Program]) -> Result<Found, Error> {
    let asked = asked.map(|program| [program]);
    let wanted = asked.as_ref().map_or(best, |asked| &asked[..]);
    wanted.iter().find_map(|program| find(*program)).ok_or_else(|| {
        let system = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
        Error::missing(wanted, hint(wanted, &system))
    })
}

fn places(program: Program) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Ok(here) = std::env::current_dir() {
        let folder = if program == Program::Mysql { "mysql" } else { program.command() };
        places.push(here.join(".servers").join(folder).join(program.command()));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/mysql/bin"];
    let usual = usual.into_iter().chain(["/opt/homebrew/bin", "/usr/local/bin"]);
    let names: &[&str] =
        if program == Program::Mariadb { &["mariadbd", "mysqld"] } else { &[program.command()] };
    for folder in std::env::split_paths(&path).chain(usual.map(PathBuf::from)) {
        places.extend(names.iter().map(|name| folder.join(name)));
    }
    if program == Program::Tidb {
        places.extend(tiup());
    }
    places
}

/// TiUP's copies, newest first.
fn tiup() -> Vec<PathBuf> {
    let Some(home) = std::env::var_os("HOME") else { return Vec::new() };
    let folder = PathBuf::from(home).join(".tiup/components/tidb");
    let Ok(versions) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut versions: Vec<_> = versions.flatten().map(|version| version.path()).collect();
    versions.sort_by_key(|path| std::cmp::Reverse(numbers(path.file_name().unwrap_or_default())));
    versions.into_iter().map(|version| version.join("tidb-server")).collect()
}

fn numbers(version: &OsStr) -> Vec<u32> {
    let version = version.to_string_lossy();
    let parts = version.trim_start_matches('v').split(|c: char| !c.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

/// Reads `mysqld  Ver 10.11.19-MariaDB-0+deb12u1 for …` or TiDB's `Release Version: v8.4.0`.
fn read_version(said: &str) -> Option<(Program, String)> {
    if let Some((_, rest)) = said.split_once("Release Version:") {
        let version = rest.split_whitespace().next()?.trim_start_matches('v');
        return Some((Program::Tidb, version.to_owned()));
    }
    let version = said.split_once(" Ver ")?.1.split_whitespace().next()?;
    let program = if version.contains("MariaDB") { Program::Mariadb } else { Program::Mysql };
    Some((program, version.to_owned()))
}

/// What to do about a missing program, for the system that `/etc/os-release` describes.
fn hint(wanted: &[Program], os_release: &str) -> String {
    let ids: String = os_release
        .lines()
        .filter_map(|line| line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE=")))
        .map(|ids| format!("{} ", ids.trim_matches('"')))
        .collect();
    let is = |id: &str| ids.split_whitespace().any(|word| word == id);
    let easiest = if wanted.contains(&Program::Mariadb) {
        Program::Mariadb
    } else if wanted.contains(&Program::Mysql) {
        Program::Mysql
    } else {
        Program::Tidb
    };
    let install = match easiest {
        Program::Tidb => "install TiUP and run `tiup install tidb`",
        Program::Mariadb if is("debian") || is("ubuntu") => {
            "install it with `apt-get install mariadb-server-core mariadb-client`"
        }
        Program::Mariadb if is("fedora") || is("rhel") => {
            "install it with `dnf install mariadb-server`"
        }
        Program::Mariadb if is("arch") => "install it with `pacman -S mariadb`",
        Program::Mariadb => "install MariaDB's server (macOS: `brew install mariadb`)",
        Program::Mysql if is("ubuntu") => {
            "install it with `apt-get install mysql-server-core-8.0 mysql-client-core-8.0`"
        }
        Program::Mysql if is("debian") => {
            "Debian has it in unstable only; in a checkout `./dev servers` installs it there"
        }
        Program::Mysql if is("fedora") || is("rhel") => {
            "install it with `dnf install mysql-server`"
        }
        Program::Mysql => "install Oracle's MySQL server (macOS: `brew install mysql`)",
    };
    format!("{install}, or set {} to its path", easiest.variable())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_what_it_says_it_is() {
        for (said, program, version) in [
            (
                "/usr/sbin/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))\n",
                Program::Mysql,
                "9.7.4-2",
            ),
            (
                "mysqld  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)",
                Program::Mariadb,
                "10.11.19-MariaDB-0+deb12u1",
            ),
            ("Release Version: v8.4.0\nEdition: Community\n", Program::Tidb, "8.4.0"),
        ] {
            assert_eq!(read_version(said), Some((program, version.to_owned())));
        }
        assert_eq!(read_version("bash, version 5.2"), None);
    }

    #[test]
    fn the_hint_names_the_package_of_the_system() {
        let both = [Program::Mysql, Program::Mariadb];
        for (system, wanted, package) in [
            ("ID=debian\n", &both[..], "mariadb-server-core mariadb-client"),
            ("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", &both[..], "mariadb-server-core"),
            ("ID=ubuntu\nID_LIKE=debian\n", &[Program::Mysql], "mysql-server-core-8.0"),
            ("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", &both[..], "dnf install mariadb"),
            ("ID=arch\n", &both[..], "pacman -S mariadb"),
            ("", &both[..], "brew install mariadb"),
            ("ID=debian\n", &[Program::Tidb], "tiup install tidb"),
        ] {
            let hint = hint(wanted, system);
            assert!(hint.contains(package), "{system}: {hint}");
        }
    }

    #[test]
    fn the_newest_version_sorts_by_numbers() {
        assert!(numbers(OsStr::new("v8.10.0")) > numbers(OsStr::new("v8.9.3")));
    }

    #[test]
    fn tidb_cannot_be_a_source() {
        let settings = Settings { source: Some(Program::Tidb), ..Settings::default() };
        let error = choose(&settings).expect_err("there is no binlog");
        assert_eq!(error.class(), crate::error::ErrorClass::User);
    }
}
