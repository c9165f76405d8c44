//! How densely the code that holds the state of the protocol asserts what must hold there.
//!
//! Assertions are on in tests, fuzzers and long sweeps of the simulator (docs/trust.md), and cost nothing in a release if they
//! are `debug_assert!`.

use syn::visit::{self, Visit};
use syn::{Item, Macro};

use crate::proportions::lines_of;
use crate::tree::{Package, Source, attributes, is_for_tests, packages};

/// Assertions in 1,000 lines of code that is no test, at least. These numbers only grow.
const FLOOR: &[(&str, usize)] = &[("crates/device", 6), ("crates/transport", 9)];

/// Counts assertions outside of tests.
#[derive(Default)]
struct Assertions(usize);

impl<'s> Visit<'s> for Assertions {
    fn visit_item(&mut self, item: &'s Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_macro(&mut self, found: &'s Macro) {
        const NAMES: [&str; 6] = [
            "assert",
            "assert_eq",
            "assert_ne",
            "debug_assert",
            "debug_assert_eq",
            "debug_assert_ne",
        ];
        let name = found.path.segments.last().map(|segment| segment.ident.to_string());
        self.0 += usize::from(name.is_some_and(|name| NAMES.contains(&name.as_str())));
    }
}

fn assertions(file: &syn::File) -> usize {
    let mut found = Assertions::default();
    found.visit_file(file);
    found.0
}

/// Lines of code outside of tests: no comment alone, and not empty.
fn lines(source: &Source) -> usize {
    let tests = source.parsed.items.iter().filter(|item| is_for_tests(attributes(item)));
    let mut is_test = vec![false; source.text.lines().count() + 1];
    for (start, count) in tests.map(lines_of) {
        is_test[start..start + count].fill(true);
    }
    let is_code = |line: &str| !line.trim().is_empty() && !line.trim().starts_with("//");
    let numbered = source.text.lines().zip(1..);
    numbered.filter(|(line, number)| is_code(line) && !is_test[*number]).count()
}

/// Assertions and lines of a package.
fn count(package: &Package) -> (usize, usize) {
    let sources = || package.sources.iter().filter(|source| !source.is_test);
    (sources().map(|source| assertions(&source.parsed)).sum(), sources().map(lines).sum())
}

#[test]
fn what_must_hold_is_asserted() {
    let packages = packages();
    for (name, floor) in FLOOR {
        let package = packages.iter().find(|package| package.name == *name).expect("a package");
        let (assertions, lines) = count(package);
        let density = assertions * 1000 / lines;
        println!("{name}: {assertions} assertions in {lines} lines");
        assert!(density >= *floor, "{name}: {assertions} in {lines} lines; assert what must hold");
        assert!(density == *floor, "{name}: raise its floor to {density}");
    }
}

#[test]
fn assertions_of_tests_do_not_count() {
    let text = "fn f() { debug_assert!(a); let b = || assert_eq!(b, c); } \
                #[cfg(test)] mod tests { fn g() { assert!(d); } }";
    assert_eq!(assertions(&syn::parse_file(text).expect("Rust")), 2);
}
