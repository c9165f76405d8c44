//! The built program, without what the environment would change.

pub mod lab;

use std::process::{Command, Output};

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

/// Its exit status.
pub fn code(output: &Output) -> i32 {
    output.status.code().expect("it was not killed")
}

/// The file with this capture of the repository.
pub fn pcap(name: &str) -> String {
    format!("{}/../../pcaps/{name}.pcap", env!("CARGO_MANIFEST_DIR"))
}

/// What it printed, errors last.
pub fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}{err}")
}
