//! Rules on clocks, lag and what must agree with it.

use super::{Scene, each_point, finding};
use crate::record::{Finding, Level, name, resolution_us};

/// Share of marker transactions above which they are part of the load.
const MARKER_SHARE: f64 = 0.01;
/// Slope in seconds per second above which lag grows.
const GROWING: f64 = 0.02;
/// Disagreement of Little's law above which a clock or counter is wrong.
const LITTLE: f64 = 0.2;

pub(super) fn clock_coarse(scene: &Scene) -> Option<Finding> {
    let evidence = each_point(scene, |p| {
        let resolution = resolution_us(p.clocks.get(name::LAG_MARKER)?)?;
        let median = p.quantile(name::LAG_MARKER, 0.5)? as f64;
        (median < 3.0 * resolution).then(|| {
            format!("median lag {:.1} ms, clock's step {:.1} ms", median / 1e3, resolution / 1e3)
        })
    })?;
    finding(
        Level::Note,
        "clock-coarse",
        "lag is near the resolution of its clock: read it as an upper bound",
        evidence,
        "",
    )
}

pub(super) fn markers_too_many(scene: &Scene) -> Option<Finding> {
    let evidence = each_point(scene, |p| {
        let share = p.value(name::MARKER_SHARE).filter(|s| *s > MARKER_SHARE)?;
        Some(format!("{:.1} % of committed transactions", 100.0 * share))
    })?;
    finding(
        Level::Warning,
        "markers-too-many",
        "markers are more than 1 % of the transactions and so part of the load they measure",
        evidence,
        "raise pace.rate, or write markers less often",
    )
}

/// Mean backlog = applied rate × mean lag (Little), whatever the distributions.
pub(super) fn little_law(scene: &Scene) -> Option<Finding> {
    let evidence = each_point(scene, |p| {
        let backlog = p.distributions.get(name::LAG_BYTES).filter(|d| d.n >= 20)?.mean?;
        let lag = p.distributions.get(name::LAG_CHECKPOINT).filter(|d| d.n >= 20)?.mean? / 1e6;
        // What leaves the backlog; older records have only what was read.
        let rate = p
            .value(name::SYNC_APPLIED_BYTES_RATE)
            .or_else(|| p.value(name::SYNC_READ_BYTES_RATE))
            .or_else(|| p.value(name::SYNC_BYTES_RATE))?;
        let expected = rate * 1e6 * lag;
        let larger = backlog.max(expected);
        // Below some ten kilobytes one transaction more or less decides.
        (larger > 20_000.0 && (backlog - expected).abs() > LITTLE * larger).then(|| {
            format!(
                "mean backlog {:.2} MB, rate × mean lag {:.2} MB",
                backlog / 1e6,
                expected / 1e6
            )
        })
    })?;
    finding(
        Level::Warning,
        "little-law",
        "mean backlog and rate × mean lag disagree by more than 20 %: a clock or a counter is off, or \
         the load was not steady",
        evidence,
        "trust the lag by markers; look at the samples over time",
    )
}

pub(super) fn lag_growing(scene: &Scene) -> Option<Finding> {
    let evidence = each_point(scene, |p| {
        let slope = p.value(name::LAG_SLOPE)?;
        let upper = p.value(name::LAG_SLOPE_UPPER).unwrap_or(slope);
        let lower = p.value(name::LAG_SLOPE_LOWER);
        let at_least = lower.map_or(String::new(), |lower| format!("at least {lower:+.3} and "));
        (upper > GROWING).then(|| {
            format!(
                "{slope:+.3} s per second, {at_least}at most {upper:+.3} at 95 % confidence; up to \
                 {GROWING} counts as none"
            )
        })
    })?;
    finding(
        Level::Warning,
        "lag-growing",
        "lag grew, or is not shown not to grow: the pipeline is not shown to sustain this rate",
        evidence,
        "lower pace.rate, or find the knob that helps by a sweep of model backlog",
    )
}
