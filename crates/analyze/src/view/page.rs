//! The HTML page.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::base64::encode;
use super::escape;
use super::input::ViewSummary;
use super::meta::Meta;
use super::packet_table::PacketTable;
use super::summary::summary;

const TEMPLATE: &str = include_str!("assets/page.html");
const DARK: &str = include_str!("assets/dark.css");
/// The style sheets in their order. Dark is what the user chose, or what the system has unless the
/// user chose light.
const STYLES: [&str; 7] = [
    include_str!("assets/style.css"),
    ":root[data-theme=\"dark\"] {\n",
    DARK,
    "}\n@media (prefers-color-scheme: dark) { :root:not([data-theme=\"light\"]) {\n",
    DARK,
    "} }\n",
    include_str!("assets/panels.css"),
];
/// The scripts in their order; they become one function.
const SCRIPTS: [&str; 18] = [
    include_str!("assets/data.js"),
    include_str!("assets/format.js"),
    include_str!("assets/capture.js"),
    include_str!("assets/filter.js"),
    include_str!("assets/selection.js"),
    include_str!("assets/theme.js"),
    include_str!("assets/sequence.js"),
    include_str!("assets/axis.js"),
    include_str!("assets/drawn.js"),
    include_str!("assets/plot.js"),
    include_str!("assets/sequence-plot.js"),
    include_str!("assets/outstanding-plot.js"),
    include_str!("assets/rows.js"),
    include_str!("assets/ladder.js"),
    include_str!("assets/detail.js"),
    include_str!("assets/tables.js"),
    include_str!("assets/keys.js"),
    include_str!("assets/main.js"),
];

/// A finished page.
#[derive(Debug)]
pub struct Page {
    title: String,
    summary: String,
    meta: String,
    columns: String,
    bytes: String,
}

impl Page {
    pub(super) fn new(packets: &PacketTable, from: &ViewSummary, compress: bool) -> Self {
        let (entries, columns) = packets.columns.join();
        let meta = Meta::new(packets, from, entries, compress);
        // Names and numbers only: there is nothing that JSON could not say.
        let json = serde_json::to_string(&meta).unwrap_or_default();
        Self {
            title: escape::html(&meta.title),
            summary: summary(&meta),
            meta: escape::json(&json),
            columns: pack(&columns, compress),
            bytes: pack(&packets.bytes, compress),
        }
    }

    /// Writes the page as HTML.
    ///
    /// # Errors
    /// `out` fails.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        let mut rest = TEMPLATE;
        while let Some((before, behind)) = rest.split_once("{{") {
            out.write_all(before.as_bytes())?;
            let (name, behind) = behind.split_once("}}").unwrap_or((behind, ""));
            self.write_part(name, out)?;
            rest = behind;
        }
        out.write_all(rest.as_bytes())
    }

    fn write_part(&self, name: &str, out: &mut impl Write) -> io::Result<()> {
        let parts: &[&str] = match name {
            "title" => &[&self.title],
            "summary" => &[&self.summary],
            "meta" => &[&self.meta],
            "columns" => &[&self.columns],
            "bytes" => &[&self.bytes],
            "style" => &STYLES,
            "script" => &SCRIPTS,
            _ => &[],
        };
        parts.iter().try_for_each(|part| out.write_all(part.as_bytes()))
    }
}

/// `bytes` as base64, gzipped before if `compress`.
fn pack(bytes: &[u8], compress: bool) -> String {
    if !compress {
        return encode(bytes);
    }
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    // A vector takes everything.
    let _ = gzip.write_all(bytes);
    encode(&gzip.finish().unwrap_or_default())
}

#[cfg(test)]
mod tests;
