//! Compresses the style sheets and scripts of the page of `uroce view`, which every program that has this crate carries.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, io};

use flate2::Compression;
use flate2::write::GzEncoder;

const ASSETS: &str = "src/view/assets";
const DARK: &str = "dark.css";
/// The scripts in their order; they become one function.
const SCRIPTS: [&str; 18] = [
    "data.js",
    "format.js",
    "capture.js",
    "filter.js",
    "selection.js",
    "theme.js",
    "sequence.js",
    "axis.js",
    "drawn.js",
    "plot.js",
    "sequence-plot.js",
    "outstanding-plot.js",
    "rows.js",
    "ladder.js",
    "detail.js",
    "tables.js",
    "keys.js",
    "main.js",
];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={ASSETS}");
    let folder = env::var_os("OUT_DIR").map(PathBuf::from).ok_or(io::ErrorKind::NotFound)?;
    let scripts: io::Result<Vec<String>> = SCRIPTS.iter().map(|name| asset(name)).collect();
    compress(&folder.join("script.gz"), &scripts?)?;
    compress(&folder.join("style.gz"), &styles()?)
}

/// The style sheets in their order. Dark is what the user chose, or what the system has unless the user chose light.
fn styles() -> io::Result<Vec<String>> {
    let dark = asset(DARK)?;
    Ok(vec![
        asset("style.css")?,
        format!(":root[data-theme=\"dark\"] {{\n{dark}}}\n"),
        format!(
            "@media (prefers-color-scheme: dark) {{ :root:not([data-theme=\"light\"]) {{\n{dark}}} }}\n"
        ),
        asset("panels.css")?,
    ])
}

fn asset(name: &str) -> io::Result<String> {
    fs::read_to_string(Path::new(ASSETS).join(name))
}

fn compress(path: &Path, parts: &[String]) -> io::Result<()> {
    let mut gzip = GzEncoder::new(File::create(path)?, Compression::best());
    parts.iter().try_for_each(|part| gzip.write_all(part.as_bytes()))?;
    gzip.finish().map(drop)
}
