//! Rules on how far the scatter of the trials lets one conclude.

use super::{Scene, finding};
use crate::advise::summary;
use crate::record::{Finding, Level};
use crate::stats::knee::LEAST_BLOCKS;
use crate::stats::{outlier, trend};

/// Change from the first place of a block to the last that is worth a word.
const DRIFT: f64 = 0.05;

pub(super) fn too_few_blocks(scene: &Scene) -> Option<Finding> {
    let counted = scene.points.iter().filter(|p| p.counted > 0).map(|p| p.counted).min()?;
    if counted >= LEAST_BLOCKS {
        return None;
    }
    let hint = match scene.pick.as_ref().and_then(|p| p.further_blocks) {
        Some(further) => {
            format!("--set repeat.blocks={} should settle it", scene.task.blocks + further)
        }
        None => format!("--set repeat.blocks={LEAST_BLOCKS} or more"),
    };
    finding(
        Level::Note,
        "too-few-blocks",
        "fewer than 3 trials of a point count: everything here is indicative",
        format!("{counted} at the point with the fewest"),
        &hint,
    )
}

pub(super) fn drift_within_blocks(scene: &Scene) -> Option<Finding> {
    let series: Vec<(f64, f64)> = scene
        .fit
        .residuals()
        .filter_map(|(cell, residual)| {
            let point = &scene.points.get(cell.point)?.point;
            let trial = scene
                .trials
                .iter()
                .find(|t| t.block == cell.block && t.point == *point && t.counts())?;
            Some((f64::from(trial.order_in_block), residual))
        })
        .collect();
    if series.len() < 9 {
        return None;
    }
    let slope = trend::theil_sen(&series)?;
    let places = scene.task.points.len().saturating_sub(1) as f64;
    let change = slope.value * places;
    let certain = slope.low > 0.0 || slope.high < 0.0;
    if !certain || change.abs() < DRIFT {
        return None;
    }
    finding(
        Level::Warning,
        "drift-within-blocks",
        "rates drift with the place in the block; shuffling spreads this over the points but widens \
         their scatter",
        format!("{:+.0} % from the first place to the last", 100.0 * change.exp_m1()),
        "look for what piles up from trial to trial: dirty pages, binlogs, heat",
    )
}

pub(super) fn outlier(scene: &Scene) -> Option<Finding> {
    let (cells, residuals): (Vec<_>, Vec<f64>) = scene.fit.residuals().unzip();
    let far: Vec<String> = outlier::apart(&residuals)
        .into_iter()
        .filter(|&i| residuals[i].abs() > DRIFT)
        .map(|i| {
            let label = scene.points.get(cells[i].point).map(|p| summary::label(&p.point));
            let label =
                label.filter(|l| !l.is_empty()).map(|l| format!("{l}, ")).unwrap_or_default();
            format!("{label}block {}: {:+.0} %", cells[i].block, 100.0 * residuals[i].exp_m1())
        })
        .collect();
    if far.is_empty() {
        return None;
    }
    finding(
        Level::Note,
        "outlier",
        "single trials stand apart from the rest of their point and block; they are kept",
        far.join("; "),
        "their records and samples show what the machine did meanwhile",
    )
}
