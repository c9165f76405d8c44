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
use pcap_file::pcapng::blocks::simple_packet::SimplePacketBlock;
use pcap_file::pcapng::{Block, PcapNgReader};

use super::PcapError;
use super::direction::Direction;

/// First bytes of every pcapng file.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Bits of epb_flags that tell the length of the frame check sequence in bytes.
const FCS: u32 = 0xf << 5;

/// Bit of a link type: its top 4 bits tell of the frame check sequence.
const FCS_KNOWN: u32 = 1 << 26;

/// if_tsresol when an interface does not give one: microseconds.
const DEFAULT_RESOLUTION: u8 = 6;

/// One frame of a capture.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplayedFrame {
    /// When it was captured, since 1970; 0 in a block that does not say.
    pub timestamp: Duration,
    /// Number of the interface, 0 in a pcap file.
    pub interface: u32,
    /// Which way it went, if the capture tells.
    pub direction: Option<Direction>,
    /// What the capture says about it.
    pub comments: Vec<String>,
    /// The frame from its Ethernet header on, as far as it was captured, without its frame check sequence.
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
                let fcs = fcs_of_file(reader.header().datalink);
                let packet = reader.next_packet()?;
                Some(packet.map_err(|error| damaged(&self.path, error)).map(|packet| {
                    let data = without_fcs(&packet.data, packet.orig_len, fcs);
                    ReplayedFrame { timestamp: packet.timestamp, data, ..ReplayedFrame::default() }
                }))
            }
            Source::PcapNg(reader) => loop {
                let block = match reader.next_block()? {
                    Ok(Block::EnhancedPacket(block)) => block.into_owned(),
                    Ok(Block::SimplePacket(block)) => {
                        let block = block.into_owned();
                        return Some(simple_frame(&self.path, reader.interfaces(), &block));
                    }
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
    let interface = interface_at(path, interfaces, block.interface_id)?;
    // The parser gives the count of whatever unit the interface declares as nanoseconds.
    let units = block.timestamp.as_nanos();
    let flags = flags(&block);
    let fcs = if flags & FCS == 0 { fcs_of_interface(interface) } else { (flags & FCS) >> 5 };
    Ok(ReplayedFrame {
        timestamp: time(units, resolution(interface)),
        interface: block.interface_id,
        direction: direction(flags),
        comments: block.options.iter().filter_map(comment).collect(),
        data: without_fcs(&block.data, block.original_len, fcs),
    })
}

/// The frame in a block that has neither time nor interface: it is of the first one.
fn simple_frame(
    path: &Path,
    interfaces: &[InterfaceDescriptionBlock<'_>],
    block: &SimplePacketBlock<'_>,
) -> Result<ReplayedFrame, PcapError> {
    let interface = interface_at(path, interfaces, 0)?;
    let snap = if interface.snaplen == 0 { u32::MAX } else { interface.snaplen };
    // What is behind that fills the block.
    let captured = block.data.len().min(block.original_len.min(snap) as usize);
    let fcs = fcs_of_interface(interface);
    let data = without_fcs(&block.data[..captured], block.original_len, fcs);
    Ok(ReplayedFrame { data, ..ReplayedFrame::default() })
}

fn interface_at<'a, 'b>(
    path: &Path,
    interfaces: &'a [InterfaceDescriptionBlock<'b>],
    number: u32,
) -> Result<&'a InterfaceDescriptionBlock<'b>, PcapError> {
    let interface = interfaces.get(number as usize);
    let interface = interface.ok_or_else(|| damaged(path, "a frame of an unknown interface"))?;
    check_link(path, interface.linktype)?;
    Ok(interface)
}

/// The upper bits of the link type of a pcap file: there is a frame check sequence, of so many 16-bit words.
fn fcs_of_file(link: DataLink) -> u32 {
    let link = u32::from(link);
    if link & FCS_KNOWN == 0 { 0 } else { (link >> 28) * 2 }
}

/// if_fcslen counts bits.
fn fcs_of_interface(interface: &InterfaceDescriptionBlock<'_>) -> u32 {
    let bits = interface.options.iter().find_map(|option| match option {
        InterfaceDescriptionOption::IfFcsLen(bits) => Some(u32::from(*bits)),
        _ => None,
    });
    bits.unwrap_or(0) / 8
}

/// The frame without the `fcs` bytes at its end, as far as they were captured.
fn without_fcs(data: &[u8], original_len: u32, fcs: u32) -> Vec<u8> {
    let end = (original_len as usize).saturating_sub(fcs as usize).min(data.len());
    data[..end].to_vec()
}

fn comment(option: &EnhancedPacketOption<'_>) -> Option<String> {
    match option {
        EnhancedPacketOption::Comment(text) => Some(text.to_string()),
        _ => None,
    }
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

/// The epb_flags word; 0 if there is none.
fn flags(block: &EnhancedPacketBlock<'_>) -> u32 {
    let found = block.options.iter().find_map(|option| match option {
        EnhancedPacketOption::Flags(flags) => Some(*flags),
        _ => None,
    });
    found.unwrap_or(0)
}

fn direction(flags: u32) -> Option<Direction> {
    match flags & 3 {
        1 => Some(Direction::Inbound),
        2 => Some(Direction::Outbound),
        _ => None,
    }
}

/// The link type is in the lower 16 bits.
fn check_link(path: &Path, link: DataLink) -> Result<(), PcapError> {
    match DataLink::from(u32::from(link) & 0xffff) {
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
