//! The options of `drive`, under sysbench's names where it has them.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::value::{Error as ValueError, StrDeserializer};

use crate::cli::{ends::Password, failure::Usage, metrics};
use crate::lab::{LabFile, leftover};
use crate::mysql::{Address, Endpoint, Secret, Tls};
use crate::workload::{
    DrivePlan, PaceKind, PaceSettings, RandType, Script, Settings, Stop, Sysbench,
};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Arguments {
    /// Sysbench script: oltp_insert, oltp_write_only, oltp_update_index, oltp_point_select
    #[arg(value_name = "WORKLOAD", value_parser = word::<Script>)]
    pub(super) script: Script,
    /// What to do
    #[arg(value_enum)]
    pub(super) step: Step,
    /// Lab file whose source is driven, instead of host, port and account
    #[arg(long, value_name = "FILE", conflicts_with_all = ["host", "port", "socket", "user", "password_env", "password_prompt"])]
    lab: Option<PathBuf>,
    /// Host of the server
    #[arg(long, default_value = "127.0.0.1", conflicts_with = "socket")]
    host: String,
    /// Its port
    #[arg(long, default_value_t = 3306, conflicts_with = "socket")]
    port: u16,
    /// Unix socket of the server, instead of host and port
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Account
    #[arg(long, default_value = "root")]
    user: String,
    /// Environment variable that holds the account's password
    #[arg(long, value_name = "VARIABLE")]
    password_env: Option<String>,
    /// Ask for the account's password on the terminal
    #[arg(long, conflicts_with = "password_env")]
    password_prompt: bool,
    /// Schema that prepare makes; one that dmbench did not make is never touched
    #[arg(long, default_value = "dmbench_drive")]
    pub(super) schema: String,
    /// Number of tables
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    tables: u32,
    /// Rows in each table
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    table_size: u64,
    /// How keys are chosen: uniform, zipfian
    #[arg(long, default_value = "uniform", value_parser = word::<RandType>)]
    rand_type: RandType,
    /// Connections
    #[arg(long, visible_alias = "threads", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) clients: u32,
    /// Ops per second of all clients together; without it each client goes on when its op has ended
    #[arg(long, value_name = "OPS", value_parser = rate)]
    rate: Option<f64>,
    /// When ops are due: closed, uniform, poisson; poisson with --rate, else closed
    #[arg(long, value_parser = word::<PaceKind>)]
    pace: Option<PaceKind>,
    /// Seconds to run, after the warm-up; 10 where neither this nor --events is given
    #[arg(long, value_name = "SECONDS")]
    time: Option<u64>,
    /// Ops to run, warm-up included
    #[arg(long, value_name = "OPS")]
    events: Option<u64>,
    /// Seconds to run before anything counts
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    warmup: u64,
    /// Seconds between interval lines; 0 for none
    #[arg(long = "report-interval", value_name = "SECONDS", default_value_t = 10)]
    pub(super) interval: u32,
    /// Which ops and rows exactly: the same seed, the same ones
    #[arg(long, default_value_t = 42)]
    pub(super) seed: u64,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) metrics: metrics::Asked,
}

/// A step of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Step {
    /// Make the schema with its tables and rows
    Prepare,
    /// Drive the ops
    Run,
    /// Drop the schema
    Cleanup,
}

impl Arguments {
    pub(super) fn endpoint(&self) -> anyhow::Result<Endpoint> {
        if leftover::is_of_runs(&self.schema) {
            let what = format!("drive schema {}: every run drops it", self.schema);
            return Err(Usage::error(&what, "name another --schema, such as dmbench_drive"));
        }
        if self.pace().kind != PaceKind::Closed && self.rate.is_none() {
            return Err(Usage::error("pace ops without a rate", "add --rate OPS"));
        }
        if self.pace().kind == PaceKind::Closed && self.rate.is_some() {
            let help = "leave one of --pace closed and --rate out";
            return Err(Usage::error("pace a closed loop by a rate", help));
        }
        if let Some(lab) = &self.lab {
            return Ok(LabFile::load(lab)?.source);
        }
        let address = match &self.socket {
            Some(path) => Address::Socket(path.clone()),
            None => Address::Tcp { host: self.host.clone(), port: self.port },
        };
        let (user, password) = (self.user.clone(), Secret::default());
        Password::of(self.password_env.as_deref(), self.password_prompt).give(Endpoint {
            address,
            cluster: None,
            user,
            password,
            tls: Tls::default(),
        })
    }

    pub(super) fn settings(&self) -> Settings {
        Settings::Sysbench(Sysbench {
            script: self.script,
            tables: self.tables,
            table_size: self.table_size,
            rand_type: self.rand_type,
        })
    }

    fn pace(&self) -> PaceSettings {
        let usual = if self.rate.is_some() { PaceKind::Poisson } else { PaceKind::Closed };
        let kind = self.pace.unwrap_or(usual);
        PaceSettings { kind, rate: self.rate, clients: self.clients }
    }

    pub(super) fn plan(&self) -> DrivePlan {
        let usual = self.events.is_none().then_some(10);
        DrivePlan {
            settings: self.settings(),
            pace: self.pace(),
            schema: self.schema.clone(),
            seed: self.seed,
            stop: Stop { time: self.time.or(usual).map(Duration::from_secs), ops: self.events },
            warm: Duration::from_secs(self.warmup),
        }
    }
}

/// Reads a word as task files spell it.
fn word<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, String> {
    T::deserialize(StrDeserializer::<ValueError>::new(text)).map_err(|e| e.to_string())
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 10_000_000.0 => Ok(rate),
        _ => Err("a rate is a number above 0 and at most 10000000".to_owned()),
    }
}
