//! Which observations stand apart from the rest. They are shown, never dropped.

use crate::stats::estimate::median;

/// Distance from the median in scaled median absolute deviations above which an observation stands
/// apart (Iglewicz & Hoaglin 1993).
const FAR: f64 = 3.5;

/// Indices of values that stand apart. Empty below five values or when more than half are equal.
pub fn apart(values: &[f64]) -> Vec<usize> {
    let Some(center) = median(values).filter(|_| values.len() >= 5) else { return Vec::new() };
    let distances: Vec<f64> = values.iter().map(|v| (v - center).abs()).collect();
    let Some(spread) = median(&distances).filter(|s| *s > 0.0) else { return Vec::new() };
    let scale = spread / 0.6745;
    (0..values.len()).filter(|&i| distances[i] / scale > FAR).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_far_value_is_found_and_a_wide_but_even_spread_is_not() {
        assert_eq!(apart(&[100.0, 101.0, 55.0, 99.0, 102.0, 98.0]), [2]);
        assert!(apart(&[10.0, 20.0, 30.0, 40.0, 50.0]).is_empty());
    }

    #[test]
    fn too_few_or_equal_values_have_no_outliers() {
        assert!(apart(&[1.0, 1.0, 1.0, 50.0]).is_empty());
        assert!(apart(&[1.0, 1.0, 1.0, 1.0, 50.0]).is_empty());
    }
}
