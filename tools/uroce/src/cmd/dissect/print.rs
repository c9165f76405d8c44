//! How a frame is printed.

use std::io::{self, Write};

use uroce_analyze::report::{Known, Seen};
use uroce_analyze::{
    Dissector, DissectorConfig, Filter, Frame, FrameKind, Layer, Learned, Packet, Tracker,
    TrackerConfig, fields,
};

use super::json::JsonLine;
use super::{columns, hexdump, tree};
use crate::packet_line::PacketLines;

/// What is printed of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    /// All fields.
    pub(super) tree: bool,
    /// The bytes of the frame.
    pub(super) hex: bool,
    /// JSON instead of text.
    pub(super) json: bool,
    /// Frames of other protocols as well.
    pub(super) all: bool,
}

/// Prints frames.
#[derive(Debug)]
pub(super) struct Printer<'a> {
    config: DissectorConfig,
    dissector: Dissector,
    style: Style,
    columns: &'a [&'static str],
    filter: Filter,
    /// The other packets, if the filter asks for them.
    history: Option<History>,
    lines: PacketLines,
    printed: u64,
}

impl<'a> Printer<'a> {
    /// A printer for the packets that `filter` chooses; only `columns` of them if there are some.
    /// `known` is what a first reading of the capture told, if the filter asks for more than a packet's
    /// own bytes tell.
    pub(super) fn new(
        config: DissectorConfig,
        style: Style,
        columns: &'a [&'static str],
        filter: Filter,
        known: Option<Known>,
    ) -> Self {
        let dissector = Dissector::new(config);
        let history =
            known.map(|known| History { tracker: Tracker::new(TrackerConfig::default()), known });
        Self {
            config,
            dissector,
            style,
            columns,
            filter,
            history,
            lines: PacketLines::default(),
            printed: 0,
        }
    }

    /// Packets, and other frames, that were printed.
    pub(super) const fn printed(&self) -> u64 {
        self.printed
    }

    /// Prints what is chosen of a frame.
    pub(super) fn print(&mut self, frame: &Frame<'_>, out: &mut impl Write) -> io::Result<()> {
        let mut chosen = Vec::new();
        let (filter, history) = (&self.filter, &mut self.history);
        let kind = self.dissector.dissect(frame, &mut |packet, payload, _| {
            let history = history.as_mut();
            let learned =
                history.map_or_else(Learned::default, |it| it.learn(frame, packet, payload));
            if filter.matches(packet, payload, learned) {
                chosen.push((*packet, payload));
            }
        });
        self.lines.note_frame(frame);
        let what = self.other(kind);
        if chosen.is_empty() && what.is_none() {
            return Ok(());
        }
        self.printed += chosen.len().max(1) as u64;
        let layers = self.layers(frame);
        if !self.columns.is_empty() {
            return columns::print(self.columns, &layers, out);
        }
        let shown = self.style.tree.then_some(layers.as_slice());
        for (packet, payload) in &chosen {
            match self.style.json {
                true => json_line(&JsonLine::of_packet(frame, packet, payload, shown), out)?,
                false => self.lines.packet(frame, packet, payload, out)?,
            }
        }
        match (what, self.style.json) {
            (Some(what), true) => json_line(&JsonLine::of_frame(frame, what, shown), out)?,
            (Some(what), false) => self.lines.frame(frame, &what, out)?,
            (None, _) => {}
        }
        self.details(frame, &layers, out)
    }

    fn layers(&self, frame: &Frame<'_>) -> Vec<Layer> {
        match self.style.tree || !self.columns.is_empty() {
            true => fields(frame, &self.config),
            false => Vec::new(),
        }
    }

    /// What a frame without a packet is, if such ones are printed. It passes no filter by what is in a
    /// packet, but is an error if it is malformed.
    fn other(&self, kind: FrameKind) -> Option<String> {
        let no_filter = self.filter.is_empty();
        let only_errors = self.filter == Filter::default().with_only_errors();
        match kind {
            FrameKind::RoceMalformed(why) if no_filter || only_errors => {
                Some(format!("malformed RoCE: {why}"))
            }
            FrameKind::Iwarp(iwarp) if no_filter => Some(iwarp.to_string()),
            FrameKind::Other if no_filter && self.style.all => Some("not RoCE".to_owned()),
            _ => None,
        }
    }

    fn details(&self, frame: &Frame<'_>, layers: &[Layer], out: &mut impl Write) -> io::Result<()> {
        if self.style.json {
            return Ok(());
        }
        if self.style.tree {
            tree::print(layers, out)?;
        }
        if self.style.hex {
            hexdump::print(frame.data, out)?;
        }
        Ok(())
    }
}

/// What the other packets of the capture tell about one of it.
#[derive(Debug)]
struct History {
    tracker: Tracker,
    known: Known,
}

impl History {
    fn learn(&mut self, frame: &Frame<'_>, packet: &Packet, payload: &[u8]) -> Learned {
        let annotation = self.tracker.handle_packet(packet, payload);
        let seen = Seen { packet, payload, annotation: &annotation, tracker: &self.tracker };
        self.known.learn(&seen, frame.comment)
    }
}

fn json_line(line: &JsonLine<'_>, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    writeln!(out)
}
