//! Numbers as text: the one module that does so for reports.
//!
//! Three significant digits are kept where more would be noise; counts are whole with separators of
//! thousands; what is absent is `–`, never 0. Units stand in the heads of columns, so that these
//! functions give bare numbers unless their name says otherwise.

use crate::stats::{Estimate, Histogram, Method};

/// What stands where there is no number.
pub const ABSENT: &str = "–";

/// How far the observations carry a percentile: about ten must lie beyond it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// At least ten observations lie beyond.
    Full,
    /// Between one and ten do: shown with `~` in front.
    Thin,
    /// Not even one does: not shown.
    None,
}

/// A whole number with separators of thousands.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with three significant digits, whole from 100 on, with separators of thousands.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return ABSENT.to_owned();
    }
    let size = value.abs();
    let sign = if value < 0.0 { "−" } else { "" };
    let body = match size {
        0.0 => "0".to_owned(),
        99.95.. => count(size.round() as u64),
        9.995.. => format!("{size:.1}"),
        0.0995.. => format!("{size:.2}"),
        0.000_5.. => format!("{size:.3}"),
        _ => "<0.001".to_owned(),
    };
    // Nothing but zeros is left of a tiny negative number.
    format!("{sign}{body}")
}

/// A number or [`ABSENT`].
pub fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| ABSENT.to_owned(), number)
}

/// A ratio to 1, such as `0.97`.
pub fn ratio(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { ABSENT.to_owned() }
}

/// A ratio as a difference in percent, such as `−3 %`.
pub fn difference(ratio: f64) -> String {
    if !ratio.is_finite() {
        return ABSENT.to_owned();
    }
    let percent = (ratio - 1.0) * 100.0;
    let body = if percent.abs() < 9.95 {
        format!("{:.1}", percent.abs())
    } else {
        format!("{:.0}", percent.abs())
    };
    let sign = match percent {
        p if p <= -0.05 => "−",
        p if p >= 0.05 => "+",
        _ => "±",
    };
    format!("{sign}{body} %")
}

/// A share as percent, such as `0.4 %`.
pub fn percent(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

/// A duration in seconds with its unit, such as `850 ms`, `12.3 s`, `3 min 25 s`.
pub fn seconds(value: f64) -> String {
    match value {
        v if !v.is_finite() || v < 0.0 => ABSENT.to_owned(),
        v if v >= 119.5 => {
            let whole = v.round() as u64;
            format!("{} min {:02} s", whole / 60, whole % 60)
        }
        v if v >= 0.9995 => format!("{} s", number(v)),
        v if v >= 0.000_999_5 => format!("{} ms", number(v * 1e3)),
        v => format!("{} µs", number(v * 1e6)),
    }
}

/// A size in bytes with its unit, such as `7.7 GiB`.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut size = value as f64;
    let mut unit = 0;
    while size >= 1023.5 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{} {}", number(size), UNITS[unit])
}

/// A value with its spread: `16,200 [15,900–16,400]`; the value alone when it comes from one trial.
pub fn estimate(value: &Estimate) -> String {
    scaled(value, 1.0)
}

/// The same after multiplying by `scale`.
pub fn scaled(value: &Estimate, scale: f64) -> String {
    let middle = number(value.value * scale);
    if value.n < 2 {
        return middle;
    }
    let (low, high) = (number(value.low * scale), number(value.high * scale));
    format!("{middle} [{low}–{high}]")
}

/// What the brackets of an estimate hold.
pub fn method(method: Method) -> String {
    match method {
        Method::Single => "one trial".to_owned(),
        Method::MedianRange => "median [smallest–largest]".to_owned(),
        Method::MedianInterval { coverage } => {
            format!("median [its {:.0} % interval by order statistics]", coverage * 100.0)
        }
        Method::LogMean { coverage } => {
            format!("geometric mean [its {:.0} % interval]", coverage * 100.0)
        }
    }
}

/// How far `n` observations carry a quantile.
pub fn support(n: u64, quantile: f64) -> Support {
    let beyond = n as f64 * (1.0 - quantile);
    // A hair of tolerance: 1,000 × (1 − 0.99) is 10 but for the rounding of binary fractions.
    match beyond + 1e-6 {
        b if b >= 10.0 => Support::Full,
        b if b >= 1.0 && quantile < 0.999 => Support::Thin,
        _ => Support::None,
    }
}

/// A quantile of a distribution in µs as milliseconds; `~` in front where fewer than ten observations
/// lie beyond, [`ABSENT`] where none can.
pub fn quantile_ms(histogram: Option<&Histogram>, quantile: f64) -> String {
    quantile_scaled(histogram, quantile, 1e-3)
}

/// The same in the distribution's own unit times `scale`.
pub fn quantile_scaled(histogram: Option<&Histogram>, quantile: f64, scale: f64) -> String {
    let Some(histogram) = histogram else { return ABSENT.to_owned() };
    let value = histogram.quantile(quantile).map(|v| number(v as f64 * scale));
    match (support(histogram.n(), quantile), value) {
        (Support::Full, Some(value)) => value,
        (Support::Thin, Some(value)) => format!("~{value}"),
        _ => ABSENT.to_owned(),
    }
}

/// The largest value of a distribution in µs as milliseconds.
pub fn max_ms(histogram: Option<&Histogram>) -> String {
    optional(histogram.and_then(Histogram::max).map(|us| us as f64 / 1e3))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.000_01, "<0.001"),
            (0.04567, "0.046"),
            (0.4567, "0.46"),
            (4.567, "4.57"),
            (9.999, "10.0"),
            (45.67, "45.7"),
            (99.99, "100"),
            (456.7, "457"),
            (23_345.4, "23,345"),
            (1_234_567.0, "1,234,567"),
            (-1.5, "−1.50"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(number(value), text, "{value}");
        }
    }

    #[test]
    fn durations_and_sizes_choose_their_unit() {
        for (value, text) in [
            (0.000_085, "85.0 µs"),
            (0.85, "850 ms"),
            (1.0, "1.00 s"),
            (59.99, "60.0 s"),
            (205.0, "3 min 25 s"),
            (-1.0, "–"),
        ] {
            assert_eq!(seconds(value), text, "{value}");
        }
        assert_eq!(bytes(8 << 30), "8.00 GiB");
        assert_eq!(bytes(512), "512 B");
    }

    #[test]
    fn differences_have_a_sign() {
        assert_eq!(difference(0.94), "−6.0 %");
        assert_eq!(difference(1.125), "+12 %");
        assert_eq!(difference(1.0), "±0.0 %");
    }

    #[test]
    fn percentiles_need_observations_beyond_them() {
        assert_eq!(support(1_000, 0.99), Support::Full);
        assert_eq!(support(999, 0.99), Support::Thin);
        assert_eq!(support(99, 0.99), Support::None);
        assert_eq!(support(9_999, 0.999), Support::None);
        assert_eq!(support(10_000, 0.999), Support::Full);
        let mut few = Histogram::default();
        (0..150).for_each(|i| few.record(i * 1000));
        assert!(quantile_ms(Some(&few), 0.99).starts_with('~'));
        assert_eq!(quantile_ms(Some(&few), 0.5), "74.0");
        assert_eq!(quantile_ms(Some(&few), 0.999), ABSENT);
        assert_eq!(quantile_ms(None, 0.5), ABSENT);
        assert_eq!(max_ms(Some(&Histogram::default())), ABSENT);
    }

    proptest! {
        #[test]
        fn separators_do_not_change_a_count(value: u64) {
            prop_assert_eq!(count(value).replace(',', ""), value.to_string());
        }

        #[test]
        fn a_number_is_within_half_a_percent_of_its_text(value in 0.1..1e12_f64) {
            let back: f64 = number(value).replace(',', "").parse().expect("a number");
            prop_assert!((back - value).abs() <= 0.0051 * value.max(1.0), "{value}");
        }
    }
}
