//! Captures of both formats against a model of them: what is read, how far, and what is said where it ends.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use uroce_analyze::{
    CaptureError, CaptureReader, CaptureWriter, Direction, Frame, LinkType, Timestamp,
};

use crate::capture::{block, enhanced, pcapng_start};

/// What is read of a frame.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    interface: u32,
    nanos: u64,
    link_type: LinkType,
    direction: Option<Direction>,
    original: u32,
    data: Vec<u8>,
    comment: String,
}

/// Frames up to the end, and the error that ended them.
fn read(bytes: &[u8]) -> (Vec<Seen>, Option<CaptureError>) {
    let mut seen = Vec::new();
    let mut reader = match CaptureReader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (seen, Some(error)),
    };
    loop {
        match reader.next_frame() {
            Ok(None) => return (seen, None),
            Err(error) => return (seen, Some(error)),
            Ok(Some(frame)) => seen.push(Seen {
                interface: frame.interface,
                nanos: frame.time.as_nanos(),
                link_type: frame.link_type,
                direction: frame.direction,
                original: frame.original_len,
                data: frame.data.to_vec(),
                comment: frame.comment.to_owned(),
            }),
        }
    }
}

/// Code and value of an option of a block.
type Opt = (u16, Vec<u8>);

/// Numbers in the order of bytes of a file.
#[derive(Debug, Clone, Copy)]
struct Bytes {
    big: bool,
}

impl Bytes {
    fn u16(self, value: u16) -> [u8; 2] {
        if self.big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn u32(self, value: u32) -> [u8; 4] {
        if self.big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn u64(self, value: u64) -> [u8; 8] {
        if self.big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    /// The statistics of an interface.
    fn statistics(self, interface: u32, options: &[Opt]) -> Vec<u8> {
        let fixed = [&self.u32(interface)[..], &[0; 8]].concat();
        self.block(5, &[fixed, self.options(options)].concat())
    }

    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let padded = body.len().next_multiple_of(4);
        let length = self.u32(padded as u32 + 12);
        let mut block = [&self.u32(kind)[..], &length, body].concat();
        block.resize(8 + padded, 0);
        block.extend(length);
        block
    }

    fn section(self) -> Vec<u8> {
        let body = [&self.u32(0x1a2b_3c4d)[..], &self.u16(1), &self.u16(0), &[0xff; 8]].concat();
        self.block(0x0a0d_0d0a, &body)
    }

    fn interface(self, link_type: u16, snap: u32, options: &[Opt]) -> Vec<u8> {
        let fixed = [&self.u16(link_type)[..], &[0, 0], &self.u32(snap)].concat();
        self.block(1, &[fixed, self.options(options)].concat())
    }

    fn options(self, options: &[Opt]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (code, value) in options {
            bytes.extend([self.u16(*code), self.u16(value.len() as u16)].concat());
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    fn enhanced(
        self,
        interface: u32,
        units: u64,
        data: &[u8],
        original: u32,
        options: &[Opt],
    ) -> Vec<u8> {
        let words = [interface, (units >> 32) as u32, units as u32, data.len() as u32, original];
        let mut body: Vec<u8> = words.into_iter().flat_map(|word| self.u32(word)).collect();
        body.extend(data);
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend(self.options(options));
        self.block(6, &body)
    }

    /// A classic capture with these frames, each so many units behind the one before.
    fn classic(self, nanoseconds: bool, frames: &[Vec<u8>]) -> Vec<u8> {
        let magic = if nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
        let mut bytes = self.u32(magic).to_vec();
        bytes.extend([self.u16(2), self.u16(4)].concat());
        bytes.extend([0, 0, 65_535, 1].map(|word| self.u32(word)).concat());
        for (index, data) in frames.iter().enumerate() {
            let length = data.len() as u32;
            bytes.extend([7, index as u32, length, length + 1].map(|word| self.u32(word)).concat());
            bytes.extend(data);
        }
        bytes
    }
}

const ORDERS: [Bytes; 2] = [Bytes { big: false }, Bytes { big: true }];

fn frames() -> Vec<Vec<u8>> {
    [5usize, 0, 60, 3].map(|length| (0..length as u8).collect()).to_vec()
}

/// The draft of pcapng: `epb_dropcount` is what was lost since the frame before of the interface, `isb_ifdrop` and
/// `isb_osdrop` count from the start of the capture. Both tell of the same packets.
#[test]
fn packets_that_are_missing_are_those_of_frames_or_of_statistics_whichever_are_more() {
    for order in ORDERS {
        let count = |code, packets| (code, order.u64(packets).to_vec());
        let frame = |lost| order.enhanced(0, 1, &[1, 2, 3], 3, &[count(4, lost)]);
        let blocks = [
            (order.section(), 0),
            (order.interface(1, 0, &[]), 0),
            (order.interface(1, 0, &[]), 0),
            (frame(5), 5),
            (frame(2), 7),
            (order.statistics(0, &[count(5, 6), count(4, 99)]), 7),
            (order.statistics(1, &[count(5, 3), count(7, 4)]), 14),
            (order.statistics(1, &[count(5, 4), (7, vec![1; 7])]), 14),
            (order.statistics(2, &[count(5, 1)]), 14),
            (order.block(5, &[0; 4]), 14),
            (order.section(), 14),
            (order.interface(1, 0, &[]), 14),
            (frame(1), 15),
            (frame(u64::MAX), u64::MAX),
        ];
        for length in 1..=blocks.len() {
            let bytes: Vec<u8> =
                blocks[..length].iter().flat_map(|(block, _)| block.clone()).collect();
            let mut reader = CaptureReader::new(&bytes[..]).expect("a capture");
            while reader.next_frame().expect("no damage").is_some() {}
            assert_eq!(reader.lost_packets(), blocks[length - 1].1, "{length} blocks");
        }
    }
    let classic = ORDERS[0].classic(false, &frames());
    let reader = CaptureReader::new(&classic[..]).expect("a capture");
    assert_eq!(reader.lost_packets(), 0);
}

/// Cut after any byte, all whole frames are given, and the error names the record in which the file ends.
#[test]
fn a_classic_capture_that_is_cut_anywhere_ends_at_the_record_that_was_cut() {
    for order in ORDERS {
        let whole = order.classic(false, &frames());
        let mut starts = vec![24];
        frames().iter().for_each(|data| starts.push(starts[starts.len() - 1] + 16 + data.len()));
        for length in 24..=whole.len() {
            let (seen, error) = read(&whole[..length]);
            let complete = starts.iter().skip(1).filter(|end| **end <= length).count();
            assert_eq!(seen.len(), complete, "{length} bytes");
            let at = starts[complete];
            assert_eq!(error.is_some(), at != length, "{length} bytes");
            let Some(error) = error else { continue };
            assert_eq!(error.offset(), at as u64);
            let what = if length - at < 16 { "a record header" } else { "a record" };
            assert_eq!(
                error.to_string(),
                format!("damaged at byte {at}: the file ends within {what}")
            );
        }
        let error = read(&whole[..23]).1.expect("no header");
        assert_eq!(
            error.to_string(),
            "damaged at byte 0: the file ends within its header of 24 bytes"
        );
    }
}

#[test]
fn a_pcapng_capture_that_is_cut_anywhere_ends_at_the_block_that_was_cut() {
    for order in ORDERS {
        let blocks = [
            order.section(),
            order.interface(1, 0, &[]),
            order.enhanced(0, 1, &[1, 2, 3], 9, &[]),
            order.block(0x0bad, &[0; 40]),
            order.enhanced(0, 2, &[4; 20], 20, &[(1, b"two".to_vec())]),
        ];
        let whole = blocks.concat();
        for length in 12..=whole.len() {
            let (seen, error) = read(&whole[..length]);
            let (mut at, mut complete) = (0, 0);
            for (index, block) in blocks.iter().enumerate() {
                if at + block.len() > length {
                    break;
                }
                at += block.len();
                complete += usize::from(index == 2 || index == 4);
            }
            assert_eq!(seen.len(), complete, "{length} bytes");
            assert_eq!(error.is_some(), at != length, "{length} bytes");
            let Some(error) = error else { continue };
            assert_eq!(error.offset(), at as u64, "{length} bytes: {error}");
            assert!(error.to_string().contains("the file ends within a block"), "{error}");
        }
    }
}

/// Units of time, as `if_tsresol` and `if_tsoffset` tell, through a whole file.
#[test]
fn times_of_interfaces_with_units_of_their_own() {
    let cases: [(&[Opt], u64, u64); 8] = [
        (&[], 1_500_000, 1_500_000_000),
        (&[(9, vec![6])], 7, 7_000),
        (&[(9, vec![0])], 3, 3_000_000_000),
        (&[(9, vec![9])], 3, 3),
        (&[(9, vec![12])], 3_999, 3),
        (&[(9, vec![0x80 | 10])], 512, 500_000_000),
        (&[(9, vec![9]), (14, 5i64.to_le_bytes().to_vec())], 3, 5_000_000_003),
        (&[(2, b"eth0".to_vec()), (9, vec![9]), (11, vec![0, 1])], 3, 3),
    ];
    for (options, units, nanos) in cases {
        let order = ORDERS[0];
        let file = [
            order.section(),
            order.interface(1, 0, options),
            order.enhanced(0, units, &[1], 1, &[]),
        ]
        .concat();
        let (seen, error) = read(&file);
        assert_eq!((seen[0].nanos, error.is_none()), (nanos, true), "{options:?}");
    }
}

#[test]
fn options_of_a_frame_give_comments_and_direction_and_nothing_else() {
    let order = ORDERS[0];
    let flags = |value: u32| (2, value.to_le_bytes().to_vec());
    let comment = |text: &str| (1, text.as_bytes().to_vec());
    let cases: [(Vec<Opt>, &str, Option<Direction>); 9] = [
        (vec![], "", None),
        (vec![comment("one")], "one", None),
        (vec![comment("a"), comment("bc"), comment("def")], "a; bc; def", None),
        (vec![flags(1)], "", Some(Direction::Inbound)),
        (vec![flags(2), comment("x")], "x", Some(Direction::Outbound)),
        (vec![flags(0)], "", None),
        (vec![flags(0xffff_fffd)], "", Some(Direction::Inbound)),
        (vec![(0, vec![]), comment("behind the end")], "", None),
        (vec![(0x0bad, vec![7; 9]), comment("y"), (2, vec![1])], "y", None),
    ];
    for (options, text, direction) in cases {
        let file = [
            order.section(),
            order.interface(1, 0, &[]),
            order.enhanced(0, 1, &[1, 2, 3], 3, &options),
        ]
        .concat();
        let (seen, _) = read(&file);
        assert_eq!((seen[0].comment.as_str(), seen[0].direction), (text, direction), "{options:?}");
        assert_eq!(seen[0].data, [1, 2, 3]);
    }
}

/// A length in front that is none, too short for its kind, too long, or other than that behind.
#[test]
fn each_length_of_a_block_is_whole_or_damage() {
    let (start, good) = (pcapng_start(1), enhanced(0, 1, &[1; 8], 8, &[]));
    for length in 0..=80u32 {
        let mut file = [&start[..], &good].concat();
        file[start.len() + 4..start.len() + 8].copy_from_slice(&length.to_le_bytes());
        let (seen, error) = read(&file);
        assert_eq!(seen.len(), usize::from(length as usize == good.len()), "{length}");
        let Some(error) = error else { continue };
        assert_eq!(error.offset(), start.len() as u64, "{length}");
        let what = match length {
            _ if length < 12 || length % 4 != 0 => "at least 12, and a multiple of 4",
            _ if length as usize > good.len() => "the file ends within a block",
            _ => "in front and",
        };
        assert!(error.to_string().contains(what), "{length}: {error}");
    }
}

/// Frames claim more bytes than their block has, with each number of bytes.
#[test]
fn a_frame_that_does_not_fit_its_block_is_damage() {
    let start = pcapng_start(1);
    for captured in 0..64u32 {
        let mut one = enhanced(0, 1, &[1; 8], 8, &[]);
        one[20..24].copy_from_slice(&captured.to_le_bytes());
        let (seen, error) = read(&[&start[..], &one].concat());
        assert_eq!(seen.len(), usize::from(captured <= 8), "{captured}");
        if captured <= 8 {
            assert_eq!((seen[0].data.len() as u32, seen[0].original), (captured, 8));
            continue;
        }
        let words = format!(
            "damaged at byte {}: a frame of {captured} bytes in a block of {}",
            start.len(),
            one.len()
        );
        assert_eq!(error.expect("it does not fit").to_string(), words);
    }
}

#[test]
fn what_is_no_capture_is_said_by_name() {
    let cases: [(&[u8], &str); 8] = [
        (b"", "it is empty"),
        (b"GET / HTTP/1.1\r\n", "it is text"),
        (b"\x7fELF\x02\x01\x01\0\0\0\0\0", "it is a program"),
        (b"%PDF-1.7 ", "it is a PDF document"),
        (b"\0\0\0\0\0\0\0\0\0\0", "it begins with zeros"),
        (b"\xa1\xb2\xc3", "it has fewer bytes than the header of a capture"),
        (b"\xde\xad\xbe\xef\xde\xad\xbe\xef", "its first bytes are not known"),
        (b"PK\x03\x04\0\0\0\0", "it is a zip archive: unpack it first"),
    ];
    for (bytes, found) in cases {
        let error = read(bytes).1.expect("no capture");
        assert_eq!(error.to_string(), format!("not a pcap or pcapng capture: {found}"));
        assert_eq!(error.offset(), 0);
    }
}

#[test]
fn blocks_of_frames_need_an_interface_and_sections_a_version() {
    for order in ORDERS {
        let frame = order.enhanced(0, 1, &[1], 1, &[]);
        let error = read(&[order.section(), frame.clone()].concat()).1.expect("no interface");
        let words = "damaged at byte 28: a frame of interface 0, which was not described";
        assert_eq!(error.to_string(), words);
        // A section forgets the interfaces of the one before.
        let two = [
            order.section(),
            order.interface(1, 0, &[]),
            frame.clone(),
            order.section(),
            frame.clone(),
        ]
        .concat();
        let (seen, error) = read(&two);
        assert_eq!((seen.len(), error.is_some()), (1, true));
        let mut section = order.section();
        section[12..14].copy_from_slice(&order.u16(2));
        let error = read(&section).1.expect("another version");
        assert_eq!(error.to_string(), "byte 0: pcapng version 2.0 is not supported");
        let mut section = order.section();
        section[8] ^= 0xff;
        let error = read(&section).1.expect("no byte order");
        assert_eq!(error.to_string(), "damaged at byte 0: a section header without a byte order");
    }
}

fn any_link_type() -> impl Strategy<Value = u16> {
    prop::sample::select(vec![0u16, 1, 101, 108, 113, 197, 228, 229, 247, 276, 9999])
}

#[derive(Debug, Clone)]
struct Section {
    big: bool,
    /// Link type, snap length, resolution.
    interfaces: Vec<(u16, u32, u8)>,
    /// Kind, interface, units, data, length on the wire beyond that, comment.
    blocks: Vec<(u8, prop::sample::Index, u32, Vec<u8>, u32, String)>,
}

fn section() -> impl Strategy<Value = Section> {
    let interface = (
        any_link_type(),
        prop::sample::select(vec![0u32, 8, 65_535]),
        prop::sample::select(vec![6u8, 9]),
    );
    let data = prop::collection::vec(any::<u8>(), 0..40);
    let one = (0u8..4, any::<prop::sample::Index>(), any::<u32>(), data, 0u32..100, "[a-z]{0,9}");
    (any::<bool>(), prop::collection::vec(interface, 1..4), prop::collection::vec(one, 0..8))
        .prop_map(|(big, interfaces, blocks)| Section { big, interfaces, blocks })
}

/// The bytes of a section, and what is to be read of it; `before` interfaces were described in those before.
fn written(section: &Section, before: u32) -> (Vec<u8>, Vec<Seen>) {
    let order = Bytes { big: section.big };
    let (mut bytes, mut wanted) = (order.section(), Vec::new());
    for (link_type, snap, resolution) in &section.interfaces {
        bytes.extend(order.interface(*link_type, *snap, &[(9, vec![*resolution])]));
    }
    for (kind, interface, units, data, more, comment) in &section.blocks {
        let index = if *kind == 1 { 0 } else { interface.index(section.interfaces.len()) };
        let (link_type, snap, resolution) = section.interfaces[index];
        let unit = if resolution == 9 { 1 } else { 1_000 };
        let mut seen = Seen {
            interface: before + index as u32,
            nanos: u64::from(*units) * unit,
            link_type: LinkType::from_number(link_type.into()),
            direction: None,
            original: data.len() as u32 + more,
            data: data.clone(),
            comment: comment.clone(),
        };
        let options = [(1, comment.clone().into_bytes())];
        match kind {
            // A block of another kind.
            0 => {
                bytes.extend(order.block(0x0bad, data));
                continue;
            }
            // A Simple Packet Block has only the length on the wire, and the snap length of interface 0.
            1 => {
                (seen.nanos, seen.comment) = (0, String::new());
                let kept = if snap == 0 { data.len() } else { data.len().min(snap as usize) };
                seen.original = data.len() as u32;
                seen.data.truncate(kept);
                bytes.extend(
                    order.block(3, &[&order.u32(data.len() as u32)[..], &data[..kept]].concat()),
                );
            }
            2 => {
                let words = [0, *units, data.len() as u32, data.len() as u32 + more];
                let mut body = [order.u16(index as u16), order.u16(0)].concat();
                body.extend(words.into_iter().flat_map(|word| order.u32(word)));
                body.extend(data);
                body.resize(body.len().next_multiple_of(4), 0);
                body.extend(order.options(&options));
                bytes.extend(order.block(2, &body));
            }
            _ => {
                let original = data.len() as u32 + more;
                bytes.extend(order.enhanced(
                    index as u32,
                    (*units).into(),
                    data,
                    original,
                    &options,
                ));
            }
        }
        wanted.push(seen);
    }
    (bytes, wanted)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Sections of both byte orders, interfaces of all link types, blocks of all kinds, compressed or not.
    #[test]
    fn any_pcapng_capture_is_read_as_it_was_written(sections in prop::collection::vec(section(), 1..4), gzip: bool) {
        let (mut bytes, mut wanted, mut before) = (Vec::new(), Vec::new(), 0);
        for section in &sections {
            let (more, seen) = written(section, before);
            bytes.extend(more);
            wanted.extend(seen);
            before += section.interfaces.len() as u32;
        }
        if gzip {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(&bytes).expect("memory");
            bytes = encoder.finish().expect("memory");
        }
        let (seen, error) = read(&bytes);
        prop_assert!(error.is_none(), "{:?}", error);
        prop_assert_eq!(seen, wanted);
    }

    #[test]
    fn any_classic_capture_is_read_as_it_was_written(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..10), big: bool, nanoseconds: bool,
    ) {
        let (seen, error) = read(&Bytes { big }.classic(nanoseconds, &frames));
        prop_assert!(error.is_none());
        let unit = if nanoseconds { 1 } else { 1_000 };
        let wanted: Vec<Seen> = frames.iter().enumerate().map(|(index, data)| Seen {
            interface: 0,
            nanos: 7_000_000_000 + index as u64 * unit,
            link_type: LinkType::Ethernet,
            direction: None,
            original: data.len() as u32 + 1,
            data: data.clone(),
            comment: String::new(),
        }).collect();
        prop_assert_eq!(seen, wanted);
    }

    /// Link type and direction survive writing too, whatever came from where.
    #[test]
    fn what_a_capture_writer_wrote_has_its_interfaces_and_directions(
        frames in prop::collection::vec((any_link_type(), 0u32..5, 0u8..3, prop::collection::vec(any::<u8>(), 0..50)), 0..20)
    ) {
        let mut writer = CaptureWriter::new(Vec::new()).expect("memory");
        let direction = |number| [None, Some(Direction::Inbound), Some(Direction::Outbound)][usize::from(number)];
        for (link_type, interface, way, data) in &frames {
            let link_type = LinkType::from_number((*link_type).into());
            let frame = Frame {
                number: 1,
                interface: *interface,
                time: Timestamp::from_nanos(5),
                link_type,
                direction: direction(*way),
                original_len: data.len() as u32,
                data,
                comment: "",
            };
            writer.write_frame(&frame, &[]).expect("memory");
        }
        let (seen, error) = read(&writer.finish().expect("memory"));
        prop_assert!(error.is_none());
        prop_assert_eq!(seen.len(), frames.len());
        let mut known: Vec<(u32, LinkType)> = Vec::new();
        for (found, (link_type, interface, way, data)) in seen.iter().zip(&frames) {
            let key = (*interface, LinkType::from_number((*link_type).into()));
            if !known.contains(&key) {
                known.push(key);
            }
            let place = known.iter().position(|other| *other == key).expect("it is there");
            prop_assert_eq!((found.interface as usize, found.link_type), (place, key.1));
            prop_assert_eq!((found.direction, &found.data), (direction(*way), data));
        }
    }
}

/// A block that is passed over may be longer than any that is held; one with a frame may not.
#[test]
fn the_longest_block_with_a_frame_has_16_mib() {
    let start = pcapng_start(1);
    let mut head = block(6, &[0; 20]);
    for (length, what) in
        [(16u32 << 20, "ends within"), ((16 << 20) + 4, "the longest that is read has 16 MiB")]
    {
        head[4..8].copy_from_slice(&length.to_le_bytes());
        let error = read(&[&start[..], &head].concat()).1.expect("it is not there");
        assert!(error.to_string().contains(what), "{error}");
    }
}
