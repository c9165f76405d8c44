//! The interfaces of a capture, numbered in the order in which packets came from them.

use std::time::Duration;

use uroce_datapath::{PcapBlocks, PcapStatistics};
use uroce_packet::capture::{CapturedFrame, interface_name};

/// One interface.
#[derive(Debug)]
struct Interface {
    /// The kernel's number.
    index: u32,
    link_type: u16,
    name: String,
}

/// The interfaces that frames came from.
#[derive(Debug)]
pub struct Interfaces {
    known: Vec<Interface>,
    snap_len: u32,
}

impl Interfaces {
    /// None yet. `snap_len`: bytes of a frame that are captured at most.
    pub fn new(snap_len: u32) -> Self {
        Interfaces { known: Vec::new(), snap_len }
    }

    /// Number of the interface that the frame came from. A new one is described in `blocks`.
    pub fn number_of(&mut self, frame: &CapturedFrame<'_>, blocks: &mut PcapBlocks) -> u32 {
        let is_same = |known: &Interface| {
            (known.index, known.link_type) == (frame.interface, frame.link_type)
        };
        if let Some(number) = self.known.iter().position(is_same) {
            return number as u32;
        }
        let index = frame.interface;
        let name = interface_name(index).unwrap_or_else(|| format!("interface {index}"));
        blocks.interface(&name, frame.link_type, self.snap_len);
        self.known.push(Interface { index, link_type: frame.link_type, name });
        self.known.len() as u32 - 1
    }

    /// Adds the start of a file: a section with all interfaces so far.
    pub fn begin(&self, blocks: &mut PcapBlocks) {
        blocks.section();
        for Interface { name, link_type, .. } in &self.known {
            blocks.interface(name, *link_type, self.snap_len);
        }
    }

    /// Adds the end of a file at `time`: that it has `packets`, and that the kernel dropped `dropped` more. The kernel counts
    /// those of all interfaces together, which a comment says where there are several.
    pub fn end(&self, blocks: &mut PcapBlocks, time: Duration, packets: u64, dropped: u64) {
        let comments: &[&str] = match self.known.len() {
            0 => return,
            1 => &[],
            _ => &["packets of all interfaces of the capture together"],
        };
        let received = packets.saturating_add(dropped);
        blocks.statistics(&PcapStatistics { interface: 0, time, received, dropped, comments });
    }
}

#[cfg(test)]
mod tests {
    use pcap_file::pcapng::{Block, PcapNgReader};
    use uroce_datapath::Direction;

    use super::*;
    use crate::live::Captured;

    fn frame(interface: u32, link_type: u16) -> CapturedFrame<'static> {
        let (time, direction) = (Duration::ZERO, Direction::Inbound);
        CapturedFrame { interface, link_type, time, direction, original_len: 3, data: b"abc" }
    }

    #[test]
    fn interfaces_are_numbered_as_they_come() {
        let (mut interfaces, mut blocks) = (Interfaces::new(96), PcapBlocks::default());
        let mut number = |index, link_type| {
            let before = blocks.bytes().len();
            let number = interfaces.number_of(&frame(index, link_type), &mut blocks);
            (number, blocks.bytes().len() > before)
        };
        assert_eq!(number(7777, 1), (0, true));
        assert_eq!(number(1, 1), (1, true));
        assert_eq!(number(7777, 1), (0, false));
        assert_eq!(number(7777, 101), (2, true), "a number that another interface has now");
        let names: Vec<&str> = interfaces.known.iter().map(|known| known.name.as_str()).collect();
        assert_eq!(names, ["interface 7777", "lo", "interface 7777"], "there is no 7777");
    }

    #[test]
    fn the_end_tells_of_several_interfaces_together() {
        let (mut interfaces, mut blocks) = (Interfaces::new(96), PcapBlocks::default());
        interfaces.end(&mut blocks, Duration::ZERO, 0, 3);
        assert!(blocks.bytes().is_empty(), "there is no interface that it could be about");
        let mut end = |index| {
            interfaces.number_of(&frame(index, 1), &mut PcapBlocks::default());
            let mut blocks = PcapBlocks::default();
            interfaces.begin(&mut blocks);
            interfaces.end(&mut blocks, Duration::ZERO, 5, 3);
            let mut reader = PcapNgReader::new(blocks.bytes()).expect("a capture");
            let mut options = Vec::new();
            while let Some(block) = reader.next_block() {
                if let Block::InterfaceStatistics(block) = block.expect("whole") {
                    options.extend(block.options.into_iter().map(|option| format!("{option:?}")));
                }
            }
            options
        };
        assert_eq!(end(1), ["IsbIfRecv(8)", "IsbIfDrop(3)"]);
        let together = "Comment(\"packets of all interfaces of the capture together\")";
        assert_eq!(end(2), ["IsbIfRecv(8)", "IsbIfDrop(3)", together]);
    }

    #[test]
    fn a_file_begins_with_all_interfaces() {
        let mut interfaces = Interfaces::new(96);
        interfaces.number_of(&frame(1, 1), &mut PcapBlocks::default());
        let mut blocks = PcapBlocks::default();
        interfaces.begin(&mut blocks);
        let interface = interfaces.number_of(&frame(2, 101), &mut blocks);
        let captured = Captured { frame: frame(2, 101), interface };
        blocks.packet(&captured.record(&[]));
        let mut reader = PcapNgReader::new(blocks.bytes()).expect("a capture");
        for is_interface in [true, true, false] {
            let block = reader.next_block().expect("there").expect("whole");
            assert_eq!(matches!(block, Block::InterfaceDescription(_)), is_interface);
        }
    }
}
