//! Captures of traffic that keeps the rules: real peers, real losses, and no finding.

use std::fs::File;
use std::path::{Path, PathBuf};

use uroce_analyze::judge::{Finding, Judge, Severity};
use uroce_analyze::{CaptureReader, Dissector, DissectorConfig, Tracker, TrackerConfig};

fn captures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pcaps");
    let files = std::fs::read_dir(folder).expect("pcaps").map(|file| file.expect("a file").path());
    files.filter(|path| path.extension().is_some_and(|end| end == "pcap")).collect()
}

/// What is found in a capture, and how many packets it has.
fn judged(path: &Path) -> (Vec<Finding>, u64) {
    let mut reader = CaptureReader::new(File::open(path).expect("a capture")).expect("a capture");
    let mut dissector = Dissector::new(DissectorConfig::default());
    let (mut tracker, mut judge) = (Tracker::new(TrackerConfig::default()), Judge::new());
    let mut packets = 0;
    while let Some(frame) = reader.next_frame().expect("a frame") {
        dissector.dissect(&frame, &mut |packet, payload, _| {
            let annotation = tracker.handle_packet(packet, payload);
            judge.handle_packet(packet, payload, &annotation, &tracker);
            packets += 1;
        });
    }
    tracker.finish();
    judge.finish(&tracker);
    assert_eq!(judge.explanations(), [], "nothing died in {}", path.display());
    (judge.findings(), packets)
}

#[test]
fn recorded_traffic_has_no_warnings_and_no_errors() {
    let captures = captures();
    assert!(captures.len() >= 6, "{captures:?}");
    for path in captures {
        let (findings, packets) = judged(&path);
        assert!(packets > 0, "packets in {}", path.display());
        let bad = findings.iter().find(|finding| finding.rule.severity > Severity::Note);
        assert_eq!(bad, None, "in {}", path.display());
    }
}
