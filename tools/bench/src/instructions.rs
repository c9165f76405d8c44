//! `cargo xtask bench instructions`: the work per packet, counted by callgrind.
//!
//! Instructions do not vary from run to run, so a change of the figure is a change of the code. The
//! figures of the last accepted state are in docs/performance/instructions.json, and CI compares.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::process::{command, describe, find_program, stdout_of};
use uroce_testbed::workspace;

/// Growth above this share of the accepted figure must be accepted anew.
const TOLERANCE: f64 = 0.03;
/// How to accept.
const ACCEPT: &str = "cargo xtask bench instructions --save";
const SIDES: [&str; 2] = ["requester", "responder"];
const VERBS: [&str; 4] = ["write", "read", "send", "write8"];

/// Instructions per data packet, by verb and side.
type Counts = BTreeMap<String, f64>;

/// Measures and prints a table; with `save` the figures become the accepted ones.
///
/// # Errors
/// valgrind is missing, or the benchmark does not build or run.
pub fn run(save: bool) -> Result<()> {
    let found = count_all()?;
    let accepted = accepted()?;
    println!("{:16} {:>22} {:>10} {:>8}", "side", "instructions/packet", "accepted", "change");
    for (side, count) in &found {
        let before = accepted.get(side).copied().unwrap_or(*count);
        let change = (count / before - 1.0) * 100.0;
        println!("{side:16} {count:>22.1} {before:>10.1} {change:>+7.1}%");
    }
    if save { accept(&found) } else { Ok(()) }
}

/// Measures, and compares with the accepted figures.
///
/// # Errors
/// As [`run`]; or a figure grew by more than 3 % and was not accepted.
pub fn check() -> Result<()> {
    let found = count_all()?;
    let accepted = accepted()?;
    found.iter().for_each(|(side, count)| println!("{side:16} {count:.1} instructions per packet"));
    match complaints(&found, &accepted).as_slice() {
        [] => Ok(()),
        complaints => Err(Error::new(format!(
            "{}; make it cheaper, or accept the new figures by `{ACCEPT}` and commit the file",
            complaints.join("; ")
        ))),
    }
}

fn complaints(found: &Counts, accepted: &Counts) -> Vec<String> {
    let complaint = |(side, count): (&String, &f64)| match accepted.get(side) {
        None => Some(format!("the {side} has no accepted figure")),
        Some(before) if *count > before * (1.0 + TOLERANCE) => Some(format!(
            "the {side} takes {count:.0} instructions per packet, {:.1} % more than the accepted {before:.0}",
            (count / before - 1.0) * 100.0
        )),
        Some(_) => None,
    };
    found.iter().filter_map(complaint).collect()
}

fn file() -> PathBuf {
    workspace::root().join("docs/performance/instructions.json")
}

fn accepted() -> Result<Counts> {
    let path = file();
    let Ok(text) = fs::read_to_string(&path) else {
        return Ok(Counts::new());
    };
    serde_json::from_str(&text).context(|| format!("{} holds no figures", path.display()))
}

fn accept(found: &Counts) -> Result<()> {
    let rounded: Counts =
        found.iter().map(|(side, count)| (side.clone(), (count * 10.0).round() / 10.0)).collect();
    let text =
        serde_json::to_string_pretty(&rounded).context(|| "the figures have no JSON form")?;
    let path = file();
    fs::write(&path, text + "\n").context(|| format!("could not write {}", path.display()))
}

fn count_all() -> Result<Counts> {
    if find_program("valgrind").is_none() {
        return Err(Error::new("valgrind is not installed: apt-get install valgrind"));
    }
    let program = build()?;
    let cases = VERBS.into_iter().flat_map(|verb| SIDES.map(|side| (verb, side)));
    cases.map(|(verb, side)| Ok((format!("{verb} {side}"), count(&program, verb, side)?))).collect()
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

/// Instructions inside the functions of one side, per data packet.
fn count(program: &str, verb: &str, side: &str) -> Result<f64> {
    let mut valgrind: Command = command(["valgrind", "--tool=callgrind"]);
    valgrind.arg("--callgrind-out-file=/dev/null").arg(format!("--toggle-collect=*{side}_*"));
    let output = valgrind
        .arg(program)
        .arg(verb)
        .output()
        .map_err(|error| Error::new(format!("could not start valgrind: {error}")))?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let instructions = number_after(&stderr, "Collected :");
    let packets: Option<u64> = stdout.split_whitespace().next().and_then(|word| word.parse().ok());
    match (instructions, packets) {
        (Some(instructions), Some(packets)) if instructions > 0 && packets > 0 => {
            Ok(instructions as f64 / packets as f64)
        }
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

    #[test]
    fn only_growth_beyond_the_tolerance_is_complained_about() {
        let counts = |value: f64| Counts::from([("requester".to_owned(), value)]);
        assert!(complaints(&counts(1029.0), &counts(1000.0)).is_empty());
        assert!(complaints(&counts(500.0), &counts(1000.0)).is_empty());
        let complaint = complaints(&counts(1031.0), &counts(1000.0));
        assert!(complaint[0].contains("3.1 % more"), "{complaint:?}");
        assert_eq!(complaints(&counts(1.0), &Counts::new()).len(), 1);
    }
}
