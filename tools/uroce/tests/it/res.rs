//! `uroce res` and `uroce stat`, beside a process that has a device open.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::{PROGRAM, text, uroce};

/// The user `nobody` on most systems.
const NOBODY: u32 = 65_534;

/// A server that waits for a client, on an address and port of its own.
struct Server(Child);

impl Server {
    fn start(address: &str) -> Server {
        let words = format!("rping -s -a {address} -p 7177 --roce-port 14791 --datapath udp");
        let child = uroce(&words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut server = Server(child.expect("it was built"));
        let mut line = String::new();
        let stderr = server.0.stderr.as_mut().expect("piped");
        BufReader::new(stderr).read_line(&mut line).expect("it says that it listens");
        assert!(line.contains("waiting"), "{line}");
        server
    }

    /// What `uroce WORDS` prints about this server.
    fn ask(&self, words: &str) -> String {
        let output = uroce(&format!("{words} --pid {}", self.0.id())).output().expect("built");
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_objects_of_another_process_are_listed() {
    let server = Server::start("127.0.0.31");
    let pid = server.0.id();
    let summary = server.ask("res");
    assert!(
        summary.starts_with("0: ")
            && summary.contains(" address 127.0.0.31 netdev lo datapath udp"),
        "{summary}"
    );
    assert!(summary.ends_with(&format!(" pid {pid} comm uroce\n")), "{summary}");
    let listeners = server.ask("res cm_id");
    assert!(listeners.contains("state LISTEN ps TCP src-port 7177"), "{listeners}");
    assert_eq!(server.ask("res cm_id -d 127.0.0.31"), listeners);
    assert_eq!(server.ask("res cm_id --address 127.0.0.32"), "");
    let all = server.ask("stat --all");
    assert!(all.contains(" sent_pkts 0 ") && all.contains(" drop_bad_icrc 0 "), "{all}");
    assert!(!server.ask("stat").contains(" sent_pkts "), "zeros are left out");
}

#[test]
fn the_same_as_json() {
    let server = Server::start("127.0.0.32");
    let read =
        |words| -> serde_json::Value { serde_json::from_str(&server.ask(words)).expect("JSON") };
    let devices = read("res --json");
    assert_eq!(devices["devices"][0]["address"], "127.0.0.32");
    assert_eq!(devices["devices"][0]["cm_id"], 1);
    let listeners = read("res cm_id --json");
    assert_eq!(listeners["cm_id"][0]["src-port"], 7177);
    assert_eq!(listeners["cm_id"][0]["pid"], server.0.id());
    let counters = read("stat --json");
    assert_eq!(counters["counters"][0]["drop_bad_icrc"], 0, "JSON has every counter");
}

#[test]
fn a_process_that_died_is_not_listed() {
    let mut server = Server::start("127.0.0.33");
    server.0.kill().and_then(|()| server.0.wait()).expect("ours");
    assert_eq!(server.ask("res"), "");
}

/// What another user sees who runs `uroce WORDS`; nothing where nobody can become one.
fn of_another_user(words: &[&str]) -> Option<Output> {
    static COPIES: AtomicU32 = AtomicU32::new(0);
    let copy = COPIES.fetch_add(1, Ordering::Relaxed);
    let copy = std::env::temp_dir().join(format!("uroce-res-{}-{copy}", std::process::id()));
    // By another process: what this one has open for writing, a child that another test starts just now
    // has open as well, and the copy would be busy.
    assert!(Command::new("cp").arg(PROGRAM).arg(&copy).status().expect("cp").success());
    let mut other = Command::new(&copy);
    other.args(words).env("NO_COLOR", "1");
    let done = other.uid(NOBODY).gid(NOBODY).output();
    let _ = std::fs::remove_file(&copy);
    match done {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            assert!(std::env::var_os("CI").is_none(), "CI runs this as root");
            println!("skipped: only root can become another user");
            None
        }
        done => Some(done.expect("it starts")),
    }
}

#[test]
fn another_user_is_told_whose_it_is_and_nothing_else() {
    let server = Server::start("127.0.0.34");
    let pid = server.0.id().to_string();
    let Some(output) = of_another_user(&["res", "--pid", &pid]) else { return };
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let said = text(&output);
    assert!(said.contains("it belongs to user 0") && said.contains("help: use sudo"), "{said}");
    assert_eq!(said.matches("it belongs to user 0").count(), 1, "once is enough: {said}");
    assert!(output.stdout.is_empty(), "{said}");
}

#[test]
fn devices_of_others_are_no_failure_of_whoever_asks_for_all() {
    let server = Server::start("127.0.0.35");
    let pid = server.0.id();
    for words in ["res", "stat"] {
        let Some(output) = of_another_user(&[words]) else { return };
        let said = text(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let mut notes = said.lines().filter(|line| line.starts_with("note: "));
        assert!(notes.any(|note| note.contains(&format!("process {pid} "))), "{said}");
        assert!(!said.contains("error"), "{said}");
    }
}
