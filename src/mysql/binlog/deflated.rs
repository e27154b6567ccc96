//! MariaDB's compressed parts of events: `log_bin_compress`.
//!
//! Layout by `sql/log_event.cc` of MariaDB ("Compressed Record"): a byte 1aaa.0lll with the algorithm
//! `aaa` (0 is zlib, the only one) and the number `lll` of bytes of the length behind it, the length
//! big-endian, the zlib stream.

use std::io::Read as _;

use flate2::read::ZlibDecoder;

use crate::mysql::binlog::cursor::{Cursor, Short};

/// More than any event holds: `max_allowed_packet` is at most 1 GiB.
const MOST: u64 = 1 << 30;

/// Appends what `bytes` hold when they are inflated.
pub(super) fn inflate(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Short> {
    let mut cursor = Cursor::new(bytes);
    let head = cursor.u8()?;
    let size = usize::from(head & 0x07);
    if head & 0xf8 != 0x80 || !(1..=4).contains(&size) {
        return Err(Short);
    }
    let length = cursor.be(size)?;
    let before = out.len();
    // One byte more than promised would show.
    let mut inflated = ZlibDecoder::new(cursor.rest()).take(length.min(MOST) + 1);
    inflated.read_to_end(out).map_err(|_| Short)?;
    if (out.len() - before) as u64 == length { Ok(()) } else { Err(Short) }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use proptest::prelude::*;

    use super::*;

    fn deflate(bytes: &[u8], length: u32) -> Vec<u8> {
        let mut record = vec![0x84];
        record.extend(length.to_be_bytes());
        let mut encoder = ZlibEncoder::new(record, Compression::fast());
        encoder.write_all(bytes).expect("to memory");
        encoder.finish().expect("to memory")
    }

    proptest! {
        #[test]
        fn what_was_deflated_comes_back(bytes: Vec<u8>) {
            let mut out = vec![7];
            inflate(&deflate(&bytes, bytes.len() as u32), &mut out).expect("inflated");
            prop_assert_eq!(&out[1..], &bytes[..]);
        }

        #[test]
        fn a_damaged_record_is_told(bytes: Vec<u8>, more in 1..9u32, cut in 1..6usize) {
            let length = bytes.len() as u32;
            prop_assert_eq!(inflate(&deflate(&bytes, length + more), &mut Vec::new()), Err(Short));
            let whole = deflate(&bytes, length);
            prop_assert_eq!(inflate(&whole[..whole.len() - 4 - cut], &mut Vec::new()), Err(Short));
        }

        #[test]
        fn any_bytes_come_to_an_end(bytes: Vec<u8>) {
            let _ = inflate(&bytes, &mut Vec::new());
        }
    }
}
