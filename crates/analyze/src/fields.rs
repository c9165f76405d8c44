//! A frame as a tree of fields.

mod cm;
mod link;
mod mad;
mod spec;
mod stack;
mod transport;
mod words;

use std::ops::Range;

use serde::Serialize;

use crate::dissect::{DissectorConfig, Walked, walk};
use crate::{Frame, FrameKind};

/// A header, or another part of a frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// Its protocol, in the words of Wireshark where it has one: `eth`, `ip`, `infiniband`.
    pub name: &'static str,
    /// Its name for people.
    pub title: String,
    /// Its fields in the order of the frame.
    pub fields: Vec<Field>,
    /// Its bytes in the frame.
    pub range: Range<usize>,
}

/// A value in a header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Field {
    /// Its name: Wireshark's, or one that begins with `uroce.` if Wireshark has none.
    pub name: &'static str,
    /// Its value as `tshark -T fields` writes it.
    pub value: String,
    /// Its label and value for people.
    pub text: String,
    /// Its bytes in the frame; a field of some bits has the bytes that they are in.
    pub range: Range<usize>,
    /// Fields within it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Field>,
}

impl Layer {
    /// Calls `visit` for each field, those within others too, in the order of the frame.
    pub fn visit<'l>(&'l self, visit: &mut dyn FnMut(&'l Field)) {
        self.fields.iter().for_each(|field| field.visit(visit));
    }

    /// The values of all fields with this name.
    pub fn values<'l>(&'l self, name: &str) -> Vec<&'l str> {
        let mut values = Vec::new();
        self.visit(&mut |field| {
            if field.name == name {
                values.push(field.value.as_str());
            }
        });
        values
    }
}

impl Field {
    fn visit<'l>(&'l self, visit: &mut dyn FnMut(&'l Field)) {
        visit(self);
        self.children.iter().for_each(|child| child.visit(visit));
    }
}

/// All fields of a frame, layer by layer, as far as they were captured. Names and values are those of
/// `tshark -T fields`; docs/dissect.md lists where they differ and why.
///
/// ```
/// use uroce_analyze::{CaptureReader, DissectorConfig, fields};
///
/// let capture = include_bytes!("../../../pcaps/rc-send.pcap");
/// let mut reader = CaptureReader::new(&capture[..])?;
/// let frame = reader.next_frame()?.expect("it has frames");
/// let layers = fields(&frame, &DissectorConfig::default());
/// let opcodes: Vec<_> = layers.iter().flat_map(|layer| layer.values("infiniband.bth.opcode")).collect();
/// assert_eq!(opcodes, ["0"]);
/// # Ok::<(), uroce_analyze::CaptureError>(())
/// ```
pub fn fields(frame: &Frame<'_>, config: &DissectorConfig) -> Vec<Layer> {
    let mut layers = vec![stack::frame(frame)];
    layers.extend(stack::below_transport(frame));
    let mut packets = Vec::new();
    let kind =
        walk(frame, config, &mut |walked: Walked| packets.extend(stack::packet(frame, &walked)));
    layers.extend(packets);
    match kind {
        FrameKind::RoceMalformed(why) => layers.push(stack::note(frame, "uroce.malformed", why)),
        FrameKind::Iwarp(iwarp) => layers.push(stack::note(frame, "uroce.iwarp", iwarp)),
        FrameKind::Roce { .. } | FrameKind::Other => {}
    }
    layers
}

/// The names of all fields that [`fields`] can give, sorted.
pub fn field_names() -> Vec<&'static str> {
    let mut names = stack::NAMES.to_vec();
    let tables = [link::ALL, transport::ALL, mad::ALL, cm::ALL];
    tables.iter().flat_map(|tables| *tables).for_each(|table| spec::add_names(table, &mut names));
    names.sort_unstable();
    names.dedup();
    names
}

/// First bit and number of bits of the field `name` in each header that has it.
#[cfg(test)]
pub(crate) fn places_of(name: &str) -> Vec<(usize, usize)> {
    let mut places = Vec::new();
    let tables = [link::ALL, transport::ALL, mad::ALL, cm::ALL];
    for table in tables.iter().flat_map(|tables| *tables) {
        spec::add_places(table, name, &mut places);
    }
    places
}

#[cfg(test)]
mod tests;
