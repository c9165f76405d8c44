//! `uroce rping` where it ends early, and where several callers want to be served.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use crate::common::{code, free_port, spawn, stderr, stdout};

/// How long a program may take to end.
const SOON: Duration = Duration::from_secs(30);

/// A program that is killed if the test fails.
struct Rping(Option<Child>);

impl Rping {
    fn start(words: &str) -> Self {
        Rping(Some(spawn(&format!("rping {words}"))))
    }

    /// One whose stderr goes on once it has a line with `wanted`.
    fn that_says(wanted: &str, words: &str) -> Self {
        let mut rping = Self::start(words);
        let stderr = rping.child().stderr.take().expect("piped");
        let mut lines = BufReader::new(stderr).lines();
        let said = lines.any(|line| line.is_ok_and(|line| line.contains(wanted)));
        assert!(said, "{words}: never {wanted}");
        // What it goes on saying must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        rping
    }

    fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("it was not waited for")
    }

    fn signal(&mut self, signal: &str) {
        let pid = self.child().id().to_string();
        let done = Command::new("kill").args([signal, &pid]).status();
        assert!(done.is_ok_and(|status| status.success()));
    }

    /// What it has printed at its end, which is soon.
    fn end(mut self) -> Output {
        let end = Instant::now() + SOON;
        while self.child().try_wait().expect("ours").is_none() {
            assert!(Instant::now() < end, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        self.0.take().expect("it was not waited for").wait_with_output().expect("it ends")
    }
}

impl Drop for Rping {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A server that waits, and the words with which a client calls it.
fn server(address: &str, port: u16, words: &str) -> (Rping, String) {
    let common = format!("-a {address} -p {port} --roce-port {}", free_port());
    (Rping::that_says("waiting", &format!("-s {common} {words}")), format!("-c {common}"))
}

fn pings(output: &Output) -> u64 {
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    told["pings"].as_u64().unwrap_or_else(|| panic!("{told}"))
}

#[test]
fn a_signal_ends_a_client_whose_pings_flow() {
    let (server, words) = server("127.0.0.61", 7181, "");
    let mut client = Rping::that_says("ping data", &format!("{words} -v --json"));
    client.signal("-INT");
    let output = client.end();
    assert_eq!(code(&output), 0, "{}", stdout(&output));
    assert!(pings(&output) > 0);
    assert_eq!(code(&server.end()), 0, "its client has ended the connection");
}

#[test]
fn a_signal_ends_a_server_whose_pings_flow() {
    let (mut server, words) = server("127.0.0.62", 7182, "--json");
    let client = Rping::that_says("ping data", &format!("{words} -v --json"));
    server.signal("-TERM");
    let output = server.end();
    assert_eq!(code(&output), 0, "{}", stdout(&output));
    assert!(pings(&output) > 0);
    assert_eq!(code(&client.end()), 4, "its server went away");
}

#[test]
fn callers_of_a_persistent_server_wait_for_their_turn() {
    let (mut server, words) = server("127.0.0.63", 7183, "-P --json");
    let clients: Vec<_> = (0..6).map(|_| Rping::start(&format!("{words} -C 3"))).collect();
    for client in clients {
        let output = client.end();
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    }
    server.signal("-INT");
    let output = server.end();
    assert_eq!((code(&output), pings(&output)), (0, 18));
}

#[test]
fn a_caller_waits_while_another_client_stands_still() {
    let (_server, words) = server("127.0.0.64", 7184, "-P");
    let mut first = Rping::that_says("ping data", &format!("{words} -v --json"));
    first.signal("-STOP");
    let second = Rping::start(&format!("{words} -C 2"));
    std::thread::sleep(Duration::from_millis(500));
    first.signal("-CONT");
    first.signal("-INT");
    let output = second.end();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}
