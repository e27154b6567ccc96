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
    /// Appends the text of `c`.
    pub(in super::super) fn push_c(self, out: &mut Vec<u8>) {
        push_groups(self.0, 10, out);
    }

    /// Appends the text of `pad`.
    pub(in super::super) fn push_pad(self, out: &mut Vec<u8>) {
        push_groups({ self.0 }.fork(), 5, out);
    }

    /// The text of `c`.
    pub(super) fn c(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(C_LEN + 1);
        self.push_c(&mut out);
        out
    }

    /// The text of `pad`.
    pub(super) fn pad(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(PAD_LEN + 1);
        self.push_pad(&mut out);
        out
    }
}

fn push_groups(mut draws: Draws, groups: usize, out: &mut Vec<u8>) {
    for group in 0..groups {
        if group > 0 {
            out.push(b'-');
        }
        let number = draws.below(GROUP);
        let mut digits = [b'0'; 11];
        let (high, low) = digits.split_at_mut(5);
        // Halves fit 32 bits, whose divisions are cheaper; this runs 165 times for each row.
        fill_digits(high, (number / 1_000_000) as u32);
        fill_digits(low, (number % 1_000_000) as u32);
        out.extend_from_slice(&digits);
    }
}

fn fill_digits(digits: &mut [u8], mut number: u32) {
    for digit in digits.iter_mut().rev() {
        *digit += (number % 10) as u8;
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
        let mut out = Vec::new();
        push_groups(draws, 2, &mut out);
        let expected = format!("{:011}-{:011}", draws.below(GROUP), draws.below(GROUP));
        assert_eq!(String::from_utf8(out).expect("digits"), expected);
    }

    #[test]
    fn texts_have_sysbenchs_shape() {
        let text = Text(Draws::new(42, Stream::Op, 1));
        for (bytes, groups, len) in [(text.c(), 10, C_LEN), (text.pad(), 5, PAD_LEN)] {
            let shown = String::from_utf8(bytes).expect("digits and hyphens");
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
