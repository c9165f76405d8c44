//! `uroce view`, as a user runs it.

use std::path::{Path, PathBuf};
use std::process::Output;

use tempfile::TempDir;

use crate::common::{text, uroce};

fn capture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pcaps").join(name)
}

/// A folder that is removed at the end.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().expect("a temporary folder"))
    }

    fn view(&self, words: &str, file: &Path) -> Output {
        let mut command = uroce(&format!("view {words}"));
        command.arg(file).current_dir(self.0.path()).output().expect("the program was built")
    }

    fn page(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).expect("the page was written")
    }
}

#[test]
fn a_capture_becomes_a_page_beside_the_user() {
    let folder = Folder::new();
    let output = folder.view("", &capture("loss.pcap"));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).starts_with("loss.html: 300 packets, "), "{}", text(&output));
    let page = folder.page("loss.html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert!(page.contains("<title>loss.pcap - uroce view</title>"));
}

#[test]
fn what_is_left_out_is_said() {
    let folder = Folder::new();
    let output = folder.view("--max-packets 100 -o less.html", &capture("loss.pcap"));
    assert!(text(&output).contains("200 packets behind them are left out"), "{}", text(&output));
    assert!(folder.page("less.html").contains("200 packets behind the first 100 are left out"));
    let output = folder.view("--opcode nak --json -o nak.html", &capture("loss.pcap"));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!((&json["packets"], &json["left_out"]), (&5.into(), &0.into()));
}

fn packets(output: &Output) -> u64 {
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    json["packets"].as_u64().expect("a number")
}

#[test]
fn a_queue_pair_has_its_packets_from_before_it_was_known() {
    let folder = Folder::new();
    let output = folder.view("--qp 0x192fa1 --json", &capture("loss.pcap"));
    assert_eq!(packets(&output), 300);
}

#[test]
fn errors_are_the_same_packets_for_every_command() {
    let folder = Folder::new();
    let viewed = packets(&folder.view("--errors --json", &capture("loss.pcap")));
    let others = ["dissect --errors", "ladder --errors --no-fold --json"].map(|words| {
        let mut command = uroce(words);
        let output = command.arg(capture("loss.pcap")).output().expect("the program was built");
        assert!(output.status.success(), "{}", text(&output));
        output.stdout
    });
    let dissected = String::from_utf8_lossy(&others[0]).lines().count() as u64;
    let ladder: serde_json::Value = serde_json::from_slice(&others[1]).expect("one object");
    let rows = ladder["ladder"]["rows"].as_array().expect("rows").iter();
    let drawn = rows.filter(|row| row.get("arrow").is_some()).count() as u64;
    assert_eq!((dissected, drawn), (viewed, viewed));
}

#[test]
fn a_damaged_capture_gives_a_page_and_exit_1() {
    let folder = Folder::new();
    let whole = std::fs::read(capture("loss.pcap")).expect("the capture");
    let cut = folder.0.path().join("cut.pcap");
    std::fs::write(&cut, &whole[..whole.len() / 2]).expect("room");
    let output = folder.view("", &cut);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(folder.page("cut.html").contains("uroce view"));
}

#[test]
fn a_page_of_a_damaged_capture_names_the_file_and_not_its_folder() {
    let folder = Folder::new();
    let whole = std::fs::read(capture("loss.pcap")).expect("the capture");
    let cut = folder.0.path().join("cut.pcap");
    std::fs::write(&cut, &whole[..whole.len() / 2]).expect("room");
    folder.view("", &cut);
    let page = folder.page("cut.html");
    let path = folder.0.path().to_str().expect("a name");
    assert!(page.contains("<p>cut.pcap: ") && !page.contains(path), "{path}");
}

#[test]
fn the_json_of_a_damaged_capture_says_so() {
    let folder = Folder::new();
    let whole = std::fs::read(capture("loss.pcap")).expect("the capture");
    let cut = folder.0.path().join("cut.pcap");
    std::fs::write(&cut, &whole[..whole.len() / 2]).expect("room");
    let output = folder.view("--json", &cut);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!((&json["file"], &json["exit"]), (&"cut.html".into(), &1.into()));
    assert!(json["packets"].as_u64() > Some(100), "{json}");
    assert!(json["error"].as_str().is_some_and(|error| error.contains("cut.pcap: ")), "{json}");
    assert!(json["help"].as_str().is_some_and(|help| help.contains("damaged")), "{json}");
}

#[test]
fn what_is_no_capture_is_exit_2_and_writes_nothing() {
    let folder = Folder::new();
    let output =
        folder.view("", Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml").as_path());
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    let output = folder.view("--qp 0x7777", &capture("loss.pcap"));
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("passes the filter"), "{}", text(&output));
    assert_eq!(std::fs::read_dir(folder.0.path()).expect("the folder").count(), 0);
}

#[test]
fn a_page_never_replaces_its_capture() {
    let folder = Folder::new();
    let own = folder.0.path().join("own.pcap");
    std::fs::copy(capture("loss.pcap"), &own).expect("room");
    let output = folder.view("-o own.pcap", &own);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert_eq!(std::fs::metadata(&own).expect("it is there").len(), 271_728);
}
