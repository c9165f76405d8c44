//! Every example runs to its end, says something, and fits on a page.

use std::path::{Path, PathBuf};
use std::process::Command;

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    entries.map(|entry| entry.expect("readable").path()).collect()
}

/// Where cargo puts the examples of a test: beside the folder of the test.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("a test is a file");
    test.ancestors().nth(2).expect("target/PROFILE/deps/TEST").join("examples")
}

#[test]
fn they_run() {
    for example in examples() {
        let name = example.file_stem().expect("a file").to_str().expect("plain letters");
        let program = built().join(name);
        let output = Command::new(&program).output();
        let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {words}");
        assert!(!output.stdout.is_empty(), "{name} says nothing");
    }
}

#[test]
fn they_are_short() {
    let examples = examples();
    assert!(examples.len() >= 8);
    for example in examples {
        let lines = std::fs::read_to_string(&example).expect("text").lines().count();
        assert!(lines <= 60, "{} has {lines} lines", example.display());
    }
}
