//! `unsafe` lives in few crates (docs/architecture.md, "Where unsafe may live"): all others forbid it.

use std::path::Path;

use crate::tree::root;

/// Crates whose modules that may use `unsafe` are named in their root.
const BY_MODULE: &[&str] =
    &["conform-agent", "host", "memory", "packet", "service", "testkit", "udp", "xdp"];
/// Crates that take pointers from C everywhere.
const EVERYWHERE: &[&str] = &["cabi", "ibverbs", "rdmacm"];

/// Attribute that the root of a package must have.
fn due(package: &str) -> Option<&'static str> {
    match package {
        _ if EVERYWHERE.contains(&package) => None,
        _ if BY_MODULE.contains(&package) => Some("#![deny(unsafe_code)]"),
        _ => Some("#![forbid(unsafe_code)]"),
    }
}

fn root_of(package: &Path) -> Option<String> {
    let files = ["src/lib.rs", "src/main.rs"].map(|file| package.join(file));
    files.iter().find_map(|file| std::fs::read_to_string(file).ok())
}

#[test]
fn crates_forbid_unsafe_code_but_for_those_that_are_named() {
    let mut missing = vec![];
    for folder in ["crates", "tools"] {
        for entry in std::fs::read_dir(root().join(folder)).expect("a folder") {
            let package = entry.expect("an entry").path();
            let Some(text) = root_of(&package) else { continue };
            let name = package.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if due(&name).is_some_and(|attribute| !text.contains(attribute)) {
                missing.push(format!("{folder}/{name}: {}", due(&name).unwrap_or_default()));
            }
        }
    }
    assert!(missing.is_empty(), "their roots lack it: {missing:#?}");
}
