//! A pcapng file that is written without a thread of its own.

use std::io;
use std::path::{Path, PathBuf};

use super::output::Output;
use super::{PcapBlocks, PcapError};

/// A pcapng file to which whole blocks ([`PcapBlocks`]) are appended, without a thread of its own.
/// After an error a file on disk ends with the last whole block.
#[derive(Debug)]
pub struct PcapStream {
    output: Output,
    path: PathBuf,
}

impl PcapStream {
    /// Creates the file, or empties it when it exists. A file that another capture is being written to
    /// is left alone: see [`PcapFile::create`](super::PcapFile::create).
    ///
    /// # Errors
    ///
    /// [`PcapError::Create`] when the place is not writable.
    pub fn create(path: &Path) -> Result<Self, PcapError> {
        let failed = |source| PcapError::Create { path: path.to_owned(), source };
        let (output, path) = Output::open(path, false).map_err(failed)?;
        Ok(Self { output, path })
    }

    /// Writes to the standard output.
    ///
    /// # Errors
    ///
    /// [`PcapError::Create`] when it is closed.
    pub fn stdout() -> Result<Self, PcapError> {
        let path = PathBuf::from("-");
        match Output::stdout() {
            Ok(output) => Ok(Self { output, path }),
            Err(source) => Err(PcapError::Create { path, source }),
        }
    }

    /// Adds the blocks, all of them or none.
    ///
    /// # Errors
    ///
    /// [`PcapError::ReaderGone`] when it is a pipe without a reader, [`PcapError::Write`] for
    /// everything else, also for an earlier error.
    pub fn append(&mut self, blocks: &PcapBlocks) -> Result<(), PcapError> {
        self.append_bytes(blocks.bytes())
    }

    /// As [`append`](Self::append), for blocks that were made and kept before.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn append_bytes(&mut self, blocks: &[u8]) -> Result<(), PcapError> {
        self.output.write(blocks).map_err(|reason| match self.output.failure_kind() {
            Some(io::ErrorKind::BrokenPipe) => PcapError::ReaderGone,
            _ => PcapError::Write(reason),
        })
    }

    /// The file; `-` for the standard output.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes in the file.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.output.length()
    }
}
