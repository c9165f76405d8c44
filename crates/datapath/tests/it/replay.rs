//! Captures of other programs, sound and damaged.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use uroce_datapath::{Direction, PcapBlocks, PcapError, PcapRecord, PcapReplay, ReplayedFrame};

/// What a file with these bytes holds: frames, and the error that ends them.
fn replay(bytes: &[u8]) -> (Vec<ReplayedFrame>, Option<PcapError>) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("uroce-replay-{}-{number}", std::process::id());
    let path: PathBuf = std::env::temp_dir().join(name);
    std::fs::File::create(&path).and_then(|mut file| file.write_all(bytes)).expect("written");
    let opened = PcapReplay::open(&path);
    std::fs::remove_file(&path).expect("removed");
    let mut frames = vec![];
    let mut all = match opened {
        Ok(all) => all,
        Err(error) => return (frames, Some(error)),
    };
    while let Some(frame) = all.next() {
        match frame {
            Ok(frame) => frames.push(frame),
            Err(error) => {
                assert!(all.next().is_none(), "nothing comes behind an error");
                return (frames, Some(error));
            }
        }
    }
    (frames, None)
}

/// A capture with a frame for each of these bytes, and where each block ends.
fn capture(link_type: u16, frames: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let mut blocks = PcapBlocks::default();
    blocks.section();
    blocks.interface("eth0", link_type, 0);
    let mut ends = vec![blocks.bytes().len()];
    for &byte in frames {
        blocks.packet(&PcapRecord {
            interface: 0,
            time: Duration::from_nanos(u64::from(byte) + 1),
            original_len: 60,
            direction: Direction::Outbound,
            data: &[byte; 60],
            lost: 0,
            comments: &["said"],
        });
        ends.push(blocks.bytes().len());
    }
    (blocks.bytes().to_vec(), ends)
}

/// A pcap file of that byte order with one frame.
fn classic(magic: u32, is_big: bool, link: u32, fraction: u32) -> Vec<u8> {
    let word = |word: u32| if is_big { word.to_be_bytes() } else { word.to_le_bytes() };
    let half = |half: u16| if is_big { half.to_be_bytes() } else { half.to_le_bytes() };
    let mut bytes = [&word(magic)[..], &half(2), &half(4), &word(0), &word(0)].concat();
    bytes.extend([word(65_535), word(link), word(7), word(fraction), word(4), word(4)].concat());
    bytes.extend(b"data");
    bytes
}

#[test]
fn a_capture_of_ours_comes_back() {
    let (frames, error) = replay(&capture(1, &[2, 3]).0);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(frames.len(), 2);
    let expected = ReplayedFrame {
        timestamp: Duration::from_nanos(4),
        interface: 0,
        direction: Some(Direction::Outbound),
        comments: vec!["said".to_owned()],
        data: vec![3; 60],
    };
    assert_eq!(frames[1], expected);
}

#[test]
fn of_a_capture_that_is_cut_the_whole_frames_are_read() {
    let (bytes, ends) = capture(1, &[2, 3, 4]);
    for length in ends[0]..bytes.len() {
        let (frames, error) = replay(&bytes[..length]);
        let whole = ends[1..].iter().filter(|&&end| end <= length).count();
        assert_eq!(frames.len(), whole, "{length} bytes");
        let is_cut = !ends.contains(&length);
        assert_eq!(matches!(error, Some(PcapError::Damaged { .. })), is_cut, "{length}: {error:?}");
    }
    for length in 0..12 {
        let (frames, error) = replay(&bytes[..length]);
        assert!(frames.is_empty() && matches!(error, Some(PcapError::Damaged { .. })), "{length}");
    }
}

#[test]
fn a_link_type_that_is_not_ethernet_is_named() {
    for link_type in [0, 101, 113, 276] {
        let (frames, error) = replay(&capture(link_type, &[2]).0);
        assert!(frames.is_empty());
        let error = error.expect("not Ethernet");
        assert!(matches!(error, PcapError::NotEthernet { link_type: found, .. }
            if found == u32::from(link_type)));
        let text = error.to_string();
        assert!(text.contains(&format!("link type {link_type}")), "{text}");
    }
    let (_, error) = replay(&classic(0xa1b2_c3d4, false, 101, 5));
    assert!(matches!(error, Some(PcapError::NotEthernet { link_type: 101, .. })), "{error:?}");
}

#[test]
fn a_frame_of_an_interface_that_was_not_described_is_damage() {
    let mut blocks = PcapBlocks::default();
    blocks.section();
    blocks.packet(&PcapRecord {
        interface: 0,
        time: Duration::ZERO,
        original_len: 1,
        direction: Direction::Inbound,
        data: &[1],
        lost: 0,
        comments: &[],
    });
    let (frames, error) = replay(blocks.bytes());
    let error = error.expect("damaged");
    assert!(frames.is_empty() && error.to_string().contains("unknown interface"), "{error}");
}

#[test]
fn pcap_files_of_both_byte_orders_and_resolutions_are_read() {
    for (magic, fraction, nanoseconds) in [(0xa1b2_c3d4, 5, 5_000), (0xa1b2_3c4d, 5, 5)] {
        for is_big in [false, true] {
            let (frames, error) = replay(&classic(magic, is_big, 1, fraction));
            assert!(error.is_none(), "{error:?}");
            let expected = ReplayedFrame {
                timestamp: Duration::new(7, nanoseconds),
                data: b"data".to_vec(),
                ..ReplayedFrame::default()
            };
            assert_eq!(frames, [expected], "{magic:x} {is_big}");
        }
    }
}

#[test]
fn a_pcap_file_has_no_names_of_interfaces() {
    let path = std::env::temp_dir().join(format!("uroce-replay-{}-name", std::process::id()));
    std::fs::write(&path, classic(0xa1b2_c3d4, false, 1, 0)).expect("written");
    let replay = PcapReplay::open(&path).expect("open");
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(replay.interface_name(0), None);
    assert!(format!("{replay:?}").contains("uroce-replay"), "{replay:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn damage_anywhere_ends_the_capture_and_nothing_else(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let (mut bytes, _) = capture(1, &[2, 3, 4, 5]);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let (frames, _) = replay(&bytes);
        prop_assert!(frames.len() <= 4);
    }
}
