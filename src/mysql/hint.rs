//! What to do about a server's or a system's refusal, by its words.
//!
//! Failures cross processes and records as text (the pipeline is a process of its own), so the hint is
//! found in the text: servers' codes have one form in it, whatever the server's language.

/// Codes of MySQL, MariaDB and TiDB, with what may be done.
const BY_CODE: [(&[u16], &str); 11] = [
    (
        &[1045, 1698, 1251],
        "check user, password and the hosts that the account may come from; the password comes from \
         a file or an environment variable",
    ),
    (
        &[1044, 1142, 1143, 1227, 1370],
        "the account lacks a privilege: grant what the statement above needs",
    ),
    (
        &[3159],
        "the server takes encrypted connections only: say tls = { mode = \"required\" } for it",
    ),
    (&[1049], "the schema does not exist there: check its name, or prepare it first"),
    (
        &[1040, 1203, 1226],
        "the server has no connection left: raise max_connections (or the account's limit), or end \
         sessions that hold them",
    ),
    (
        &[1290, 1792, 1836],
        "the server is read-only: SET GLOBAL read_only = OFF (and super_read_only), or name the \
         server that takes writes",
    ),
    (
        &[1021, 1114, 3, 1026, 1031],
        "the server's disk or tablespace is full: make room there, then go on with --resume",
    ),
    (
        &[1236, 1789],
        "the source no longer has the binlog from there on: keep binlogs for longer than a run takes \
         (binlog_expire_logs_seconds) and let nobody purge them meanwhile",
    ),
    (
        &[1205, 1213, 3572],
        "another session holds locks on these tables: end it, or wait until it has ended",
    ),
    (&[1053, 1927, 3169, 4031, 1317], "somebody ended dmbench's sessions: find out who and why"),
    (
        &[1054, 1136, 1146],
        "somebody changed the tables' definition during the run: leave them alone until it has ended",
    ),
];

/// Words of the driver and of the system, in lower case.
const BY_WORDS: [(&str, &str); 22] = [
    (
        "keep the pipeline process running",
        "look whether the machine ran out of memory or somebody killed it",
    ),
    (
        "running: its process",
        "look into the server's log, below the run's folder, and whether the machine ran out of \
         memory or somebody killed it",
    ),
    ("which only private servers have", "leave --lab out, or one value of it: --set KEY=VALUE"),
    (
        "take the lock \"dmbench\"",
        "another run uses this lab: wait until it has ended, or KILL that connection if nobody knows it",
    ),
    (
        "keep the lock \"dmbench\"",
        "its session was ended: find out by whom, then go on with --resume",
    ),
    (
        "server does not have this capability",
        "switch TLS on at the server, or say tls = { mode = \"disabled\" } for it in the lab file",
    ),
    (
        "certificate not valid for name",
        "name the host as the certificate does, or say mode = \"verify-ca\" (for which the certificate \
         must hold a name, whichever it is)",
    ),
    (
        "invalid peer certificate: unknownissuer",
        "name in tls.ca the file of the authority that signed the server's certificate",
    ),
    (
        "invalid peer certificate",
        "the server's certificate is of no use: let its owner renew it, or say mode = \"required\", \
         which checks none",
    ),
    (
        "received fatal alert",
        "the server refuses dmbench's TLS: look at tls.cert and tls.key, and into the server's log",
    ),
    (
        "unknown authentication plugin",
        "is there such an account, for this host? MySQL asks unknown ones for any plugin. dmbench logs in \
         by caching_sha2_password, mysql_native_password and ed25519: ALTER USER … IDENTIFIED WITH \
         caching_sha2_password BY '…' (MariaDB: IDENTIFIED VIA ed25519 USING PASSWORD('…'))",
    ),
    ("mysql_old_password is disabled", "ALTER USER … IDENTIFIED WITH mysql_native_password BY '…'"),
    (
        "connection refused",
        "nothing listens there: check host and port, and whether the server runs",
    ),
    (
        "no answer within",
        "the server accepts connections and does not answer: it is frozen, overloaded, or behind a \
         firewall that drops packets",
    ),
    ("not a directory", "a file stands where dmbench needs a folder: move it away"),
    ("no such file or directory", "check the path: nothing is there"),
    ("no space left on device", "make room on that disk, then go on with --resume"),
    ("disk quota exceeded", "make room within the quota, then go on with --resume"),
    ("permission denied", "let this user write there, or name another folder with --out"),
    ("read-only file system", "name a folder on a file system that can be written, with --out"),
    ("failed to lookup address", "the host's name is unknown here: check it"),
    (
        "input/output error",
        "the connection broke: look into the server's log, and whether it was restarted or its \
         sessions were killed",
    ),
];

/// What may be done about a failure, where that is known.
pub fn hint(failure: &str) -> Option<&'static str> {
    let code = |code: &u16| failure.contains(&format!("ERROR {code} ("));
    let by_code = BY_CODE.iter().find(|(codes, _)| codes.iter().any(code));
    if let Some((_, hint)) = by_code {
        return Some(hint);
    }
    let failure = failure.to_lowercase();
    BY_WORDS.iter().find(|(words, _)| failure.contains(words)).map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_known_by_its_code_or_its_words() {
        let read_only = "run \"INSERT\" on root@db:3306: Server error: `ERROR 1290 (HY000): The MySQL \
                         server is running with the --super-read-only option'";
        assert!(hint(read_only).is_some_and(|hint| hint.contains("read_only = OFF")));
        let refused = "connect to root@db:1: Input/output error: Connection refused (os error 111)";
        assert!(hint(refused).is_some_and(|hint| hint.starts_with("nothing listens")));
        let broken = "connect to root@db:1: Input/output error: Input/output error: broken pipe";
        assert!(hint(broken).is_some_and(|hint| hint.starts_with("the connection broke")));
        assert_eq!(hint("understand a line: it has 1290 (two) columns"), None);
    }
}
