//! One command line, tried.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::case::{Case, How};
use super::end::End;
use crate::ci::as_nobody;
use crate::error::Result;
use crate::process::command;

/// The two ends. Not 127.0.0.1, where somebody else may already have UDP port 4791.
const SERVER: &str = "127.47.91.1";
const CLIENT: &str = "127.47.91.2";

/// Runs the case with the libraries in `folder`.
///
/// # Errors
/// What the program said when it failed.
pub fn run(case: &Case, folder: &Path) -> Result<()> {
    let output = |name: &str| folder.join(format!("{name}.out"));
    match case.how {
        How::Alone => End::start(&mut on(SERVER, case, folder), &output("server"))?.finish(),
        How::Until(text) => {
            let mut end = End::start(&mut on(SERVER, case, folder), &output("server"))?;
            end.wait_until(|end| end.printed().contains(text))
        }
        How::Pair | How::DropIn => {
            let port = port();
            let with_port = || {
                let mut words = on(SERVER, case, folder);
                words.args(["-p", &port.to_string()]);
                words
            };
            let mut server = End::start(&mut with_port(), &output("server"))?;
            server.wait_until(|_| is_listening(port))?;
            let mut words = on(CLIENT, case, folder);
            words.args(["-p", &port.to_string(), SERVER]);
            let client = End::start(&mut words, &output("client"))?.finish();
            client.and_then(|()| server.finish())
        }
    }
}

/// The program on the device with this address, as a user without privileges.
fn on(address: &str, case: &Case, folder: &Path) -> Command {
    let uroce = folder.join("bin/uroce").display().to_string();
    let mut words: Vec<&str> = as_nobody().to_vec();
    words.extend([&uroce, "run", "--log", "warn", "--device", address]);
    if case.how == How::DropIn {
        words.push("--drop-in");
    }
    words.extend(["--", case.program]);
    words.extend(case.arguments.split_whitespace());
    // Some distributions keep stdout back until a buffer is full, unless it is a terminal.
    if matches!(case.how, How::Until(_)) {
        words.splice(0..0, ["stdbuf", "-oL"]);
    }
    command(words)
}

/// The port on which the ends exchange what they need to know; two runs at once need two.
fn port() -> u16 {
    20_000 + u16::try_from(std::process::id() % 10_000).unwrap_or(0)
}

/// Whether somebody listens on this TCP port. To connect and see would confuse the server.
fn is_listening(port: u16) -> bool {
    const LISTEN: &str = "0A";
    let wanted = format!(":{port:04X}");
    let listens = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let local = words.next().is_some_and(|local| local.ends_with(&wanted));
        local && words.nth(1) == Some(LISTEN)
    };
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    tables.iter().flatten().any(|table| table.lines().any(listens))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_listener_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        assert!(is_listening(port));
        drop(listener);
        assert!(!is_listening(port));
    }
}
