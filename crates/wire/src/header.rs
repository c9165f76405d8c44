//! What all headers have in common.

/// A header of fixed length.
pub trait Header: Sized + Copy {
    /// Its length in bytes.
    const LEN: usize;
    /// Its name.
    const NAME: &'static str;
    /// Reads it from the first [`Header::LEN`] bytes; `None` if there are fewer.
    fn read(bytes: &[u8]) -> Option<Self>;
    /// Writes it to the first [`Header::LEN`] bytes; `None`, writing nothing, if there are fewer.
    fn write(&self, out: &mut [u8]) -> Option<()>;
}

/// Writes headers one behind the other.
#[derive(Debug)]
pub struct HeaderWriter<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl<'a> HeaderWriter<'a> {
    /// A writer that starts at the first byte of `out`.
    #[inline]
    pub fn new(out: &'a mut [u8]) -> Self {
        HeaderWriter { out, at: 0 }
    }

    /// Adds a header; `None`, adding nothing, if it does not fit.
    #[inline]
    pub fn put<H: Header>(&mut self, header: &H) -> Option<()> {
        header.write(self.out.get_mut(self.at..)?)?;
        self.at += H::LEN;
        Some(())
    }

    /// Bytes written so far.
    #[inline]
    pub fn len(&self) -> usize {
        self.at
    }

    /// True if nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.at == 0
    }
}
