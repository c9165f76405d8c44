//! The sources of the workspace, read and parsed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::{Attribute, Item};

/// A file of Rust in the `src` of a package.
pub struct Source {
    /// Its path in the repository.
    pub file: String,
    /// The module that it is: none for the root of the crate.
    pub module: Vec<String>,
    /// What it says.
    pub text: String,
    /// The same, parsed.
    pub parsed: syn::File,
    /// Only tests compile it.
    pub is_test: bool,
}

/// A package of the workspace.
pub struct Package {
    /// Its folder in the repository, such as `crates/wire`.
    pub name: String,
    /// The files of its library, or of its program.
    pub sources: Vec<Source>,
}

/// The folder of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace").to_owned()
}

/// The text of every source of the packages, by its path in the repository.
pub fn texts() -> Vec<(String, String)> {
    let sources = folders().into_iter().flat_map(|folder| rust_files(&folder.join("src")));
    let texts = sources.map(|file| {
        let text = std::fs::read_to_string(root().join(&file)).expect("text");
        (file.display().to_string(), text)
    });
    texts.collect()
}

/// Every package with its sources.
pub fn packages() -> Vec<Package> {
    let packages: Vec<_> = folders().iter().map(|folder| package(folder)).collect();
    let files: usize = packages.iter().map(|package| package.sources.len()).sum();
    assert!(files > 500, "only {files} sources were found");
    packages
}

/// The folders of all packages.
fn folders() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("tests")];
    for group in ["crates", "tools"] {
        let members = entries(&root().join(group)).into_iter();
        folders.extend(members.map(|name| Path::new(group).join(name)));
    }
    folders.retain(|folder| root().join(folder).join("Cargo.toml").is_file());
    folders.sort();
    folders
}

fn package(folder: &Path) -> Package {
    let mut sources: Vec<_> =
        rust_files(&folder.join("src")).iter().map(|file| source(folder, file)).collect();
    let tests: BTreeSet<Vec<String>> = sources.iter().flat_map(test_modules).collect();
    for source in &mut sources {
        source.is_test = (0..=source.module.len()).any(|n| tests.contains(&source.module[..n]));
    }
    Package { name: folder.display().to_string(), sources }
}

fn source(folder: &Path, file: &Path) -> Source {
    let text = std::fs::read_to_string(root().join(file)).expect("text");
    let parsed = syn::parse_file(&text).expect("Rust");
    let inside = file.strip_prefix(folder.join("src")).expect("a source").with_extension("");
    let mut module: Vec<_> =
        inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if module == ["lib"] || module == ["main"] {
        module.clear();
    }
    Source { file: file.display().to_string(), module, text, parsed, is_test: false }
}

/// The files that `#[cfg(test)] mod NAME;` puts into tests.
fn test_modules(source: &Source) -> Vec<Vec<String>> {
    let tested = source.parsed.items.iter().filter(|item| is_for_tests(attributes(item)));
    let named = tested.filter_map(|item| match item {
        Item::Mod(module) if module.content.is_none() => Some(module.ident.to_string()),
        _ => None,
    });
    named.map(|name| [&source.module[..], &[name]].concat()).collect()
}

/// All files of Rust below `folder`, in order.
pub fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = vec![];
    for name in entries(&root().join(folder)) {
        let path = folder.join(name);
        if root().join(&path).is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            files.push(path);
        }
    }
    files
}

/// The names in a folder, in order; none if there is no such folder.
fn entries(folder: &Path) -> Vec<String> {
    let read = std::fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<_> = read
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"))
        .collect();
    names.sort();
    names
}

/// True for `#[cfg(test)]`, alone or together with other conditions.
pub fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let condition = list.tokens.to_string();
        let mut words = condition.split(|c: char| !c.is_alphanumeric());
        list.path.is_ident("cfg") && words.any(|word| word == "test") && !condition.contains("not")
    })
}

/// The attributes of an item.
pub fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// What the arguments of a macro define, such as those of `bitflags!`: keyword and name.
pub fn defined_in(tokens: &TokenStream) -> Vec<(String, String)> {
    const KEYWORDS: [&str; 8] =
        ["const", "enum", "fn", "static", "struct", "trait", "type", "union"];
    let mut keyword = None;
    let mut found = vec![];
    for token in tokens.clone() {
        let TokenTree::Ident(word) = token else {
            keyword = None;
            continue;
        };
        let word = word.to_string();
        match keyword.take() {
            Some(keyword) => found.push((keyword, word)),
            None if KEYWORDS.contains(&word.as_str()) => keyword = Some(word),
            None => {}
        }
    }
    found
}

#[test]
fn definitions_in_macros_are_seen() {
    let tokens = "#[derive(Debug)] pub struct A: u32 { const B = 1; } pub(crate) enum C {}";
    let found = defined_in(&tokens.parse().expect("tokens"));
    let pair = |keyword: &str, name: &str| (keyword.to_owned(), name.to_owned());
    assert_eq!(
        found,
        [pair("struct", "A"), pair("enum", "C")],
        "only those of the outermost level"
    );
}

#[test]
fn test_code_is_told_from_production_code() {
    let is_test = |text: &str| {
        let file = syn::parse_file(text).expect("Rust");
        is_for_tests(attributes(&file.items[0]))
    };
    assert!(
        is_test("#[cfg(test)] mod tests;")
            && is_test("#[cfg(any(test, feature = \"x\"))] fn f() {}")
    );
    assert!(
        !is_test("#[cfg(not(test))] fn f() {}")
            && !is_test("#[cfg(feature = \"tests\")] fn f() {}")
    );
}
