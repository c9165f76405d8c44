//! Inside a crate, dependencies of modules have one direction.
//!
//! A module and those above and below it in the tree of modules may know each other; any other two may not, not even by
//! way of a third.

mod graph;
mod paths;
mod scopes;

use std::collections::BTreeMap;

use scopes::Scopes;

use crate::tree::packages;

/// Packages that have circles, with the number of modules in each, the largest first.
const CIRCLES: &[(&str, &[usize])] = &[];

#[test]
fn modules_form_no_circle() {
    let known: BTreeMap<_, _> = CIRCLES.iter().copied().collect();
    let (mut new, mut past) = (vec![], vec![]);
    for package in packages() {
        let graph = Scopes::of(&package).graph();
        let circles = graph.circles();
        let sizes: Vec<usize> = circles.iter().map(Vec::len).collect();
        let allowed = known.get(package.name.as_str()).copied().unwrap_or_default();
        let fits = sizes.len() <= allowed.len() && sizes.iter().zip(allowed).all(|(a, b)| a <= b);
        if !fits {
            new.push(format!(
                "{}: {sizes:?} of {allowed:?}:\n{}",
                package.name,
                graph.described(&circles)
            ));
        } else if sizes.is_empty() && !allowed.is_empty() {
            past.push(package.name);
        }
    }
    assert!(
        new.is_empty(),
        "move what both modules need into a third, or turn one of these uses around:\n{}",
        new.join("\n")
    );
    assert!(past.is_empty(), "no circles any more, take them off the list: {past:?}");
}

/// The circles of a crate of these files, each with its module and text.
#[cfg(test)]
fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let parsed: Vec<_> = files
        .iter()
        .map(|(module, text)| {
            let path = module.split("::").filter(|name| !name.is_empty()).map(str::to_owned);
            (path.collect::<Vec<_>>(), syn::parse_file(text).expect("Rust"))
        })
        .collect();
    let files = parsed.iter().map(|(module, file)| (module.as_slice(), file));
    let graph = Scopes::read(files).graph();
    let circles = graph.circles();
    circles.iter().map(|circle| circle.iter().map(|module| module.join("::")).collect()).collect()
}

#[test]
fn a_circle_by_imports_is_seen() {
    let b = ("b", "use crate::a::A; pub struct B;");
    assert_eq!(
        circles_of(&[("", "mod a; mod b;"), ("a", "use crate::b::B; pub struct A;"), b]),
        [["a", "b"]]
    );
    assert!(circles_of(&[("", "mod a; mod b;"), ("a", "pub struct A;"), b]).is_empty());
}

#[test]
fn a_circle_by_paths_in_code_and_in_macros_is_seen() {
    let a = ("a", "use super::b::B; pub struct A;");
    for b in [
        "pub struct B; fn f() { let _ = crate::a::A; }",
        "pub struct B; fn f() { println!(\"{}\", crate::a::A); }",
        "pub struct B; impl From<super::a::A> for B {}",
        "use crate::a; pub struct B; fn f(_: a::A) {}",
    ] {
        assert_eq!(circles_of(&[("", "mod a; mod b;"), a, ("b", b)]), [["a", "b"]], "{b}");
    }
}

#[test]
fn a_reexport_stands_for_what_it_names() {
    let files = [
        ("", "mod a; mod b; pub use a::A; pub use b::*;"),
        ("a", "use crate::B; pub struct A;"),
        ("b", "use crate::A; pub struct B;"),
    ];
    assert_eq!(circles_of(&files), [["a", "b"]]);
}

#[test]
fn what_a_glob_brings_in_is_followed() {
    let files = [
        ("", "mod a; mod b; pub use a::*; pub use b::*;"),
        ("a", "use super::*; pub struct A(B);"),
        ("b", "use crate::*; structs! { pub struct B { a: *mut A } }"),
    ];
    assert_eq!(circles_of(&files), [["a", "b"]]);
}

#[test]
fn a_glob_does_not_bring_in_what_a_module_only_imports() {
    let files = [
        ("", "mod a; mod b; pub use a::*; pub use b::*;"),
        ("a", "use super::B; pub struct A(B);"),
        ("b", "use super::A; pub struct B(*mut A);"),
    ];
    assert_eq!(circles_of(&files), [["a", "b"]]);
}

#[test]
fn a_circle_of_three_is_seen_and_tests_are_not() {
    let a = ("a", "use crate::b; pub struct A;");
    let b = ("b", "use crate::c::C; pub struct B;");
    let root = ("", "mod a; mod b; mod c;");
    let c = ("c", "use crate::a::A; pub struct C;");
    assert_eq!(circles_of(&[root, a, b, c]), [["a", "b", "c"]]);
    let c = ("c", "pub struct C; #[cfg(test)] mod tests { use crate::a::A; }");
    assert!(circles_of(&[root, a, b, c]).is_empty());
}

#[test]
fn ancestors_and_descendants_may_know_each_other() {
    let files = [
        ("", "mod a; pub struct Root;"),
        ("a", "mod below; use below::B; pub struct A;"),
        ("a::below", "use super::A; use crate::Root; pub struct B;"),
    ];
    assert!(circles_of(&files).is_empty());
}
