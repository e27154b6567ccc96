//! The lines between a pipeline's process and its parent: one JSON object each.
//!
//! To the child: an [`Order`] with everything it needs, passwords included, then [`Command`]s. From
//! the child: [`Message`]s. Passwords travel through the pipe only, never by argument, environment
//! or file.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::ErrorClass;
use crate::mysql::{Address, Cluster, Endpoint, Secret, Tls};
use crate::pipeline::builtin::Settings;
use crate::pipeline::{Context, How, Progress, Start, UnitEvent};

/// The first line to the child.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Order {
    pub(super) settings: Settings,
    pub(super) name: String,
    source: Server,
    target: Server,
    pub(super) schemas: Vec<String>,
    pub(super) meta_schema: String,
    pub(super) folder: PathBuf,
    pub(super) run: String,
    pub(super) server_id: u32,
    pub(super) start: Start,
    #[serde(default)]
    pub(super) held: bool,
}

impl Order {
    /// An order for a child.
    pub(in crate::pipeline::builtin) fn new(
        settings: &Settings,
        context: &Context,
        start: Start,
        held: bool,
    ) -> Order {
        Order {
            settings: settings.clone(),
            name: context.name.clone(),
            source: Server::from(&context.source),
            target: Server::from(&context.target),
            schemas: context.schemas.clone(),
            meta_schema: context.meta_schema.clone(),
            folder: context.folder.clone(),
            run: context.run.clone(),
            server_id: context.server_id,
            start,
            held,
        }
    }

    pub(super) fn source(&self) -> Endpoint {
        self.source.endpoint()
    }

    pub(super) fn target(&self) -> Endpoint {
        self.target.endpoint()
    }
}

/// An endpoint with its password in clear: never shown, so there is no `Debug`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Server {
    address: Address,
    /// The addresses of its cluster; empty where it stands alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cluster: Vec<Address>,
    user: String,
    #[serde(default)]
    password: String,
    #[serde(default)]
    tls: Tls,
}

impl From<&Endpoint> for Server {
    fn from(endpoint: &Endpoint) -> Server {
        let cluster = endpoint.cluster.iter().flat_map(Cluster::addresses).cloned().collect();
        Server {
            address: endpoint.address.clone(),
            cluster,
            user: endpoint.user.clone(),
            password: endpoint.password.expose().to_owned(),
            tls: endpoint.tls.clone(),
        }
    }
}

impl Server {
    fn endpoint(&self) -> Endpoint {
        let cluster = (!self.cluster.is_empty()).then(|| Cluster::new(self.cluster.clone()));
        Endpoint {
            address: self.address.clone(),
            cluster,
            user: self.user.clone(),
            password: Secret::new(self.password.clone()),
            tls: self.tls.clone(),
        }
    }
}

/// A later line to the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "command", deny_unknown_fields)]
pub(super) enum Command {
    /// Begin to work, where it was started held.
    Release,
    /// End.
    Stop {
        /// How.
        how: How,
    },
}

/// A line from the child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "message", content = "body")]
pub(super) enum Message {
    /// A reading.
    Progress(Box<Progress>),
    /// A unit's event.
    Event(Box<UnitEvent>),
    /// The last line: how it ended.
    Ended {
        /// The failure that ended it; `None` when it ended as asked.
        failure: Option<Failure>,
    },
}

/// A failure as text and class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Failure {
    /// Reads after "failed to".
    pub(super) text: String,
    class: Class,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Class {
    Transient,
    User,
    Lab,
    Bug,
}

impl Failure {
    pub(super) fn new(text: String, class: ErrorClass) -> Failure {
        let class = match class {
            ErrorClass::Transient => Class::Transient,
            ErrorClass::User => Class::User,
            ErrorClass::Lab => Class::Lab,
            ErrorClass::Bug => Class::Bug,
        };
        Failure { text, class }
    }

    pub(super) fn class(&self) -> ErrorClass {
        match self.class {
            Class::Transient => ErrorClass::Transient,
            Class::User => ErrorClass::User,
            Class::Lab => ErrorClass::Lab,
            Class::Bug => ErrorClass::Bug,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::{Position, TlsMode};
    use crate::pipeline::Unit;
    use crate::stats::Histogram;

    #[test]
    fn an_order_reads_back_with_its_secrets() {
        let context = Context {
            name: "a".into(),
            source: Endpoint {
                tls: Tls { mode: TlsMode::VerifyCa, ca: Some("/ca.pem".into()), ..Tls::default() },
                cluster: Some(Cluster::new([Address::Tcp { host: "::1".into(), port: 4000 }])),
                ..Endpoint::tcp("127.0.0.1", 3306, "bench", Secret::new("s\"e\\c\n"))
            },
            target: Endpoint {
                address: Address::Socket("/tmp/t.sock".into()),
                cluster: None,
                user: "root".into(),
                password: Secret::default(),
                tls: Tls::default(),
            },
            schemas: vec!["sb".into()],
            meta_schema: "dmbench_meta".into(),
            folder: "/tmp/dump".into(),
            executable: "dmbench".into(),
            run: "r".into(),
            server_id: 7,
        };
        let from = Position::new("binlog.000001", 4).expect("position");
        let start = Start::Incremental { from };
        let order = Order::new(&Settings::default(), &context, start.clone(), true);
        let line = serde_json::to_string(&order).expect("json");
        assert!(!line.contains('\n'));
        let back: Order = serde_json::from_str(&line).expect("order");
        assert_eq!((back.source(), back.target()), (context.source, context.target));
        assert_eq!((back.start, back.held, back.settings), (start, true, Settings::default()));
    }

    #[test]
    fn messages_read_back() {
        let mut histogram = Histogram::default();
        histogram.record(1234);
        let ended = UnitEvent::Ended {
            unit: Unit::Load,
            at_ns: 1_780_000_000_000_000_001,
            took_s: 1.5,
            rows: 3,
            bytes: 4,
            statements: 5,
            transaction: Box::new(histogram),
            statement: Box::default(),
            error: None,
        };
        let failure = Failure::new("dump x".into(), ErrorClass::Lab);
        for message in [
            Message::Event(Box::new(ended)),
            Message::Progress(Box::new(Progress::new(Unit::Dump))),
            Message::Ended { failure: Some(failure) },
            Message::Ended { failure: None },
        ] {
            let line = serde_json::to_string(&message).expect("json");
            assert_eq!(serde_json::from_str::<Message>(&line).expect("message"), message, "{line}");
        }
        let command = r#"{"command":"stop","how":"drain"}"#;
        let stop = Command::Stop { how: How::Drain };
        assert_eq!(serde_json::from_str::<Command>(command).expect("command"), stop);
    }
}
