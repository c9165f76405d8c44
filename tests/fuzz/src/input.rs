//! Bytes of a fuzzer, taken as numbers.

/// Bytes of a fuzzer, taken from the front. Behind their end everything is 0, so that each input means something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next bytes, fewer at the end.
    pub(crate) fn take(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(most.min(self.bytes.len()));
        self.bytes = rest;
        taken
    }

    /// Everything that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        self.take(usize::MAX)
    }

    /// A piece that is preceded by its length in one byte.
    pub(crate) fn piece(&mut self) -> &'a [u8] {
        let length = self.u8();
        self.take(length.into())
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.take(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    pub(crate) fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// A number from 0 to `limit` - 1 of one byte.
    pub(crate) fn below(&mut self, limit: u8) -> u8 {
        self.u8() % limit.max(1)
    }

    pub(crate) fn bool(&mut self) -> bool {
        self.u8() & 1 == 1
    }
}
