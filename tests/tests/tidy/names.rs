//! A type has a name of its own.
//!
//! `type_names.txt` lists the names that are defined more than once, each with the packages that it is in, once for each
//! definition. A word that is right in two places (`Error`) stays there; the others are to be renamed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use syn::Item;

use crate::tree::{attributes, defined_in, is_for_tests, packages, root};

/// Packages by the name of a type.
type Definitions = BTreeMap<String, Vec<String>>;

fn list() -> PathBuf {
    root().join("tests/tests/tidy/type_names.txt")
}

/// The types that these items define in production code.
fn types(items: &[Item], found: &mut Vec<String>) {
    for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
        match item {
            Item::Struct(item) => found.push(item.ident.to_string()),
            Item::Enum(item) => found.push(item.ident.to_string()),
            Item::Union(item) => found.push(item.ident.to_string()),
            Item::Trait(item) => found.push(item.ident.to_string()),
            Item::Type(item) => found.push(item.ident.to_string()),
            Item::Macro(call) if call.ident.is_none() => {
                let types = defined_in(&call.mac.tokens).into_iter();
                found.extend(types.filter(|(keyword, _)| is_type(keyword)).map(|(_, name)| name));
            }
            Item::Mod(module) => {
                types(module.content.as_ref().map_or(&[], |(_, items)| items), found);
            }
            _ => {}
        }
    }
}

fn is_type(keyword: &str) -> bool {
    matches!(keyword, "struct" | "enum" | "union" | "trait" | "type")
}

/// What is defined more than once.
fn repeated() -> Definitions {
    let mut all = Definitions::new();
    for package in packages() {
        for source in package.sources.iter().filter(|source| !source.is_test) {
            let mut names = vec![];
            types(&source.parsed.items, &mut names);
            for name in names {
                all.entry(name).or_default().push(package.name.clone());
            }
        }
    }
    all.retain(|_, packages| packages.len() > 1);
    all
}

fn written(definitions: &Definitions) -> String {
    let line =
        |(name, packages): (&String, &Vec<String>)| format!("{name}: {}\n", packages.join(" "));
    definitions.iter().map(line).collect()
}

fn read(text: &str) -> Definitions {
    let line = |line: &str| {
        let (name, packages) = line.split_once(": ")?;
        Some((name.to_owned(), packages.split(' ').map(str::to_owned).collect()))
    };
    text.lines().filter_map(line).collect()
}

#[test]
fn a_type_has_a_name_of_its_own() {
    let found = repeated();
    if std::env::var_os("UROCE_UPDATE").is_some() {
        std::fs::write(list(), written(&found)).expect("the list can be written");
    }
    let listed = read(&std::fs::read_to_string(list()).expect("the list"));
    let differs = |name: &&String| found.get(*name) != listed.get(*name);
    let lines: Vec<_> = found
        .keys()
        .chain(listed.keys())
        .filter(differs)
        .map(|name| {
            let at = |list: &Definitions| list.get(name).map_or("once".into(), |at| at.join(" "));
            format!("{name}: defined: {}; listed: {}", at(&found), at(&listed))
        })
        .collect();
    assert!(
        lines.is_empty(),
        "give each type a name of its own; where one word is right in both places, and after one has gone, \
         UROCE_UPDATE=1 writes type_names.txt: {lines:#?}"
    );
}

#[test]
fn the_list_is_sorted_and_read_as_it_is_written() {
    let text = std::fs::read_to_string(list()).expect("the list");
    assert_eq!(written(&read(&text)), text, "UROCE_UPDATE=1 writes it");
}
