//! Limits that keep the sources readable: lengths of functions, sizes of types, words.
//!
//! What was above a limit when the limit was set is listed here with its size, and may only become smaller.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

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

/// Words that had a meaning of their own in this tree, and the word of the field.
const WORDS: &[(&str, &str)] = &[
    ("astray", "misrouted"),
    ("courtesy", "yield backoff"),
    ("short way", "fast path"),
    ("vigil", "spin budget"),
];

fn sources() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders = vec![root.join("crates"), root.join("tools"), root.join("tests/src")];
    let mut files = vec![];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let is_source = path.components().any(|part| part.as_os_str() == "src");
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(kind) if kind == "rs" && is_source => files.push(path),
                _ => {}
            }
        }
    }
    files.sort();
    assert!(files.len() > 500, "{} sources", files.len());
    files
}

/// `crates/wire` of `.../crates/wire/src/bth.rs`.
fn crate_of(file: &Path) -> String {
    let parts: Vec<_> = file.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    let source = parts.iter().rposition(|part| part == "src").expect("a source");
    parts[source.saturating_sub(2)..source].join("/")
}

/// What is measured.
#[derive(Default)]
struct Sizes {
    file: PathBuf,
    package: String,
    /// Lines by function.
    functions: BTreeMap<String, usize>,
    /// Methods by type, and their files.
    types: BTreeMap<String, (usize, BTreeSet<PathBuf>)>,
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
    for file in sources() {
        let text = std::fs::read_to_string(&file).expect("text");
        let parsed = syn::parse_file(&text).expect("Rust");
        (sizes.package, sizes.file) = (crate_of(&file), file);
        sizes.visit_file(&parsed);
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
    for file in sources() {
        let text = std::fs::read_to_string(&file).expect("text").to_lowercase();
        let here = WORDS.iter().filter(|(word, _)| has_word(&text, word));
        found.extend(here.map(|(word, field)| format!("{}: {word}: {field}", file.display())));
    }
    assert!(found.is_empty(), "the field has words for these: {found:#?}");
}

#[test]
fn a_word_is_not_a_part_of_another_one() {
    assert!(has_word("the vigil.", "vigil") && has_word("a_vigil_of", "vigil"));
    assert!(!has_word("vigilant", "vigil"));
}
