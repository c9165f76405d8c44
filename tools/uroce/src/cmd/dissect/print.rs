//! How a frame is printed.

use std::io::{self, Write};

use uroce_analyze::report::{Known, Seen};
use uroce_analyze::{
    Dissector, DissectorConfig, Filter, Frame, Layer, Learned, Packet, Tracker, TrackerConfig,
    fields,
};

use super::json::JsonLine;
use super::other_frames::OtherFrames;
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
    /// Packets that are printed at most.
    pub(super) count: Option<u64>,
}

/// Prints frames.
#[derive(Debug)]
pub(super) struct Printer<'a> {
    config: DissectorConfig,
    dissector: Dissector,
    style: Style,
    columns: &'a [&'static str],
    filter: Filter,
    others: OtherFrames<'a>,
    /// The other packets, if the filter asks for them.
    history: Option<History>,
    lines: PacketLines,
    printed: u64,
}

impl<'a> Printer<'a> {
    /// A printer for the packets that `filter` chooses, and for `others`; only `columns` of them if there are some.
    pub(super) fn new(
        config: DissectorConfig,
        style: Style,
        columns: &'a [&'static str],
        filter: Filter,
        others: OtherFrames<'a>,
    ) -> Self {
        Self {
            config,
            dissector: Dissector::new(config),
            style,
            columns,
            filter,
            others,
            history: None,
            lines: PacketLines::default(),
            printed: 0,
        }
    }

    /// With what a first reading of the capture told, if the filter asks for more than a packet's own bytes tell.
    pub(super) fn with_known(self, known: Option<Known>) -> Self {
        let history =
            known.map(|known| History { tracker: Tracker::new(TrackerConfig::default()), known });
        Self { history, ..self }
    }

    /// Packets, and other frames, that were printed.
    pub(super) const fn printed(&self) -> u64 {
        self.printed
    }

    /// As many were printed as are asked for.
    pub(super) fn is_done(&self) -> bool {
        self.left() == 0
    }

    fn left(&self) -> u64 {
        self.style.count.map_or(u64::MAX, |count| count.saturating_sub(self.printed))
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
        chosen.truncate(usize::try_from(self.left()).unwrap_or(usize::MAX));
        let what = self.others.what(frame.number, kind);
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
