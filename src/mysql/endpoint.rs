//! How to reach a server: address, user, password.
//!
//! An endpoint says nothing about what the server is; that is [`crate::mysql::Server`].

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::mysql::{Cluster, Tls};

/// A password. Shows itself to nobody: `Debug` prints stars and there is no `Display` or `Serialize`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a password.
    pub fn new(password: impl Into<String>) -> Self {
        Secret(password.into())
    }

    /// The password itself: for a login or the standard input of a child process, nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "(none)" } else { "***" })
    }
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Address {
    /// A TCP host and port.
    Tcp {
        /// Name or address of the host.
        host: String,
        /// Port.
        port: u16,
    },
    /// A Unix socket.
    Socket(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
            Address::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A server's address with the account to use there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it listens; the first address of a cluster, or the one connected to.
    pub address: Address,
    /// The servers that are one with it, itself among them; `None` where it stands alone.
    pub cluster: Option<Cluster>,
    /// Account name.
    pub user: String,
    /// The account's password.
    pub password: Secret,
    /// How the connection is encrypted; nothing over a Unix socket.
    pub tls: Tls,
}

impl Endpoint {
    /// An endpoint on TCP.
    pub fn tcp(
        host: impl Into<String>,
        port: u16,
        user: impl Into<String>,
        password: Secret,
    ) -> Self {
        Endpoint {
            address: Address::Tcp { host: host.into(), port },
            cluster: None,
            user: user.into(),
            password,
            tls: Tls::default(),
        }
    }

    /// All addresses as they were given, to be shown and compared.
    pub fn addresses(&self) -> String {
        self.cluster.as_ref().map_or_else(|| self.address.to_string(), Cluster::to_string)
    }

    /// An endpoint for each server of its cluster, which stands alone; at least one.
    pub fn each(&self) -> Vec<Endpoint> {
        let alone = |address: &Address| Endpoint {
            address: address.clone(),
            cluster: None,
            ..self.clone()
        };
        match &self.cluster {
            Some(cluster) => cluster.addresses().map(alone).collect(),
            None => vec![self.clone()],
        }
    }

    /// Options for `mysql_async`, without a default schema. TCP stays TCP: the driver must not move
    /// a loopback connection to a Unix socket, since the delay proxy would be bypassed unseen.
    pub fn opts(&self) -> mysql_async::OptsBuilder {
        let opts = mysql_async::OptsBuilder::default()
            .user(Some(self.user.clone()))
            .pass(Some(self.password.expose().to_owned()))
            .prefer_socket(Some(false))
            .tcp_nodelay(true)
            .ssl_opts(self.tls.opts())
            .stmt_cache_size(256);
        match &self.address {
            Address::Tcp { host, port } => opts.ip_or_hostname(host.clone()).tcp_port(*port),
            Address::Socket(path) => opts.socket(Some(path.display().to_string())),
        }
    }
}

/// As `user@address`: never the password.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.user, self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let endpoint = Endpoint::tcp("127.0.0.1", 3306, "bench", Secret::new("pa%ss'word"));
        assert_eq!(endpoint.to_string(), "bench@127.0.0.1:3306");
        assert!(!format!("{endpoint:?}").contains("pa%ss"));
    }
}
