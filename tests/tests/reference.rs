//! The pages of counters and of environment variables name what the sources have.

use std::path::{Path, PathBuf};

use uroce_wire::DropReason;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What `text` has between `start` and `end`.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("no {start:?}"));
    rest.split_once(end).unwrap_or_else(|| panic!("no {end:?} after {start:?}")).0
}

/// Names with their doc comments, from lines `/// words` before `name,` or `pub name: u64,`.
fn documented(block: &str) -> Vec<(String, String)> {
    let mut doc = Vec::new();
    let mut found = Vec::new();
    for line in block.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("///") {
            doc.push(words.trim().to_owned());
        } else if let Some(item) = line.strip_suffix(',') {
            let name = item.trim_start_matches("pub ").split(':').next().unwrap_or(item);
            found.push((name.to_owned(), doc.join(" ")));
            doc.clear();
        }
    }
    found
}

fn transport() -> Vec<(String, String)> {
    let source = read("crates/transport/src/counters.rs");
    documented(between(&source, "\ncounters! {\n", "\n}\n"))
}

/// Sizes of buffers are not counters; refusals are among the drop reasons.
fn datapath() -> Vec<(String, String)> {
    let source = read("crates/datapath/src/caps.rs");
    let fields = documented(between(&source, "pub struct DatapathStats {\n", "\n}\n"));
    let is_counter = |name: &str| !name.ends_with("_buffer") && name != "rx_refused";
    let counters = fields.into_iter().filter(|(name, _)| is_counter(name));
    counters.map(|(name, doc)| (format!("datapath_{name}"), doc)).collect()
}

fn drops() -> Vec<(String, String)> {
    let row =
        |reason: &DropReason| (format!("drop_{}", reason.name()), reason.explain().to_owned());
    DropReason::ALL.iter().map(row).collect()
}

/// `page` with the rows of one table made anew.
fn renewed(page: &str, table: &str, rows: &[(String, String)]) -> String {
    let marker = format!("<!-- {table} -->\n");
    let old = between(page, &marker, "<!-- end -->");
    let rows: String = rows.iter().map(|(name, doc)| format!("| `{name}` | {doc} |\n")).collect();
    let new = format!("\n| counter | what it counts |\n|---|---|\n{rows}\n");
    page.replacen(&format!("{marker}{old}"), &format!("{marker}{new}"), 1)
}

#[test]
fn the_page_of_counters_has_them_all() {
    let page = read("docs/counters.md");
    let tables = [("transport", transport()), ("datapath", datapath()), ("drops", drops())];
    assert!(tables.iter().all(|(_, rows)| rows.len() > 10), "the sources are read as they were");
    let new = tables.iter().fold(page.clone(), |page, (table, rows)| renewed(&page, table, rows));
    if std::env::var_os("UROCE_UPDATE").is_some() {
        std::fs::write(root().join("docs/counters.md"), &new).expect("writable");
    } else {
        assert!(page == new, "run with UROCE_UPDATE=1 and look at the difference");
    }
    let other =
        between(&read("crates/device/src/counters.rs"), "fn icrc_counters", "\n}\n").to_owned();
    assert!(other.contains("(\"icrc_valid\""), "the sources are read as they were");
    for name in other.split("(\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(new.contains(&format!("| `{name}` |")), "{name} is in no table");
    }
}

/// All Rust sources below `folder` that are no tests.
fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    for path in
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path())
    {
        let is_test = path.file_name().is_some_and(|name| name == "tests" || name == "tests.rs");
        if path.is_dir() && !is_test {
            sources(&path, out);
        } else if path.extension().is_some_and(|ext| ext == "rs") && !is_test {
            out.push(path);
        }
    }
}

#[test]
fn the_page_of_environment_variables_has_them_all() {
    let page = read("docs/environment.md");
    let mut files = vec![];
    for folder in ["crates", "tools/uroce"] {
        sources(&root().join(folder), &mut files);
    }
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source file");
        let names = text.split("\"UROCE_").skip(1).filter_map(|rest| rest.split('"').next());
        for name in names.filter(|name| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')) {
            let row = format!("| `UROCE_{name}` |");
            assert!(page.contains(&row), "UROCE_{name} of {} is not in the page", file.display());
        }
    }
}
