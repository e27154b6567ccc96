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
        let mut digits = [b'0'; 11];
        let mut left = draws.below(GROUP);
        for digit in digits.iter_mut().rev() {
            *digit += (left % 10) as u8;
            left /= 10;
        }
        out.extend_from_slice(&digits);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::draws::Stream;
    use super::*;

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
