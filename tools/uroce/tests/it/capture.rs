//! `uroce capture`, beside NICs that talk to each other, in a network namespace.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use uroce_analyze::{CaptureReader, Dissector, DissectorConfig};

use crate::common::lab::Lab;
use crate::common::{PROGRAM, text, uroce};

/// The user `nobody` on most systems.
const NOBODY: u32 = 65_534;

/// Packets of a capture by the names of their opcodes; every ICRC must be right.
fn packets(bytes: &[u8]) -> Vec<&'static str> {
    let mut reader = CaptureReader::new(bytes).expect("a capture");
    let mut dissector = Dissector::new(DissectorConfig::default());
    let mut names = Vec::new();
    while let Some(frame) = reader.next_frame().expect("no damage") {
        dissector.dissect(&frame, &mut |packet, _, _| {
            assert!(packet.icrc.is_good(), "frame {}: {}", packet.frame, packet.icrc);
            names.push(packet.opcode_info.expect("known").name);
        });
    }
    names
}

fn packets_in(file: &Path) -> Vec<&'static str> {
    packets(&std::fs::read(file).expect("a file"))
}

/// Packets of the link: a GSO batch is one.
fn frames(bytes: &[u8]) -> usize {
    let mut reader = CaptureReader::new(bytes).expect("a capture");
    std::iter::from_fn(|| reader.next_frame().expect("no damage").map(drop)).count()
}

#[test]
fn every_packet_of_a_connection_is_in_the_file_once() {
    let Some(lab) = Lab::new("once") else { return };
    let capture = lab.capture("-i lo -w all.pcapng --print");
    lab.traffic(5, "");
    let output = capture.interrupt("-INT");
    assert!(output.status.success(), "{}", text(&output));
    let names = packets_in(&lab.file("all.pcapng"));
    let all = std::fs::read(lab.file("all.pcapng")).expect("a file");
    let mut reader = CaptureReader::new(&all[..]).expect("a capture");
    let mut seen = std::collections::HashSet::new();
    let (mut frames, mut twice) = (0, 0);
    while let Some(frame) = reader.next_frame().expect("no damage") {
        frames += 1;
        twice += usize::from(!seen.insert(frame.data.to_vec()));
    }
    // On a busy machine some packets are sent again; were each captured in both directions, all
    // would be there twice.
    assert!(twice * 4 < names.len(), "{twice} of {} frames came twice", names.len());
    for wanted in ["RC_READ_REQUEST", "RC_WRITE_ONLY"] {
        let count = names.iter().filter(|name| **name == wanted).count();
        assert!((5..20).contains(&count), "{names:?}");
    }
    let said = text(&output);
    // A GSO batch is one frame of several packets: they are counted together, and shown one by one.
    let summary =
        format!("uroce capture: {frames} packets, 0 dropped by the kernel, {frames} written to");
    assert!(said.contains(&summary), "{said}");
    let shown = String::from_utf8(output.stdout).expect("text");
    assert_eq!(shown.lines().count(), names.len(), "{shown}");
}

#[test]
fn a_capture_ends_after_its_count_or_time_and_by_sigterm() {
    let Some(lab) = Lab::new("ends") else { return };
    let capture = lab.capture("-w count.pcapng --count 3 --json --seconds 60");
    let forever = lab.capture("-w term.pcapng --seconds 60");
    lab.traffic(2, "");
    let output = capture.end();
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(frames(&std::fs::read(lab.file("count.pcapng")).expect("a file")), 3);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&json["version"], &json["written"]), (&1.into(), &3.into()));
    assert!(forever.interrupt("-TERM").status.success());
    assert!(packets_in(&lab.file("term.pcapng")).len() > 10);
    let output = lab.capture("--seconds 0.2").end();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("uroce capture: 0 packets"), "{}", text(&output));
}

#[test]
fn stdout_can_be_the_file() {
    let Some(lab) = Lab::new("stdout") else { return };
    let capture = lab.capture("-w - --count 10 --seconds 60");
    lab.traffic(5, "");
    let output = capture.end();
    assert!(output.status.success(), "{}", text(&output));
    assert!(packets(&output.stdout).len() >= 10);
    assert_eq!(frames(&output.stdout), 10);
}

#[test]
fn a_nak_writes_what_was_before_it() {
    let Some(lab) = Lab::new("nak") else { return };
    let capture =
        lab.capture("-w f.pcapng --trigger nak --ring 30s --after 0.1 --files 1 --seconds 60");
    std::fs::write(lab.file("loss"), "rx op=write part=middle -> drop skip=20 count=1\n")
        .expect("writable");
    lab.bandwidth(&format!("--fault @{}", lab.file("loss").display()));
    let output = capture.end();
    assert!(output.status.success(), "{}", text(&output));
    let said = text(&output);
    assert!(said.contains("NAK") && said.contains("writing f-1.pcapng"), "{said}");
    let bytes = std::fs::read(lab.file("f-1.pcapng")).expect("a file");
    let mut reader = CaptureReader::new(&bytes[..]).expect("a capture");
    let (mut before, mut found) = (0, false);
    while let Some(frame) = reader.next_frame().expect("no damage") {
        found |= frame.comment.starts_with("trigger: ");
        before += u32::from(!found);
    }
    assert!(found && before > 3, "{before} packets before the NAK");
    assert!(packets(&bytes).iter().any(|name| name.starts_with("RC_WRITE")));
}

/// While the capture is stopped more passes than its buffer has room for.
#[test]
fn a_file_tells_at_its_end_what_the_kernel_dropped() {
    let Some(lab) = Lab::new("drops") else { return };
    let capture = lab.capture("-w drops.pcapng --buffer 2 --json");
    capture.signal("-STOP");
    lab.bandwidth("");
    capture.signal("-CONT");
    let output = capture.interrupt("-INT");
    assert!(output.status.success(), "{}", text(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let bytes = std::fs::read(lab.file("drops.pcapng")).expect("a file");
    let mut reader = CaptureReader::new(&bytes[..]).expect("a capture");
    while reader.next_frame().expect("no damage").is_some() {}
    assert_eq!(json["dropped"], reader.lost_packets(), "{json}");
    assert!(reader.lost_packets() > 0);
}

#[test]
fn a_full_disk_is_told_and_leaves_the_exit_code_of_the_machine() {
    let Some(lab) = Lab::new("full") else { return };
    let capture = lab.capture("-w /dev/full --seconds 60");
    lab.traffic(1, "");
    let output = capture.end();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("No space left on device"), "{}", text(&output));
}

/// Nothing was written before the end: what failed there was not told earlier.
#[test]
fn a_disk_that_is_full_at_the_end_only_is_told_too() {
    let Some(lab) = Lab::new("last") else { return };
    let capture = lab.capture("-w /dev/full --count 3");
    lab.traffic(1, "");
    let output = capture.end();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("No space left on device"), "{}", text(&output));
}

#[test]
fn without_the_right_the_command_that_gives_it_is_named() {
    let copy = std::env::temp_dir().join(format!("uroce-live-{}", std::process::id()));
    assert!(Command::new("cp").arg(PROGRAM).arg(&copy).status().expect("cp").success());
    let mut other = Command::new(&copy);
    let done = other.args(["capture", "--seconds", "0.1"]).uid(NOBODY).gid(NOBODY).output();
    let _ = std::fs::remove_file(&copy);
    let Ok(output) = done else {
        assert!(std::env::var_os("CI").is_none(), "CI runs this as root");
        return println!("skipped: only root can become another user");
    };
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let said = text(&output);
    assert!(said.contains("CAP_NET_RAW") && said.contains("sudo setcap cap_net_raw+ep"), "{said}");
}

#[test]
fn wrong_words_are_refused() {
    for (words, code, said) in [
        ("capture -i eth77", 3, "there is no interface eth77; there are: "),
        ("capture -w - --print", 2, "stdout cannot be both"),
        ("capture -w x --trigger flood", 2, "retransmission, qp-error"),
        ("capture --trigger nak", 2, "--write"),
    ] {
        let output = uroce(words).output().expect("built");
        assert_eq!(output.status.code(), Some(code), "{words}: {}", text(&output));
        assert!(text(&output).contains(said), "{words}: {}", text(&output));
    }
}
