//! `uroce dissect` on the captures of `pcaps/`, and what it has in common with `uroce ladder`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Output, Stdio};

use crate::common;
use crate::common::{stdout, uroce};

const FETCH_ADD: &[u8] = include_bytes!("../../../../pcaps/fetch-add.pcap");

fn capture(name: &str) -> String {
    format!("{}/../../pcaps/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn dissect(name: &str, words: &str) -> Output {
    uroce(&format!("dissect {} {words}", capture(name))).output().expect("the program was built")
}

#[test]
fn one_line_for_each_packet() {
    let output = dissect("fetch-add.pcap", "");
    let text = stdout(&output);
    assert!(output.status.success());
    assert_eq!(text.lines().count(), 10);
    assert!(text.lines().all(|line| line.ends_with("icrc ok")), "{text}");
    assert!(text.starts_with("      1 0.000000000 10.77.0.1 > 10.77.0.2 RC_FETCH_ADD"), "{text}");
}

#[test]
fn the_tree_has_names_and_the_bytes_their_offsets() {
    let text = stdout(&dissect("fetch-add.pcap", "-v -x -c 1"));
    for part in ["infiniband.atomiceth.swapdt", "Verdict: right", "0x0010: "] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn json_is_a_versioned_object_for_each_packet() {
    let text = stdout(&dissect("loss.pcap", "--json --opcode nak"));
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 5);
    for line in &lines {
        assert_eq!((&line["version"], &line["aeth"]["syndrome"]), (&1.into(), &0x60.into()));
        assert_eq!(line["icrc"]["verdict"], "right");
    }
}

#[test]
fn errors_are_naks_and_what_was_sent_again() {
    let text = stdout(&dissect("loss.pcap", "--errors"));
    assert!(text.lines().filter(|line| line.contains(" nak ")).count() == 5, "{text}");
    assert!(text.lines().count() > 20, "packets that were sent again are among them: {text}");
}

/// Packets name only the queue pair that they go to. Which one a flow comes from is known only after some
/// of its packets: from a file those are chosen as well, from a pipe they have gone by.
#[test]
fn packets_before_the_first_answer_belong_to_their_sender_too() {
    let of_requester = |source: &str| {
        let file = std::fs::File::open(capture("loss.pcap")).expect("a capture");
        let mut command = uroce(&format!("dissect {source} --qp 0x192fa1"));
        stdout(&command.stdin(file).output().expect("the program was built")).lines().count()
    };
    assert_eq!(of_requester(&capture("loss.pcap")), 300);
    assert_eq!(of_requester("-"), 291);
}

#[test]
fn fields_stand_in_columns() {
    let names = "frame.number,infiniband.bth.opcode,infiniband.aeth.msn";
    let text = stdout(&dissect("fetch-add.pcap", &format!("--fields {names} -c 2")));
    assert_eq!(text, "1\t20\t\n2\t18\t1\n");
    let output = dissect("fetch-add.pcap", "--fields bth.psn");
    assert_eq!(output.status.code(), Some(2));
    assert!(common::text(&output).contains("infiniband.bth.psn"));
}

/// The output of a command on a capture that ends too early.
fn damaged(words: &str) -> Output {
    piped(words, &FETCH_ADD[..500])
}

/// The output of a command that reads `capture` from a pipe.
fn piped(words: &str, capture: &[u8]) -> Output {
    let mut child = uroce(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(capture).expect("it reads");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

#[test]
fn a_damaged_capture_is_shown_as_far_as_it_goes() {
    let output = damaged("dissect -");
    assert_eq!(output.status.code(), Some(1));
    let text = common::text(&output);
    assert!(stdout(&output).lines().count() >= 3 && text.contains("damaged at byte"), "{text}");
}

#[test]
fn v126_json_says_in_a_line_of_its_own_that_a_capture_is_damaged() {
    let text = stdout(&damaged("dissect - --json"));
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (last, packets) = lines.split_last().expect("lines");
    assert!(packets.len() >= 3 && packets.iter().all(|line| line["error"].is_null()), "{text}");
    assert!(last["error"].as_str().is_some_and(|error| error.contains("damaged")), "{last}");
}

#[test]
fn the_json_of_a_ladder_says_that_its_capture_is_damaged() {
    let output = damaged("ladder - --json");
    assert_eq!(output.status.code(), Some(1));
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert!(object["ladder"].is_object() && object["exit"] == 1, "{object}");
    assert!(object["error"].as_str().is_some_and(|error| error.contains("damaged")), "{object}");
    assert!(object["help"].is_string(), "{object}");
}

/// Bytes before the UDP header: Ethernet and IPv4.
const UDP: usize = 14 + 20;

/// The frames of a pcap file with a header of 16 bytes each.
fn frames(file: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut frames) = (&file[24..], Vec::new());
    while let Some(length) = rest.get(8..12) {
        let length = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
        frames.push(rest[16..16 + length].to_vec());
        rest = &rest[16 + length..];
    }
    frames
}

fn capture_of(frames: &[Vec<u8>]) -> Vec<u8> {
    let record = |frame: &Vec<u8>| {
        let length = u32::try_from(frame.len()).expect("a short frame").to_le_bytes();
        [&[0; 8][..], &length, &length, frame].concat()
    };
    frames.iter().fold(FETCH_ADD[..24].to_vec(), |file, frame| [file, record(frame)].concat())
}

fn add_at(frame: &mut [u8], place: usize, more: i32) {
    let value = i32::from(u16::from_be_bytes([frame[place], frame[place + 1]])) + more;
    frame[place..place + 2].copy_from_slice(&u16::try_from(value).expect("16 bits").to_be_bytes());
}

/// Ten packets in ten frames, the second of which has lost its UDP payload but for 8 bytes.
fn with_malformed() -> Vec<u8> {
    let mut frames = frames(FETCH_ADD);
    let missing = 8 + 8 - (frames[1].len() - UDP) as i32;
    add_at(&mut frames[1], UDP + 4, missing);
    capture_of(&frames)
}

#[test]
fn a_range_of_frames_has_those_without_a_packet() {
    let file = with_malformed();
    let shown = |words: &str| stdout(&piped(&format!("dissect - {words}"), &file));
    for words in ["--frames 2", "--frames 7 --frames 2..2", "--errors --frames 1..3"] {
        let text = shown(words);
        assert!(text.contains("      2 0.000000000 malformed RoCE: 8 bytes"), "{words}: {text}");
    }
    assert!(!shown("--frames 3..9").contains("malformed"));
    assert!(!shown("--frames 2 --qp 0x15").contains("malformed"), "it has no queue pair");
    let iwarp = |words: &str| stdout(&dissect("learn/iwarp.pcapng", words)).lines().count();
    assert_eq!([iwarp("-a --frames 1..3"), iwarp("--frames 1..5")], [3, 2]);
}

#[test]
fn a_count_ends_also_between_the_packets_of_a_frame() {
    let mut frames = frames(FETCH_ADD);
    // The first and the third packet are of one flow, and become one frame.
    let second = frames[2].split_off(UDP + 8);
    for place in [16, UDP + 4] {
        add_at(&mut frames[0], place, second.len() as i32);
    }
    frames[0].extend(second);
    let file = capture_of(&frames[..2]);
    for (count, numbers) in [(1, vec!["1"]), (2, vec!["1", "1.1"]), (3, vec!["1", "1.1", "2"])] {
        let text = stdout(&piped(&format!("dissect - -c {count}"), &file));
        let words: Vec<_> =
            text.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(words, numbers, "{text}");
    }
}

#[test]
fn json_goes_with_neither_columns_nor_bytes() {
    let file = capture("fetch-add.pcap");
    for words in [
        format!("dissect {file} --json --fields frame.number"),
        format!("--json dissect {file} --fields frame.number"),
        format!("dissect {file} -x --json"),
    ] {
        let output = uroce(&words).output().expect("the program was built");
        assert_eq!(output.status.code(), Some(2), "{words}");
        let object: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(object["error"].is_string() && object["help"].is_string(), "{object}");
    }
}

#[test]
fn the_name_of_a_file_is_no_command_for_the_terminal() {
    let name = format!("uroce-dissect-{}-\x1b[31m.pcap", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, FETCH_ADD).expect("a place for it");
    let run = |command: &str| {
        let mut command = uroce(command);
        command.arg(&file).args(["--qp", "999"]).output().expect("the program was built")
    };
    let outputs = ["dissect", "ladder"].map(run);
    std::fs::remove_file(&file).expect("it was written");
    for output in outputs {
        let said = common::text(&output);
        assert!(said.contains("\u{fffd}[31m.pcap") && !said.contains('\x1b'), "{said:?}");
    }
}

#[test]
fn what_is_no_capture_is_named() {
    let output = uroce("dissect Cargo.toml").output().expect("the program was built");
    assert_eq!(output.status.code(), Some(2));
    assert!(common::text(&output).contains("it is text"), "{}", common::text(&output));
}

/// Packets of a pipe that stays open are printed, and a reader that goes away ends it quietly.
#[test]
fn a_live_pipe_is_followed() {
    let mut child = uroce("dissect -")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
    stdin.write_all(FETCH_ADD).expect("it reads");
    let mut line = String::new();
    for _ in 0..10 {
        line.clear();
        lines.read_line(&mut line).expect("a line while the pipe is open");
    }
    assert!(line.contains("RC_ATOMIC_ACKNOWLEDGE"), "{line}");
    drop(lines);
    // Nobody reads any more: it may see that now or when the pipe is closed.
    let _ = stdin.write_all(&FETCH_ADD[24..]);
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", common::text(&output));
    assert!(output.stderr.is_empty());
}
