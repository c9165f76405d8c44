//! Words that had a meaning of their own in this tree, where the field has one.

use std::path::Path;

use crate::tree::{root, rust_files, texts};

/// The word, and that of the field. The words that remain are in docs/glossary.md.
const WORDS: &[(&str, &str)] = &[
    ("abreast", "in one round of the send scheduler"),
    ("absorber", "port-holding socket"),
    ("astray", "misrouted"),
    ("blueprint", "builder"),
    ("contestant", "benchmark"),
    ("courtesy", "yield backoff"),
    ("entrance", "listener"),
    ("errand", "operation of another engine"),
    ("hearers", "members of the multicast group"),
    ("lobby", "shared state of the redirect thread"),
    ("nudge", "neighbour solicitation"),
    ("outlet", "source-port socket"),
    ("porter", "redirect thread"),
    ("rival", "baseline"),
    ("rouses", "wakes"),
    ("shelf", "queue of bursts"),
    ("short way", "fast path"),
    ("sift", "drain"),
    ("sorter", "demultiplexer"),
    ("surveyor", "steering probe"),
    ("unnoted", "not yet recorded"),
    ("vigil", "spin budget"),
];

/// True if `text` has `word` with no letter before or behind it.
fn has_word(text: &str, word: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphabetic);
    text.match_indices(word).any(|(at, _)| {
        let (before, behind) = (&text[..at], &text[at + word.len()..]);
        !is_letter(before.chars().next_back()) && !is_letter(behind.chars().next())
    })
}

#[test]
fn words_are_those_of_the_field() {
    let mut found = vec![];
    for (file, text) in texts() {
        let text = text.to_lowercase();
        let here = WORDS.iter().filter(|(word, _)| has_word(&text, word));
        found.extend(here.map(|(word, field)| format!("{file}: {word}: {field}")));
    }
    assert!(found.is_empty(), "the field has words for these: {found:#?}");
}

#[test]
fn timeouts_say_what_they_wait_for() {
    let files = ["crates", "tools"].into_iter().flat_map(|folder| rust_files(Path::new(folder)));
    let mut new = vec![];
    for file in files {
        let text = std::fs::read_to_string(root().join(&file)).expect("text");
        let defines = |line: &str| {
            let name = line.split_once("const ").and_then(|(_, rest)| rest.split_once(':'));
            name.is_some_and(|(name, _)| name.split('_').any(|word| word == "PATIENCE"))
        };
        if text.lines().any(defines) {
            new.push(file);
        }
    }
    assert!(new.is_empty(), "call it ..._TIMEOUT, with a word for what is waited for: {new:#?}");
}

#[test]
fn a_word_is_not_a_part_of_another_one() {
    assert!(has_word("the vigil.", "vigil") && has_word("a_vigil_of", "vigil"));
    assert!(!has_word("vigilant", "vigil"));
}

#[test]
fn the_glossary_is_short_and_its_places_exist() {
    let text = std::fs::read_to_string(root().join("docs/glossary.md")).expect("a glossary");
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with("| **")).collect();
    assert!((10..=30).contains(&rows.len()), "{} words of our own", rows.len());
    let mut sorted = rows.clone();
    sorted.sort_by_key(|row| row.to_lowercase());
    assert_eq!(rows, sorted, "in the order of the alphabet");
    for row in rows {
        let place = row.rsplit('`').nth(1).expect("where it is defined, between backticks");
        assert!(root().join(place).exists(), "{row}: there is no {place}");
    }
}
