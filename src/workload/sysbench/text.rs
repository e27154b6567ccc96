//! The texts of columns `c` and `pad`: groups of eleven digits joined by hyphens.

use super::super::draws::Draws;

/// Length of `c` in bytes.
pub(in super::super) const C_LEN: usize = 10 * 12 - 1;
/// Length of `pad` in bytes.
pub(in super::super) const PAD_LEN: usize = 5 * 12 - 1;

const GROUP: u64 = 100_000_000_000;

/// What the two texts of a row are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in super::super) struct Text(pub(in super::super) Draws);

impl Text {
    /// The text of `c`.
    pub(in super::super) fn c(self) -> [u8; C_LEN] {
        groups(self.0)
    }

    /// The text of `pad`.
    pub(in super::super) fn pad(self) -> [u8; PAD_LEN] {
        groups({ self.0 }.fork())
    }
}

fn groups<const LEN: usize>(mut draws: Draws) -> [u8; LEN] {
    let mut out = [b'-'; LEN];
    for group in out.chunks_mut(12) {
        let number = draws.below(GROUP);
        let (high, low) = group[..11].split_at_mut(5);
        // Halves fit 32 bits, whose divisions are cheaper; this runs 165 times for each row.
        fill_digits(high, (number / 1_000_000) as u32);
        fill_digits(low, (number % 1_000_000) as u32);
    }
    out
}

fn fill_digits(digits: &mut [u8], mut number: u32) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::draws::Stream;
    use super::*;

    #[test]
    fn digits_are_those_of_the_number() {
        let mut draws = Draws::new(1, Stream::Op, 1);
        let out = groups::<23>(draws);
        let expected = format!("{:011}-{:011}", draws.below(GROUP), draws.below(GROUP));
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[test]
    fn texts_have_sysbenchs_shape() {
        let text = Text(Draws::new(42, Stream::Op, 1));
        for (bytes, groups, len) in [(&text.c()[..], 10, C_LEN), (&text.pad()[..], 5, PAD_LEN)] {
            let shown = String::from_utf8_lossy(bytes);
            assert_eq!((shown.len(), shown.split('-').count()), (len, groups), "{shown}");
            assert!(
                shown.split('-').all(|g| g.len() == 11 && g.bytes().all(|b| b.is_ascii_digit()))
            );
        }
        let other = Text(Draws::new(42, Stream::Op, 2));
        assert_ne!(text.c(), other.c());
        assert_ne!(text.pad(), other.pad());
        assert_ne!(text.c()[..PAD_LEN], text.pad()[..], "pad is no prefix of c");
    }
}
