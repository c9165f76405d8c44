//! What can be wrong with a capture.

use std::io;

use thiserror::Error;

/// Why a capture cannot be read, or not any further. All frames before the place were given.
///
/// Offsets count the bytes of the capture from its first one; in a compressed file they count what
/// comes out of the decompression.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file or pipe could not be read.
    #[error("cannot read the capture at byte {offset}: {source}")]
    Io {
        /// Bytes that were read before.
        offset: u64,
        /// What the operating system says.
        source: io::Error,
    },
    /// The first bytes are not those of a capture.
    #[error("not a pcap or pcapng capture: {found}")]
    NotACapture {
        /// What it looks like.
        found: &'static str,
    },
    /// What stands there cannot be; nothing behind it can be found.
    #[error("damaged at byte {offset}: {reason}")]
    Damaged {
        /// Where the record or block begins that is damaged.
        offset: u64,
        /// What is wrong, with the value that was found.
        reason: String,
    },
    /// A capture of a version that is not known.
    #[error("byte {offset}: {what} version {major}.{minor} is not supported")]
    Version {
        /// Where its header begins.
        offset: u64,
        /// "pcap" or "pcapng".
        what: &'static str,
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
    },
}

impl CaptureError {
    /// Where the capture cannot be read any further; 0 for what is no capture at all.
    pub const fn offset(&self) -> u64 {
        match self {
            Self::Io { offset, .. }
            | Self::Damaged { offset, .. }
            | Self::Version { offset, .. } => *offset,
            Self::NotACapture { .. } => 0,
        }
    }

    pub(super) fn damaged(offset: u64, reason: impl Into<String>) -> Self {
        Self::Damaged { offset, reason: reason.into() }
    }
}
