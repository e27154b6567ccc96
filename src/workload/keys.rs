//! How keys are chosen: pure functions of random bits.
//!
//! The distributions are sysbench's by name and formula. One thing differs on purpose: sysbench's
//! zipfian keys are hottest at the low end of the range, so that hot rows share pages; here ranks
//! are scattered over the range by a fixed bijection.

use super::draws::Draws;
use super::settings::RandType;

/// sysbench's default for `--rand-zipfian-exp`.
const ZIPF_EXPONENT: f64 = 0.8;

/// Draws keys from 1 to `size`.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    size: u64,
    zipf: Option<Zipf>,
    stride: u64,
}

impl Keys {
    /// Keys of a range of `size` (at least 1).
    pub(super) fn new(kind: RandType, size: u64) -> Keys {
        let size = size.max(1);
        let zipf = match kind {
            RandType::Uniform => None,
            RandType::Zipfian => Some(Zipf::new(size, ZIPF_EXPONENT)),
        };
        Keys { size, zipf, stride: stride(size) }
    }

    /// A key in 1..=size.
    pub(super) fn draw(&self, draws: &mut Draws) -> u64 {
        match &self.zipf {
            None => 1 + draws.below(self.size),
            Some(zipf) => self.place(zipf.rank(draws)),
        }
    }

    /// Where the key of a rank (1 is the hottest) lies: multiples of about 0.618 × size, which
    /// keeps the hottest keys as far apart as can be (Knuth vol. 3, 6.4, Fibonacci hashing).
    fn place(&self, rank: u64) -> u64 {
        let place = u128::from(rank) * u128::from(self.stride) % u128::from(self.size);
        1 + place as u64
    }
}

/// The number next to 0.618 × size that shares no divisor with size, so that multiples of it visit
/// every key once.
fn stride(size: u64) -> u64 {
    let mut stride = ((size as f64 * 0.618_033_988_75) as u64).max(1);
    while greatest_divisor(stride, size) != 1 {
        stride += 1;
    }
    stride
}

fn greatest_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

/// Zipf's law by rejection-inversion (Hörmann and Derflinger, *Rejection-inversion to generate
/// variates from monotone discrete distributions*, TOMACS 6.3, 1996), as sysbench's `sb_rand.c`
/// does it: P(rank) ∝ 1 / rank^exponent.
#[derive(Debug, Clone)]
struct Zipf {
    size: u64,
    exponent: f64,
    shortcut: f64,
    low: f64,
    high: f64,
}

impl Zipf {
    fn new(size: u64, exponent: f64) -> Zipf {
        let mut zipf = Zipf { size, exponent, shortcut: 0.0, low: 0.0, high: 0.0 };
        zipf.shortcut = 2.0 - zipf.integral_inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(size as f64 + 0.5);
        zipf
    }

    fn rank(&self, draws: &mut Draws) -> u64 {
        loop {
            let u = self.high + draws.unit() * (self.low - self.high);
            let x = self.integral_inverse(u);
            let rank = ((x + 0.5) as u64).clamp(1, self.size);
            let k = rank as f64;
            if k - x <= self.shortcut || u >= self.integral(k + 0.5) - self.density(k) {
                return rank;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = (1.0 - self.exponent) * log;
        if t.abs() > 1e-8 { t.exp_m1() / t * log } else { log }
    }

    fn integral_inverse(&self, x: f64) -> f64 {
        let t = (x * (1.0 - self.exponent)).max(-1.0);
        if t.abs() > 1e-8 { (t.ln_1p() / t * x).exp() } else { x.exp() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::draws::Stream;
    use super::*;

    #[test]
    fn the_hottest_hundredth_gets_what_theory_says() {
        let size = 10_000u64;
        let weight = |ranks: u64| (1..=ranks).map(|r| (r as f64).powf(-0.8)).sum::<f64>();
        let expected = weight(size / 100) / weight(size);
        let keys = Keys::new(RandType::Zipfian, size);
        let hot: std::collections::HashSet<u64> =
            (1..=size / 100).map(|rank| keys.place(rank)).collect();
        let n = 400_000;
        let hits = (0..n)
            .filter(|&i| hot.contains(&keys.draw(&mut Draws::new(42, Stream::Op, i))))
            .count();
        let share = hits as f64 / n as f64;
        assert!((share - expected).abs() < 0.01 * expected, "{share} against {expected}");
    }

    #[test]
    fn uniform_keys_do_not_favour_a_hundredth() {
        let keys = Keys::new(RandType::Uniform, 10_000);
        let n = 400_000;
        let hits = (0..n).filter(|&i| keys.draw(&mut Draws::new(42, Stream::Op, i)) <= 100).count();
        assert!((3_800..4_200).contains(&hits), "{hits}");
    }

    proptest! {
        #[test]
        fn keys_stay_in_range(size in 1u64..5_000_000, seed: u64, index: u64) {
            for kind in [RandType::Uniform, RandType::Zipfian] {
                let key = Keys::new(kind, size).draw(&mut Draws::new(seed, Stream::Op, index));
                prop_assert!((1..=size).contains(&key));
            }
        }

        #[test]
        fn scattering_loses_no_key(size in 1u64..3_000) {
            let keys = Keys::new(RandType::Zipfian, size);
            let places: std::collections::HashSet<u64> =
                (1..=size).map(|rank| keys.place(rank)).collect();
            prop_assert_eq!(places.len() as u64, size);
        }
    }
}
