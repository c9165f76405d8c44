//! One order of imports: the standard library, other crates, then this one.

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Item, ItemUse, UseTree};

use crate::tree::packages;

/// The three groups, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    Std,
    Others,
    ThisCrate,
}

fn origin(import: &ItemUse) -> Origin {
    let name = match &import.tree {
        UseTree::Path(path) => path.ident.to_string(),
        UseTree::Name(name) => name.ident.to_string(),
        UseTree::Rename(rename) => rename.ident.to_string(),
        UseTree::Glob(_) | UseTree::Group(_) => String::new(),
    };
    match name.as_str() {
        "std" | "core" | "alloc" => Origin::Std,
        "crate" | "super" | "self" => Origin::ThisCrate,
        _ => Origin::Others,
    }
}

/// Lines of imports that stand in the wrong place.
#[derive(Default)]
struct Misplaced(Vec<usize>);

impl Misplaced {
    fn check(&mut self, items: &[Item]) {
        let imports = |pair: &[Item]| match pair {
            [Item::Use(first), Item::Use(second)] => {
                Some(((origin(first), first.span()), (origin(second), second.span())))
            }
            _ => None,
        };
        let wrong = items.windows(2).filter_map(imports).filter(|(first, second)| {
            first.0 > second.0 || (first.0 < second.0 && !is_apart(first.1, second.1))
        });
        self.0.extend(wrong.map(|(_, (_, span))| span.start().line));
    }
}

/// True if a blank line is between them.
fn is_apart(first: Span, second: Span) -> bool {
    second.start().line > first.end().line + 1
}

impl<'s> Visit<'s> for Misplaced {
    fn visit_file(&mut self, file: &'s syn::File) {
        self.check(&file.items);
        visit::visit_file(self, file);
    }

    fn visit_item_mod(&mut self, module: &'s syn::ItemMod) {
        if let Some((_, items)) = &module.content {
            self.check(items);
        }
        visit::visit_item_mod(self, module);
    }
}

fn misplaced(file: &syn::File) -> Vec<usize> {
    let mut found = Misplaced::default();
    found.visit_file(file);
    found.0
}

#[test]
fn imports_have_one_order() {
    let mut found = vec![];
    for package in packages() {
        for source in package.sources {
            let lines = misplaced(&source.parsed);
            found.extend(lines.iter().map(|line| format!("{}:{line}", source.file)));
        }
    }
    assert!(
        found.is_empty(),
        "std, blank line, other crates, blank line, this crate; \
         `cargo +nightly fmt --all -- --config group_imports=StdExternalCrate` does it: {found:#?}"
    );
}

#[test]
fn the_order_is_seen() {
    let lines = |text: &str| misplaced(&syn::parse_file(text).expect("Rust"));
    assert_eq!(lines("use std::fmt;\n\nuse syn::File;\n\nuse crate::a;\nuse super::b;\n"), []);
    assert_eq!(lines("use crate::a;\n\nuse std::fmt;\n"), [3]);
    assert_eq!(lines("use std::fmt;\nuse syn::File;\n"), [2], "no blank line");
    assert_eq!(lines("mod m { use super::a; use core::fmt; }"), [1]);
}
