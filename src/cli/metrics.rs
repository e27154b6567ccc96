//! `--metrics`: lets Prometheus watch a command while it runs.

use std::net::SocketAddr;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::log::Log;
use crate::telemetry::{Endpoint, Gauges};

/// The option, for commands that have it.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct Asked {
    /// Serve Prometheus metrics at /metrics of this address of loopback, as in 127.0.0.1:9190
    #[arg(long = "metrics", value_name = "ADDRESS")]
    address: Option<SocketAddr>,
}

/// The endpoint for as long as this lives.
#[derive(Debug)]
pub(super) struct Served {
    /// What it shows.
    pub(super) gauges: Gauges,
    _server: JoinSet<()>,
}

impl Asked {
    /// Serves where that was asked for; the gauges work either way.
    pub(super) async fn serve(self, log: &Log) -> anyhow::Result<Served> {
        let (gauges, mut server) = (Gauges::new(), JoinSet::new());
        if let Some(address) = self.address {
            let endpoint = Endpoint::bind(address).await?;
            log.note(&format!("metrics at http://{}/metrics", endpoint.address()));
            // Aborted with the set: a scrape that is under way may be cut off.
            server.spawn(endpoint.serve(gauges.clone(), CancellationToken::new()));
        }
        Ok(Served { gauges, _server: server })
    }
}
