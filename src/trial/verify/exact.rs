//! Values that the client compares: FLOAT and DOUBLE by their bits, JSON as parsed.
//!
//! No server's text of these types can be trusted across servers (see [`super::canonical`]), so
//! rows of such tables travel to the client by the binary protocol and are hashed here. The hash
//! never leaves this process: it need not be the same on another machine.

use std::hash::{DefaultHasher, Hash, Hasher};

use mysql_async::Value;

use crate::trial::verify::canonical::Kind;

/// Whether 0.0 and -0.0 are different values. MariaDB and TiDB store -0.0 as 0.0, so that a pair with
/// one of them in it can never agree on the sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Zero {
    /// Zeros are told apart by their bits.
    Signed,
    /// The sign of a zero does not count.
    Unsigned,
}

/// 128 bits that stand for a row: the server's hash of its other columns and the exact values.
pub(super) fn digest(server_hash: &[u8], values: &[(Kind, &Value)], zero: Zero) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        server_hash.hash(&mut hasher);
        for (kind, value) in values {
            hash_value(*kind, value, zero, &mut hasher);
        }
        u128::from(hasher.finish())
    };
    (half(1) << 64) | half(2)
}

fn hash_value(kind: Kind, value: &Value, zero: Zero, hasher: &mut impl Hasher) {
    match value {
        Value::NULL => 0u8.hash(hasher),
        // A FLOAT widens to a DOUBLE without loss.
        Value::Float(number) => (1u8, bits((*number).into(), zero)).hash(hasher),
        Value::Double(number) => (1u8, bits(*number, zero)).hash(hasher),
        Value::Bytes(text) if kind == Kind::Json => {
            match serde_json::from_slice::<serde_json::Value>(text) {
                Ok(json) => hash_json(&json, hasher),
                Err(_) => (3u8, text).hash(hasher),
            }
        }
        other => (4u8, format!("{other:?}")).hash(hasher),
    }
}

fn bits(number: f64, zero: Zero) -> u64 {
    if number == 0.0 && zero == Zero::Unsigned { 0 } else { number.to_bits() }
}

/// Objects without regard to the order of their keys; 2.50 equals 2.5, while 2 and 2.0 differ as
/// they do in MySQL.
fn hash_json(json: &serde_json::Value, hasher: &mut impl Hasher) {
    match json {
        serde_json::Value::Object(fields) => {
            (10u8, fields.len()).hash(hasher);
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort_unstable();
            for name in names {
                name.hash(hasher);
                hash_json(&fields[name], hasher);
            }
        }
        serde_json::Value::Array(items) => {
            (11u8, items.len()).hash(hasher);
            items.iter().for_each(|item| hash_json(item, hasher));
        }
        serde_json::Value::String(text) => (12u8, text).hash(hasher),
        serde_json::Value::Number(number) => (13u8, number.to_string()).hash(hasher),
        serde_json::Value::Bool(truth) => (14u8, truth).hash(hasher),
        serde_json::Value::Null => 15u8.hash(hasher),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: Kind, value: &Value) -> u128 {
        digest(b"", &[(kind, value)], Zero::Signed)
    }

    fn json(text: &str) -> u128 {
        of(Kind::Json, &Value::Bytes(text.into()))
    }

    #[test]
    fn floats_are_told_apart_by_their_bits() {
        let double = |number| of(Kind::Float, &Value::Double(number));
        assert_ne!(double(0.0), double(-0.0));
        let unsigned =
            |number| digest(b"", &[(Kind::Float, &Value::Double(number))], Zero::Unsigned);
        assert_eq!(unsigned(0.0), unsigned(-0.0));
        assert_ne!(unsigned(1.0), unsigned(-1.0));
        assert_ne!(double(16_777_216.0), double(16_777_217.0));
        assert_eq!(double(0.5), of(Kind::Float, &Value::Float(0.5)));
        assert_ne!(double(0.0), of(Kind::Float, &Value::NULL));
    }

    #[test]
    fn json_is_compared_as_parsed() {
        assert_eq!(json(r#"{"bb": 2.50, "a": [1, null]}"#), json(r#"{"a":[1,null],"bb":2.5}"#));
        assert_ne!(json(r#"{"a": [1, null]}"#), json(r#"{"a": [null, 1]}"#));
        assert_ne!(json(r#"{"a": "1"}"#), json(r#"{"a": 1}"#));
        assert_ne!(json("null"), of(Kind::Json, &Value::NULL));
        assert_ne!(json(r#"["ab","c"]"#), json(r#"["a","bc"]"#));
    }

    #[test]
    fn values_do_not_move_between_columns() {
        let (null, one) = (Value::NULL, Value::Double(1.0));
        let (a, b) = ((Kind::Float, &null), (Kind::Float, &one));
        assert_ne!(digest(b"x", &[a, b], Zero::Signed), digest(b"x", &[b, a], Zero::Signed));
    }
}
