//! Reading numbers and strings out of bytes that may end too early. Never panics.

/// The bytes ended before what they promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Short;

/// Bytes not yet read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn take(&mut self, n: usize) -> Result<&'a [u8], Short> {
        let (head, tail) = self.bytes.split_at_checked(n).ok_or(Short)?;
        self.bytes = tail;
        Ok(head)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Short> {
        let (&first, tail) = self.bytes.split_first().ok_or(Short)?;
        self.bytes = tail;
        Ok(first)
    }

    /// `n` bytes as a little-endian number; `n` at most 8.
    pub(super) fn le(&mut self, n: usize) -> Result<u64, Short> {
        let mut wide = [0; 8];
        wide.get_mut(..n).ok_or(Short)?.copy_from_slice(self.take(n)?);
        Ok(u64::from_le_bytes(wide))
    }

    /// `n` bytes as a big-endian number; `n` at most 8.
    pub(super) fn be(&mut self, n: usize) -> Result<u64, Short> {
        let bytes = self.take(n)?;
        Ok(bytes.iter().fold(0, |number, &byte| (number << 8) | u64::from(byte)))
    }

    /// `n` bytes as a little-endian number with a sign; `n` at most 8.
    pub(super) fn le_signed(&mut self, n: usize) -> Result<i64, Short> {
        let shift = 64 - 8 * n as u32;
        Ok(((self.le(n)? << shift) as i64) >> shift)
    }

    /// A number in the protocol's length-encoded form.
    pub(super) fn length(&mut self) -> Result<u64, Short> {
        match self.u8()? {
            small @ 0..=0xfa => Ok(u64::from(small)),
            0xfc => self.le(2),
            0xfd => self.le(3),
            0xfe => self.le(8),
            _ => Err(Short),
        }
    }

    /// A length-encoded number that counts bytes or items to come.
    pub(super) fn size(&mut self) -> Result<usize, Short> {
        usize::try_from(self.length()?).map_err(|_| Short)
    }
}
