//! How much of each package is tests.

use std::collections::BTreeMap;
use std::path::Path;

use syn::Item;
use syn::spanned::Spanned as _;

use crate::tree::{Package, Source, attributes, is_for_tests, packages, root, rust_files};

/// Lines of tests for each line of production code, in per cent: where the protocol and the memory of others are.
const STRICT: (&[&str], usize) = (&["crates/memory", "crates/transport", "crates/wire"], 90);
/// In the other crates.
const USUAL: usize = 60;
/// Packages without a limit, and why. Those in `tools` have none: they are run against other programs.
const EXEMPT: &[(&str, &str)] = &[
    ("crates/conform", "a test itself: it is run against our device, sound and broken on purpose"),
    ("crates/conform-agent", "the other half of that test, on the machine of the device"),
    ("crates/sim", "a test itself: applications, networks and checks for the whole NIC"),
    ("crates/testkit", "tests use it, and nothing else"),
];
/// What was below its limit when the limits were set, with what it had at least since.
const BELOW: &[(&str, usize)] = &[];

/// Lines of production code and of tests.
#[derive(Debug, Default, Clone, Copy)]
struct Lines {
    production: usize,
    tests: usize,
}

impl Lines {
    fn of(package: &Package) -> Self {
        let mut lines = Self::default();
        for source in &package.sources {
            let tests = test_lines(source);
            lines.tests += tests;
            lines.production += source.text.lines().count() - tests;
        }
        let folders =
            ["tests", "benches", "examples"].map(|name| Path::new(&package.name).join(name));
        let files = folders.iter().flat_map(|folder| rust_files(folder));
        lines.tests += files
            .map(|file| std::fs::read_to_string(root().join(file)).expect("text").lines().count())
            .sum::<usize>();
        lines
    }

    fn per_cent(self) -> usize {
        self.tests * 100 / self.production.max(1)
    }
}

fn test_lines(source: &Source) -> usize {
    if source.is_test {
        return source.text.lines().count();
    }
    let tests = source.parsed.items.iter().filter(|item| is_for_tests(attributes(item)));
    tests.map(|item| lines_of(item).1).sum()
}

/// The first line of an item, and how many it has.
pub fn lines_of(item: &Item) -> (usize, usize) {
    let span = item.span();
    (span.start().line, span.end().line - span.start().line + 1)
}

fn limit(package: &str) -> Option<usize> {
    let is_exempt = EXEMPT.iter().any(|(name, _)| *name == package);
    match package {
        _ if is_exempt || !package.starts_with("crates/") => None,
        _ if STRICT.0.contains(&package) => Some(STRICT.1),
        _ => Some(USUAL),
    }
}

#[test]
fn there_are_tests_enough() {
    let known: BTreeMap<_, _> = BELOW.iter().copied().collect();
    let (mut missing, mut past) = (vec![], vec![]);
    for package in packages() {
        let Some(limit) = limit(&package.name) else { continue };
        let lines = Lines::of(&package);
        let name = package.name.as_str();
        let wanted = known.get(name).copied().unwrap_or(limit);
        if lines.per_cent() < wanted {
            missing.push(format!("{name}: {} % of {wanted} %: {lines:?}", lines.per_cent()));
        }
        if known.contains_key(name) && lines.per_cent() >= limit {
            past.push(package.name);
        }
    }
    assert!(missing.is_empty(), "write tests, or less code: {missing:#?}");
    assert!(
        past.is_empty(),
        "these are not below their limits any more, take them off the list: {past:?}"
    );
}

#[test]
fn exempt_packages_exist() {
    let exists = |name: &str| root().join(name).join("Cargo.toml").is_file();
    assert!(EXEMPT.iter().all(|(name, why)| exists(name) && !why.is_empty()));
    assert!(STRICT.0.iter().all(|name| exists(name)));
}
