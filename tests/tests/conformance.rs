//! Tests that pages name exist: those of each rule, of each attack and of each defect that was found.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

type Tests = BTreeMap<String, Vec<String>>;

/// The letters of rules, one for each table of the document.
const RULES: [&str; 7] = ["R", "X", "E", "V", "C", "B", "A"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All Rust sources below `folder`.
fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            out.push(path);
        }
    }
}

/// The rules that a test's name begins with: `r53_r55_one_nak` gives R53 and R55.
fn rules(name: &str) -> Vec<String> {
    let is_rule = |part: &&str| {
        let (letter, digits) = part.split_at(part.len().min(1));
        RULES.contains(&letter.to_uppercase().as_str())
            && !digits.is_empty()
            && digits.bytes().all(|b| b.is_ascii_digit())
    };
    name.split('_').take_while(is_rule).map(str::to_uppercase).collect()
}

/// All `#[test]` functions: the place of the file and the name.
fn tests() -> Vec<(String, String)> {
    let mut files = vec![];
    sources(&root().join("crates"), &mut files);
    sources(&root().join("tests/tests"), &mut files);
    sources(&root().join("tools"), &mut files);
    let mut found = vec![];
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source file");
        let place = place_of(&file);
        // Tests inside proptest! have their attribute a line above too.
        for (_, rest) in text.match_indices("#[test]").map(|(at, _)| text.split_at(at)) {
            let Some(name) = rest.split_once("fn ").map(|(_, name)| name) else { continue };
            let is_name = |c: &char| c.is_alphanumeric() || *c == '_';
            found.push((place.clone(), name.chars().take_while(is_name).collect()));
        }
    }
    found
}

/// The same by rule, as `crate/file::name`.
fn tests_by_rule() -> Tests {
    let mut found = Tests::new();
    for (place, name) in tests() {
        for rule in rules(&name) {
            found.entry(rule).or_default().push(format!("{place}::{name}"));
        }
    }
    found.values_mut().for_each(|tests| tests.sort());
    found
}

/// `transport/duplicates` of `crates/transport/tests/duplicates.rs`.
fn place_of(file: &Path) -> String {
    let parts: Vec<_> = file.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    let crate_at = parts
        .iter()
        .rposition(|part| ["crates", "tools", ".."].contains(&part.as_ref()))
        .map_or(0, |at| at + 1);
    let stem = file.with_extension("");
    let stem =
        stem.file_name().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    format!("{}/{stem}", parts[crate_at])
}

/// The document with its column of tests made anew.
fn renewed(document: &str, tests: &Tests) -> String {
    let renew = |line: &str| {
        let cells: Vec<_> = line.split(" | ").collect();
        let rule = cells[0].trim_start_matches("| ");
        match cells.as_slice() {
            [_, texts @ .., _, remark] if rule[1..].bytes().all(|b| b.is_ascii_digit()) => {
                let names = tests.get(rule).map(|names| names.join("<br>"));
                let texts = texts.join(" | ");
                format!("| {rule} | {texts} | {} | {remark}", names.as_deref().unwrap_or("-"))
            }
            _ => line.to_owned(),
        }
    };
    let lines = document.lines().map(|line| {
        let row_of_a_rule = |letter: &&str| line.starts_with(&format!("| {letter}"));
        if RULES.iter().any(row_of_a_rule) { renew(line) } else { line.to_owned() }
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn the_document_names_the_tests_that_exist() {
    let path = root().join("docs/conformance.md");
    let document = std::fs::read_to_string(&path).expect("docs/conformance.md");
    let renewed = renewed(&document, &tests_by_rule());
    if std::env::var_os("UROCE_UPDATE").is_some() {
        std::fs::write(&path, &renewed).expect("docs/conformance.md can be written");
    } else {
        assert!(document == renewed, "run with UROCE_UPDATE=1 and look at the difference");
    }
}

/// Each attack of docs/safety.md names one of the tests that bear its number.
#[test]
fn every_attack_of_the_safety_page_names_a_test_that_exists() {
    let page = std::fs::read_to_string(root().join("docs/safety.md")).expect("docs/safety.md");
    let tests = tests_by_rule();
    let mut attacks = 0;
    let is_row = |line: &&str| {
        line.strip_prefix("| A").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    for line in page.lines().filter(is_row) {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [attack, _, outcome, test] = cells[..] else { panic!("four cells: {line}") };
        let (named, place_end) = (tests.get(attack), format!("::{}", test.trim_matches('`')));
        let exists = named.is_some_and(|names| names.iter().any(|name| name.ends_with(&place_end)));
        assert!(exists && !outcome.is_empty(), "{attack} names {test}; its tests are {named:?}");
        attacks += 1;
        assert_eq!(attack, format!("A{attacks}"), "none is left out");
    }
    assert_eq!(attacks, 37);
}

/// Rules, commits and tests of docs/trust/defects.md.
#[test]
fn every_defect_names_rules_and_tests_that_exist() {
    let page = std::fs::read_to_string(root().join("docs/trust/defects.md")).expect("the page");
    let rules = std::fs::read_to_string(root().join("docs/conformance.md")).expect("the rules");
    let tests: BTreeSet<String> = tests().into_iter().map(|(_, name)| name).collect();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    for row in &rows {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [defect, broken, commits, named] = cells[..] else { panic!("four cells: {row}") };
        for rule in broken.split(", ").filter(|rule| !rule.is_empty()) {
            assert!(rules.contains(&format!("\n| {rule} |")), "{defect}: no rule {rule}");
        }
        let is_commit = |word: &str| word.len() == 8 && word.bytes().all(|b| b.is_ascii_hexdigit());
        assert!(commits.split(", ").all(is_commit), "{defect}: commits {commits}");
        let names: Vec<_> = named.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty() || named.starts_with("none: "), "{defect}: no test");
        let gone: Vec<_> = names.iter().filter(|name| !tests.contains(**name)).collect();
        assert!(gone.is_empty(), "{defect}: no test {gone:?}");
    }
    assert!(rows.len() >= 100, "only {} rows were found", rows.len());
}

#[test]
fn every_rule_has_a_test() {
    let document =
        std::fs::read_to_string(root().join("docs/conformance.md")).expect("it is there");
    let renewed = renewed(&document, &tests_by_rule());
    let gaps: Vec<_> = renewed.lines().filter(|line| line.contains(" | - | ")).collect();
    assert!(gaps.is_empty(), "rules without a test: {gaps:#?}");
}
