//! `uroce replay`, as a user runs it.

use std::path::Path;
use std::process::Stdio;

use tempfile::TempDir;

use crate::common::{code, pcap, run, text, uroce};

/// The name of a file in a folder.
fn file(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("a plain name").to_owned()
}

/// Records both ends of a run whose server loses what arrives, by this rule.
fn record(folder: &TempDir, test: &str, loss: &str, number: u8) -> [String; 2] {
    let files = ["server", "client"].map(|end| file(folder, &format!("{end}.pcapng")));
    let [server, client] = [number, number + 1].map(|last| format!("127.0.0.{last}"));
    let words = format!("perf {test} -p {} --address", 27_000 + u16::from(number));
    let child = uroce(&format!("{words} {server} --pcap {} --fault-seed 5 --fault", files[0]))
        .arg(loss)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built");
    let output = run(&format!("{words} {client} --pcap {} {server}", files[1]));
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(code(&output), 0, "{}{}", text(&output), text(&ended));
    assert_eq!(code(&ended), 0, "{}", text(&ended));
    files
}

#[test]
fn a_run_with_loss_is_answered_as_it_was() {
    let folder = TempDir::new().expect("a folder");
    for (number, test) in [(201, "send bw -n 200 -s 9000"), (203, "write bw -n 200 -s 9000")] {
        let [server, _] = record(&folder, test, "rx drop 3%", number);
        let output = run(&format!("replay {server} --only-differences"));
        assert_eq!(code(&output), 0, "{test}: {}", text(&output));
        let text = text(&output);
        assert!(text.contains("same answers") && text.contains("a fault rule took"), "{text}");
    }
}

#[test]
fn what_was_lost_behind_the_capture_can_be_left_out() {
    let folder = TempDir::new().expect("a folder");
    // Apart from each other: of losses that overlap a capture does not show enough (docs/replay.md).
    let loss = "rx op=write -> drop skip=100 every=1200 count=3";
    let [_, client] = record(&folder, "write bw -n 1000 -s 9000", loss, 205);
    assert_eq!(code(&run(&format!("replay {client}"))), 1);
    let output = run(&format!("replay {client} --skip-lost --only-differences"));
    assert_eq!(code(&output), 0, "{}", text(&output));
}

#[test]
fn a_device_that_answers_otherwise_exits_with_1() {
    let output = uroce(&format!("replay {} --json --fault-seed 1 --fault", pcap("rc-send")))
        .arg("rx op=send -> drop count=1")
        .output()
        .expect("the program was built");
    assert_eq!(code(&output), 1, "{}", text(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!((&json["version"], &json["verdict"]), (&1.into(), &"differs".into()));
    let replay = &json["replays"][0];
    assert_eq!(replay["counts"]["only_now"], 1);
    assert_eq!((&json["fault_seed"], &replay["faults"][0]["applied"]), (&1.into(), &1.into()));
    let nak = &replay["answers"].as_array().expect("lines")[0];
    assert_eq!((&nak["mark"], &nak["now"]["syndrome"]), (&"only_now".into(), &0x60.into()));
}

#[test]
fn a_conversation_is_chosen_by_queue_pair_or_host() {
    let replays = |words: &str| {
        let output = run(&format!("replay {} --json {words}", pcap("loss")));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
        json["replays"].as_array().map_or(0, Vec::len)
    };
    let counts = ["", "--qp 0x18", "--host 10.77.0.1 --qp 24"].map(replays);
    assert_eq!(counts, [2, 2, 2]);
    let none = run(&format!("replay {} --qp 7", pcap("loss")));
    assert_eq!(code(&none), 2);
    assert!(text(&none).contains("the capture has requests to 10.77.0.2 QP 0x18"));
}

#[test]
fn what_cannot_be_played_exits_with_2() {
    let folder = TempDir::new().expect("a folder");
    let file = |name: &str, bytes: &[u8]| {
        let name = file(&folder, name);
        std::fs::write(&name, bytes).expect("a temporary folder");
        name
    };
    let whole = std::fs::read(pcap("rc-send")).expect("a capture of the repository");
    let cut = file("cut", &whole[..whole.len() - 5]);
    let output = run(&format!("replay {cut}"));
    assert_eq!(code(&output), 2, "{}", text(&output));
    let said = text(&output);
    assert!(said.contains("same answers") && said.contains("damaged at byte"), "{said}");
    for (name, reason) in [
        (file("empty", b""), "it is empty"),
        (file("header", &whole[..24]), "no reliable connection in 0 packets"),
        (file("damaged", &whole[..30]), "damaged at byte 24"),
        (file("text", b"these are words and no capture"), "not a pcap"),
        (file("one-way", &whole[..2000]), "no answer to them"),
        (pcap("ud-send"), "no reliable connection in 10 packets"),
        ("/no/such/file".to_owned(), "No such file"),
    ] {
        let output = run(&format!("replay {name}"));
        assert_eq!(code(&output), 2, "{name}: {}", text(&output));
        assert!(text(&output).contains(reason), "{name}: {}", text(&output));
        let json = run(&format!("replay {name} --json"));
        let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("one object");
        assert_eq!(json["version"], 1);
    }
}

#[test]
fn memory_has_a_limit() {
    let mut bytes = std::fs::read(pcap("write-lat")).expect("a capture of the repository");
    // All ICRCs are wrong then, so that they say nothing, and each WRITE announces 2^32 - 1 bytes.
    let mut at = 24;
    while at + 16 <= bytes.len() {
        let length =
            u32::from_le_bytes(bytes[at + 8..at + 12].try_into().expect("4 bytes")) as usize;
        let (bth, end) = (at + 16 + 42, at + 16 + length);
        if matches!(bytes[bth], 6 | 10) {
            bytes[bth + 24..bth + 28].fill(0xff);
        }
        bytes[end - 1] ^= 1;
        at = end;
    }
    let folder = TempDir::new().expect("a folder");
    let file = file(&folder, "huge.pcap");
    std::fs::write(&file, bytes).expect("a temporary folder");
    let output = run(&format!("replay {file}"));
    assert_eq!(code(&output), 2, "{}", text(&output));
    assert!(text(&output).contains("the limit is 268435456"), "{}", text(&output));
}

/// Every command line of docs/replay.md that needs no second machine runs, on a capture of the repository.
/// `cargo xtask conform` plays captures to an agent.
#[test]
fn examples_of_the_documentation_run() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/replay.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let examples: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("$ uroce ")).collect();
    assert!(examples.len() >= 5, "{examples:?}");
    for example in examples.into_iter().filter(|example| !example.contains(" --to ")) {
        let (words, rule) = example.split_once(" --fault ").unwrap_or((example, ""));
        let mut command = uroce(&words.replace("run.pcapng", &pcap("loss")));
        if !rule.is_empty() {
            command.args(["--fault", rule.trim_matches('\'')]);
        }
        let output = command.output().expect("the program was built");
        assert!(matches!(code(&output), 0 | 1), "{example}: {}", text(&output));
        assert!(text(&output).contains("10.77.0.2"), "{example}: {}", text(&output));
    }
}
