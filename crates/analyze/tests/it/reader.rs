//! Every kind of capture, built in memory.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use uroce_analyze::{CaptureError, CaptureReader, Direction, LinkType};

use crate::capture::{block, enhanced, pcapng_start};

/// Number, interface, time, length on the wire, bytes, comment of a frame.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    number: u64,
    interface: u32,
    nanos: u64,
    link_type: LinkType,
    direction: Option<Direction>,
    original_len: u32,
    data: Vec<u8>,
    comment: String,
}

fn read(source: impl Read) -> (Vec<Seen>, Result<(), CaptureError>) {
    let mut frames = Vec::new();
    let mut reader = match CaptureReader::new(source) {
        Ok(reader) => reader,
        Err(error) => return (frames, Err(error)),
    };
    loop {
        match reader.next_frame() {
            Ok(Some(frame)) => frames.push(Seen {
                number: frame.number,
                interface: frame.interface,
                nanos: frame.time.as_nanos(),
                link_type: frame.link_type,
                direction: frame.direction,
                original_len: frame.original_len,
                data: frame.data.to_vec(),
                comment: frame.comment.to_owned(),
            }),
            Ok(None) => return (frames, Ok(())),
            Err(error) => {
                assert!(
                    matches!(reader.next_frame(), Ok(None)),
                    "behind an error there is nothing"
                );
                return (frames, Err(error));
            }
        }
    }
}

fn whole(source: impl Read) -> Vec<Seen> {
    let (frames, end) = read(source);
    end.expect("it is whole");
    frames
}

fn damage(source: impl Read) -> (usize, u64, String) {
    let (frames, end) = read(source);
    let error = end.expect_err("it is damaged");
    (frames.len(), error.offset(), error.to_string())
}

/// A classic capture with one frame of 3 bytes, of 7 on the wire, at 2 seconds and 5 units.
fn classic(big: bool, magic: u32, record_extra: usize) -> Vec<u8> {
    let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let half = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut bytes = word(magic).to_vec();
    bytes.extend([half(2), half(4)].concat());
    bytes.extend([0, 0, 65_535, 1].map(word).concat());
    bytes.extend([2, 5, 3, 7].map(word).concat());
    bytes.extend(vec![0; record_extra]);
    bytes.extend([1, 2, 3]);
    bytes
}

#[test]
fn classic_captures_of_both_orders_and_units() {
    for (magic, unit, extra) in
        [(0xa1b2_c3d4, 1000, 0), (0xa1b2_3c4d, 1, 0), (0xa1b2_cd34, 1000, 8)]
    {
        for big in [false, true] {
            let frames = whole(&classic(big, magic, extra)[..]);
            assert_eq!(frames.len(), 1);
            assert_eq!((frames[0].nanos, frames[0].original_len), (2_000_000_000 + 5 * unit, 7));
            assert_eq!(
                (frames[0].link_type, &frames[0].data[..]),
                (LinkType::Ethernet, &[1, 2, 3][..])
            );
        }
    }
}

#[test]
fn the_frame_check_sequence_of_the_header_is_no_link_type() {
    let mut bytes = classic(false, 0xa1b2_c3d4, 0);
    bytes[23] = 0x14;
    assert_eq!(whole(&bytes[..])[0].link_type, LinkType::Ethernet);
}

#[test]
fn a_capture_may_be_compressed_in_several_members() {
    let plain = classic(false, 0xa1b2_c3d4, 0);
    let member = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    };
    let packed = [member(&plain[..30]), member(&plain[30..])].concat();
    assert_eq!(whole(&packed[..]), whole(&plain[..]));
    let (frames, offset, text) = damage(&packed[..packed.len() - 10]);
    assert_eq!(frames, 0);
    assert!(offset <= plain.len() as u64 && text.contains("compressed"), "{text}");
    assert!(CaptureReader::new(&member(b"not a capture")[..]).is_err());
}

#[test]
fn comments_and_direction_come_with_the_frame() {
    let mut options = vec![1, 0, 3, 0, b'o', b'n', b'e', 0, 2, 0, 4, 0, 2, 0, 0, 0];
    options.extend([1, 0, 3, 0, b't', b'w', b'o', 0, 0, 0, 0, 0]);
    let capture = [pcapng_start(276), enhanced(0, 77, &[9; 5], 60, &options)].concat();
    let expected = Seen {
        number: 1,
        interface: 0,
        nanos: 77,
        link_type: LinkType::LinuxSll2,
        direction: Some(Direction::Outbound),
        original_len: 60,
        data: vec![9; 5],
        comment: "one; two".to_owned(),
    };
    assert_eq!(whole(&capture[..]), [expected]);
}

#[test]
fn a_comment_does_not_stay_for_the_next_frame() {
    let comment = [1, 0, 1, 0, b'x', 0, 0, 0];
    let capture =
        [pcapng_start(1), enhanced(0, 1, &[1], 1, &comment), enhanced(0, 2, &[2], 1, &[])].concat();
    let comments: Vec<_> = whole(&capture[..]).into_iter().map(|frame| frame.comment).collect();
    assert_eq!(comments, ["x", ""]);
}

#[test]
fn interfaces_of_several_sections_have_numbers_of_their_own() {
    let section = [pcapng_start(1), block(1, &[101, 0, 0, 0, 0, 0, 0, 0])].concat();
    let frames = [enhanced(0, 3, &[1], 1, &[]), enhanced(1, 3, &[2], 1, &[])].concat();
    let capture = [&section[..], &frames, &section, &frames].concat();
    let frames = whole(&capture[..]);
    assert_eq!(frames.iter().map(|frame| frame.interface).collect::<Vec<_>>(), [0, 1, 2, 3]);
    // The second interface has no resolution: microseconds.
    assert_eq!(frames.iter().map(|frame| frame.nanos).collect::<Vec<_>>(), [3, 3_000, 3, 3_000]);
    assert_eq!(frames[3].link_type, LinkType::RawIp);
}

#[test]
fn a_section_in_the_other_byte_order() {
    let mut big = vec![0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 28, 0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0];
    big.extend([0xff; 8]);
    big.extend([0, 0, 0, 28]);
    big.extend([0, 0, 0, 1, 0, 0, 0, 20, 0, 113, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20]);
    big.extend([0, 0, 0, 6, 0, 0, 0, 36, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    big.extend([0, 0, 0, 2, 0, 0, 0, 2, 7, 8, 0, 0, 0, 0, 0, 36]);
    let capture = [pcapng_start(1), enhanced(0, 1, &[1], 1, &[]), big].concat();
    let frames = whole(&capture[..]);
    assert_eq!((frames.len(), frames[1].nanos, &frames[1].data[..]), (2, 9_000, &[7, 8][..]));
    assert_eq!(frames[1].link_type, LinkType::LinuxSll);
}

#[test]
fn simple_and_old_packet_blocks() {
    let mut snapped = pcapng_start(1);
    snapped[40] = 3;
    let simple = block(3, &[10, 0, 0, 0, 1, 2, 3]);
    let frame = &whole(&[snapped, simple].concat()[..])[0];
    assert_eq!((frame.nanos, frame.original_len, &frame.data[..]), (0, 10, &[1, 2, 3][..]));

    let mut old = vec![0, 0, 5, 0, 0, 0, 0, 0, 44, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 6, 7, 0, 0];
    old.extend([2, 0, 4, 0, 1, 0, 0, 0]);
    let frame = &whole(&[pcapng_start(1), block(2, &old)].concat()[..])[0];
    assert_eq!((frame.nanos, &frame.data[..]), (44, &[6, 7][..]));
    assert_eq!(frame.direction, Some(Direction::Inbound));
}

#[test]
fn blocks_of_other_kinds_are_passed_over_without_being_held() {
    let big = block(0x0000_0bad, &vec![7; 20 << 20]);
    let capture = [pcapng_start(1), big, enhanced(0, 1, &[1], 1, &[])].concat();
    assert_eq!(whole(&capture[..]).len(), 1);
}

#[test]
fn every_damage_has_its_offset() {
    let start = pcapng_start(1);
    let at = start.len() as u64;
    let good = enhanced(0, 1, &[1], 1, &[]);
    let with = |block: &[u8]| [&start[..], &good, block].concat();
    let behind = at + good.len() as u64;
    let mut length_behind = good.clone();
    let last = length_behind.len() - 4;
    length_behind[last] ^= 4;
    let mut too_long = good.clone();
    too_long[20] = 100;
    let cases: [(&[u8], &str); 7] = [
        (&[6, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0], "multiple of 4"),
        (&[6, 0, 0, 0, 0, 0, 0, 0xf0, 0, 0, 0, 0], "16 MiB"),
        (&length_behind, "in front"),
        (&too_long, "a frame of 100 bytes"),
        (&enhanced(5, 1, &[1], 1, &[]), "interface 5"),
        (&good[..20], "ends within"),
        (&good[..7], "ends within"),
    ];
    for (block, what) in cases {
        let (frames, offset, text) = damage(&with(block)[..]);
        assert_eq!((frames, offset), (1, behind), "{text}");
        assert!(text.contains(what), "{text}");
    }
}

#[test]
fn a_record_that_claims_too_much_takes_no_memory() {
    let mut bytes = classic(false, 0xa1b2_c3d4, 0);
    bytes[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    let (frames, offset, text) = damage(&bytes[..]);
    assert_eq!((frames, offset), (0, 24));
    assert!(text.contains("4294967295"), "{text}");
}

#[test]
fn another_version_is_refused() {
    let mut bytes = classic(false, 0xa1b2_c3d4, 0);
    bytes[4] = 3;
    assert!(damage(&bytes[..]).2.contains("version 3.4"));
    let mut bytes = pcapng_start(1);
    bytes[12] = 2;
    assert!(damage(&bytes[..]).2.contains("version 2.0"));
}

/// Gives one byte at a time, with interruptions between.
struct Trickle<'a>(&'a [u8], bool);

impl Read for Trickle<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let count = self.0.len().min(into.len()).min(1);
        into[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

#[test]
fn a_pipe_may_give_byte_after_byte() {
    let capture = [pcapng_start(1), enhanced(0, 1, &[1; 300], 300, &[])].concat();
    assert_eq!(whole(Trickle(&capture, false)), whole(&capture[..]));
}

/// A frame is given before the pipe has more.
#[test]
fn a_frame_does_not_wait_for_the_next_one() {
    struct Panics;
    impl Read for Panics {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            panic!("it has all that it needs");
        }
    }
    let capture = [pcapng_start(1), enhanced(0, 1, &[1; 300], 300, &[])].concat();
    let mut reader = CaptureReader::new(capture.chain(Panics)).expect("a capture");
    assert!(reader.next_frame().expect("it is there").is_some());
    assert!(!reader.is_next_buffered());
}

#[test]
fn an_endless_input_that_is_no_capture_ends() {
    for byte in [0, b'y', 0xff] {
        assert!(matches!(
            CaptureReader::new(io::repeat(byte)),
            Err(CaptureError::NotACapture { .. })
        ));
    }
}

#[test]
fn an_input_that_fails_is_told() {
    struct Fails;
    impl Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }
    let (frames, offset, text) = damage(pcapng_start(1).chain(Fails));
    assert_eq!((frames, offset), (0, pcapng_start(1).len() as u64));
    assert!(text.contains("cannot read"), "{text}");
}
