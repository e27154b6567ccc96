//! What a lab is made of: the settings of a server that bear on the numbers, and the machine.
//!
//! Facts are read, never set, and what cannot be read is left out or called unknown.

use std::collections::BTreeMap;
use std::path::Path;

use crate::lab::Lab;
use crate::mysql::session::Error;
use crate::mysql::{Flavor, Session};
use crate::record::{LabFacts, Machine, ServerFacts};

/// Settings that bear on throughput, lag or what a binlog holds. Servers lack some; those are left
/// out.
const SETTINGS: [&str; 52] = [
    "autocommit",
    "binlog_checksum",
    "binlog_commit_wait_count",
    "binlog_commit_wait_usec",
    "binlog_format",
    "binlog_group_commit_sync_delay",
    "binlog_group_commit_sync_no_delay_count",
    "binlog_legacy_event_pos",
    "binlog_row_image",
    "binlog_row_metadata",
    "binlog_row_value_options",
    "binlog_transaction_compression",
    "binlog_transaction_dependency_tracking",
    "character_set_server",
    "collation_server",
    "default_authentication_plugin",
    "default_storage_engine",
    "enforce_gtid_consistency",
    "explicit_defaults_for_timestamp",
    "foreign_key_checks",
    "gtid_mode",
    "gtid_strict_mode",
    "innodb_autoinc_lock_mode",
    "innodb_buffer_pool_size",
    "innodb_change_buffering",
    "innodb_doublewrite",
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_method",
    "innodb_io_capacity",
    "innodb_log_buffer_size",
    "innodb_log_file_size",
    "innodb_redo_log_capacity",
    "innodb_use_native_aio",
    "log_bin",
    "lower_case_table_names",
    "max_allowed_packet",
    "max_connections",
    "performance_schema",
    "replica_parallel_type",
    "replica_parallel_workers",
    "require_secure_transport",
    "sql_mode",
    "sync_binlog",
    "system_time_zone",
    "tidb_enable_1pc",
    "tidb_enable_async_commit",
    "tidb_enable_clustered_index",
    "tidb_enable_mutation_checker",
    "tidb_mem_quota_query",
    "tidb_txn_mode",
    "time_zone",
    "transaction_isolation",
];

/// Reads identity and settings of a server: MySQL, MariaDB or TiDB.
///
/// # Errors
/// When the server cannot be asked; a setting that it lacks is no error.
pub async fn server_facts(session: &mut Session) -> Result<ServerFacts, Error> {
    let flavor = session.server().flavor;
    let names = SETTINGS.iter().filter(|name| flavor != Flavor::Tidb || !is_idle_on_tidb(name));
    let names = names.map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let sql = format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})");
    let settings: BTreeMap<String, String> = session
        .rows(&sql)
        .await?
        .into_iter()
        .filter_map(|row| Some((row.get::<String, usize>(0)?, row.get::<String, usize>(1)?)))
        .collect();
    Ok(ServerFacts {
        server: session.server().to_string(),
        version: session.server().text.clone(),
        address: session.endpoint().addresses(),
        settings,
        tls: cipher(session).await?,
    })
}

/// What the server says of this connection; TiDB and both others under the same names.
async fn cipher(session: &mut Session) -> Result<Option<String>, Error> {
    let sql = "SHOW SESSION STATUS WHERE Variable_name IN ('Ssl_version', 'Ssl_cipher')";
    let mut said: Vec<(String, String)> = Vec::new();
    for row in session.rows(sql).await? {
        said.extend(row.get(0).zip(row.get(1)));
    }
    said.sort_by(|a, b| b.0.cmp(&a.0));
    let words: Vec<String> = said.into_iter().map(|(_, word)| word).collect();
    let text = words.join(" ").trim().to_owned();
    Ok((!text.is_empty()).then_some(text))
}

/// Whether TiDB only pretends to have a setting, to please MySQL's clients: it has no binlog and no
/// InnoDB, so that its `sync_binlog = 0` says nothing about what survives a crash.
fn is_idle_on_tidb(name: &str) -> bool {
    let family = ["binlog_", "gtid_", "innodb_", "replica_"].iter().any(|f| name.starts_with(f));
    let alone = [
        "default_storage_engine",
        "enforce_gtid_consistency",
        "log_bin",
        "performance_schema",
        "sync_binlog",
    ];
    family || alone.contains(&name)
}

/// Reads identity and settings of both ends, with what is emulated between them.
///
/// # Errors
/// When a server cannot be reached or asked.
pub async fn lab_facts(lab: &Lab) -> Result<LabFacts, Error> {
    let mut source = Session::connect(&lab.source).await?;
    let mut target = Session::connect(&lab.target).await?;
    let facts = LabFacts {
        kind: lab.kind.clone(),
        source: server_facts(&mut source).await?,
        target: server_facts(&mut target).await?,
        emulated: lab.emulated.clone(),
    };
    source.close().await;
    target.close().await;
    Ok(facts)
}

/// Describes the machine that runs dmbench; `folder` is where the run's files are.
pub fn machine(folder: &Path) -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    Machine {
        system: system(&read("/etc/os-release")),
        kernel: known(read("/proc/sys/kernel/osrelease").trim()),
        cpu: cpu(&read("/proc/cpuinfo")),
        cores: u32::try_from(cores).unwrap_or(u32::MAX),
        memory_bytes: memory(&read("/proc/meminfo"), &read("/sys/fs/cgroup/memory.max")),
        filesystem: filesystem(&read("/proc/self/mountinfo"), &folder),
    }
}

fn known(text: &str) -> String {
    if text.is_empty() { "unknown".to_owned() } else { text.to_owned() }
}

fn system(os_release: &str) -> String {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    known(name.unwrap_or(std::env::consts::OS).trim_matches('"'))
}

fn cpu(cpuinfo: &str) -> String {
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    // ARM kernels print no model name.
    let model = field("model name").or_else(|| field("Model")).or_else(|| field("Hardware"));
    model.unwrap_or_else(|| format!("unknown {}", std::env::consts::ARCH))
}

/// Memory of the machine, or what the control group allows where that is less.
fn memory(meminfo: &str, limit: &str) -> u64 {
    let total = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024);
    limit.trim().parse().map_or(total, |limit: u64| limit.min(total))
}

/// Type of the file system that holds a folder: the mount with the longest fitting path, and of
/// equal ones the last, which covers those before.
fn filesystem(mountinfo: &str, folder: &Path) -> String {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let point = left.split(' ').nth(4)?.replace("\\040", " ");
        let kind = right.split(' ').next()?;
        folder.starts_with(&point).then(|| (point.len(), kind.to_owned()))
    });
    mounts.max_by_key(|(length, _)| *length).map_or_else(|| known(""), |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_names_the_file_system() {
        let mounts = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /run rw,nosuid shared:5 - tmpfs tmpfs rw,size=1k
41 22 254:16 / /data\\040disk rw shared:9 - xfs /dev/vdb rw
";
        for (folder, kind) in [
            ("/home/me/out", "ext4"),
            ("/run/x", "tmpfs"),
            ("/running", "ext4"),
            ("/data disk/o", "xfs"),
        ] {
            assert_eq!(filesystem(mounts, Path::new(folder)), kind, "{folder}");
        }
        assert_eq!(filesystem("", Path::new("/x")), "unknown");
    }

    #[test]
    fn memory_is_what_may_be_used() {
        let meminfo = "MemTotal:       16384 kB\nMemFree: 1 kB\n";
        assert_eq!(memory(meminfo, "max\n"), 16384 * 1024);
        assert_eq!(memory(meminfo, "1048576\n"), 1_048_576);
        assert_eq!(memory(meminfo, ""), 16384 * 1024);
    }

    #[test]
    fn system_and_cpu_have_names() {
        assert_eq!(system("NAME=x\nPRETTY_NAME=\"Debian 12\"\n"), "Debian 12");
        assert_eq!(cpu("processor : 0\nmodel name\t: Some CPU @ 2 GHz\n"), "Some CPU @ 2 GHz");
        assert!(cpu("processor : 0\n").starts_with("unknown"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_is_described() {
        let machine = machine(Path::new("."));
        assert!(machine.cores > 0 && machine.memory_bytes > 0);
        assert!(machine.filesystem != "unknown" && machine.kernel != "unknown");
    }
}
