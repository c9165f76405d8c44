//! From frames to a page.

use std::collections::HashSet;

use super::builder::{ViewBuilder, ViewConfig};
use super::facts::{conversations, findings, keys_of};
use super::input::{Facts, ViewRow, ViewSummary};
use super::page::Page;
use crate::judge::Judge;
use crate::report::{Known, Seen, not_analysed, not_captured};
use crate::track::{FlowId, FlowKey, Tracker, TrackerConfig};
use crate::{Dissector, DissectorConfig, Filter, Frame, FrameKind, Packet};

/// Makes a page of a capture: takes frames apart, follows their flows, and keeps the packets that a
/// filter chooses.
///
/// The packets that the filter does not choose are followed, too: otherwise one that is sent again
/// would look new. Conversations without a packet in the page, and what went wrong in them, are not
/// told.
///
/// ```
/// use uroce_analyze::view::{ViewConfig, Viewer};
/// use uroce_analyze::{CaptureReader, DissectorConfig, Filter};
///
/// let capture = include_bytes!("../../../../pcaps/rc-send.pcap");
/// let mut reader = CaptureReader::new(&capture[..])?;
/// let mut viewer =
///     Viewer::new(ViewConfig::default(), DissectorConfig::default(), Filter::default());
/// while let Some(frame) = reader.next_frame()? {
///     viewer.handle_frame(&frame);
/// }
/// let mut html = Vec::new();
/// viewer.finish("rc-send.pcap", &[]).write_to(&mut html)?;
/// assert!(html.starts_with(b"<!DOCTYPE html>"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Viewer {
    dissector: Dissector,
    packets: Packets,
    frames: u64,
    malformed: u64,
    not_captured: u64,
}

/// Everything behind the dissector.
#[derive(Debug)]
struct Packets {
    tracker: Tracker,
    judge: Judge,
    builder: ViewBuilder,
    filter: Filter,
    known: Known,
    /// Flows with a packet in the page.
    shown: HashSet<FlowId>,
    not_chosen: u64,
}

impl Viewer {
    /// A viewer that has seen no frame.
    pub fn new(config: ViewConfig, dissector: DissectorConfig, filter: Filter) -> Self {
        let packets = Packets {
            tracker: Tracker::new(TrackerConfig::default()),
            judge: Judge::new(),
            builder: ViewBuilder::new(config),
            filter,
            known: Known::default(),
            shown: HashSet::new(),
            not_chosen: 0,
        };
        let dissector = Dissector::new(dissector);
        Self { dissector, packets, frames: 0, malformed: 0, not_captured: 0 }
    }

    /// Takes over what a first reading of the capture told: what the filter asks for is then known from
    /// the first packet on.
    #[must_use]
    pub fn with_known(mut self, known: Known) -> Self {
        self.packets.known = known;
        self
    }

    /// Takes in the next frame of the capture.
    pub fn handle_frame(&mut self, frame: &Frame<'_>) {
        self.frames += 1;
        let Self { dissector, packets, .. } = self;
        let mut bth = None;
        let kind = dissector.dissect(frame, &mut |packet, payload, transport| {
            let bth = *bth.get_or_insert_with(|| offset_of(frame.data, transport));
            packets.handle_packet(frame, packet, payload, transport, bth);
        });
        self.malformed += u64::from(matches!(kind, FrameKind::RoceMalformed(_)));
    }

    /// The capture says that so many packets are missing in it, altogether.
    pub fn handle_not_captured(&mut self, packets: u64) {
        self.not_captured = packets;
    }

    /// Packets that the page has.
    pub fn packets(&self) -> usize {
        self.packets.builder.len()
    }

    /// Packets that the page has no room for.
    pub fn left_out(&self) -> u64 {
        self.packets.builder.left_out()
    }

    /// The page, called `title`. `notes` are sentences that it shows above everything else.
    pub fn finish(self, title: &str, notes: &[String]) -> Page {
        let mut notes = notes.to_vec();
        notes.extend(self.own_notes());
        let Packets { mut tracker, mut judge, builder, filter, shown, .. } = self.packets;
        tracker.finish();
        judge.finish(&tracker);
        let told = (!filter.is_empty()).then(|| keys_of(&tracker, &shown));
        let is_told = |flow: &FlowKey| told.as_ref().is_none_or(|keys| keys.contains(flow));
        let summary = ViewSummary {
            title: title.to_owned(),
            frames: self.frames,
            notes,
            conversations: conversations(&tracker, &shown),
            findings: findings(&judge, is_told),
        };
        builder.finish(&summary)
    }

    fn own_notes(&self) -> impl Iterator<Item = String> {
        let untracked = self.packets.tracker.summary().untracked_packets;
        let (not_chosen, malformed) = (self.packets.not_chosen, self.malformed);
        let notes = [
            (not_chosen, format!("{not_chosen} packets are left out by the filter.")),
            (malformed, format!("{malformed} frames look like RoCE but hold no packet.")),
            (untracked, format!("{} They belong to no conversation.", not_analysed(untracked))),
            (self.not_captured, not_captured(self.not_captured)),
        ];
        notes.into_iter().filter(|(number, _)| *number > 0).map(|(_, note)| note)
    }
}

impl Packets {
    fn handle_packet(
        &mut self,
        frame: &Frame<'_>,
        packet: &Packet,
        payload: &[u8],
        transport: &[u8],
        bth: usize,
    ) {
        let annotation = self.tracker.handle_packet(packet, payload);
        self.judge.handle_packet(packet, payload, &annotation, &self.tracker);
        let seen = Seen { packet, payload, annotation: &annotation, tracker: &self.tracker };
        if !self.is_chosen(&seen, frame.comment) {
            self.not_chosen += 1;
            return;
        }
        let rows = self.builder.len();
        self.builder.handle_packet(&ViewRow {
            packet,
            link_type: frame.link_type,
            frame: frame.data,
            bth,
            transport,
            comment: frame.comment,
            facts: Facts::new(&annotation),
        });
        if self.builder.len() > rows {
            self.shown.insert(annotation.flow);
        }
    }

    fn is_chosen(&self, seen: &Seen<'_>, comment: &str) -> bool {
        let Self { filter, known, .. } = self;
        filter.is_empty() || filter.matches(seen.packet, seen.payload, known.learn(seen, comment))
    }
}

/// Where `part` begins in `whole`, of which it is a part.
fn offset_of(whole: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr().saturating_sub(whole.as_ptr().addr()).min(whole.len())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::CaptureReader;

    const LOSS: &[u8] = include_bytes!("../../../../pcaps/loss.pcap");

    /// What the script of the page reads first.
    fn meta(capture: &[u8], config: ViewConfig, filter: Filter) -> Value {
        let mut viewer = Viewer::new(config, DissectorConfig::default(), filter);
        let mut reader = CaptureReader::new(capture).expect("a capture");
        while let Some(frame) = reader.next_frame().expect("a whole capture") {
            viewer.handle_frame(&frame);
        }
        let mut html = Vec::new();
        viewer.finish("loss.pcap", &[]).write_to(&mut html).expect("a vector takes everything");
        let html = String::from_utf8(html).expect("text");
        let (_, behind) = html.split_once("id=\"meta\">").expect("data");
        serde_json::from_str(behind.split_once("</script>").expect("an end").0).expect("JSON")
    }

    #[test]
    fn both_directions_are_one_conversation() {
        let meta = meta(LOSS, ViewConfig::default(), Filter::default());
        assert_eq!((&meta["packets"], &meta["frames"]), (&300.into(), &300.into()));
        let conversation = &meta["conversations"][0];
        assert_eq!(conversation["service"], "RC");
        let sum = |name: &str| {
            let pair = conversation[name].as_array().expect("two ends");
            pair.iter().map(|count| count.as_u64().expect("a count")).sum::<u64>()
        };
        assert_eq!((sum("packets"), sum("naks")), (300, 5));
        assert!(sum("retransmissions") >= 20, "{}", sum("retransmissions"));
        let strings = meta["strings"].as_array().expect("texts");
        assert!(strings.contains(&"PSN sequence error".into()), "{strings:?}");
        assert!(strings.contains(&"local ACK timeout".into()), "{strings:?}");
    }

    #[test]
    fn a_filter_leaves_out_and_says_so() {
        let filter = Filter::default().with_only_errors();
        let meta = meta(LOSS, ViewConfig::default(), filter);
        let packets = meta["packets"].as_u64().expect("a count");
        assert!((20..100).contains(&packets), "{packets}");
        let note = format!("{} packets are left out by the filter.", 300 - packets);
        assert_eq!(meta["notes"][0], note);
    }

    #[test]
    fn a_full_page_says_so() {
        let config = ViewConfig { max_packets: 100, ..Default::default() };
        let meta = meta(LOSS, config, Filter::default());
        let note = "The page is full: 200 packets behind the first 100 are left out.";
        assert_eq!((&meta["packets"], &meta["notes"][0]), (&100.into(), &note.into()));
    }
}
