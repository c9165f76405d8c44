//! One command line, tried.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::case::{Case, How};
use super::end::End;
use crate::ci::as_nobody;
use crate::error::Result;
use crate::process::command;

/// The two ends. Not 127.0.0.1, where somebody else may already have UDP port 4791.
const SERVER: &str = "127.47.91.1";
const CLIENT: &str = "127.47.91.2";
/// From an open device to its listener.
const SETTLE: Duration = Duration::from_secs(3);

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
        How::Called(client) | How::CalledNear(client) => {
            let words = as_server(case.arguments);
            let mut server = program(SERVER, case.program, &words, folder, false);
            let mut server = End::start(&mut server, &output("server"))?;
            server.wait_until(|_| has_device(SERVER))?;
            // Between the device and its listener nothing can be seen from outside.
            std::thread::sleep(SETTLE);
            let client = as_server(client);
            let (name, words) = client.split_once(' ').unwrap_or((&client, ""));
            let mut client = program(caller(case), name, words, folder, false);
            let client = End::start(&mut client, &output("client"))?.finish();
            client.and_then(|()| server.finish())
        }
        How::Pair | How::Near | How::DropIn => {
            let port = port();
            let with_port = || {
                let mut words = on(SERVER, case, folder);
                words.args(["-p", &port.to_string()]);
                words
            };
            let mut server = End::start(&mut with_port(), &output("server"))?;
            server.wait_until(|_| is_listening(port))?;
            let mut words = on(caller(case), case, folder);
            words.args(["-p", &port.to_string(), SERVER]);
            let client = End::start(&mut words, &output("client"))?.finish();
            client.and_then(|()| server.finish())
        }
    }
}

/// The address of the client.
fn caller(case: &Case) -> &'static str {
    match case.how {
        How::Near | How::CalledNear(_) => SERVER,
        _ => CLIENT,
    }
}

fn as_server(words: &str) -> String {
    words.replace("SERVER", SERVER)
}

/// The case's program on the device with this address.
fn on(address: &str, case: &Case, folder: &Path) -> Command {
    let mut words = program(address, case.program, case.arguments, folder, case.how == How::DropIn);
    // Some programs keep stdout back until a buffer is full, unless it is a terminal.
    if matches!(case.how, How::Until(_)) {
        let line = words.get_args().map(OsStr::to_owned);
        let line: Vec<_> = std::iter::once(words.get_program().to_owned()).chain(line).collect();
        words = command(["stdbuf", "-oL"]);
        words.args(line);
    }
    words
}

/// A program on the device with this address, as a user without privileges.
fn program(address: &str, name: &str, arguments: &str, folder: &Path, drop_in: bool) -> Command {
    let uroce = folder.join("bin/uroce").display().to_string();
    let mut words: Vec<&str> = as_nobody().to_vec();
    words.extend([&uroce, "run", "--log", "warn", "--device", address]);
    if drop_in {
        words.push("--drop-in");
    }
    words.extend(["--", name]);
    words.extend(arguments.split_whitespace());
    command(words)
}

/// Whether a device is open on this address: somebody has its UDP port.
fn has_device(address: &str) -> bool {
    const ROCE_PORT: &str = ":12B7";
    let Ok(ip) = address.parse::<std::net::Ipv4Addr>() else { return false };
    // The kernel prints addresses as numbers of the processor.
    let wanted = format!("{:08X}{ROCE_PORT}", u32::from_ne_bytes(ip.octets()));
    let table = fs::read_to_string("/proc/net/udp").unwrap_or_default();
    table.lines().any(|line| line.split_whitespace().nth(1) == Some(wanted.as_str()))
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
