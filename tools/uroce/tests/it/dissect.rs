//! `uroce dissect` on the captures of `pcaps/`.

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

/// The output of `dissect` on a capture that ends too early.
fn damaged(words: &str) -> Output {
    let mut child = uroce(&format!("dissect - {words}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(&FETCH_ADD[..500]).expect("it reads");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

#[test]
fn a_damaged_capture_is_shown_as_far_as_it_goes() {
    let output = damaged("");
    assert_eq!(output.status.code(), Some(1));
    let text = common::text(&output);
    assert!(stdout(&output).lines().count() >= 3 && text.contains("damaged at byte"), "{text}");
}

#[test]
fn v126_json_says_in_a_line_of_its_own_that_a_capture_is_damaged() {
    let text = stdout(&damaged("--json"));
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (last, packets) = lines.split_last().expect("lines");
    assert!(packets.len() >= 3 && packets.iter().all(|line| line["error"].is_null()), "{text}");
    assert!(last["error"].as_str().is_some_and(|error| error.contains("damaged")), "{last}");
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
