//! The knee rule: which point of a sweep to recommend.
//!
//! The pick is the cheapest point whose median ratio to the best point, paired by block, is at least
//! 0.95. It always exists, for the best point has ratio 1 to itself. It is *settled* when the one-sided
//! 95 % bound of that ratio, by the residual variance pooled over all points and blocks, is at least
//! 0.90; otherwise *indicative*. Where the pick is the best point itself, its ratio to the runner-up
//! is judged, for a point's ratio to itself knows no doubt. Requiring each point's own bound to reach
//! 95 % would leave no pick in most small sweeps.

use crate::stats::paired::{Cell, Fit, Ratio};

/// Least median ratio to the best point.
pub const GOOD_ENOUGH: f64 = 0.95;
/// Least bound of the ratio for a pick to be settled.
pub const SETTLED_BOUND: f64 = 0.90;
/// Blocks below which nothing is settled.
pub const LEAST_BLOCKS: u32 = 3;
/// Most further blocks that are worth naming.
const MOST_FURTHER_BLOCKS: u32 = 200;

/// A point that may be picked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Index of the point, as in the cells.
    pub point: usize,
    /// Place in the order of cost, smaller is cheaper; equal where cost knows no order.
    pub cost: f64,
    /// p99 lag or transaction time; breaks ties, smaller is better.
    pub latency: Option<f64>,
    /// Resource use such as CPU cores; breaks what ties are left, smaller is better.
    pub resource: Option<f64>,
}

/// What the rule chose.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// Index of the chosen point.
    pub pick: usize,
    /// Index of the point with the highest rate once block effects are taken out.
    pub best: usize,
    /// The best of the other points, where the pick is the best itself.
    pub runner_up: Option<usize>,
    /// Ratio of each candidate to the best, in the candidates' order; `None` where no block holds both.
    pub ratios: Vec<(usize, Option<Ratio>)>,
    /// Whether more blocks are needed before one may rely on it.
    pub settled: bool,
    /// How many further blocks would settle it at the noise seen so far; `None` when settled, or when
    /// the noise is unknown or too large for any sensible number.
    pub further_blocks: Option<u32>,
}

/// Chooses among `candidates` by the rates in `fit`; `None` when none of them has a rate.
pub fn choose(candidates: &[Candidate], fit: &Fit) -> Option<Choice> {
    let with_level: Vec<(&Candidate, f64)> =
        candidates.iter().filter_map(|c| Some((c, fit.level(c.point)?))).collect();
    let best = with_level.iter().max_by(|a, b| a.1.total_cmp(&b.1))?.0.point;
    let ratios: Vec<(usize, Option<Ratio>)> =
        candidates.iter().map(|c| (c.point, fit.ratio(c.point, best))).collect();
    let good = candidates.iter().zip(&ratios).filter(|(c, (_, ratio))| {
        c.point == best || ratio.is_some_and(|r| r.median >= GOOD_ENOUGH)
    });
    let pick = good.map(|(c, _)| c).min_by(|a, b| cheaper(a, b, best))?.point;
    let runner_up = with_level
        .iter()
        .filter(|(c, _)| c.point != best)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(c, _)| c.point);
    let against = if pick == best { runner_up } else { Some(best) };
    let judged = against.and_then(|other| fit.ratio(pick, other));
    let blocks = judged.map_or_else(|| blocks_of(fit, pick), |r| r.n);
    let settled = blocks >= LEAST_BLOCKS
        && match (against, judged) {
            (None, _) => true,
            (Some(_), judged) => judged.and_then(|r| r.bound).is_some_and(|b| b >= SETTLED_BOUND),
        };
    let further_blocks = if settled { None } else { further_blocks(fit, judged, blocks) };
    let runner_up = runner_up.filter(|_| pick == best);
    Some(Choice { pick, best, runner_up, ratios, settled, further_blocks })
}

fn cheaper(a: &Candidate, b: &Candidate, best: usize) -> std::cmp::Ordering {
    let known = |x: Option<f64>| x.unwrap_or(f64::INFINITY);
    a.cost
        .total_cmp(&b.cost)
        .then(known(a.latency).total_cmp(&known(b.latency)))
        .then(known(a.resource).total_cmp(&known(b.resource)))
        .then((b.point == best).cmp(&(a.point == best)))
        .then(a.point.cmp(&b.point))
}

fn blocks_of(fit: &Fit, point: usize) -> u32 {
    fit.residuals().filter(|(cell, _): &(Cell, f64)| cell.point == point).count() as u32
}

/// The smallest number of blocks beyond `blocks` at which the bound would reach
/// [`SETTLED_BOUND`], if ratio and noise stay as they are.
fn further_blocks(fit: &Fit, judged: Option<Ratio>, blocks: u32) -> Option<u32> {
    let at_least = LEAST_BLOCKS.saturating_sub(blocks);
    let Some(ratio) = judged else { return (at_least > 0).then_some(at_least) };
    let degrees_per_block = fit.degrees().max(1).div_ceil((blocks.max(2) - 1) as usize);
    (at_least.max(1)..=MOST_FURTHER_BLOCKS).find(|further| {
        let total = (blocks + further) as usize;
        let degrees = fit.degrees() + degrees_per_block * *further as usize;
        fit.reach(total, degrees).is_some_and(|reach| ratio.mean.ln() - reach >= SETTLED_BOUND.ln())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng as _;
    use rand_distr::{Distribution as _, StandardNormal};

    use super::*;
    use crate::stats::paired;

    fn candidates(n: usize) -> Vec<Candidate> {
        (0..n)
            .map(|point| Candidate { point, cost: point as f64, latency: None, resource: None })
            .collect()
    }

    /// Rates of points in blocks, as cells.
    fn table(rates: &[&[f64]]) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (point, row) in rates.iter().enumerate() {
            for (block, &value) in row.iter().enumerate() {
                cells.push(Cell { point, block: block as u32 + 1, value });
            }
        }
        cells
    }

    fn simulate(truth: &[f64], blocks: u32, noise: f64, rng: &mut rand_pcg::Pcg64Mcg) -> Choice {
        let mut cells = Vec::new();
        for block in 0..blocks {
            let of_block: f64 = StandardNormal.sample(&mut *rng);
            for (point, rate) in truth.iter().enumerate() {
                let of_cell: f64 = StandardNormal.sample(&mut *rng);
                let value = rate * (0.1 * of_block + noise * of_cell).exp();
                cells.push(Cell { point, block, value });
            }
        }
        choose(&candidates(truth.len()), &paired::fit(&cells)).expect("a pick always exists")
    }

    #[test]
    fn published_worker_counts_of_dm_give_16() {
        // DM v1.0-GA: 4, 8, 16, 32, 64, 1024 workers. One block: always indicative.
        let rates: [&[f64]; 6] =
            [&[7074.0], &[14684.0], &[23486.0], &[23345.0], &[23302.0], &[22225.0]];
        let choice = choose(&candidates(6), &paired::fit(&table(&rates))).expect("pick");
        assert_eq!((choice.pick, choice.best, choice.settled), (2, 2, false));
        assert_eq!(choice.further_blocks, None, "one block says nothing about noise");
    }

    #[test]
    fn the_cheapest_point_within_5_percent_wins_over_the_best() {
        let rates: [&[f64]; 4] =
            [&[50.0, 51.0, 50.0], &[97.0, 98.0, 97.5], &[100.0, 101.0, 100.0], &[94.0, 94.0, 94.0]];
        let choice = choose(&candidates(4), &paired::fit(&table(&rates))).expect("pick");
        assert_eq!((choice.pick, choice.best, choice.settled), (1, 2, true));
        assert_eq!(choice.further_blocks, None);
    }

    #[test]
    fn two_quiet_blocks_stay_indicative_and_need_one_more() {
        let rates: [&[f64]; 3] = [&[50.0, 50.1], &[99.0, 99.1], &[100.0, 100.2]];
        let choice = choose(&candidates(3), &paired::fit(&table(&rates))).expect("pick");
        assert_eq!((choice.pick, choice.settled, choice.further_blocks), (1, false, Some(1)));
    }

    #[test]
    fn a_noisy_sweep_says_how_many_blocks_would_settle_it() {
        let rates: [&[f64]; 3] = [&[70.0, 60.0, 75.0], &[98.0, 109.0, 96.0], &[104.0, 97.0, 105.0]];
        let choice = choose(&candidates(3), &paired::fit(&table(&rates))).expect("pick");
        assert!(!choice.settled);
        assert!(choice.further_blocks.expect("a number") > 1);
    }

    #[test]
    fn ties_in_cost_go_to_the_lower_latency_then_to_less_cpu() {
        let fit = paired::fit(&table(&[&[100.0; 3], &[99.0; 3], &[98.0; 3]]));
        let of = |point, latency, resource| Candidate { point, cost: 0.0, latency, resource };
        let by_latency =
            [of(0, Some(9.0), Some(1.0)), of(1, Some(3.0), Some(4.0)), of(2, Some(3.0), Some(2.0))];
        assert_eq!(choose(&by_latency, &fit).expect("pick").pick, 2);
        let unknown = [of(0, None, None), of(1, None, None), of(2, None, None)];
        assert_eq!(choose(&unknown, &fit).expect("pick").pick, 0, "then the best");
    }

    #[test]
    fn a_true_90_percent_point_is_rarely_called_settled() {
        // The rule's promise: a settled pick loses 10 % in at most about one sweep of twenty.
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(29);
        let truth = [0.5, 0.895, 0.7, 1.0];
        let wrong = (0..2000)
            .filter(|_| {
                let choice = simulate(&truth, 3, 0.05, &mut rng);
                choice.settled && choice.pick == 1
            })
            .count();
        assert!(wrong < 2000 * 6 / 100, "{wrong} of 2000 sweeps settled on a point 10.5 % slower");
    }

    #[test]
    fn the_number_of_further_blocks_settles_most_sweeps() {
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(31);
        let truth = [0.5, 0.97, 1.0, 0.98];
        let (mut asked, mut settled) = (0, 0);
        for _ in 0..1500 {
            let first = simulate(&truth, 3, 0.06, &mut rng);
            if let Some(further) = first.further_blocks.filter(|f| *f <= 40) {
                asked += 1;
                settled += i32::from(simulate(&truth, 3 + further, 0.06, &mut rng).settled);
            }
        }
        assert!(asked > 200, "only {asked} sweeps were unsettled");
        let share = f64::from(settled) / f64::from(asked);
        assert!(share > 0.55, "{share} of the sweeps were settled by the blocks they asked for");
    }

    proptest! {
        #[test]
        fn a_pick_exists_whenever_a_rate_does(
            rates in prop::collection::vec((0..6_usize, 1..5_u32, -10.0..1e6_f64), 0..30),
        ) {
            let cells: Vec<Cell> = rates
                .into_iter()
                .map(|(point, block, value)| Cell { point, block, value })
                .collect();
            let choice = choose(&candidates(6), &paired::fit(&cells));
            prop_assert_eq!(choice.is_some(), cells.iter().any(|c| c.value > 0.0));
            if let Some(choice) = choice {
                let ratio = choice.ratios.iter().find(|(p, _)| *p == choice.pick).expect("listed").1;
                prop_assert!(ratio.expect("shares a block with the best").median >= GOOD_ENOUGH);
                let better = choice.ratios.iter().any(|(p, r)| {
                    *p < choice.pick && r.is_some_and(|r| r.median >= GOOD_ENOUGH)
                });
                prop_assert!(!better, "a cheaper point was good enough");
            }
        }
    }
}
