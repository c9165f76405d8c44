//! The documentation of the API cites only rules that docs/conformance.md has.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace").to_owned()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// `R12` of `(R12, B3)`: one capital letter and a number, between brackets.
fn cited(line: &str) -> Vec<String> {
    let is_rule = |word: &&str| {
        let digits = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        word.len() > digits.len()
            && !digits.is_empty()
            && digits.bytes().all(|b| b.is_ascii_digit())
    };
    let brackets = line.split('(').skip(1).filter_map(|rest| rest.split_once(')'));
    let lists = brackets.filter(|(list, _)| list.split(", ").all(|word| is_rule(&word)));
    lists.flat_map(|(list, _)| list.split(", ").map(str::to_owned)).collect()
}

#[test]
fn v123_documentation_cites_rules_that_exist() {
    let table = std::fs::read_to_string(root().join("docs/conformance.md")).expect("the table");
    let mut files = Vec::new();
    sources(&root().join("crates/verbs/src"), &mut files);
    let mut count = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).expect("text");
        for line in text.lines().filter(|line| line.trim_start().starts_with("//")) {
            for rule in cited(line) {
                count += 1;
                let row = format!("\n| {rule} |");
                assert!(table.contains(&row), "{}: {line}: no rule {rule}", file.display());
            }
        }
    }
    assert!(count >= 10, "only {count} citations were found");
}
