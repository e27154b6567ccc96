//! Ratios between points, paired by block.
//!
//! A slow minute of the machine slows every point of its block alike, so points are compared within
//! blocks: 900 / 1,000 in block 1 and 450 / 500 in block 2 are both 0.90, although the rates
//! themselves scatter by half. What scatter is left after points and blocks are taken out (an additive
//! fit on logarithms) is pooled over all points, so that even two blocks tell how noisy the sweep is.

use serde::{Deserialize, Serialize};

use crate::stats::estimate::{median, student_quantile};

/// Rounds of alternating averages; complete blocks need one, gaps a few.
const ROUNDS: usize = 200;

/// One trial that counts: which point, which block, and its rate, above 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// Index of the point.
    pub point: usize,
    /// Number of the block.
    pub block: u32,
    /// What was measured; values that are not above 0 are ignored.
    pub value: f64,
}

/// The additive fit log(value) = point + block + residual.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    cells: Vec<Cell>,
    /// Residual of each used cell, in natural logarithms.
    residuals: Vec<f64>,
    /// Logarithms with their block's effect taken out, for each used cell.
    adjusted: Vec<f64>,
    degrees: usize,
}

/// One point's ratio to another, over the blocks that hold both.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Ratio {
    /// Blocks that hold both points.
    pub n: u32,
    /// Median of the blocks' ratios.
    pub median: f64,
    /// Smallest ratio of a block.
    pub low: f64,
    /// Largest ratio of a block.
    pub high: f64,
    /// Geometric mean of the blocks' ratios.
    pub mean: f64,
    /// One-sided 95 % lower bound of the geometric mean, by the pooled residual variance; `None`
    /// without degrees of freedom.
    pub bound: Option<f64>,
}

/// Fits points and blocks to `cells`; several cells of one point and block count as one, with their
/// geometric mean.
pub fn fit(cells: &[Cell]) -> Fit {
    let cells = merged(cells);
    let logs: Vec<f64> = cells.iter().map(|c| c.value.ln()).collect();
    let mut points: Vec<usize> = cells.iter().map(|c| c.point).collect();
    let mut blocks: Vec<u32> = cells.iter().map(|c| c.block).collect();
    points.sort_unstable();
    points.dedup();
    blocks.sort_unstable();
    blocks.dedup();
    let of_point: Vec<usize> =
        cells.iter().map(|c| points.partition_point(|p| *p < c.point)).collect();
    let of_block: Vec<usize> =
        cells.iter().map(|c| blocks.partition_point(|b| *b < c.block)).collect();
    let mut point_effects = vec![0.0; points.len()];
    let mut block_effects = vec![0.0; blocks.len()];
    for _ in 0..ROUNDS {
        let left: Vec<f64> =
            logs.iter().zip(&of_block).map(|(l, &b)| l - block_effects[b]).collect();
        let moved = averages(&mut point_effects, &left, &of_point);
        let left: Vec<f64> =
            logs.iter().zip(&of_point).map(|(l, &p)| l - point_effects[p]).collect();
        if averages(&mut block_effects, &left, &of_block).max(moved) < 1e-12 {
            break;
        }
    }
    let adjusted: Vec<f64> =
        logs.iter().zip(&of_block).map(|(l, &b)| l - block_effects[b]).collect();
    let residuals = adjusted.iter().zip(&of_point).map(|(l, &p)| l - point_effects[p]).collect();
    let parts = connected_parts(&of_point, points.len(), &of_block, blocks.len());
    let degrees = (cells.len() + parts).saturating_sub(points.len() + blocks.len());
    Fit { cells, residuals, adjusted, degrees }
}

impl Fit {
    /// Degrees of freedom of the residuals.
    pub fn degrees(&self) -> usize {
        self.degrees
    }

    /// Standard deviation of the residuals in natural logarithms (0.05 is about 5 %), pooled over all
    /// points and blocks; `None` without degrees of freedom.
    pub fn deviation(&self) -> Option<f64> {
        let sum: f64 = self.residuals.iter().map(|r| r * r).sum();
        (self.degrees > 0).then(|| (sum / self.degrees as f64).sqrt())
    }

    /// The cells used, each with its residual in natural logarithms.
    pub fn residuals(&self) -> impl Iterator<Item = (Cell, f64)> + '_ {
        self.cells.iter().copied().zip(self.residuals.iter().copied())
    }

    /// Median of a point's logarithms with the blocks' effects taken out; orders points, is no rate.
    pub fn level(&self, point: usize) -> Option<f64> {
        let levels: Vec<f64> = self
            .cells
            .iter()
            .zip(&self.adjusted)
            .filter(|(c, _)| c.point == point)
            .map(|(_, l)| *l)
            .collect();
        median(&levels)
    }

    /// Ratio of `point` to `other` over the blocks that hold both; `None` where no block does.
    pub fn ratio(&self, point: usize, other: usize) -> Option<Ratio> {
        let of = |p: usize, block: u32| {
            self.cells.iter().find(|c| c.point == p && c.block == block).map(|c| c.value)
        };
        let ratios: Vec<f64> = self
            .cells
            .iter()
            .filter(|c| c.point == point)
            .filter_map(|c| of(other, c.block).map(|o| c.value / o))
            .collect();
        let n = ratios.len();
        let median = median(&ratios)?;
        let log_mean = ratios.iter().map(|r| r.ln()).sum::<f64>() / n as f64;
        let bound = if point == other {
            Some(1.0)
        } else {
            self.reach(n, self.degrees).map(|reach| (log_mean - reach).exp())
        };
        Some(Ratio {
            n: n as u32,
            median,
            low: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            high: ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            mean: log_mean.exp(),
            bound,
        })
    }

    /// Two-sided 95 % interval of the geometric mean of `point`'s ratios to `other`, by the pooled
    /// residual variance; `None` without degrees of freedom or common blocks.
    pub fn interval(&self, point: usize, other: usize) -> Option<(f64, f64)> {
        let ratio = self.ratio(point, other)?;
        let t = student_quantile(0.975, self.degrees as f64)?;
        let half = t * self.deviation()? * (2.0 / f64::from(ratio.n)).sqrt();
        Some((ratio.mean * (-half).exp(), ratio.mean * half.exp()))
    }

    /// How far below the mean log ratio its one-sided 95 % bound lies with `blocks` blocks and
    /// `degrees` degrees of freedom, at the deviation seen so far.
    pub fn reach(&self, blocks: usize, degrees: usize) -> Option<f64> {
        let deviation = self.deviation()?;
        let t = student_quantile(0.95, degrees as f64)?;
        Some(t * deviation * (2.0 / blocks as f64).sqrt())
    }
}

/// Averages `left` by group into `effects`. Returns the largest move.
fn averages(effects: &mut [f64], left: &[f64], group: &[usize]) -> f64 {
    let mut sums = vec![(0.0, 0.0); effects.len()];
    for (value, &g) in left.iter().zip(group) {
        sums[g].0 += value;
        sums[g].1 += 1.0;
    }
    let mut largest = 0.0_f64;
    for (effect, (sum, n)) in effects.iter_mut().zip(sums) {
        let new = if n > 0.0 { sum / n } else { 0.0 };
        largest = largest.max((new - *effect).abs());
        *effect = new;
    }
    largest
}

/// In how many parts points and blocks fall that share no cell.
fn connected_parts(of_point: &[usize], points: usize, of_block: &[usize], blocks: usize) -> usize {
    let mut part: Vec<usize> = (0..points + blocks).collect();
    for (&p, &b) in of_point.iter().zip(of_block) {
        let (from, to) = (part[points + b], part[p]);
        part.iter_mut().filter(|x| **x == from).for_each(|x| *x = to);
    }
    part.sort_unstable();
    part.dedup();
    part.len()
}

fn merged(cells: &[Cell]) -> Vec<Cell> {
    let mut merged: Vec<(Cell, f64)> = Vec::new();
    for cell in cells.iter().filter(|c| c.value.is_finite() && c.value > 0.0) {
        match merged.iter_mut().find(|(m, _)| m.point == cell.point && m.block == cell.block) {
            Some((m, n)) => {
                m.value = ((m.value.ln() * *n + cell.value.ln()) / (*n + 1.0)).exp();
                *n += 1.0;
            }
            None => merged.push((*cell, 1.0)),
        }
    }
    merged.into_iter().map(|(cell, _)| cell).collect()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_distr::{Distribution as _, StandardNormal};

    use super::*;

    fn cell(point: usize, block: u32, value: f64) -> Cell {
        Cell { point, block, value }
    }

    #[test]
    fn a_slow_block_does_not_touch_the_ratio() {
        let fit =
            fit(&[cell(0, 1, 900.0), cell(1, 1, 1000.0), cell(0, 2, 450.0), cell(1, 2, 500.0)]);
        let ratio = fit.ratio(0, 1).expect("both blocks");
        assert_eq!(ratio.n, 2);
        assert!((ratio.median - 0.9).abs() < 1e-12 && (ratio.high - ratio.low).abs() < 1e-12);
        assert_eq!(fit.degrees(), 1);
        assert!(fit.deviation().expect("one degree") < 1e-9);
        assert!((ratio.bound.expect("bound") - 0.9).abs() < 1e-6);
    }

    #[test]
    fn the_pooled_deviation_is_that_of_the_two_way_table() {
        // Logs of three points in two blocks; residuals worked out by hand: ± 0.01 in points 0 and 1,
        // none in point 2; degrees (3 - 1)(2 - 1) = 2.
        let logs = [[1.01, 0.99], [1.99, 2.01], [3.0, 3.0]];
        let cells: Vec<Cell> = (0..3)
            .flat_map(|p| (0..2).map(move |b| cell(p, b as u32, f64::exp(logs[p][b]))))
            .collect();
        let fit = fit(&cells);
        assert_eq!(fit.degrees(), 2);
        assert!((fit.deviation().expect("deviation") - (4e-4_f64 / 2.0).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn gaps_are_allowed_and_points_that_never_meet_have_no_ratio() {
        let fit =
            fit(&[cell(0, 1, 100.0), cell(1, 1, 200.0), cell(1, 2, 100.0), cell(2, 2, 300.0)]);
        assert_eq!(fit.ratio(0, 2), None);
        assert_eq!(fit.ratio(0, 1).expect("block 1").n, 1);
        assert_eq!((fit.degrees(), fit.deviation()), (0, None));
        // Point 2 is three times point 1 and so six times point 0, though they share no block.
        let gap = fit.level(2).expect("level") - fit.level(0).expect("level");
        assert!((gap - 6.0_f64.ln()).abs() < 1e-9);
    }

    #[test]
    fn values_that_have_no_logarithm_are_ignored() {
        let fit = fit(&[cell(0, 1, 0.0), cell(0, 2, f64::NAN), cell(1, 1, -4.0)]);
        assert_eq!((fit.degrees(), fit.ratio(0, 1), fit.level(0)), (0, None, None));
    }

    #[test]
    fn the_bound_covers_the_true_ratio_in_95_of_100_sweeps() {
        // Five points, 3 blocks, 5 % noise, block effects of 20 %; true ratio of point 0 to 4: 0.93.
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(3);
        let truth = [0.93, 0.5, 0.7, 0.9, 1.0];
        let mut covered = 0;
        for _ in 0..4000 {
            let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
            let mut cells = Vec::new();
            for block in 0..3 {
                let of_block = 0.2 * normal();
                for (point, rate) in truth.iter().enumerate() {
                    cells.push(cell(point, block, rate * (of_block + 0.05 * normal()).exp()));
                }
            }
            let bound = fit(&cells).ratio(0, 4).and_then(|r| r.bound).expect("complete blocks");
            covered += i32::from(bound <= 0.93);
        }
        let share = f64::from(covered) / 4000.0;
        assert!((0.94..=0.96).contains(&share), "covers {share}");
    }
}
