//! `uroce dissect`, `analyze` and `ladder` of interfaces, beside NICs that talk to each other in a network namespace.

use std::os::unix::process::CommandExt;
use std::process::Command;

use uroce_analyze::CaptureReader;

use crate::common::lab::Lab;
use crate::common::{PROGRAM, stdout, text, uroce};

/// The user `nobody` on most systems.
const NOBODY: u32 = 65_534;

#[test]
fn dissect_prints_packets_as_they_pass() {
    let Some(lab) = Lab::new("dissect") else { return };
    let first = lab.start("dissect -i lo -c 1 --opcode read-req");
    let all = lab.start("dissect -i any");
    lab.traffic(3, "");
    let first = first.end();
    assert!(first.status.success(), "{}", text(&first));
    let line = stdout(&first);
    assert!(line.contains(" RC_READ_REQUEST qp ") && line.contains(" icrc ok"), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    let all = all.interrupt("-INT");
    assert!(all.status.success(), "{}", text(&all));
    let shown = stdout(&all);
    for kind in ["RC_WRITE_ONLY", "RC_ACKNOWLEDGE", "UD_SEND_ONLY"] {
        assert!(shown.contains(kind), "{kind}: {shown}");
    }
    assert!(shown.lines().filter(|line| line.contains("RC_READ_REQUEST")).count() >= 3, "{shown}");
}

#[test]
fn the_lines_of_dissect_and_capture_are_the_same() {
    let Some(lab) = Lab::new("lines") else { return };
    let [dissect, capture] =
        ["dissect -i lo -c 9", "capture -i lo -c 9"].map(|words| lab.start(words));
    lab.traffic(3, "");
    let [dissect, capture] = [dissect, capture].map(|running| stdout(&running.end()));
    let without_time = |text: &str| -> Vec<String> {
        let words = text.lines().map(|line| line.split_whitespace().enumerate());
        words
            .map(|words| {
                words.filter(|(at, _)| *at != 1).map(|(_, word)| word.to_owned() + " ").collect()
            })
            .collect()
    };
    assert_eq!(
        without_time(&dissect),
        without_time(&capture),
        "two sockets stamp a packet by themselves"
    );
    assert_eq!(dissect.lines().count(), 9, "{dissect}");
}

#[test]
fn analyze_tells_at_ctrl_c_what_passed() {
    let Some(lab) = Lab::new("analyze") else { return };
    let running = lab.start("analyze -i lo --counters --json --annotate out.pcapng");
    std::fs::write(lab.file("loss"), "rx op=write part=middle -> drop skip=20 count=1\n")
        .expect("writable");
    lab.bandwidth(&format!("--fault @{}", lab.file("loss").display()));
    let output = running.interrupt("-INT");
    assert!(output.status.success(), "{}", text(&output));
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!((&report["source"], &report["capture"]["icrc"]["wrong"]), (&"lo".into(), &0.into()));
    let flows = report["conversations"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|row| row["flows"].as_array());
    let naks: u64 = flows.flatten().filter_map(|flow| flow["nak_tx"].as_u64()).sum();
    assert!(naks >= 1, "{report}");
    let counted = |name: &str| -> u64 {
        let ends = report["counters"].as_array().expect("two ends");
        ends.iter().filter_map(|end| end["counters"][name].as_u64()).sum()
    };
    assert_eq!((counted("packet_seq_err"), counted("out_of_sequence")), (naks, naks));
    let look = report["slowest_messages"][0]["look"].as_str().expect("a command").to_owned();
    assert!(
        look.starts_with("uroce ladder out.pcapng --qp "),
        "what was captured can be read again: {look}"
    );
    let drawn = lab.uroce(look.strip_prefix("uroce ").expect("ours")).output().expect("built");
    assert!(drawn.status.success() && stdout(&drawn).contains("WRITE"), "{}", text(&drawn));
    let bytes = std::fs::read(lab.file("out.pcapng")).expect("it was written");
    let mut reader = CaptureReader::new(&bytes[..]).expect("a capture");
    let mut comments = Vec::new();
    while let Some(frame) = reader.next_frame().expect("no damage") {
        comments.push(frame.comment.to_owned());
    }
    assert!(comments.iter().any(|comment| comment.contains("sent again")), "{comments:?}");
}

#[test]
fn a_ladder_is_drawn_after_its_time_or_count() {
    let Some(lab) = Lab::new("ladder") else { return };
    let counted = lab.start("ladder -i lo --count 12");
    let silent = lab.start("ladder -i lo --seconds 0.2").end();
    assert_eq!(silent.status.code(), Some(2), "{}", text(&silent));
    assert!(text(&silent).contains("lo: no packet is chosen"), "{}", text(&silent));
    lab.traffic(3, "");
    let counted = counted.end();
    assert!(counted.status.success(), "{}", text(&counted));
    assert!(stdout(&counted).contains("127.0.0.2"), "{}", text(&counted));
}

#[test]
fn without_the_right_every_command_names_what_gives_it() {
    let copy = std::env::temp_dir().join(format!("uroce-right-{}", std::process::id()));
    assert!(Command::new("cp").arg(PROGRAM).arg(&copy).status().expect("cp").success());
    for name in ["dissect", "analyze", "ladder"] {
        let mut other = Command::new(&copy);
        let words = [name, "-i", "lo", "--seconds", "0.1"];
        let Ok(output) = other.args(words).uid(NOBODY).gid(NOBODY).output() else {
            let _ = std::fs::remove_file(&copy);
            assert!(std::env::var_os("CI").is_none(), "CI runs this as root");
            return println!("skipped: only root can become another user");
        };
        assert_eq!(output.status.code(), Some(3), "{}", text(&output));
        let said = text(&output);
        assert!(
            said.contains("CAP_NET_RAW") && said.contains("sudo setcap cap_net_raw+ep"),
            "{said}"
        );
    }
    let _ = std::fs::remove_file(&copy);
}

#[test]
fn wrong_words_are_refused() {
    for (words, code, said) in [
        ("analyze", 2, "<FILE>"),
        ("ladder -i lo x.pcap", 2, "cannot be used with"),
        ("dissect -i eth77", 3, "there is no interface eth77; there are: "),
        ("analyze x.pcap --seconds 1", 2, "x.pcap is a file"),
        ("dissect - -p", 2, "--no-promiscuous is about a capture"),
    ] {
        let output = uroce(words).output().expect("built");
        assert_eq!(output.status.code(), Some(code), "{words}: {}", text(&output));
        assert!(text(&output).contains(said), "{words}: {}", text(&output));
    }
}
