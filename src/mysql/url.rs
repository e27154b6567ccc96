//! Servers as users write them: `mysql://user@host:port`, or `mysql://user@/path/to.sock`.
//!
//! A password has no place in a URL: it would stand in the process list, in the shell's history and
//! in files. Whoever reads a URL says where else it comes from.

use std::path::PathBuf;
use std::str::FromStr;

use crate::mysql::{Address, Endpoint, Secret, Tls};

/// A server's address with the account's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl {
    address: Address,
    user: String,
}

impl ServerUrl {
    /// The endpoint, with the account's password.
    pub fn endpoint(&self, password: Secret, tls: Tls) -> Endpoint {
        Endpoint {
            address: self.address.clone(),
            cluster: None,
            user: self.user.clone(),
            password,
            tls,
        }
    }
}

impl FromStr for ServerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<ServerUrl, String> {
        let rest = text
            .strip_prefix("mysql://")
            .ok_or("it does not begin with mysql://, as in mysql://bench@127.0.0.1:3306")?;
        if rest.contains(['?', '#']) {
            return Err("it has options behind ? or #; a URL names a server and an account".into());
        }
        // A password may hold an @; a host cannot, and neither can the path of a sane socket.
        let (account, place) = rest
            .rsplit_once('@')
            .ok_or("it names no account, as in mysql://bench@127.0.0.1:3306")?;
        if account.contains(':') {
            return Err("it holds a password, which would stand in files, in the shell's history \
                        and in the process list; name an environment variable that holds it \
                        (password-env)"
                .into());
        }
        if account.is_empty() {
            return Err("the account before @ is empty".into());
        }
        let user = decoded(account)?;
        if place.starts_with('/') {
            return match place {
                "/" => Err("the path of the socket is empty".into()),
                path => {
                    Ok(ServerUrl { address: Address::Socket(PathBuf::from(decoded(path)?)), user })
                }
            };
        }
        let place = place.strip_suffix('/').unwrap_or(place);
        if place.contains('/') {
            return Err("it has a path behind the host; a URL names a server, not a schema".into());
        }
        Ok(ServerUrl { address: host_and_port(place)?, user })
    }
}

/// `host`, `host:port`, `[v6]`, `[v6]:port`; the port is 3306 where none is given.
///
/// # Errors
/// What is wrong, as a sentence about "it".
pub fn host_and_port(place: &str) -> Result<Address, String> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("the [ of the address is not closed")?;
            host.parse::<std::net::Ipv6Addr>()
                .map_err(|_| format!("{host} in brackets is no IPv6 address"))?;
            match port {
                "" => (host, None),
                port => (host, Some(port.strip_prefix(':').ok_or("there is no : behind ]")?)),
            }
        }
        None if place.matches(':').count() > 1 => {
            return Err("an IPv6 address stands in brackets, as in mysql://bench@[::1]:3306".into());
        }
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    if host.is_empty() {
        return Err("the host is empty".into());
    }
    let port = match port {
        None => 3306,
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err(format!("\"{port}\" is no port")),
        },
    };
    Ok(Address::Tcp { host: host.to_owned(), port })
}

/// Resolves `%40` and the like.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|b| char::from(b).to_digit(16));
        let (high, low) = (digit(rest.next()), digit(rest.next()));
        let (Some(high), Some(low)) = (high, low) else {
            return Err(format!("\"{text}\" has a % without two hexadecimal digits"));
        };
        bytes.extend(u8::try_from(high * 16 + low));
    }
    String::from_utf8(bytes).map_err(|_| format!("\"{text}\" is no UTF-8"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> String {
        match text.parse::<ServerUrl>() {
            Ok(url) => url.endpoint(Secret::default(), Tls::default()).to_string(),
            Err(why) => format!("refused: {why}"),
        }
    }

    #[test]
    fn servers_are_understood() {
        for (url, is) in [
            ("mysql://root@127.0.0.1:4000", "root@127.0.0.1:4000"),
            ("mysql://bench@db.example/", "bench@db.example:3306"),
            ("mysql://bench@[::1]:4000", "bench@[::1]:4000"),
            ("mysql://bench@[fe80::1]", "bench@[fe80::1]:3306"),
            ("mysql://a%40b@/run/my%20sql.sock", "a@b@/run/my sql.sock"),
        ] {
            assert_eq!(shown(url), is, "{url}");
        }
    }

    #[test]
    fn what_is_no_server_is_refused_with_its_reason() {
        for (url, why) in [
            ("root@h", "does not begin with mysql://"),
            ("mysql://h:3306", "names no account"),
            ("mysql://u:p@h", "holds a password"),
            ("mysql://u:p@ss@h", "holds a password"),
            ("mysql://u@h/schema", "not a schema"),
            ("mysql://u@h?ssl=1", "has options"),
            ("mysql://u@::1:4000", "stands in brackets"),
            ("mysql://u@[::1", "is not closed"),
            ("mysql://u@[::g]", "is no IPv6 address"),
            ("mysql://u@[::1]4000", "no : behind ]"),
            ("mysql://u@h:0", "is no port"),
            ("mysql://u@h:70000", "is no port"),
            ("mysql://u@", "host is empty"),
            ("mysql://@h", "account before @ is empty"),
            ("mysql://u%4@h", "two hexadecimal digits"),
            ("mysql://u@/", "socket is empty"),
        ] {
            assert!(
                shown(url).starts_with("refused: ") && shown(url).contains(why),
                "{url}: {}",
                shown(url)
            );
        }
    }

    #[test]
    fn a_password_is_never_repeated() {
        assert!(!shown("mysql://u:geheim@h").contains("geheim"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "mysql://\\PC*") {
            let _ = text.parse::<ServerUrl>();
        }
    }
}
