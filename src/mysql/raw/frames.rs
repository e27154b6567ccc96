//! Packets in a stream of bytes: three bytes of length, one that counts, the payload. A payload that
//! fills its packet goes on in the next one.

use std::ops::Range;

use mysql_async::DriverError;

/// Most bytes in one packet.
const FULL: usize = 0xFF_FFFF;
const HEADER: usize = 4;
/// Room made for a read.
const ROOM: usize = 16 * 1024;

/// What was read and not yet taken, and the count of packets. Memory: the longest payload so far
/// plus what one read brings.
#[derive(Debug, Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    /// Bytes of packets that were handed out.
    taken: usize,
    latest: Range<usize>,
    /// Bytes after `taken` that are a payload already put together from full packets.
    joined: usize,
    count: u8,
}

impl Frames {
    /// A new command: packets count from 0 again.
    pub(super) fn restart(&mut self) {
        self.count = 0;
    }

    /// Makes packets of a payload in place.
    pub(super) fn wrap(&mut self, payload: &mut Vec<u8>) {
        let length = payload.len();
        for index in 0..=length / FULL {
            let begin = index * (FULL + HEADER);
            let size = FULL.min(length - index * FULL);
            let size = (size as u32).to_le_bytes();
            let header = [size[0], size[1], size[2], self.count];
            payload.splice(begin..begin, header);
            self.count = self.count.wrapping_add(1);
        }
    }

    /// Where the next payload is, once all of it was read.
    ///
    /// # Errors
    /// When packets are missing or twice.
    pub(super) fn next(&mut self) -> Result<Option<Range<usize>>, DriverError> {
        loop {
            let begin = self.taken + self.joined;
            let Some(header) = self.bytes[begin..].first_chunk::<HEADER>() else { return Ok(None) };
            let length = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
            if self.bytes.len() < begin + HEADER + length {
                return Ok(None);
            }
            if header[3] != self.count {
                return Err(DriverError::PacketOutOfOrder);
            }
            self.count = self.count.wrapping_add(1);
            if self.joined == 0 && length < FULL {
                self.latest = begin + HEADER..begin + HEADER + length;
                self.taken = self.latest.end;
                return Ok(Some(self.latest.clone()));
            }
            // One copy of a long payload over its headers.
            self.bytes.drain(begin..begin + HEADER);
            self.joined += length;
            if length < FULL {
                self.latest = self.taken..self.taken + self.joined;
                (self.taken, self.joined) = (self.latest.end, 0);
                return Ok(Some(self.latest.clone()));
            }
        }
    }

    /// The bytes of a place that [`Frames::next`] gave last.
    pub(super) fn payload(&self, place: Range<usize>) -> &[u8] {
        &self.bytes[place]
    }

    /// The payload that [`Frames::next`] gave last.
    pub(super) fn latest(&self) -> &[u8] {
        &self.bytes[self.latest.clone()]
    }

    /// Where to put what is read next. The latest payload is gone then.
    pub(super) fn room(&mut self) -> &mut Vec<u8> {
        if self.taken > 0 {
            self.bytes.drain(..self.taken);
            (self.taken, self.latest) = (0, 0..0);
        }
        self.bytes.reserve(ROOM);
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads what was wrapped in pieces of some size.
    fn payloads(bytes: &[u8], piece: usize) -> Vec<Vec<u8>> {
        let mut frames = Frames::default();
        let mut found = Vec::new();
        for piece in bytes.chunks(piece) {
            frames.room().extend_from_slice(piece);
            while let Some(place) = frames.next().expect("in order") {
                found.push(frames.payload(place).to_vec());
            }
        }
        found
    }

    proptest! {
        #[test]
        fn payloads_come_as_they_were_sent(
            sent in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..20),
            piece in 1usize..70,
        ) {
            let (mut frames, mut bytes) = (Frames::default(), Vec::new());
            for payload in &sent {
                let mut payload = payload.clone();
                frames.wrap(&mut payload);
                bytes.extend(payload);
            }
            prop_assert_eq!(payloads(&bytes, piece), sent);
        }
    }

    #[test]
    fn a_payload_longer_than_a_packet_comes_in_one_piece() {
        for length in [FULL - 1, FULL, FULL + 5, 2 * FULL] {
            let payload: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let mut bytes = payload.clone();
            let mut frames = Frames::default();
            frames.wrap(&mut bytes);
            assert_eq!(bytes.len(), length + HEADER * (length / FULL + 1));
            let mut short = b"next".to_vec();
            frames.wrap(&mut short);
            bytes.extend(short);
            assert!(payloads(&bytes, 1 << 20) == [payload, b"next".to_vec()], "{length}");
        }
    }

    #[test]
    fn a_packet_that_is_missing_is_noticed() {
        let mut frames = Frames::default();
        frames.room().extend_from_slice(&[1, 0, 0, 1, 7]);
        assert!(matches!(frames.next(), Err(DriverError::PacketOutOfOrder)));
    }
}
