//! What a trial's figures amount to: whether a rate was sustained (model `stream`), and whether a
//! server took what it was offered (model `drive`).

use std::time::Duration;

use crate::record::{Limits, Outcome};
use crate::workload::Driven;

/// Lag may grow by at most this many seconds a second.
const SLOPE_LIMIT: f64 = 0.02;
/// Share of the offered ops that must be committed within the window.
const ACHIEVED_SHARE: f64 = 0.98;
/// Limit of p99 marker lag where the task states none.
const LAG_LIMIT_S: f64 = 5.0;
/// A claim of a sustained rate needs a window at least this long.
const LONG_WINDOW: Duration = Duration::from_secs(60);
/// And one of so many flushes of the checkpoint, whose sawtooth would else be taken for a trend.
const FLUSHES: u32 = 4;
/// A pacer whose p99 is later than this did not offer what it should have.
const PACER_LATE_US: u64 = 20_000;

/// One-sided 95 % bounds of the slope of lag, in s/s.
#[derive(Debug, Clone, Copy)]
pub(super) struct Growth {
    pub lower: f64,
    pub upper: f64,
}

/// What was measured.
#[derive(Debug, Clone)]
pub(super) struct Evidence {
    pub offered_ops: u64,
    pub committed_ops: u64,
    pub failed_ops: u64,
    pub window: Duration,
    /// How lag grows (s/s), where there were enough samples.
    pub growth: Option<Growth>,
    pub lag_p99_s: Option<f64>,
    /// `None` when the drain did not end within its limit.
    pub drain: Option<Duration>,
    pub flush_interval: Duration,
}

impl Evidence {
    /// The shortest window that can prove a sustained rate.
    pub(super) fn window_needed(&self) -> Duration {
        LONG_WINDOW.max(self.flush_interval * FLUSHES)
    }

    fn is_long(&self) -> bool {
        self.window >= self.window_needed()
    }

    /// Whether lag counts as growing. A window that can prove a sustained rate has to prove that lag
    /// does not grow; in a shorter one, where a queue's ups and downs are no trend, growth has to be.
    fn grows(&self, growth: Growth) -> bool {
        SLOPE_LIMIT < if self.is_long() { growth.upper } else { growth.lower }
    }
}

/// The outcome, most damning first: a generator that could not offer the rate says nothing about the
/// pipeline; lag that grows is saturation; lag that is only high is bounded.
pub(super) fn judge(evidence: &Evidence, limits: &Limits) -> Outcome {
    let seconds = evidence.window.as_secs_f64();
    let offered = evidence.offered_ops as f64 / seconds;
    let achieved = evidence.committed_ops as f64 / seconds;
    let saturated = || Outcome::Saturated { rate: achieved, dimension: "ops/s offered".to_owned() };
    if evidence.failed_ops > 0 {
        return Outcome::Invalid { reason: format!("{} ops failed", evidence.failed_ops) };
    }
    if (evidence.committed_ops as f64) < ACHIEVED_SHARE * evidence.offered_ops as f64 {
        return Outcome::GeneratorBound {
            reason: format!("{offered:.0} ops/s were offered and {achieved:.0} committed"),
        };
    }
    let Some(drain) = evidence.drain else { return saturated() };
    match evidence.growth {
        None => {
            let reason = "too few marker rows to tell whether lag grows".to_owned();
            return Outcome::Invalid { reason };
        }
        Some(growth) if evidence.grows(growth) => return saturated(),
        Some(_) => {}
    }
    let limit = limits.lag_p99_s.unwrap_or(LAG_LIMIT_S);
    match evidence.lag_p99_s {
        None => return Outcome::Invalid { reason: "no marker row was seen".to_owned() },
        Some(p99) if p99 > limit => {
            return Outcome::Bounded {
                reason: format!("p99 lag was {p99:.2} s, the limit is {limit:.2} s"),
            };
        }
        Some(_) => {}
    }
    let drain_limit = limit + evidence.flush_interval.as_secs_f64();
    if drain.as_secs_f64() > drain_limit {
        return Outcome::Bounded {
            reason: format!(
                "the drain took {:.2} s, the limit is {drain_limit:.2} s",
                drain.as_secs_f64()
            ),
        };
    }
    if !evidence.is_long() {
        return Outcome::Finished { rate: achieved, dimension: "ops/s".to_owned() };
    }
    Outcome::Sustained { rate: achieved }
}

/// The outcome of the workload alone. A server that commits less than it was offered is saturated, and
/// its rate is what it managed; unless the pacer itself was late, for then less was offered.
pub(super) fn judge_drive(driven: &Driven) -> Outcome {
    let (failed, unknown) = (driven.failed_ops(), driven.unknown_ops);
    if driven.committed_ops == 0 {
        return Outcome::Invalid { reason: format!("no op was committed, {failed} failed") };
    }
    if unknown > 0 {
        let reason = format!("the commit of {unknown} ops is of unknown fate");
        return Outcome::Invalid { reason };
    }
    let rate = driven.achieved_per_sec();
    let dimension = "ops/s".to_owned();
    if driven.window_committed as f64 >= ACHIEVED_SHARE * driven.window_offered as f64 {
        return Outcome::Finished { rate, dimension };
    }
    let late = driven.pacer_lateness.quantile(0.99).unwrap_or(0);
    if late > PACER_LATE_US {
        return Outcome::GeneratorBound {
            reason: format!(
                "{:.0} ops/s were offered and {rate:.0} committed, while the pacer was late by {:.0} ms \
                 at its p99",
                driven.offered_per_sec(),
                late as f64 / 1e3
            ),
        };
    }
    Outcome::Saturated { rate, dimension }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Evidence {
        Evidence {
            offered_ops: 60_000,
            committed_ops: 59_940,
            failed_ops: 0,
            window: Duration::from_secs(60),
            growth: Some(Growth { lower: -0.001, upper: 0.001 }),
            lag_p99_s: Some(0.2),
            drain: Some(Duration::from_millis(300)),
            flush_interval: Duration::from_secs(1),
        }
    }

    #[test]
    fn each_condition_alone_spoils_a_sustained_rate() {
        let limits = Limits { lag_p99_s: Some(1.0) };
        let word = |change: &dyn Fn(&mut Evidence)| {
            let mut evidence = good();
            change(&mut evidence);
            judge(&evidence, &limits).word()
        };
        assert_eq!(word(&|_| {}), "sustained");
        assert_eq!(word(&|e| e.committed_ops = 58_200), "generator-bound");
        assert_eq!(word(&|e| e.failed_ops = 1), "invalid");
        assert_eq!(word(&|e| e.growth = Some(Growth { lower: 0.01, upper: 0.03 })), "saturated");
        assert_eq!(word(&|e| e.growth = None), "invalid");
        assert_eq!(word(&|e| e.drain = None), "saturated");
        assert_eq!(word(&|e| e.drain = Some(Duration::from_secs(3))), "bounded");
        assert_eq!(word(&|e| e.lag_p99_s = Some(1.2)), "bounded");
        assert_eq!(word(&|e| e.lag_p99_s = None), "invalid");
        assert_eq!(word(&|e| e.window = Duration::from_secs(59)), "finished");
        assert_eq!(word(&|e| e.flush_interval = Duration::from_secs(16)), "finished");
    }

    #[test]
    fn in_a_short_window_lag_grows_only_where_that_is_sure() {
        let word = |lower, upper| {
            let growth = Some(Growth { lower, upper });
            let window = Duration::from_secs(20);
            judge(&Evidence { window, growth, ..good() }, &Limits::default()).word()
        };
        assert_eq!(word(0.01, 0.03), "finished");
        assert_eq!(word(0.021, 0.03), "saturated");
    }

    #[test]
    fn a_server_that_commits_less_than_it_is_offered_is_not_finished() {
        let word = |change: &dyn Fn(&mut Driven)| {
            let mut driven = Driven {
                offered_ops: 1_000,
                committed_ops: 1_000,
                window: Duration::from_secs(10),
                window_offered: 1_000,
                window_committed: 1_000,
                ..Driven::default()
            };
            change(&mut driven);
            judge_drive(&driven).word()
        };
        assert_eq!(word(&|_| {}), "finished");
        assert_eq!(word(&|d| d.window_committed = 970), "saturated");
        assert_eq!(word(&|d| d.unknown_ops = 1), "invalid");
        assert_eq!(word(&|d| d.committed_ops = 0), "invalid");
        let late = |d: &mut Driven| {
            d.window_committed = 970;
            (0..100).for_each(|_| d.pacer_lateness.record(50_000));
        };
        assert_eq!(word(&late), "generator-bound");
    }
}
