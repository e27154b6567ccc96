//! What both ends speak: endpoints, sessions, flavours, positions, schemas, values, the binlog.
//!
//! Nothing here knows what a trial, a workload or a pipeline is. A [`Session`] is for everything, a
//! [`raw::Raw`] connection for the paths where microseconds count. `mysql_async` types stay inside
//! this module and the places that hold a [`Session`]; binlog types of `mysql_common` stay inside
//! [`binlog`].

pub mod binlog;
mod cluster;
mod endpoint;
mod flavor;
mod hint;
pub mod owner;
pub mod patience;
mod position;
pub mod raw;
pub mod schema;
pub mod session;
mod tls;
pub mod url;
pub mod value;

pub use cluster::Cluster;
pub use endpoint::{Address, Endpoint, Secret};
pub use flavor::{Flavor, Server};
pub use hint::hint;
pub use position::{BinlogFile, ParsePositionError, Position};
pub use session::Session;
pub use tls::{Tls, TlsMode};
