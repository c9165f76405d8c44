//! Writing a capture with comments on its packets. The tap of `datapath` has an encoder of its own: neither
//! crate may use the other, and nothing below both knows files.

use std::io::{self, Write};

use crate::{Direction, Frame, LinkType};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const OPTION_PACKET_FLAGS: u16 = 2;
const OPTION_USER_APPLICATION: u16 = 4;
const OPTION_TIME_RESOLUTION: u16 = 9;

/// Most interfaces of a file; frames of further ones are written as if they came from the last.
const MOST_INTERFACES: usize = 4096;

/// Writes frames into a pcapng file, each with the comment that it had and further ones, which
/// Wireshark shows as packet comments.
///
/// Times are in nanoseconds. Of the link types only the number that means the same is kept: all
/// kinds of raw IP become LINKTYPE_RAW.
#[derive(Debug)]
pub struct CaptureWriter<W> {
    sink: W,
    /// Interface number of the source and link type, at the place that is their number in the file.
    interfaces: Vec<(u32, LinkType)>,
    block: Vec<u8>,
}

impl<W: Write> CaptureWriter<W> {
    /// Begins the file.
    ///
    /// # Errors
    /// What the sink says.
    pub fn new(sink: W) -> io::Result<Self> {
        let mut writer = Self { sink, interfaces: Vec::new(), block: Vec::new() };
        writer.begin(SECTION_HEADER);
        writer.word(BYTE_ORDER_MAGIC);
        writer.half(1);
        writer.half(0);
        writer.block.extend(u64::MAX.to_le_bytes());
        writer.option(OPTION_USER_APPLICATION, b"uroce");
        writer.end()?;
        Ok(writer)
    }

    /// Writes a frame; empty comments are left out.
    ///
    /// # Errors
    /// What the sink says.
    pub fn write_frame(&mut self, frame: &Frame<'_>, comments: &[&str]) -> io::Result<()> {
        let interface = self.interface(frame)?;
        let time = frame.time.as_nanos();
        self.begin(ENHANCED_PACKET);
        self.word(interface);
        self.word((time >> 32) as u32);
        self.word(time as u32);
        self.word(frame.data.len() as u32);
        self.word(frame.original_len);
        self.padded(frame.data);
        if let Some(direction) = frame.direction {
            let flags: u32 = if direction == Direction::Inbound { 1 } else { 2 };
            self.option(OPTION_PACKET_FLAGS, &flags.to_le_bytes());
        }
        let all = std::iter::once(&frame.comment).chain(comments);
        all.filter(|comment| !comment.is_empty()).for_each(|comment| self.comment(comment));
        self.end()
    }

    /// Writes what is buffered and gives back the sink.
    ///
    /// # Errors
    /// What the sink says.
    pub fn finish(mut self) -> io::Result<W> {
        self.sink.flush()?;
        Ok(self.sink)
    }

    /// The number in the file of the frame's interface, which is described before its first frame.
    fn interface(&mut self, frame: &Frame<'_>) -> io::Result<u32> {
        let key = (frame.interface, frame.link_type);
        if let Some(known) = self.interfaces.iter().position(|known| *known == key) {
            return Ok(known as u32);
        }
        if self.interfaces.len() == MOST_INTERFACES {
            return Ok(MOST_INTERFACES as u32 - 1);
        }
        self.interfaces.push(key);
        self.begin(INTERFACE_DESCRIPTION);
        self.half(number(frame.link_type));
        self.half(0);
        self.word(0);
        self.option(OPTION_TIME_RESOLUTION, &[9]);
        self.end()?;
        Ok(self.interfaces.len() as u32 - 1)
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.word(kind);
        self.word(0);
    }

    fn word(&mut self, value: u32) {
        self.block.extend(value.to_le_bytes());
    }

    fn half(&mut self, value: u16) {
        self.block.extend(value.to_le_bytes());
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend(bytes);
        let length = self.block.len().next_multiple_of(4);
        self.block.resize(length, 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.half(code);
        self.half(value.len() as u16);
        self.padded(value);
    }

    /// A comment, of which as much is kept as an option can hold.
    fn comment(&mut self, comment: &str) {
        let most = comment.len().min(usize::from(u16::MAX));
        let is_boundary = |length: &usize| comment.is_char_boundary(*length);
        let length = (0..=most).rev().find(is_boundary).unwrap_or(0);
        self.option(OPTION_COMMENT, &comment.as_bytes()[..length]);
    }

    /// Ends the options, puts the length at both ends of the block and writes it.
    fn end(&mut self) -> io::Result<()> {
        self.half(OPTION_END);
        self.half(0);
        let length = self.block.len() as u32 + 4;
        self.word(length);
        self.block[4..8].copy_from_slice(&length.to_le_bytes());
        self.sink.write_all(&self.block)
    }
}

/// libpcap's number of a link type.
const fn number(link_type: LinkType) -> u16 {
    match link_type {
        LinkType::Null => 0,
        LinkType::Ethernet => 1,
        LinkType::RawIp => 101,
        LinkType::Loop => 108,
        LinkType::LinuxSll => 113,
        LinkType::Erf => 197,
        LinkType::Infiniband => 247,
        LinkType::LinuxSll2 => 276,
        LinkType::Other(number) => number as u16,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{CaptureReader, Timestamp};

    fn frame(data: &[u8]) -> Frame<'_> {
        Frame {
            number: 1,
            interface: 0,
            time: Timestamp::from_nanos(1_700_000_000_123_456_789),
            link_type: LinkType::Ethernet,
            direction: None,
            original_len: 100,
            data,
            comment: "",
        }
    }

    /// A frame that was read back: interface, link type, time, bytes, comment.
    type Read = (u32, LinkType, u64, Vec<u8>, String);

    fn read(file: &[u8]) -> Vec<Read> {
        let mut reader = CaptureReader::new(file).expect("a header");
        let mut frames = Vec::new();
        while let Some(frame) = reader.next_frame().expect("whole blocks") {
            let (data, comment) = (frame.data.to_vec(), frame.comment.to_owned());
            frames.push((frame.interface, frame.link_type, frame.time.as_nanos(), data, comment));
        }
        frames
    }

    fn written(frames: &[(Frame<'_>, &[&str])]) -> Vec<u8> {
        let mut writer = CaptureWriter::new(Vec::new()).expect("memory takes all");
        for (frame, comments) in frames {
            writer.write_frame(frame, comments).expect("memory takes all");
        }
        writer.finish().expect("memory takes all")
    }

    #[test]
    fn comments_stand_behind_the_one_that_was_there() {
        let old = Frame { comment: "old", ..frame(b"12345") };
        let frames = read(&written(&[(old, &["new", "", "newer"]), (frame(b""), &[])]));
        assert_eq!(frames[0].3, b"12345");
        assert_eq!(frames[0].4, "old; new; newer");
        assert!(frames[1].3.is_empty() && frames[1].4.is_empty());
    }

    #[test]
    fn each_interface_is_described_once() {
        let raw = Frame { interface: 7, link_type: LinkType::RawIp, ..frame(b"x") };
        let frames = [(frame(b"a"), &[][..]), (raw, &[]), (frame(b"b"), &[]), (raw, &[])];
        let read = read(&written(&frames));
        let interfaces: Vec<_> = read.iter().map(|frame| (frame.0, frame.1)).collect();
        let (ethernet, raw) = ((0, LinkType::Ethernet), (1, LinkType::RawIp));
        assert_eq!(interfaces, [ethernet, raw, ethernet, raw]);
    }

    #[test]
    fn link_types_keep_their_number() {
        for wanted in [0, 1, 101, 108, 113, 197, 247, 276, 9999] {
            assert_eq!(u32::from(number(LinkType::from_number(wanted))), wanted);
        }
    }

    #[test]
    fn a_comment_that_is_too_long_is_cut_at_a_letter() {
        let long = "ü".repeat(40_000);
        let frames = read(&written(&[(frame(b""), &[&long])]));
        assert_eq!(frames[0].4.chars().count(), 32_767);
    }

    #[test]
    fn a_full_disk_is_told() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert!(CaptureWriter::new(Full).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(frames in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..200), "\\PC{0,40}", any::<u64>(), 0u32..3), 0..20)
        ) {
            let made: Vec<_> = frames.iter().map(|(data, _, time, interface)| Frame {
                time: Timestamp::from_nanos(*time), interface: *interface, ..frame(data)
            }).collect();
            let comments: Vec<_> = frames.iter().map(|(_, comment, ..)| [comment.as_str()]).collect();
            let pairs: Vec<_> = made.iter().copied().zip(comments.iter().map(|one| &one[..])).collect();
            let read = read(&written(&pairs));
            prop_assert_eq!(read.len(), frames.len());
            for (found, (data, comment, time, _)) in read.iter().zip(&frames) {
                prop_assert_eq!((&found.3, &found.4, found.2), (data, comment, *time));
            }
        }
    }
}
