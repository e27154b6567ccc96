//! Values folded so that any two which the target takes for equal give the same key.
//!
//! Folding may join values that differ (that only costs parallelism); it must never tell apart what
//! a unique key holds for one. `'a'`, `'A'` and `'a '` are one value under `utf8mb4_general_ci`, and
//! `'ä'` may be one with `'ae'` or `'a'`. So text beyond plain ASCII under a collation that is not
//! binary is not folded at all: the whole key becomes coarse.

use crate::mysql::schema::Column;
use crate::mysql::value::Value;

/// How values of a key's column are folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fold {
    /// As they are, cut to so many bytes.
    Exact { bytes: Option<usize> },
    /// Text under a binary collation: cut, then without blanks at its end.
    Padded { prefix: Option<Prefix> },
    /// Text under a collation that ignores case: as `Padded`, in lower case, ASCII only.
    Cased { prefix: Option<Prefix> },
    /// Not at all.
    Never,
}

/// A prefix key's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefix {
    /// Characters of one byte.
    Bytes(usize),
    /// Characters of UTF-8.
    Utf8(usize),
}

/// Collations under which printable ASCII characters are equal only when they differ in case alone.
/// Others have surprises such as `i = y` in Lithuanian.
const PLAIN_COLLATIONS: [&str; 12] = [
    "general_ci",
    "general_nopad_ci",
    "unicode_ci",
    "unicode_nopad_ci",
    "unicode_520_ci",
    "unicode_520_nopad_ci",
    "0900_ai_ci",
    "0900_as_ci",
    "0900_as_cs",
    "uca1400_ai_ci",
    "uca1400_as_ci",
    "swedish_ci",
];

impl Fold {
    /// The folding for a column in a key.
    pub(super) fn of(column: &Column, prefix: Option<u32>) -> Fold {
        let prefix = prefix.map(|length| length as usize);
        let (Some(charset), Some(collation)) = (&column.charset, &column.collation) else {
            return Fold::Exact { bytes: prefix };
        };
        if matches!(column.data_type.as_str(), "enum" | "set") {
            return Fold::Exact { bytes: None };
        }
        let prefix = match (prefix, charset.as_str()) {
            (None, "ucs2" | "utf16" | "utf16le" | "utf32") => return Fold::Never,
            (None, _) => None,
            (Some(length), "utf8mb4" | "utf8mb3" | "utf8") => Some(Prefix::Utf8(length)),
            (Some(length), "latin1" | "ascii") => Some(Prefix::Bytes(length)),
            (Some(_), _) => return Fold::Never,
        };
        let kind = collation.split_once('_').map_or("", |(_, kind)| kind);
        if kind == "bin" || kind == "0900_bin" || kind == "nopad_bin" {
            return Fold::Padded { prefix };
        }
        let plain_charset = matches!(charset.as_str(), "utf8mb4" | "utf8mb3" | "utf8" | "ascii");
        let plain = PLAIN_COLLATIONS.contains(&kind)
            && (kind != "swedish_ci" || charset == "latin1")
            && (plain_charset || charset == "latin1");
        if plain { Fold::Cased { prefix } } else { Fold::Never }
    }

    /// Adds the folded value; `false` when it cannot be folded. The value is not NULL.
    pub(super) fn add(self, value: &Value, hasher: &mut Hasher64) -> bool {
        match self {
            Fold::Never => false,
            Fold::Exact { bytes } => {
                exact(value, bytes, hasher);
                true
            }
            Fold::Padded { prefix } => {
                let Value::Bytes(text) = value else { return false };
                hasher.write(trimmed(cut(text, prefix)));
                true
            }
            Fold::Cased { prefix } => {
                let Value::Bytes(text) = value else { return false };
                let text = trimmed(cut(text, prefix));
                if !text.iter().all(|byte| (0x20..0x7f).contains(byte)) {
                    return false;
                }
                hasher.write_lower(text);
                true
            }
        }
    }
}

fn cut(text: &[u8], prefix: Option<Prefix>) -> &[u8] {
    match prefix {
        None => text,
        Some(Prefix::Bytes(length)) => &text[..length.min(text.len())],
        Some(Prefix::Utf8(length)) => {
            let is_start = |byte: &u8| byte & 0xc0 != 0x80;
            let mut starts = text.iter().enumerate().filter(|(_, byte)| is_start(byte));
            match starts.nth(length) {
                Some((at, _)) => &text[..at],
                None => text,
            }
        }
    }
}

fn trimmed(text: &[u8]) -> &[u8] {
    let kept = text.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
    &text[..kept]
}

fn exact(value: &Value, cut: Option<usize>, hasher: &mut Hasher64) {
    match value {
        Value::Null => {}
        Value::Int(number) => hasher.word(*number as u64),
        Value::UInt(number) | Value::Bit(number) | Value::Set(number) => hasher.word(*number),
        // -0.0 and 0.0 are one value of a key.
        Value::Float(number) => hasher.word(u64::from((number + 0.0).to_bits())),
        Value::Double(number) => hasher.word((number + 0.0).to_bits()),
        Value::Bytes(bytes) => hasher.write(&bytes[..cut.unwrap_or(usize::MAX).min(bytes.len())]),
        // The same column always has the same number of digits behind the point; -0.00 is 0.00.
        Value::Decimal(text) => {
            let unsigned = text.trim_start_matches('-');
            let zero = unsigned.bytes().all(|byte| matches!(byte, b'0' | b'.'));
            hasher.write(if zero { unsigned } else { text }.as_bytes());
        }
        Value::Json(text) => hasher.write(text.as_bytes()),
        Value::Date { year, month, day } => {
            hasher.word(u64::from(*year) << 16 | u64::from(*month) << 8 | u64::from(*day));
        }
        Value::DateTime(moment) => {
            hasher.word(
                u64::from(moment.year) << 16 | u64::from(moment.month) << 8 | u64::from(moment.day),
            );
            hasher.word(
                u64::from(moment.hour) << 48
                    | u64::from(moment.minute) << 40
                    | u64::from(moment.second) << 32
                    | u64::from(moment.micros),
            );
        }
        Value::Timestamp { seconds, micros } => {
            hasher.word(u64::from(*seconds) << 32 | u64::from(*micros));
        }
        Value::Time { negative, hours, minutes, seconds, micros } => {
            hasher.word(
                u64::from(*negative) << 63
                    | u64::from(*hours) << 48
                    | u64::from(*minutes) << 40
                    | u64::from(*seconds) << 32
                    | u64::from(*micros),
            );
        }
        Value::Year(number) | Value::Enum(number) => hasher.word(u64::from(*number)),
    }
}

/// A fast 64-bit hash. Equal hashes of different keys only order rows that need no order.
#[derive(Debug, Clone)]
pub(super) struct Hasher64(u64);

impl Hasher64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

    pub(super) fn new(seed: u64) -> Hasher64 {
        Hasher64(seed ^ 0x51_7c_c1_b7_27_22_0a_95)
    }

    fn word(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(Self::MULTIPLIER);
        self.0 = mixed ^ (mixed >> 29);
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.word(u64::from_le_bytes(chunk.try_into().expect("chunks have 8 bytes")));
        }
        let mut last = [0; 8];
        last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
        self.word(u64::from_le_bytes(last));
        self.word(bytes.len() as u64);
    }

    /// As `write` of the text in lower case.
    fn write_lower(&mut self, text: &[u8]) {
        self.write(&text.to_ascii_lowercase());
    }

    pub(super) fn finish(&self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(Self::MULTIPLIER);
        mixed ^ (mixed >> 32)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text_column(data_type: &str, collation: &str) -> Column {
        Column {
            name: "c".to_owned(),
            data_type: data_type.to_owned(),
            column_type: data_type.to_owned(),
            charset: collation.split('_').next().map(str::to_owned),
            collation: Some(collation.to_owned()),
            nullable: false,
            generated: false,
        }
    }

    fn folded(fold: Fold, value: &Value) -> Option<u64> {
        let mut hasher = Hasher64::new(1);
        fold.add(value, &mut hasher).then(|| hasher.finish())
    }

    fn text(fold: Fold, text: &str) -> Option<u64> {
        folded(fold, &Value::Bytes(text.as_bytes().into()))
    }

    #[test]
    fn binary_collations_tell_case_apart_but_not_blanks_at_the_end() {
        for collation in ["utf8mb4_bin", "utf8mb4_0900_bin", "latin1_bin", "gbk_bin"] {
            let fold = Fold::of(&text_column("varchar", collation), None);
            assert_ne!(text(fold, "a"), text(fold, "A"), "{collation}");
            assert_eq!(text(fold, "a  "), text(fold, "a"), "{collation}");
            assert!(text(fold, "ä").is_some(), "{collation}");
        }
    }

    #[test]
    fn known_collations_fold_ascii_and_give_up_on_the_rest() {
        for collation in ["utf8mb4_general_ci", "utf8mb4_0900_ai_ci", "latin1_swedish_ci"] {
            let fold = Fold::of(&text_column("varchar", collation), None);
            assert_eq!(text(fold, "AbC "), text(fold, "abc"), "{collation}");
            for odd in ["ä", "a\u{1}", "a\u{301}"] {
                assert_eq!(text(fold, odd), None, "{collation}: {odd:?}");
            }
        }
        for collation in
            ["utf8mb4_lithuanian_ci", "utf8mb4_swedish_ci", "utf16_bin", "gbk_chinese_ci"]
        {
            assert_eq!(
                Fold::of(&text_column("varchar", collation), None),
                Fold::Never,
                "{collation}"
            );
        }
    }

    #[test]
    fn prefixes_are_cut_in_characters() {
        let fold = Fold::of(&text_column("varchar", "utf8mb4_bin"), Some(2));
        assert_eq!(text(fold, "äöü"), text(fold, "äöx"));
        assert_ne!(text(fold, "äöü"), text(fold, "äxü"));
        assert_eq!(text(fold, "a b"), text(fold, "a"));
        let bytes = Fold::Exact { bytes: Some(2) };
        assert_eq!(text(bytes, "abc"), text(bytes, "abd"));
        assert_ne!(text(bytes, "a"), text(bytes, "a "));
    }

    #[test]
    fn numbers_that_are_equal_are_one_key() {
        let fold = Fold::Exact { bytes: None };
        for (a, b) in [
            (Value::Double(0.0), Value::Double(-0.0)),
            (Value::Float(0.0), Value::Float(-0.0)),
            (Value::Decimal("0.00".into()), Value::Decimal("-0.00".into())),
        ] {
            assert_eq!(folded(fold, &a), folded(fold, &b));
        }
        assert_ne!(folded(fold, &Value::Int(1)), folded(fold, &Value::Int(2)));
    }

    proptest! {
        #[test]
        fn different_values_rarely_share_a_hash(a in any::<u64>(), b in any::<u64>()) {
            prop_assume!(a != b);
            let fold = Fold::Exact { bytes: None };
            prop_assert_ne!(folded(fold, &Value::UInt(a)), folded(fold, &Value::UInt(b)));
        }

        #[test]
        fn folding_never_panics(bytes in any::<Vec<u8>>(), prefix in proptest::option::of(0..20u32)) {
            for collation in ["utf8mb4_bin", "utf8mb4_general_ci", "latin1_swedish_ci", "ucs2_bin"] {
                let fold = Fold::of(&text_column("varchar", collation), prefix);
                let _ = folded(fold, &Value::Bytes(bytes.as_slice().into()));
            }
        }
    }
}
