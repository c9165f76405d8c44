//! Captures: what a device sends and receives, as a pcapng file that Wireshark opens.

mod block;
mod direction;
mod exit;
mod file;
mod frame;
mod output;
mod recorder;
mod replay;
mod stream;
mod tap;
mod waiting;
mod writer;

use std::io;
use std::path::PathBuf;

pub use self::block::{PcapBlocks, PcapRecord, PcapStatistics};
pub use self::direction::Direction;
pub use self::file::PcapFile;
pub use self::replay::{PcapReplay, ReplayedFrame};
pub use self::stream::PcapStream;
pub use self::tap::PcapTap;
pub use self::writer::PcapWriter;

/// Why a capture file cannot be written or read.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum PcapError {
    /// The file cannot be made.
    #[error("capture file {path} cannot be created: {source}; choose a writable place")]
    Create {
        /// Where it should be.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The file cannot be opened.
    #[error("capture file {path} cannot be read: {source}; check its name and permissions")]
    Open {
        /// Where it should be.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A record cannot be written.
    #[error("the capture is incomplete because writing to its file failed: {0}; free some space")]
    Write(String),
    /// The capture goes to a pipe whose reader has gone.
    #[error("the capture ends because its reader has gone away; start both again")]
    ReaderGone,
    /// The file is damaged or no capture.
    #[error("{path} is damaged or no pcap or pcapng file: {reason}; capture it again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What the parser found.
        reason: String,
    },
    /// The capture is not of Ethernet frames.
    #[error(
        "{path} holds frames of link type {link_type}, not Ethernet (1): capture on an Ethernet interface"
    )]
    NotEthernet {
        /// The file.
        path: PathBuf,
        /// Number of the link type.
        link_type: u32,
    },
}

/// The sentence: `main() -> Result<(), Box<dyn Error>>` prints this form.
impl std::fmt::Debug for PcapError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
