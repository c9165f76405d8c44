//! The captures of `pcaps/`, read whole, cut at every byte and with every byte changed.

use std::fs;
use std::path::Path;

use uroce_analyze::{
    CaptureError, CaptureReader, Dissector, DissectorConfig, FrameKind, IcrcStatus, Packet,
};

/// Names and bytes of all captures.
fn captures() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pcaps");
    let mut all: Vec<_> = fs::read_dir(folder)
        .expect("pcaps/ is there")
        .map(|entry| entry.expect("it can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "pcap"))
        .map(|path| (path.display().to_string(), fs::read(&path).expect("it can be read")))
        .collect();
    all.sort();
    assert!(all.len() >= 6);
    all
}

/// All packets of a capture, and what ended it.
fn read(capture: &[u8]) -> (Vec<Packet>, Result<(), CaptureError>) {
    let mut packets = Vec::new();
    let mut dissector = Dissector::new(DissectorConfig::default());
    let mut reader = match CaptureReader::new(capture) {
        Ok(reader) => reader,
        Err(error) => return (packets, Err(error)),
    };
    loop {
        match reader.next_frame() {
            Ok(Some(frame)) => {
                let kind = dissector.dissect(&frame, &mut |packet, payload, transport| {
                    assert!(payload.len() <= transport.len());
                    packets.push(*packet);
                });
                assert!(kind != FrameKind::Roce { packets: 0 });
            }
            Ok(None) => return (packets, Ok(())),
            Err(error) => return (packets, Err(error)),
        }
    }
}

/// Every byte of a short capture; of a long one every so many, each of which costs reading it again.
fn step(capture: &[u8]) -> usize {
    if capture.len() < 2_000 { 1 } else { (capture.len() / 400) | 1 }
}

#[test]
fn every_packet_of_the_golden_captures_is_right() {
    for (name, capture) in captures() {
        let (packets, end) = read(&capture);
        end.expect("it is whole");
        assert!(!packets.is_empty(), "{name}");
        for packet in packets {
            assert_eq!(packet.icrc, IcrcStatus::Right, "{name} {packet:?}");
            assert!(packet.opcode_info.is_some() && !packet.is_cut, "{name} {packet:?}");
        }
    }
}

#[test]
fn a_capture_that_is_cut_anywhere_gives_all_that_is_whole() {
    for (name, capture) in captures() {
        let step = step(&capture);
        let mut before = 0;
        for end in (0..capture.len()).step_by(step) {
            let (packets, result) = read(&capture[..end]);
            assert!(packets.len() >= before, "{name} cut at {end}");
            before = packets.len();
            if let Err(error) = result {
                assert!(error.offset() <= end as u64, "{name} cut at {end}: {error}");
            }
        }
    }
}

#[test]
fn no_changed_byte_makes_it_panic() {
    for (_, mut capture) in captures() {
        let step = step(&capture);
        for at in (0..capture.len()).step_by(step) {
            for flip in [0x01, 0x80, 0xff] {
                capture[at] ^= flip;
                let (_, result) = read(&capture);
                if let Err(error) = result {
                    assert!(error.offset() <= capture.len() as u64);
                }
                capture[at] ^= flip;
            }
        }
    }
}
