//! What a metric says of the clock that timed it. Figures are kept with the clock's description, which
//! people read; rules and tables need its step as a number.

/// The coarsest step that a clock's description names, in µs: `polled every 10 ms` is 10,000, and
/// `polled every 2 ms, ±5 ms` is 5,000.
pub fn resolution_us(clock: &str) -> Option<f64> {
    let words: Vec<&str> = clock
        .split(|c: char| c.is_whitespace() || [',', ';', '(', ')'].contains(&c))
        .filter(|w| !w.is_empty())
        .collect();
    let step = |number: &str, unit: &str| {
        let scale = match unit {
            "µs" | "us" => 1.0,
            "ms" => 1e3,
            "s" => 1e6,
            _ => return None,
        };
        Some(number.trim_start_matches('±').parse::<f64>().ok()? * scale)
    };
    // Markers are written at one interval and polled at another: only polling blurs a lag.
    let polled = words.iter().position(|w| w.starts_with("poll") || *w == "resolution");
    let steps = words[polled.unwrap_or(0)..].windows(2).filter_map(|pair| step(pair[0], pair[1]));
    steps.max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::resolution_us;

    #[test]
    fn a_clocks_step_is_read_from_its_description() {
        for (clock, us) in [
            ("marker rows, polled every 10 ms", Some(10_000.0)),
            ("marker rows every 50 ms, polled every 2 ms", Some(2_000.0)),
            ("checkpoint row, flushed every 1 s", Some(1_000_000.0)),
            ("marker rows, polled every 2 ms, ±5 ms", Some(5_000.0)),
            (
                "marker rows, polled every 10 ms; too long by at most 21 ms in 95 % of the polls",
                Some(21_000.0),
            ),
            ("host clock (resolution 500 µs)", Some(500.0)),
            ("", None),
            ("polled", None),
        ] {
            assert_eq!(resolution_us(clock), us, "{clock}");
        }
    }
}
