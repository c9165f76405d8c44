//! Reading a capture back.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pcap_file::DataLink;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader};

use super::{Direction, PcapError};

/// First bytes of every pcapng file.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// if_tsresol when an interface does not give one: microseconds.
const DEFAULT_RESOLUTION: u8 = 6;

/// One frame of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayedFrame {
    /// When it was captured, since 1970.
    pub timestamp: Duration,
    /// Number of the interface, 0 in a pcap file.
    pub interface: u32,
    /// Which way it went, if the capture tells.
    pub direction: Option<Direction>,
    /// The frame from its Ethernet header on, as far as it was captured.
    pub data: Vec<u8>,
}

/// The two formats.
enum Source {
    Pcap(Box<PcapReader<BufReader<File>>>),
    PcapNg(Box<PcapNgReader<BufReader<File>>>),
}

/// Yields the Ethernet frames of a pcap or pcapng file, in the order of the file.
///
/// After an error nothing more is yielded.
pub struct PcapReplay {
    path: PathBuf,
    source: Source,
    ended: bool,
}

impl std::fmt::Debug for PcapReplay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PcapReplay").field("path", &self.path).finish_non_exhaustive()
    }
}

impl PcapReplay {
    /// Opens a capture.
    ///
    /// # Errors
    ///
    /// [`PcapError`] when it cannot be read or is of another kind.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, PcapError> {
        let path = path.as_ref().to_owned();
        let failed = |source| PcapError::Open { path: path.clone(), source };
        let mut file = BufReader::new(File::open(&path).map_err(failed)?);
        let mut magic = [0; 4];
        let short = file.read_exact(&mut magic);
        short.map_err(|_| damaged(&path, "it has less than 4 bytes"))?;
        file.rewind().map_err(failed)?;
        let source = if magic == PCAPNG_MAGIC {
            let reader = PcapNgReader::new(file).map_err(|error| damaged(&path, error))?;
            Source::PcapNg(Box::new(reader))
        } else {
            let reader = PcapReader::new(file).map_err(|error| damaged(&path, error))?;
            check_link(&path, reader.header().datalink)?;
            Source::Pcap(Box::new(reader))
        };
        Ok(Self { path, source, ended: false })
    }

    /// The name that the capture gives an interface, of those met so far.
    #[must_use]
    pub fn interface_name(&self, interface: u32) -> Option<&str> {
        let Source::PcapNg(reader) = &self.source else {
            return None;
        };
        let options = &reader.interfaces().get(interface as usize)?.options;
        options.iter().find_map(|option| match option {
            InterfaceDescriptionOption::IfName(name) => Some(&**name),
            _ => None,
        })
    }

    fn read(&mut self) -> Option<Result<ReplayedFrame, PcapError>> {
        match &mut self.source {
            Source::Pcap(reader) => {
                let packet = reader.next_packet()?;
                Some(packet.map_err(|error| damaged(&self.path, error)).map(|packet| {
                    let (timestamp, data) = (packet.timestamp, packet.data.into_owned());
                    ReplayedFrame { timestamp, interface: 0, direction: None, data }
                }))
            }
            Source::PcapNg(reader) => loop {
                let block = match reader.next_block()? {
                    Ok(Block::EnhancedPacket(block)) => block.into_owned(),
                    Ok(_) => continue,
                    Err(error) => return Some(Err(damaged(&self.path, error))),
                };
                return Some(frame(&self.path, reader.interfaces(), block));
            },
        }
    }
}

impl Iterator for PcapReplay {
    type Item = Result<ReplayedFrame, PcapError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.read();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// The frame in a block, if its interface is known and an Ethernet.
fn frame(
    path: &Path,
    interfaces: &[InterfaceDescriptionBlock<'_>],
    block: EnhancedPacketBlock<'_>,
) -> Result<ReplayedFrame, PcapError> {
    let interface = interfaces.get(block.interface_id as usize);
    let interface = interface.ok_or_else(|| damaged(path, "a frame of an unknown interface"))?;
    check_link(path, interface.linktype)?;
    // The parser gives the count of whatever unit the interface declares as nanoseconds.
    let units = block.timestamp.as_nanos();
    Ok(ReplayedFrame {
        timestamp: time(units, resolution(interface)),
        interface: block.interface_id,
        direction: direction(&block),
        data: block.data.into_owned(),
    })
}

fn resolution(interface: &InterfaceDescriptionBlock<'_>) -> u8 {
    let found = interface.options.iter().find_map(|option| match option {
        InterfaceDescriptionOption::IfTsResol(resolution) => Some(*resolution),
        _ => None,
    });
    found.unwrap_or(DEFAULT_RESOLUTION)
}

/// `units` of 10^-n seconds, or of 2^-n when the top bit of the resolution is set.
fn time(units: u128, resolution: u8) -> Duration {
    let exponent = u32::from(resolution & 0x7f);
    let base: u128 = if resolution & 0x80 == 0 { 10 } else { 2 };
    let per_second = base.checked_pow(exponent).unwrap_or(u128::MAX);
    // `units` is below 2^64, so the product fits.
    let nanos = units * 1_000_000_000 / per_second;
    let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    Duration::new(seconds, (nanos % 1_000_000_000) as u32)
}

fn direction(block: &EnhancedPacketBlock<'_>) -> Option<Direction> {
    block.options.iter().find_map(|option| match option {
        EnhancedPacketOption::Flags(flags) if flags & 3 == 1 => Some(Direction::Inbound),
        EnhancedPacketOption::Flags(flags) if flags & 3 == 2 => Some(Direction::Outbound),
        _ => None,
    })
}

fn check_link(path: &Path, link: DataLink) -> Result<(), PcapError> {
    match link {
        DataLink::ETHERNET => Ok(()),
        other => Err(PcapError::NotEthernet { path: path.to_owned(), link_type: u32::from(other) }),
    }
}

fn damaged(path: &Path, reason: impl ToString) -> PcapError {
    PcapError::Damaged { path: path.to_owned(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_follow_the_declared_resolution() {
        assert_eq!(time(1_500_000, 6), Duration::from_millis(1500));
        assert_eq!(time(1_500_000_001, 9), Duration::from_nanos(1_500_000_001));
        assert_eq!(time(3, 0x81), Duration::from_millis(1500));
        assert_eq!(time(u128::from(u64::MAX), 0xff), Duration::ZERO);
        assert_eq!(time(u128::from(u64::MAX), 0), Duration::from_secs(u64::MAX));
    }
}
