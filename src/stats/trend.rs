//! Whether a series grows: Theil–Sen slope with 95 % bounds.
//!
//! The slope is the median of the slopes of all pairs; its bounds are the pairs' order statistics by
//! Sen (1968), widened for autocorrelation: lag sampled every second resembles the second before, so
//! n samples carry less than n observations' worth. The variance of Kendall's statistic is multiplied
//! by n / n_effective with the lag-1 autocorrelation of the residuals, as Hamed & Rao (1998) do.

use serde::{Deserialize, Serialize};

use crate::stats::estimate::median;

/// Quantile of the standard normal for a one-sided 95 % bound.
const ONE_SIDED_95: f64 = 1.644_853_6;

/// Longest series used whole; of longer ones evenly spaced medians of groups are used.
const LONGEST: usize = 400;

/// A slope in units of y per unit of x.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Slope {
    /// Points used.
    pub n: u32,
    /// Median slope.
    pub value: f64,
    /// One-sided 95 % lower bound.
    pub low: f64,
    /// One-sided 95 % upper bound.
    pub high: f64,
}

/// Slope of `y` over `x`. `None` for fewer than five points or fewer than two distinct `x`.
pub fn theil_sen(points: &[(f64, f64)]) -> Option<Slope> {
    let mut points: Vec<(f64, f64)> =
        points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let points = thinned(&points);
    let n = points.len();
    if n < 5 {
        return None;
    }
    let mut slopes = Vec::with_capacity(n * (n - 1) / 2);
    for (i, a) in points.iter().enumerate() {
        slopes.extend(
            points[i + 1..].iter().filter(|b| b.0 > a.0).map(|b| (b.1 - a.1) / (b.0 - a.0)),
        );
    }
    slopes.sort_by(f64::total_cmp);
    let value = median(&slopes)?;
    let kendall = (n * (n - 1) * (2 * n + 5)) as f64 / 18.0;
    let reach = ONE_SIDED_95 * (kendall * inflation(&points, value)).sqrt();
    let pairs = slopes.len() as f64;
    let low = ((pairs - reach) / 2.0).floor().max(0.0) as usize;
    let high = ((pairs + reach) / 2.0).ceil().min(pairs - 1.0) as usize;
    Some(Slope { n: n as u32, value, low: slopes[low], high: slopes[high] })
}

/// n / n_effective of the residuals around the line, at least 1.
fn inflation(points: &[(f64, f64)], slope: f64) -> f64 {
    let residuals: Vec<f64> = points.iter().map(|(x, y)| y - slope * x).collect();
    let mean = residuals.iter().sum::<f64>() / residuals.len() as f64;
    let total: f64 = residuals.iter().map(|r| (r - mean).powi(2)).sum();
    if total <= 0.0 {
        return 1.0;
    }
    let lagged: f64 = residuals.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    let rho = (lagged / total).clamp(0.0, 0.98);
    (1.0 + rho) / (1.0 - rho)
}

fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= LONGEST {
        return points.to_vec();
    }
    let group = points.len().div_ceil(LONGEST);
    let middle = |chunk: &[(f64, f64)], of: fn(&(f64, f64)) -> f64| {
        median(&chunk.iter().map(of).collect::<Vec<_>>()).unwrap_or(f64::NAN)
    };
    points.chunks(group).map(|chunk| (middle(chunk, |p| p.0), middle(chunk, |p| p.1))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng as _;
    use rand_distr::{Distribution as _, StandardNormal};

    use super::*;

    #[test]
    fn a_line_with_one_wild_point_keeps_its_slope() {
        let mut points: Vec<(f64, f64)> =
            (0..30).map(|i| (f64::from(i), 2.0 + 0.5 * f64::from(i))).collect();
        points[7].1 = 900.0;
        let slope = theil_sen(&points).expect("thirty points");
        assert!((slope.value - 0.5).abs() < 1e-9);
        assert!(slope.low <= 0.5 && 0.5 <= slope.high);
    }

    #[test]
    fn too_few_points_or_one_instant_have_no_slope() {
        assert_eq!(theil_sen(&[(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 4.0)]), None);
        assert_eq!(theil_sen(&[(1.0, 0.0); 9]), None);
    }

    #[test]
    fn the_upper_bound_of_a_flat_series_covers_also_when_samples_resemble_their_neighbours() {
        // AR(1) noise around a flat line; the upper bound must lie above the true slope 0 in about
        // 95 % of the series. 1,000 series of 60 samples.
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(5);
        for (rho, least) in [(0.0, 0.93), (0.6, 0.90)] {
            let mut covered = 0;
            for _ in 0..1000 {
                let mut state = 0.0;
                let points: Vec<(f64, f64)> = (0..60)
                    .map(|i| {
                        let noise: f64 = StandardNormal.sample(&mut rng);
                        state = rho * state + noise;
                        (f64::from(i), state)
                    })
                    .collect();
                covered += i32::from(theil_sen(&points).expect("sixty points").high >= 0.0);
            }
            let share = f64::from(covered) / 1000.0;
            assert!((least..=0.985).contains(&share), "rho {rho}: the bound covers {share}");
        }
    }

    #[test]
    fn a_long_series_is_thinned_not_refused() {
        let points: Vec<(f64, f64)> =
            (0..50_000).map(|i| (f64::from(i) / 10.0, f64::from(i) / 1000.0)).collect();
        let slope = theil_sen(&points).expect("long");
        assert!(slope.n as usize <= LONGEST && (slope.value - 0.01).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn the_slope_lies_between_its_bounds(ys in prop::collection::vec(-1e6..1e6_f64, 5..40)) {
            let points: Vec<(f64, f64)> =
                ys.iter().enumerate().map(|(i, y)| (i as f64, *y)).collect();
            let slope = theil_sen(&points).expect("five points");
            prop_assert!(slope.low <= slope.value && slope.value <= slope.high);
        }
    }
}
