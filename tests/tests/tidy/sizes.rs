//! Limits that keep the sources readable: lengths of functions, sizes of types.
//!
//! What was above a limit when the limit was set is listed here with its size, and may only become smaller.

use std::collections::{BTreeMap, BTreeSet};

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use crate::tree::packages;

/// Lines of a function.
const FUNCTION_LINES: usize = 60;
/// Methods of a type, those of traits aside.
const METHODS: usize = 60;
/// Files that have methods of one type.
const FILES: usize = 6;

/// Longer functions, and their lines.
const LONG_FUNCTIONS: &[(&str, usize)] = &[];
/// Larger types: their methods and files.
const LARGE_TYPES: &[(&str, usize, usize)] = &[];

/// What is measured.
#[derive(Default)]
struct Sizes {
    file: String,
    package: String,
    /// Lines by function.
    functions: BTreeMap<String, usize>,
    /// Methods by type, and their files.
    types: BTreeMap<String, (usize, BTreeSet<String>)>,
}

impl Sizes {
    fn function(&mut self, name: &syn::Ident, span: proc_macro2::Span) {
        let lines = span.end().line - span.start().line + 1;
        let longest = self.functions.entry(format!("{}::{name}", self.package)).or_default();
        *longest = lines.max(*longest);
    }
}

impl<'s> Visit<'s> for Sizes {
    fn visit_item_fn(&mut self, function: &'s syn::ItemFn) {
        self.function(&function.sig.ident, function.span());
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'s syn::ImplItemFn) {
        self.function(&function.sig.ident, function.span());
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_item_impl(&mut self, block: &'s syn::ItemImpl) {
        if let (None, syn::Type::Path(path)) = (&block.trait_, &*block.self_ty) {
            let name = path.path.segments.last().expect("a path has a name");
            let methods = block.items.iter().filter(|item| matches!(item, syn::ImplItem::Fn(_)));
            let of = self.types.entry(format!("{}::{}", self.package, name.ident)).or_default();
            of.0 += methods.count();
            of.1.insert(self.file.clone());
        }
        visit::visit_item_impl(self, block);
    }
}

fn sizes() -> Sizes {
    let mut sizes = Sizes::default();
    for package in packages() {
        sizes.package = package.name;
        for source in package.sources {
            sizes.file = source.file;
            sizes.visit_file(&source.parsed);
        }
    }
    sizes
}

#[test]
fn functions_are_short() {
    let known: BTreeMap<_, _> = LONG_FUNCTIONS.iter().copied().collect();
    let limit = |name: &str| known.get(name).copied().unwrap_or(FUNCTION_LINES);
    let sizes = sizes();
    let long: Vec<_> =
        sizes.functions.iter().filter(|(name, lines)| **lines > limit(name)).collect();
    assert!(long.is_empty(), "split them, or make the list of exceptions shorter: {long:#?}");
    let now = |name: &str| sizes.functions.get(name).copied().unwrap_or_default();
    let past: Vec<_> = known.keys().filter(|name| now(name) <= FUNCTION_LINES).collect();
    assert!(past.is_empty(), "no exceptions any more: {past:?}");
}

#[test]
fn types_are_one_thing() {
    let known: BTreeMap<_, _> =
        LARGE_TYPES.iter().map(|(name, methods, files)| (*name, (*methods, *files))).collect();
    let limit = |name: &str| known.get(name).copied().unwrap_or((METHODS, FILES));
    let sizes = sizes();
    let large: Vec<_> = sizes
        .types
        .iter()
        .map(|(name, (methods, files))| (name, *methods, files.len()))
        .filter(|(name, methods, files)| *methods > limit(name).0 || *files > limit(name).1)
        .collect();
    assert!(large.is_empty(), "more than {METHODS} methods or {FILES} files: {large:#?}");
    let fits = |name: &&&str| {
        let of = sizes.types.get(**name);
        of.is_none_or(|(methods, files)| *methods <= METHODS && files.len() <= FILES)
    };
    let past: Vec<_> = known.keys().filter(fits).collect();
    assert!(past.is_empty(), "no exceptions any more: {past:?}");
}
