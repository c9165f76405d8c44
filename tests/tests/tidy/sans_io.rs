//! Sans-IO crates take time, packets and randomness as arguments (ADR 1): clippy refuses clocks, threads and sockets there.

use std::process::Command;

use crate::tree::root;

const CRATES: [&str; 9] =
    ["analyze", "cm", "conform", "exchange", "fault", "memory", "replay", "transport", "wire"];
const LIST: &str = "crates/sans-io.clippy.toml";

/// The functions of the list.
fn refused() -> Vec<String> {
    let text = std::fs::read_to_string(root().join(LIST)).expect("the list");
    let paths = text.lines().filter_map(|line| line.split_once("path = \"")?.1.split_once('"'));
    paths.map(|(path, _)| path.to_owned()).collect()
}

#[test]
fn sans_io_crates_share_one_list_of_refused_functions() {
    for name in CRATES {
        let file = root().join("crates").join(name).join("clippy.toml");
        let shared = std::fs::canonicalize(root().join(LIST)).expect("the list");
        let found = std::fs::canonicalize(&file);
        assert!(found.is_ok_and(|found| found == shared), "{}: ln -s ../../{LIST}", file.display());
    }
    let architecture = std::fs::read_to_string(root().join("docs/architecture.md")).expect("text");
    let line = architecture.split("## The sans-IO line").nth(1).expect("a chapter");
    let first = line.split("get time").next().unwrap_or_default();
    assert!(CRATES.iter().all(|name| first.contains(&format!("`{name}`"))), "{first}");
}

/// A statement that names a function, with types for those that are generic.
fn used(path: &str) -> String {
    let types = match path.rsplit("::").next().expect("a name") {
        "spawn" => "::<fn(), ()>",
        "bind" | "connect" => "::<&str>",
        _ => "",
    };
    format!("    let _ = {path}{types};\n")
}

/// Clippy knows each function of the list, and an attribute of ours does not silence it.
#[test]
fn clippy_refuses_every_function_of_the_list() {
    let folder = std::env::temp_dir().join(format!("uroce-refused-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (file, refused) = (folder.join("lib.rs"), refused());
    let lines: String = refused.iter().map(|path| used(path)).collect();
    let text = format!("pub fn all() {{\n{lines}}}\n");
    std::fs::write(&file, text).expect("a file");
    let output = Command::new("clippy-driver")
        .args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata", "--out-dir"])
        .arg(&folder)
        .args(["-D", "clippy::disallowed_methods"])
        .arg(&file)
        .env("CLIPPY_CONF_DIR", root().join("crates/wire"))
        .output();
    std::fs::remove_dir_all(&folder).expect("it is ours");
    let Ok(output) = output else {
        assert!(std::env::var_os("CI").is_none(), "there is no clippy here");
        println!("skipped: there is no clippy here");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    for path in &refused {
        let complaint = format!("use of a disallowed method `{path}`");
        assert!(said.contains(&complaint), "{LIST}: clippy does not know {path}:\n{said}");
    }
    assert!(refused.len() >= 8, "{refused:?}");
}
