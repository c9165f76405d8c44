use std::path::Path;

use crate::judge::{RULES, findings_page};

#[test]
fn the_page_of_findings_is_that_of_the_rules() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/findings.md");
    let page = findings_page();
    if std::env::var_os("UROCE_UPDATE").is_some() {
        std::fs::write(&path, &page).expect("docs/findings.md can be written");
    }
    let written = std::fs::read_to_string(&path).expect("docs/findings.md");
    assert!(written == page, "run with UROCE_UPDATE=1 and look at the difference");
}

#[test]
fn rules_are_those_of_the_table_of_conformance() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md");
    let table = std::fs::read_to_string(path).expect("docs/conformance.md");
    for rule in RULES.iter().filter(|rule| rule.id != "-") {
        assert!(table.contains(&format!("\n| {} | ", rule.id)), "{} of {}", rule.id, rule.name);
    }
}

#[test]
fn every_rule_is_described_in_sentences() {
    for rule in RULES {
        assert!(rule.meaning.ends_with('.') && rule.advice.ends_with('.'), "{}", rule.name);
        assert!(!rule.title.ends_with('.'), "{}", rule.name);
        let is_plain = |letter: char| letter.is_ascii_lowercase() || letter == '-';
        assert!(rule.name.chars().all(is_plain), "{}", rule.name);
    }
}

/// Each rule has a test here that breaks it.
#[test]
fn every_rule_has_a_test() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/judge/tests");
    let files = std::fs::read_dir(tests).expect("the tests").map(|file| file.expect("a file"));
    let text: String =
        files.map(|file| std::fs::read_to_string(file.path()).expect("a source file")).collect();
    for rule in RULES.iter().filter(|rule| rule.name != "findings-limit") {
        assert!(text.contains(&format!("\"{}\"", rule.name)), "no test names {}", rule.name);
    }
}
