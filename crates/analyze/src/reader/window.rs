//! The part of a stream that is in memory.

use std::io::{ErrorKind, Read};
use std::ops::Range;

use super::CaptureError;

/// Bytes that are held at first.
const INITIAL: usize = 256 * 1024;

/// A buffer that a stream is read into, and from which whole records are taken without a copy. It
/// grows only as bytes arrive, never by what a length field says.
#[derive(Debug)]
pub(super) struct Window<R> {
    source: R,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset of `start` in the stream.
    offset: u64,
}

impl<R: Read> Window<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, bytes: vec![0; INITIAL], start: 0, end: 0, offset: 0 }
    }

    /// Offset in the stream of the first byte that was not taken.
    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes that were read and not taken.
    pub(super) const fn buffered(&self) -> usize {
        self.end - self.start
    }

    /// Reads until `count` bytes are there; `false` if the stream ends before.
    #[inline]
    pub(super) fn fill(&mut self, count: usize) -> Result<bool, CaptureError> {
        if self.buffered() >= count {
            return Ok(true);
        }
        self.refill(count)
    }

    #[cold]
    fn refill(&mut self, count: usize) -> Result<bool, CaptureError> {
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.buffered());
        while self.end < count {
            if self.end == self.bytes.len() {
                self.bytes.resize(count.min(2 * self.bytes.len()), 0);
            }
            if self.read_once()? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn read_once(&mut self) -> Result<usize, CaptureError> {
        loop {
            match self.source.read(&mut self.bytes[self.end..]) {
                Ok(count) => {
                    // A source that claims more than there is room for is taken at its room.
                    self.end = self.bytes.len().min(self.end + count);
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(self.failed(source)),
            }
        }
    }

    fn failed(&self, source: std::io::Error) -> CaptureError {
        let offset = self.offset + self.buffered() as u64;
        match source.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::InvalidInput | ErrorKind::InvalidData => {
                CaptureError::damaged(offset, format!("the compressed data: {source}"))
            }
            _ => CaptureError::Io { offset, source },
        }
    }

    /// The bytes that were read and not taken.
    #[inline]
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Takes `count` bytes, all of which must be there. They stay readable by [`Window::get`]
    /// until the next call of [`Window::fill`].
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> Range<usize> {
        let from = self.start;
        self.start = self.end.min(self.start + count);
        self.offset += (self.start - from) as u64;
        from..self.start
    }

    /// Throws `count` bytes away, without holding them; `false` if the stream ends before.
    pub(super) fn skip(&mut self, mut count: u64) -> Result<bool, CaptureError> {
        while count > 0 {
            if !self.fill(1)? {
                return Ok(false);
            }
            let now = usize::try_from(count).unwrap_or(usize::MAX).min(self.buffered());
            self.take(now);
            count -= now as u64;
        }
        Ok(true)
    }

    /// Bytes that [`Window::take`] gave a place of.
    #[inline]
    pub(super) fn get(&self, place: Range<usize>) -> &[u8] {
        self.bytes.get(place).unwrap_or(&[])
    }
}
