//! What a server is: its flavour and version.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which family of servers speaks at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flavor {
    /// Oracle's MySQL and its close relatives.
    Mysql,
    /// MariaDB.
    Mariadb,
    /// TiDB.
    Tidb,
}

/// Flavour and version, as the server says itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Server {
    /// Family.
    pub flavor: Flavor,
    /// Major, minor and patch number *of the family's own counting* (TiDB's, not the MySQL version
    /// that TiDB imitates).
    pub version: [u16; 3],
    /// The text of `VERSION()`.
    pub text: String,
}

impl Server {
    /// Reads the answer of `SELECT VERSION()`.
    ///
    /// Seen: `9.7.4`, `10.11.19-MariaDB-0+deb12u1`, `5.5.5-10.4.1-MariaDB`, `8.0.11-TiDB-v8.4.0`.
    /// A part that is no number counts as 0.
    pub fn from_version(text: &str) -> Server {
        let (flavor, numbers) = if let Some((_, tidb)) = text.split_once("TiDB-") {
            (Flavor::Tidb, tidb.trim_start_matches('v'))
        } else if text.contains("MariaDB") {
            (Flavor::Mariadb, text.strip_prefix("5.5.5-").unwrap_or(text))
        } else {
            (Flavor::Mysql, text)
        };
        let mut version = [0; 3];
        let mut parts = numbers.split(['.', '-', '+']);
        for slot in &mut version {
            *slot = parts.next().and_then(|p| p.parse().ok()).unwrap_or(0);
        }
        Server { flavor, version, text: text.to_owned() }
    }

    /// Whether the version is at least `major.minor`.
    pub fn at_least(&self, major: u16, minor: u16) -> bool {
        self.version >= [major, minor, 0]
    }

    /// The statement that tells the current binlog position.
    pub fn binlog_status_sql(&self) -> &'static str {
        if self.flavor == Flavor::Mysql && self.at_least(8, 2) {
            "SHOW BINARY LOG STATUS"
        } else {
            "SHOW MASTER STATUS"
        }
    }
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Flavor::Mysql => "MySQL",
            Flavor::Mariadb => "MariaDB",
            Flavor::Tidb => "TiDB",
        })
    }
}

/// As `MariaDB 10.11.19`.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.version;
        write!(f, "{} {major}.{minor}.{patch}", self.flavor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_in_every_spelling() {
        for (text, flavor, version) in [
            ("9.7.4", Flavor::Mysql, [9, 7, 4]),
            ("8.0.36-0ubuntu0.22.04.1", Flavor::Mysql, [8, 0, 36]),
            ("10.11.19-MariaDB-0+deb12u1", Flavor::Mariadb, [10, 11, 19]),
            ("5.5.5-10.4.1-MariaDB", Flavor::Mariadb, [10, 4, 1]),
            ("8.0.11-TiDB-v8.4.0", Flavor::Tidb, [8, 4, 0]),
        ] {
            let server = Server::from_version(text);
            assert_eq!((server.flavor, server.version), (flavor, version), "{text}");
        }
    }

    #[test]
    fn the_binlog_status_statement_fits_the_server() {
        assert_eq!(Server::from_version("9.7.4").binlog_status_sql(), "SHOW BINARY LOG STATUS");
        assert_eq!(Server::from_version("8.0.36").binlog_status_sql(), "SHOW MASTER STATUS");
        let mariadb = Server::from_version("10.11.19-MariaDB");
        assert_eq!(mariadb.binlog_status_sql(), "SHOW MASTER STATUS");
    }
}
