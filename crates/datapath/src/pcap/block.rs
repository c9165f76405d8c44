//! Blocks of a pcapng section, in memory. The copy of a capture in `analyze` has an encoder of its own:
//! neither crate may use the other, and nothing below both knows files.

use std::net::SocketAddr;
use std::time::Duration;

use uroce_wire::Flow;

use super::direction::Direction;
use super::frame::{self, Headers};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

/// Tells readers the byte order of the section: ours is little endian on every machine.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// Version 1.0 of the format.
const VERSION: [u16; 2] = [1, 0];

/// The length of the section is not told.
const UNKNOWN_LENGTH: u64 = u64::MAX;

/// Timestamps count units of 10^-9 seconds.
const NANOSECONDS: u8 = 9;

/// Numbers of the options that are written, in the blocks that have them.
const END_OF_OPTIONS: u16 = 0;
const COMMENT: u16 = 1;
const APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const TIME_RESOLUTION: u16 = 9;
const PACKET_FLAGS: u16 = 2;
const DROP_COUNT: u16 = 4;
const PACKETS_RECEIVED: u16 = 4;
const PACKETS_DROPPED: u16 = 5;

/// Hop limit of a datagram that has not passed a router.
const HOP_LIMIT: u8 = 64;

/// One packet as a capture records it.
#[derive(Debug, Clone, Copy)]
pub struct PcapRecord<'a> {
    /// Number of the interface in the section; the first one is 0.
    pub interface: u32,
    /// Time since the start of 1970 (UTC).
    pub time: Duration,
    /// Length on the wire, in bytes; more than `data` has if a snap length cut it.
    pub original_len: u32,
    /// Which way it went.
    pub direction: Direction,
    /// The frame, or as much of it as was captured.
    pub data: &'a [u8],
    /// Packets of the interface since the one before that are not in the capture. A comment tells of them, too: few readers
    /// show `epb_dropcount`.
    pub lost: u64,
    /// What Wireshark shows beside it.
    pub comments: &'a [&'a str],
}

/// What an Interface Statistics Block tells of a capture so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct PcapStatistics<'a> {
    /// Number of the interface in the section; the first one is 0.
    pub interface: u32,
    /// When it was counted: time since the start of 1970 (UTC).
    pub time: Duration,
    /// Packets that the interface had, those that were dropped included.
    pub received: u64,
    /// Packets of these that are not in the capture because there was no room for them.
    pub dropped: u64,
    /// What Wireshark shows beside it.
    pub comments: &'a [&'a str],
}

/// Blocks of one pcapng section, in memory. Adding one allocates only while the memory grows to what
/// is waiting at most.
#[derive(Debug, Default)]
pub struct PcapBlocks {
    bytes: Vec<u8>,
}

impl PcapBlocks {
    /// No blocks; room for `bytes` of them.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    /// The blocks, ready for a file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds whole blocks that were made before.
    pub fn extend(&mut self, blocks: &[u8]) {
        self.bytes.extend_from_slice(blocks);
    }

    /// Forgets the blocks and keeps their memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    pub(super) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Adds a section header, which a file begins with.
    pub fn section(&mut self) {
        let start = self.begin(SECTION_HEADER);
        self.words32(&[BYTE_ORDER]);
        self.words16(&VERSION);
        self.bytes.extend(UNKNOWN_LENGTH.to_le_bytes());
        self.text(APPLICATION, concat!("uroce ", env!("CARGO_PKG_VERSION")));
        self.end(start);
    }

    /// Adds an interface with libpcap's number of its link type. `snap_len`: bytes of a frame at
    /// most, 0 for no limit.
    pub fn interface(&mut self, name: &str, link_type: u16, snap_len: u32) {
        let start = self.begin(INTERFACE_DESCRIPTION);
        self.words16(&[link_type, 0]);
        self.words32(&[snap_len]);
        self.text(INTERFACE_NAME, name);
        self.option(TIME_RESOLUTION, &[NANOSECONDS]);
        self.end(start);
    }

    /// Adds a packet.
    pub fn packet(&mut self, record: &PcapRecord<'_>) {
        let start = self.begin(ENHANCED_PACKET);
        let [high, low] = halves(record.time);
        let captured = record.data.len() as u32;
        self.words32(&[record.interface, high, low, captured, record.original_len]);
        self.padded(record.data);
        self.option(PACKET_FLAGS, &flags(record).to_le_bytes());
        if record.lost > 0 {
            self.option(DROP_COUNT, &record.lost.to_le_bytes());
            self.text(
                COMMENT,
                &format!("packets before it that are not in the capture: {}", record.lost),
            );
        }
        self.comments(record.comments);
        self.end(start);
    }

    /// Adds a UDP datagram as an Ethernet frame, of which `record.data` is the payload only; its length is told by
    /// `record.data`. `None`, and nothing is added, when the addresses are of two IP versions or the payload is longer
    /// than IP allows.
    pub fn datagram(
        &mut self,
        record: &PcapRecord<'_>,
        flow: &Flow,
        traffic_class: u8,
    ) -> Option<()> {
        let headers = Headers {
            src: SocketAddr::new(flow.src, flow.src_port),
            dst: SocketAddr::new(flow.dst, flow.dst_port),
            traffic_class,
            hop_limit: HOP_LIMIT,
            id: 0,
        };
        let mut frame = Vec::with_capacity(frame::MAX_HEADERS + record.data.len());
        frame::build(&headers, record.data, &mut frame)?;
        let original_len = frame.len() as u32;
        self.packet(&PcapRecord { data: &frame, original_len, ..*record });
        Some(())
    }

    /// Adds how many packets an interface had, and how many of them are not in the capture.
    pub fn statistics(&mut self, statistics: &PcapStatistics<'_>) {
        let start = self.begin(INTERFACE_STATISTICS);
        let [high, low] = halves(statistics.time);
        self.words32(&[statistics.interface, high, low]);
        self.option(PACKETS_RECEIVED, &statistics.received.to_le_bytes());
        self.option(PACKETS_DROPPED, &statistics.dropped.to_le_bytes());
        self.comments(statistics.comments);
        self.end(start);
    }

    /// Begins a block; returns where.
    fn begin(&mut self, block_type: u32) -> usize {
        let start = self.bytes.len();
        self.words32(&[block_type, 0]);
        start
    }

    /// Ends the options and the block that began at `start`: its length stands on both ends of it.
    fn end(&mut self, start: usize) {
        self.words16(&[END_OF_OPTIONS, 0]);
        let length = (self.bytes.len() + size_of::<u32>() - start) as u32;
        self.bytes[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
        self.words32(&[length]);
    }

    fn comments(&mut self, comments: &[&str]) {
        comments.iter().for_each(|comment| self.text(COMMENT, comment));
    }

    /// Adds an option with a text; of one that is too long, as many whole characters as fit.
    fn text(&mut self, number: u16, text: &str) {
        let most = text.len().min(u16::MAX.into());
        let end = (0..=most).rev().find(|&end| text.is_char_boundary(end));
        self.option(number, &text.as_bytes()[..end.unwrap_or(0)]);
    }

    /// Adds an option with a value that is not too long for one.
    fn option(&mut self, number: u16, value: &[u8]) {
        self.words16(&[number, value.len() as u16]);
        self.padded(value);
    }

    fn padded(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        let pad = value.len().next_multiple_of(4) - value.len();
        self.bytes.extend_from_slice(&[0; 3][..pad]);
    }

    fn words16(&mut self, words: &[u16]) {
        words.iter().for_each(|word| self.bytes.extend_from_slice(&word.to_le_bytes()));
    }

    fn words32(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.bytes.extend_from_slice(&word.to_le_bytes()));
    }
}

/// A timestamp as the format has it: nanoseconds, the upper half first.
fn halves(time: Duration) -> [u32; 2] {
    let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    [(nanoseconds >> 32) as u32, nanoseconds as u32]
}

/// The epb_flags word: direction in bits 0 and 1, unicast or multicast in bits 2 to 4.
fn flags(record: &PcapRecord<'_>) -> u32 {
    let direction = match record.direction {
        Direction::Inbound => 1,
        Direction::Outbound => 2,
    };
    let to_group = record.data.first().is_some_and(|first| first & 1 == 1);
    direction | if to_group { 2 << 2 } else { 1 << 2 }
}

#[cfg(test)]
mod tests {
    use pcap_file::DataLink;
    use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
    use pcap_file::pcapng::blocks::interface_statistics::InterfaceStatisticsOption;
    use pcap_file::pcapng::{Block, PcapNgReader};
    use proptest::prelude::*;

    use super::*;

    fn section() -> PcapBlocks {
        let mut blocks = PcapBlocks::with_capacity(100);
        blocks.section();
        blocks.interface("eth0", 1, 96);
        blocks
    }

    #[test]
    fn another_parser_reads_the_section() {
        let mut blocks = section();
        let time = Duration::from_nanos(5);
        let comments = &["of two links"][..];
        blocks.statistics(&PcapStatistics {
            interface: 0,
            time,
            received: 70,
            dropped: 3,
            comments,
        });
        let mut reader = PcapNgReader::new(blocks.bytes()).expect("a section");
        let Some(Ok(Block::InterfaceDescription(interface))) = reader.next_block() else {
            panic!("an interface comes first")
        };
        assert_eq!((interface.linktype, interface.snaplen), (DataLink::ETHERNET, 96));
        let Some(Ok(Block::InterfaceStatistics(counts))) = reader.next_block() else {
            panic!("statistics come next")
        };
        let wanted = [
            InterfaceStatisticsOption::IsbIfRecv(70),
            InterfaceStatisticsOption::IsbIfDrop(3),
            InterfaceStatisticsOption::Comment("of two links".into()),
        ];
        assert_eq!(counts.options, wanted);
        assert!(reader.next_block().is_none());
    }

    #[test]
    fn forgotten_blocks_leave_an_empty_memory() {
        let mut blocks = section();
        blocks.clear();
        assert!(blocks.bytes().is_empty());
    }

    proptest! {
        #[test]
        fn another_parser_reads_every_packet(
            data in proptest::collection::vec(any::<u8>(), 0..200),
            comment in "[a-z ]{0,20}",
            nanoseconds in any::<u64>(),
            original_len in any::<u32>(),
            lost in 0u64..3,
        ) {
            let mut blocks = section();
            let time = Duration::from_nanos(nanoseconds);
            let comments = [comment.as_str()];
            let direction = Direction::Outbound;
            let record =
                PcapRecord { interface: 0, time, original_len, direction, data: &data, lost, comments: &comments };
            blocks.packet(&record);
            blocks.packet(&record);
            let mut reader = PcapNgReader::new(blocks.bytes()).expect("a section");
            reader.next_block().expect("an interface").expect("whole");
            for _ in 0..2 {
                let Some(Ok(Block::EnhancedPacket(packet))) = reader.next_block() else {
                    return Err(TestCaseError::fail("no packet"));
                };
                prop_assert_eq!(&packet.data[..], &data[..]);
                prop_assert_eq!(packet.timestamp, time);
                prop_assert_eq!(packet.original_len, original_len);
                let group = data.first().is_some_and(|first| first & 1 == 1);
                let flags = EnhancedPacketOption::Flags(if group { 10 } else { 6 });
                let comment = EnhancedPacketOption::Comment(comment.as_str().into());
                let gap = format!("packets before it that are not in the capture: {lost}");
                let gap = [EnhancedPacketOption::DropCount(lost), EnhancedPacketOption::Comment(gap.into())];
                let gap = if lost > 0 { &gap[..] } else { &[] };
                let options = [&[flags], gap, &[comment]].concat();
                prop_assert_eq!(&packet.options, &options);
            }
        }
    }
}
