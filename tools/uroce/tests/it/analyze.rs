//! `uroce analyze` and `uroce ladder`, as a user runs them.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::common::{code, pcap, run, text, uroce, wait_until_it_catches_signals};

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// A file in a folder that is removed at the end.
struct OwnFile {
    _folder: TempDir,
    path: String,
}

impl OwnFile {
    fn new(name: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join(name).to_str().expect("a plain name").to_owned();
        Self { _folder: folder, path }
    }

    fn with(name: &str, bytes: &[u8]) -> Self {
        let file = Self::new(name);
        std::fs::write(&file.path, bytes).expect("a temporary folder");
        file
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).expect("the program wrote it")
    }
}

#[test]
fn the_page_of_a_capture() {
    let output = run(&format!("analyze {}", pcap("loss")));
    assert_eq!(code(&output), 0, "{}", text(&output));
    for part in ["No queue pair failed", "300 RoCEv2 packets", "0x192fa1", "sequence NAK"] {
        assert!(text(&output).contains(part), "{part}: {}", text(&output));
    }
}

#[test]
fn a_finding_names_a_command_that_works() {
    let report = json(&run(&format!("analyze {} --json", pcap("loss"))));
    let look = report["findings"][0]["look"].as_str().expect("a command").to_owned();
    let output = run(look.strip_prefix("uroce ").expect("our command"));
    assert_eq!(code(&output), 0, "{look}: {}", text(&output));
    assert!(text(&output).contains("|<--"), "{}", text(&output));
}

#[test]
fn one_json_object_whatever_happens() {
    assert_eq!(json(&run(&format!("analyze {} --json", pcap("ud-send"))))["version"], 1);
    assert_eq!(json(&run(&format!("ladder {} --json", pcap("ud-send"))))["version"], 1);
    let output = run("analyze /no/such/file --json");
    assert_eq!((code(&output), json(&output)["exit"].as_i64()), (2, Some(2)));
}

#[test]
fn stdin_is_a_capture_too() {
    let mut command = uroce("analyze - --json");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program was built");
    let bytes = std::fs::read(pcap("write-lat")).expect("a capture of the repository");
    child.stdin.take().expect("a pipe").write_all(&bytes).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(json(&output)["capture"]["frames"], 46);
}

#[test]
fn ctrl_c_ends_a_live_pipe_with_a_report() {
    let mut command = uroce("analyze -");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program was built");
    let bytes = std::fs::read(pcap("write-lat")).expect("a capture of the repository");
    let mut pipe = child.stdin.take().expect("a pipe");
    pipe.write_all(&bytes).expect("it reads");
    pipe.flush().expect("it reads");
    wait_until_it_catches_signals(child.id());
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    let output = child.wait_with_output().expect("it ends");
    drop(pipe);
    assert_eq!(code(&output), 0, "{}", text(&output));
    assert!(text(&output).contains("Capture"), "{}", text(&output));
}

#[test]
fn a_damaged_capture_is_told_as_far_as_it_goes() {
    let mut bytes = std::fs::read(pcap("rc-send")).expect("a capture of the repository");
    bytes.truncate(bytes.len() - 5);
    let file = OwnFile::with("damaged.pcap", &bytes);
    for command in ["analyze", "ladder"] {
        let output = run(&format!("{command} {}", file.path));
        assert_eq!(code(&output), 1, "{}", text(&output));
        let text = text(&output);
        assert!(text.contains("damaged at byte") && text.contains("10.77.0.1"), "{text}");
    }
}

#[test]
fn what_is_no_capture_is_wrong_usage() {
    let file = OwnFile::with("text.pcap", b"these are words and no capture at all");
    for words in [
        &format!("analyze {}", file.path),
        &format!("ladder {}", file.path),
        "analyze /no/such/file",
        "analyze",
        &format!("ladder {} --qp 0x999999", pcap("loss")),
        &format!("ladder {} --psn 9..x", pcap("loss")),
        &format!("analyze {} --opcode shout", pcap("loss")),
        &format!("analyze {} --qp 999", pcap("loss")),
        &format!("analyze {} --qp 999 --errors", pcap("loss")),
        &format!("analyze {} --host 192.0.2.1", pcap("loss")),
    ] {
        let output = run(words);
        assert_eq!(code(&output), 2, "{words}: {}", text(&output));
        assert!(!output.stderr.is_empty(), "{words}");
    }
}

#[test]
fn a_queue_pair_that_the_capture_has_not_is_no_clean_bill() {
    let output = run(&format!("analyze {} --qp 999", pcap("loss")));
    assert_eq!((code(&output), output.stdout.len()), (2, 0), "{}", text(&output));
    let said = text(&output);
    assert!(said.contains("no packet is chosen") && said.contains("10.77.0.1 0x192fa1"), "{said}");
    let clean = run(&format!("analyze {} --errors", pcap("rc-send")));
    assert_eq!(code(&clean), 0, "that nothing is wrong is an answer: {}", text(&clean));
    let output = run(&format!("dissect {} --qp 999", pcap("loss")));
    assert_eq!((code(&output), output.stdout.len()), (0, 0), "{}", text(&output));
    assert!(text(&output).contains("passes the filter"), "{}", text(&output));
}

#[test]
fn strict_fails_on_errors_only() {
    assert_eq!(code(&run(&format!("analyze {} --strict", pcap("rc-send")))), 0);
    let mut bytes = std::fs::read(pcap("rc-send")).expect("a capture of the repository");
    // A byte of the payload of the first packet: its ICRC is wrong then.
    bytes[24 + 16 + 60] ^= 1;
    let file = OwnFile::with("wrong.pcap", &bytes);
    assert_eq!(code(&run(&format!("analyze {}", file.path))), 0);
    let output = run(&format!("analyze {} --strict", file.path));
    assert_eq!(code(&output), 1, "{}", text(&output));
}

#[test]
fn one_queue_pair_in_detail() {
    let output = run(&format!("analyze {} --qp 0x18", pcap("loss")));
    assert!(text(&output).contains("path MTU 1024, paired by acknowledged PSNs"));
    assert!(text(&output).contains("most bytes under way"));
}

#[test]
fn an_annotated_capture_has_comments_and_all_frames() {
    let out = OwnFile::new("annotated.pcapng");
    let output = run(&format!("analyze {} --annotate {}", pcap("loss"), out.path));
    assert_eq!(code(&output), 0, "{}", text(&output));
    let again = json(&run(&format!("analyze {} --json", out.path)));
    assert_eq!(again["capture"]["frames"], 300);
    let bytes = out.bytes();
    let comment = b"sent again (sequence NAK)";
    let count = bytes.windows(comment.len()).filter(|part| part == comment).count();
    assert!(count >= 25, "{count}");
}

#[test]
fn a_capture_is_not_written_over_itself() {
    let bytes = std::fs::read(pcap("rc-send")).expect("a capture of the repository");
    let file = OwnFile::with("same.pcap", &bytes);
    let output = run(&format!("analyze {0} --annotate {0}", file.path));
    assert_eq!(code(&output), 2);
    assert_eq!(file.bytes(), bytes);
    let nowhere = run(&format!("analyze {} --annotate /no/such/folder/x", pcap("loss")));
    assert_eq!(code(&nowhere), 3);
}

#[test]
fn a_capture_with_another_name_is_not_written_over_itself() {
    let bytes = std::fs::read(pcap("rc-send")).expect("a capture of the repository");
    let file = OwnFile::with("first.pcap", &bytes);
    let second = file.path.replace("first", "second");
    std::fs::hard_link(&file.path, &second).expect("one file system");
    let path = &file.path;
    for words in [
        format!("analyze {second} --annotate {path}"),
        format!("ladder {second} --svg {path}"),
        format!("view {second} -o {path}"),
        format!("replay {second} --to 127.0.0.1 --token 1122334455667788 --pcap {path}"),
        format!("analyze - --annotate {path}"),
        format!("ladder - --svg {path}"),
        format!("view - -o {path}"),
    ] {
        let stdin = std::fs::File::open(&second).expect("it is there");
        let output = uroce(&words).stdin(stdin).output().expect("the program was built");
        assert_eq!(code(&output), 2, "{words}: {}", text(&output));
        assert!(file.bytes() == bytes, "{words} wrote to what it reads");
    }
}

#[test]
fn a_conversation_is_the_same_from_both_ends() {
    let rows = |qpn| text(&run(&format!("ladder {} --qp {qpn}", pcap("loss"))));
    assert_eq!(rows("0x18"), rows("0x192fa1"));
    assert!(rows("24").contains("more SEND Middle 1024 B"));
}

#[test]
fn only_what_was_asked_for_is_drawn() {
    let naks = text(&run(&format!("ladder {} --opcode nak", pcap("loss"))));
    assert_eq!(naks.matches("NAK: PSN sequence error").count(), 5);
    assert!(!naks.contains("SEND"), "{naks}");
    let first = text(&run(&format!("ladder {} --frames 1..2 --relative", pcap("loss"))));
    assert!(first.contains("SEND First 0 1024 B") && first.contains("SEND Middle 1 1024 B"));
    let few = text(&run(&format!("ladder {} --limit 3 --no-fold", pcap("loss"))));
    assert!(few.contains("297 more packets"), "{few}");
}

/// Frame 128 of the sample asks for the copy of 0xca5385 that frames 124 to 127 go over: frame 119 came behind a gap.
#[test]
fn the_ladder_of_the_sample_blames_no_packet_that_arrived() {
    let drawn = json(&run(&format!("ladder {} --frames 105..135 --json", pcap("loss"))));
    let rows = drawn["ladder"]["rows"].as_array().expect("rows");
    let arrows: Vec<_> = rows.iter().filter_map(|row| row.get("arrow")).collect();
    assert!(arrows.len() > 20 && arrows.iter().all(|arrow| arrow["is_lost"] == false), "{drawn}");
    let note = |frame: u64| {
        let arrow = arrows.iter().find(|arrow| arrow["frame"] == frame);
        arrow.expect("it is drawn")["notes"].to_string()
    };
    assert!(note(123).contains("the missing packet is not in the capture"), "{}", note(123));
    assert!(note(128).contains("the missing copy is not in the capture"), "{}", note(128));
    let page = text(&run(&format!("analyze {}", pcap("loss"))));
    assert!(!page.contains("behind the capture point"), "{page}");
}

#[test]
fn the_commands_of_a_page_write_control_characters_of_a_name_as_a_shell_reads_them() {
    let bytes = std::fs::read(pcap("loss")).expect("a capture of the repository");
    let file = OwnFile::with("n\x1b[31m's.pcap", &bytes);
    let output = uroce("analyze").arg(&file.path).output().expect("the program was built");
    let page = text(&output);
    assert!(!page.contains('\x1b') && page.contains("n\\x1b[31m\\'s.pcap' --qp "), "{page}");
}

#[test]
fn a_ladder_as_svg() {
    let out = OwnFile::new("ladder.svg");
    let output = run(&format!("ladder {} --svg {}", pcap("loss"), out.path));
    assert_eq!((code(&output), output.stdout.len()), (0, 0), "{}", text(&output));
    let svg = String::from_utf8(out.bytes()).expect("UTF-8");
    assert!(svg.starts_with("<svg xmlns=") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("NAK: PSN sequence error"));
    assert_eq!(code(&run(&format!("ladder {} --svg /no/such/folder/x.svg", pcap("loss")))), 3);
}

/// Every command line of docs/analyze.md runs, on a capture of the repository.
#[test]
fn examples_of_the_documentation_run() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/analyze.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let out = OwnFile::new("example");
    let examples: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("$ uroce ")).collect();
    assert!(examples.len() >= 5, "{examples:?}");
    for example in examples {
        let words = example.replace("run.pcapng", &pcap("loss")).replace("OUT", &out.path);
        let output = run(&words);
        assert_eq!(code(&output), 0, "{example}: {}", text(&output));
    }
}
