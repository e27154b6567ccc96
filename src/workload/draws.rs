//! Random bits as a pure function of (seed, stream, index).
//!
//! Every op, row and gap draws from its own short sequence, so that what is drawn for index *i* does
//! not depend on who draws it or on what was drawn before. The generator is SplitMix64 (Steele, Lea,
//! Flood: *Fast Splittable Pseudorandom Number Generators*, OOPSLA 2014), whose step is a counter
//! and whose output is a hash of it; the same seed means the same data for as long as this file
//! stays as it is. It is *not* meant for secrets.

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Which purpose numbers are drawn for. Streams of one seed have nothing to do with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    /// Rows that exist before the drive.
    Seed,
    /// What an op does.
    Op,
    /// Gaps between due times.
    Pace,
    /// Where in a round of tables an op begins.
    Round,
}

impl Stream {
    fn tag(self) -> u64 {
        match self {
            Stream::Seed => 0x7365_6564,
            Stream::Op => 0x6f70,
            Stream::Pace => 0x7061_6365,
            Stream::Round => 0x726f_756e,
        }
    }
}

/// A sequence of random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Draws(u64);

impl Draws {
    /// The sequence of an index. Indices of one seed and stream never begin at the same place, since
    /// the hash is a bijection.
    pub(super) fn new(seed: u64, stream: Stream, index: u64) -> Draws {
        Draws(mix(mix(mix(seed) ^ stream.tag()) ^ index))
    }

    /// The next 64 bits.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// A number from 0 up to but without `bound`, by Lemire's multiplication; with 64 bits the
    /// unevenness is below 2⁻³² for every bound that a table can have.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in [0, 1) with 53 random bits.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A sequence of its own for a part of what this one draws for.
    pub(super) fn fork(&mut self) -> Draws {
        Draws(self.next())
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pins the generator: whoever changes it changes what every seed means.
    #[test]
    fn a_seed_means_the_same_numbers_for_years() {
        let mut draws = Draws(0);
        // First outputs of the reference SplitMix64 for state 0.
        assert_eq!(draws.next(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(draws.next(), 0x6E78_9E6A_A1B9_65F4);
        assert_eq!(draws.next(), 0x06C4_5D18_8009_454F);
    }

    #[test]
    fn draws_fill_their_range_evenly() {
        let mut cells = [0u32; 10];
        for index in 0..20_000 {
            cells[Draws::new(7, Stream::Op, index).below(10) as usize] += 1;
        }
        assert!(cells.iter().all(|&n| (1_800..2_200).contains(&n)), "{cells:?}");
        let mean = (0..20_000).map(|i| Draws::new(7, Stream::Pace, i).unit()).sum::<f64>() / 2e4;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
    }
}
