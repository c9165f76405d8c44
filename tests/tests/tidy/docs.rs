//! Pages that name files of the sources name files that exist.

use std::collections::BTreeSet;

use crate::tree::root;

fn page(name: &str) -> String {
    std::fs::read_to_string(root().join("docs").join(name)).expect("a page")
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// `device/engine.rs` stands for crates/device/src/engine.rs; with `src` in it, the path is whole but for its folder.
fn exists(path: &str) -> bool {
    let Some((package, file)) = path.split_once('/') else { return true };
    let folders = ["crates", "tools"].map(|folder| root().join(folder).join(package));
    folders
        .iter()
        .any(|folder| folder.join(file).exists() || folder.join("src").join(file).exists())
        || root().join(path).exists()
}

#[test]
fn files_that_pages_name_exist() {
    let mut gone = vec![];
    for name in ["architecture.md", "contributing-an-operation.md"] {
        let text = page(name);
        let paths = quoted(&text).filter(|word| word.contains('/') && word.ends_with(".rs"));
        gone.extend(paths.filter(|path| !exists(path)).map(|path| format!("{name}: {path}")));
    }
    assert!(gone.is_empty(), "these are somewhere else now: {gone:#?}");
}

/// Files and crates that the table of a chapter of docs/architecture.md names, and what its text says of their numbers.
fn walk(chapter: &str) -> ((usize, usize), String) {
    let text = page("architecture.md");
    let chapter = text.split(&format!("## {chapter}\n")).nth(1).expect("a chapter");
    let chapter = chapter.split("\n## ").next().unwrap_or_default();
    let rows = chapter.lines().filter(|line| line.starts_with('|'));
    let files: BTreeSet<&str> =
        rows.flat_map(quoted).filter(|word| word.ends_with(".rs")).collect();
    let crates: BTreeSet<&str> = files.iter().filter_map(|file| file.split('/').next()).collect();
    let said = chapter.lines().find(|line| {
        line.contains(" files of ") && line.starts_with(|first: char| first.is_ascii_digit())
    });
    ((files.len(), crates.len()), said.unwrap_or_default().to_owned())
}

#[test]
fn walks_are_as_long_as_the_page_says() {
    for chapter in ["A packet comes in", "A work request goes out"] {
        let ((files, crates), said) = walk(chapter);
        let due = format!("{files} files of {crates} crates");
        assert!(said.starts_with(&due), "{chapter}: {due}, but: {said}");
    }
}

/// Headings and marks of generated tables that a page has more than once, as after a merge that kept both sides.
fn repeated_marks(text: &str) -> Vec<&str> {
    let is_mark = |line: &&str| {
        line.starts_with('#') || (line.starts_with("<!--") && line.ends_with("begin -->"))
    };
    // Lines between fences are commands and output.
    let outside = text.split("```").step_by(2).flat_map(str::lines);
    let mut seen = BTreeSet::new();
    outside.filter(is_mark).filter(|line| !seen.insert(*line)).collect()
}

#[test]
fn a_page_says_nothing_twice() {
    let pages = std::fs::read_dir(root().join("docs")).expect("a folder");
    let pages = pages.map(|entry| entry.expect("an entry").path());
    for path in pages.filter(|path| path.extension().is_some_and(|suffix| suffix == "md")) {
        let text = std::fs::read_to_string(&path).expect("a page");
        let twice = repeated_marks(&text);
        assert!(twice.is_empty(), "{} has these twice: {twice:?}", path.display());
    }
    assert_eq!(repeated_marks("# A\n## B\n```\n# A\n```\n## B\n"), ["## B"]);
}

#[test]
fn each_crate_that_is_published_has_a_page() {
    let folders = ["crates", "tools"].map(|group| root().join(group));
    let packages = folders.iter().flat_map(|folder| std::fs::read_dir(folder).expect("a folder"));
    let mut published = 0;
    for folder in packages.map(|entry| entry.expect("an entry").path()) {
        let Ok(manifest) = std::fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        if manifest.contains("publish = false") {
            continue;
        }
        published += 1;
        let page = std::fs::read_to_string(folder.join("README.md")).unwrap_or_default();
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = "));
        let title = format!("# {}\n", name.expect("a name").trim_matches('"'));
        assert!(page.starts_with(&title), "{} has no README.md of its name", folder.display());
    }
    assert!(published > 20, "{published} crates");
}
