//! How checks of servers are laid out: worst first, each with its remedy below it.

use super::output;
use crate::trial::preflight::{Check, Level};

/// The checks as a table. What passed is counted, or listed too where `all` are asked for.
pub(super) fn as_text(checks: &[Check], all: bool) -> String {
    let mut text = String::new();
    let shown = |check: &&Check| all || check.level > Level::Pass;
    let cells = checks.iter().filter(shown).map(|check| {
        vec![
            format!("  {}", check.level),
            check.end.to_string(),
            check.code.to_owned(),
            check.evidence.clone(),
        ]
    });
    let rows = output::columns(&cells.collect::<Vec<_>>());
    for (row, check) in rows.lines().zip(checks.iter().filter(shown)) {
        text.push_str(&format!("{row}\n"));
        if !check.remedy.is_empty() {
            text.push_str(&format!("        → {}\n", check.remedy));
        }
    }
    let passed = checks.iter().filter(|check| check.level == Level::Pass).count();
    if passed > 0 && !all {
        text.push_str(&format!("  pass  {passed} more (-v lists them)\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::preflight::End;

    fn check(code: &'static str, level: Level, evidence: &str, remedy: &str) -> Check {
        let (evidence, remedy) = (evidence.to_owned(), remedy.to_owned());
        Check { code, end: End::Source, level, evidence, remedy }
    }

    #[test]
    fn what_passed_is_counted_or_listed() {
        let fix = "SET GLOBAL binlog_format = ROW";
        let checks = [
            check("binlog-format", Level::Fail, "binlog_format is MIXED", fix),
            check("clock", Level::Warn, "the clock is +2000 ms off", "follow one time service"),
            check("gtid", Level::Pass, "gtid_mode is ON", ""),
        ];
        insta::assert_snapshot!(as_text(&checks, false), @r"
          fail  source  binlog-format  binlog_format is MIXED
                → SET GLOBAL binlog_format = ROW
          warn  source  clock          the clock is +2000 ms off
                → follow one time service
          pass  1 more (-v lists them)
        ");
        insta::assert_snapshot!(as_text(&checks, true), @r"
          fail  source  binlog-format  binlog_format is MIXED
                → SET GLOBAL binlog_format = ROW
          warn  source  clock          the clock is +2000 ms off
                → follow one time service
          pass  source  gtid           gtid_mode is ON
        ");
    }
}
