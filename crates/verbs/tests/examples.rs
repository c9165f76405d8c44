//! Every example runs to its end, says something, and fits on a page.

use std::path::{Path, PathBuf};
use std::process::Command;

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    entries.map(|entry| entry.expect("readable").path()).collect()
}

/// The build profile of this test, so that nothing is compiled twice: the folder above `deps`.
fn profile() -> String {
    let test = std::env::current_exe().expect("a test is a file");
    let folder =
        test.ancestors().nth(2).and_then(Path::file_name).expect("target/PROFILE/deps/TEST");
    if folder == "debug" { "dev".to_owned() } else { folder.to_str().expect("a word").to_owned() }
}

#[test]
fn they_run() {
    let profile = profile();
    for example in examples() {
        let name = example.file_stem().expect("a file").to_str().expect("plain letters");
        let output = Command::new(env!("CARGO"))
            .args(["run", "--quiet", "--package", "uroce-verbs", "--profile", &profile])
            .args(["--example", name])
            .output()
            .expect("cargo starts");
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
