//! A stream, decompressed if need be.

use std::io::{self, Chain, Cursor, Read};

use flate2::read::MultiGzDecoder;

use super::CaptureError;

/// First bytes of gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The bytes of a capture.
#[derive(Debug)]
pub(super) enum Input<R> {
    Plain(Headed<R>),
    Gzip(Box<MultiGzDecoder<Headed<R>>>),
}

/// A stream whose first bytes were looked at.
pub(super) type Headed<R> = Chain<Cursor<[u8; 2]>, R>;

impl<R: Read> Input<R> {
    pub(super) fn new(mut source: R) -> Result<Self, CaptureError> {
        let mut head = [0; 2];
        let count = read_all(&mut source, &mut head)
            .map_err(|source| CaptureError::Io { offset: 0, source })?;
        let mut first = Cursor::new(head);
        // Fewer bytes: the end of the array is what there is.
        if count < head.len() {
            first = Cursor::new([head[0]; 2]);
            first.set_position(2 - count as u64);
        }
        let headed = first.chain(source);
        Ok(match head == GZIP {
            true => Self::Gzip(Box::new(MultiGzDecoder::new(headed))),
            false => Self::Plain(headed),
        })
    }
}

/// Reads until `into` is full or the stream ends; how many bytes there were.
fn read_all(source: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < into.len() {
        match source.read(&mut into[count..]) {
            Ok(0) => break,
            Ok(more) => count = into.len().min(count + more),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

impl<R: Read> Read for Input<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(source) => source.read(into),
            Self::Gzip(source) => source.read(into),
        }
    }
}
