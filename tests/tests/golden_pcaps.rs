//! Captures of kernel rxe in `pcaps/`: every frame parses, every ICRC is right, and the sidecar
//! says the truth about the number of packets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use uroce_datapath::PcapReplay;
use uroce_wire::{IcrcVerdict, Network, Packet, parse_ethernet, recover};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../pcaps")
}

fn captures() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).expect("the folder pcaps");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "pcap" || ext == "pcapng"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "there is at least one capture");
    paths
}

/// `key = value` lines of a sidecar.
fn sidecar(capture: &Path) -> BTreeMap<String, String> {
    let path = capture.with_extension("toml");
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{} needs a sidecar: {error}", capture.display()));
    let pairs = text.lines().filter_map(|line| line.split_once(" = "));
    pairs.map(|(key, value)| (key.to_owned(), value.trim_matches('"').to_owned())).collect()
}

#[test]
fn every_captured_packet_is_understood_and_has_a_right_icrc() {
    for capture in captures() {
        let facts = sidecar(&capture);
        for key in ["made_by", "how", "licence", "packets", "icrc"] {
            assert!(facts.contains_key(key), "{}: the sidecar lacks {key}", capture.display());
        }
        let mut packets = 0u64;
        for frame in PcapReplay::open(&capture).expect("a capture") {
            let frame = frame.expect("a frame");
            let parsed = match parse_ethernet(&frame.data) {
                Ok(parsed) => parsed,
                Err(error) => panic!("{}: {error}", capture.display()),
            };
            packets += 1;
            assert!(parsed.icrc_is_right(), "{} packet {packets}", capture.display());
            Packet::parse(parsed.transport)
                .unwrap_or_else(|error| panic!("{} packet {packets}: {error}", capture.display()));
        }
        assert_eq!(facts["packets"], packets.to_string(), "{}", capture.display());
    }
}

/// What a UDP socket would see of the same packets: the identification is hidden.
#[test]
fn the_hidden_identification_of_every_packet_is_recovered() {
    for capture in captures() {
        for frame in PcapReplay::open(&capture).expect("a capture") {
            let frame = frame.expect("a frame");
            let parsed = parse_ethernet(&frame.data).expect("RoCE");
            let Some(flow) = parsed.flow() else { continue };
            let verdict = recover(&flow, &[], parsed.transport);
            if let Network::V4(ip) = parsed.ip {
                assert_eq!(verdict, IcrcVerdict::Solved(ip.id), "{}", capture.display());
            }
            assert_ne!(verdict, IcrcVerdict::Bad, "{}", capture.display());
        }
    }
}
