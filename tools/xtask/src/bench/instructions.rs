//! `cargo xtask bench instructions`: the work per packet, counted by callgrind.
//!
//! Instructions do not vary from run to run, so a change of the figure is a change of the code.

use std::process::Command;

use crate::error::{Error, Result};
use crate::process::{command, describe, find_program, stdout_of};
use crate::workspace;

/// Measures and prints a table.
///
/// # Errors
/// valgrind is missing, or the benchmark does not build or run.
pub fn run() -> Result<()> {
    if find_program("valgrind").is_none() {
        return Err(Error::new("valgrind is not installed: apt-get install valgrind"));
    }
    let program = build()?;
    println!("{:10} {:>12} {:>8} {:>22}", "side", "instructions", "packets", "instructions/packet");
    for side in ["requester", "responder"] {
        let (instructions, packets) = count(&program, side)?;
        let each = instructions as f64 / packets as f64;
        println!("{side:10} {instructions:>12} {packets:>8} {each:>22.1}");
    }
    println!("valgrind counts a string move as one instruction a byte: 1024 of each figure");
    Ok(())
}

/// Builds the benchmark and returns its program.
fn build() -> Result<String> {
    let words = ["bench", "--package", "uroce-tests", "--bench", "instructions"];
    let mut cargo = workspace::cargo(&words);
    cargo.args(["--no-run", "--message-format=json"]);
    let messages = stdout_of(&mut cargo)?;
    let found = messages.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(str::to_owned)
    });
    found.ok_or_else(|| Error::new(format!("`{}` named no program", describe(&cargo))))
}

/// Instructions inside the functions of one side, and packets sent.
fn count(program: &str, side: &str) -> Result<(u64, u64)> {
    let mut valgrind: Command = command(["valgrind", "--tool=callgrind"]);
    valgrind.arg("--callgrind-out-file=/dev/null").arg(format!("--toggle-collect=*{side}_*"));
    let output = valgrind
        .arg(program)
        .output()
        .map_err(|error| Error::new(format!("could not start valgrind: {error}")))?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let instructions = number_after(&stderr, "Collected :");
    let packets = stdout.split_whitespace().next().and_then(|word| word.parse().ok());
    match (instructions, packets) {
        (Some(instructions), Some(packets)) if instructions > 0 => Ok((instructions, packets)),
        _ => Err(Error::new(format!("callgrind counted nothing:\n{stdout}{stderr}"))),
    }
}

fn number_after(text: &str, label: &str) -> Option<u64> {
    text.split_once(label)?.1.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_in_what_callgrind_prints() {
        let text = "==1== Events    : Ir\n==1== Collected : 17639275\n==1== \n";
        assert_eq!(number_after(text, "Collected :"), Some(17_639_275));
        assert_eq!(number_after("nothing", "Collected :"), None);
    }
}
