//! The HTML page.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::base64::encode;
use super::escape;
use super::input::ViewSummary;
use super::meta::Meta;
use super::packet_table::PacketTable;
use super::summary::summary;

const TEMPLATE: &str = include_str!("assets/page.html");
/// The style sheets and the scripts in their order, each gzipped by the build script.
const STYLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/style.gz"));
const SCRIPT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/script.gz"));

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
        let part: &mut dyn Read = match name {
            "title" => &mut self.title.as_bytes(),
            "summary" => &mut self.summary.as_bytes(),
            "meta" => &mut self.meta.as_bytes(),
            "columns" => &mut self.columns.as_bytes(),
            "bytes" => &mut self.bytes.as_bytes(),
            "style" => &mut GzDecoder::new(STYLE),
            "script" => &mut GzDecoder::new(SCRIPT),
            _ => return Ok(()),
        };
        io::copy(part, out).map(drop)
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
