//! `uroce top` beside a program with traffic: as text, as JSON, and on a terminal.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{PROGRAM, text, uroce};

/// How long the kernel and a busy machine are waited for.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(120);

/// Two NICs of one process that write to each other, until the test ends.
struct Busy(Ended);

/// A program that does not outlive the test.
struct Ended(Child);

impl Busy {
    fn new() -> Busy {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let port = port.expect("loopback").port();
        let words = format!("perf write bw --local=udp -D 600 -s 4096 --roce-port {port}");
        let child = uroce(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Busy(Ended(child.expect("it was built")))
    }

    fn pid(&self) -> u32 {
        self.0.0.id()
    }

    fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().expect("kill").success());
    }

    fn top(&self, words: &str) -> Command {
        uroce(&format!("top --pid {} {words}", self.pid()))
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Tries until `found` says so.
fn until(what: &str, mut found: impl FnMut() -> bool) {
    let end = Instant::now() + SCREEN_TIMEOUT;
    while !found() {
        assert!(Instant::now() < end, "{what} within {SCREEN_TIMEOUT:?}");
    }
}

#[test]
fn one_interval_as_text_has_the_queue_pairs_that_are_busy() {
    let busy = Busy::new();
    until("a queue pair with messages", || {
        let output = busy.top("--once -i 0.3").output().expect("built");
        assert!(output.status.success(), "{}", text(&output));
        let shown = text(&output);
        assert!(shown.contains("PROCESS"), "{shown}");
        let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let mut rows = shown.lines().map(cells).filter(|cells| cells.contains(&"RTS".to_owned()));
        // PROCESS PID DEVICE QPN PEER (two words) TYPE STATE MSG/S
        let is_busy = |cells: Vec<String>| cells[1] == busy.pid().to_string() && cells[8] != "0";
        rows.any(is_busy) && shown.contains("sent_bytes ")
    });
}

/// Sums of what devices send, one for each interval; `None` where all were silent.
fn sent(line: &str) -> Option<f64> {
    let interval: Value = serde_json::from_str(line).expect("an object a line");
    let devices = interval["devices"].as_array().expect("a list");
    let bits =
        devices.iter().map(|device| device["sent_bits_per_second"].as_f64().expect("a rate"));
    (!devices.is_empty()).then(|| bits.sum())
}

/// A process that is stopped and goes on had counted all its life: that is no rate of one interval.
#[test]
fn a_process_that_was_silent_has_no_rate_at_first() {
    let busy = Busy::new();
    let top = busy.top("--json -i 0.2").stdout(Stdio::piped()).spawn().expect("built");
    let mut top = Ended(top);
    let mut lines = BufReader::new(top.0.stdout.take().expect("piped")).lines();
    let mut next = || sent(&lines.next().expect("it goes on").expect("text"));
    until("traffic", || next().is_some_and(|bits| bits > 0.0));
    busy.signal("-STOP");
    until("silence", || next().is_none());
    busy.signal("-CONT");
    let mut first = None;
    until("an answer", || {
        first = next();
        first.is_some()
    });
    assert_eq!(first, Some(0.0), "nobody knows when it counted what it did not tell");
    until("traffic again", || next().is_some_and(|bits| bits > 0.0));
}

#[test]
fn a_terminal_shows_the_table_and_q_leaves_it() {
    let busy = Busy::new();
    // A terminal that is made by a program has no size.
    let size = "stty rows 30 cols 160";
    let command = format!("{size}; exec {PROGRAM} top -i 0.2 --pid {}", busy.pid());
    let words = ["-qfec", &command, "/dev/null"];
    let mut script = Command::new("script");
    script.args(words).env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(script) = script.spawn() else {
        assert!(std::env::var_os("CI").is_none(), "needs script(1) of util-linux");
        return println!("skipped: needs script(1) of util-linux, to make a terminal");
    };
    let mut script = Ended(script);
    let mut screen = script.0.stdout.take().expect("piped");
    let (mut shown, mut piece) = (Vec::new(), [0; 4096]);
    until("a queue pair on the screen", || {
        let len = screen.read(&mut piece).expect("readable");
        assert!(len > 0, "it ended: {}", String::from_utf8_lossy(&shown));
        shown.extend_from_slice(&piece[..len]);
        let text = String::from_utf8_lossy(&shown);
        text.contains("PROCESS") && text.contains("RTS")
    });
    script.0.stdin.take().expect("piped").write_all(b"q").expect("it reads keys");
    screen.read_to_end(&mut shown).expect("readable");
    assert!(script.0.wait().expect("ours").success());
    let text = String::from_utf8_lossy(&shown);
    assert!(
        text.contains("\u{1b}[?1049h") && text.contains("\u{1b}[?1049l"),
        "the screen is left as it was"
    );
}
