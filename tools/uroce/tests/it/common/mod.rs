//! The built program, without what the environment would change.

pub mod lab;

use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_uroce");

pub fn uroce(words: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(words.split_whitespace()).env("NO_COLOR", "1");
    for name in [
        "UROCE_DEVICE",
        "UROCE_DATAPATH",
        "UROCE_ROCE_PORT",
        "UROCE_PCAP",
        "UROCE_LOG",
        "UROCE_SPLIT_WRITES",
    ] {
        command.env_remove(name);
    }
    command
}

/// Runs it to its end.
pub fn run(words: &str) -> Output {
    uroce(words).output().expect("the program was built")
}

/// Starts it; what it prints is kept.
pub fn spawn(words: &str) -> Child {
    let mut command = uroce(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program was built")
}

/// Waits until the process catches SIGINT.
pub fn wait_until_it_catches_signals(pid: u32) {
    const SIGINT: u64 = 1 << 1;
    for _ in 0..1000 {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        if caught.is_some_and(|mask| mask & SIGINT != 0) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it never watched SIGINT");
}

/// Ctrl-C.
pub fn interrupt(child: &Child) {
    let done = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(done.is_ok_and(|status| status.success()));
}

/// A server and a client that differ in their words; server first.
pub fn ends(server: &str, client: &str) -> [Output; 2] {
    let (tcp, roce) = (free_port(), free_port());
    let shared = format!("-p {tcp} --roce-port {roce}");
    let server = spawn(&format!("{server} {shared} --address 127.0.0.1"));
    let client = run(&format!("{client} {shared} --address 127.0.0.2 127.0.0.1"));
    [server.wait_with_output().expect("it ends"), client]
}

/// Its exit status.
pub fn code(output: &Output) -> i32 {
    output.status.code().expect("it was not killed")
}

/// The file with this capture of the repository.
pub fn pcap(name: &str) -> String {
    format!("{}/../../pcaps/{name}.pcap", env!("CARGO_MANIFEST_DIR"))
}

/// A TCP or UDP port that nobody uses now. Tests run side by side, so each needs its own.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    listener.local_addr().expect("bound").port()
}

/// What it printed.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Its notes and errors.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What it printed, errors last.
pub fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}{err}")
}
