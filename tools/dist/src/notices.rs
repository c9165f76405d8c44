//! The licences of what the program and the libraries are linked with.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;
use uroce_testbed::error::{Context, Result};
use uroce_testbed::process::{describe, stdout_of};
use uroce_testbed::workspace;

/// Packages that end up in what is installed.
const INSTALLED: &[&str] = &["uroce", "uroce-cabi"];

/// Names and texts of the licences of all packages of others in what is installed, from the sources that cargo has.
///
/// # Errors
/// Cargo does not tell what depends on what.
pub fn collect() -> Result<String> {
    let mut cargo = workspace::cargo(&["metadata", "--format-version", "1", "--locked"]);
    let metadata = serde_json::from_str(&stdout_of(&mut cargo)?)
        .context(|| format!("`{}` said no JSON", describe(&cargo)))?;
    Ok(page(&linked(&metadata, INSTALLED)))
}

/// The packages of a registry that `roots` are linked with, with their names.
fn linked<'a>(metadata: &'a Value, roots: &[&str]) -> BTreeMap<String, &'a Value> {
    let list = |value: &'a Value| value.as_array().map(Vec::as_slice).unwrap_or_default();
    let packages: BTreeMap<_, _> = list(&metadata["packages"])
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let nodes: BTreeMap<_, _> = list(&metadata["resolve"]["nodes"])
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, list(&node["deps"]))))
        .collect();
    let is_root = |package: &&Value| {
        roots.iter().any(|root| package["name"] == *root) && package["source"].is_null()
    };
    let mut open: Vec<&str> = packages
        .values()
        .filter(|package| is_root(package))
        .filter_map(|p| p["id"].as_str())
        .collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if seen.insert(id) {
            let normal =
                nodes.get(id).into_iter().flat_map(|deps| deps.iter()).filter(|dep| is_linked(dep));
            open.extend(normal.filter_map(|dep| dep["pkg"].as_str()));
        }
    }
    let foreign =
        seen.into_iter().filter_map(|id| packages.get(id)).filter(|p| !p["source"].is_null());
    foreign
        .map(|package| {
            (format!("{} {}", text(&package["name"]), text(&package["version"])), *package)
        })
        .collect()
}

/// Build scripts and tests leave nothing in the program.
fn is_linked(dep: &Value) -> bool {
    dep["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
}

/// Each text once, with the packages that have it: most of the texts are the same.
fn page(packages: &BTreeMap<String, &Value>) -> String {
    let mut page = "# Third-party software\n\nuroce is linked with these packages.\n\n".to_owned();
    let mut texts: BTreeMap<String, (String, Vec<&str>)> = BTreeMap::new();
    for (name, package) in packages {
        page += &format!("- {name}: {}\n", text(&package["license"]));
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        for licence in manifest.parent().map(licences).unwrap_or_default() {
            // Copies of a text differ in blanks and line ends.
            let words: Vec<&str> = licence.split_whitespace().collect();
            let of_text = texts.entry(words.join(" "));
            of_text.or_insert_with(|| (licence, vec![])).1.push(name);
        }
    }
    for (licence, names) in texts.values() {
        let licence = licence.trim_matches('\n');
        page += &format!("\n## Licence of {}\n\n```\n{licence}\n```\n", names.join(", "));
    }
    page
}

/// The texts of the licences in a package's folder, in the order of their names.
fn licences(folder: &Path) -> Vec<String> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    let named = |path: &&std::path::PathBuf| {
        let name =
            path.file_name().map(|name| name.to_string_lossy().to_uppercase()).unwrap_or_default();
        ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    files.iter().filter(named).filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("not told")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_named_with_its_licence_and_what_only_tests_use_is_not() {
        let page = collect().expect("cargo");
        assert!(page.contains("\n- crc32fast 1") && page.contains(": MIT OR Apache-2.0\n"));
        let of_it = |section: &&str| {
            section.lines().next().is_some_and(|title| title.contains("crc32fast 1"))
        };
        let section = page.split("\n## Licence of ").skip(1).find(of_it).expect("a text");
        assert!(section.contains("Permission is hereby granted") || section.contains("Apache"));
        let grants = page.matches("TERMS AND CONDITIONS FOR USE, REPRODUCTION").count();
        assert!(grants < 25, "{grants} copies of one licence");
        assert!(!page.contains("proptest ") && !page.contains("uroce-wire "));
    }
}
