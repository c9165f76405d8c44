//! The part of a page's data that is not columns: names, conversations, findings, headers.

use std::collections::BTreeMap;

use serde::Serialize;
use uroce_wire::{Opcode, Syndrome};

use super::column::ColumnEntry;
use super::columns::FLAGS;
use super::input::{ViewConversation, ViewEnd, ViewFinding, ViewSummary};
use super::kind::{KINDS, opcode_label, syndrome_text};
use super::layout::{HEADERS, HeaderId, HeaderLayout};
use super::packet_table::PacketTable;
use super::statistics::{FlowEntry, Statistics, count};
use super::strings::harmless;
use crate::judge::Severity;

/// Version of the page's data.
const VERSION: u32 = 1;
/// Findings that a page keeps; those behind are counted.
const MAX_FINDINGS: usize = 2000;
/// Frames that a page keeps of one finding.
const MAX_FINDING_FRAMES: usize = 64;
/// Conversations that a page keeps.
const MAX_CONVERSATIONS: usize = 20_000;

/// What the script of a page reads first.
#[derive(Debug, Serialize)]
pub(super) struct Meta<'a> {
    version: u32,
    pub title: String,
    compressed: bool,
    pub packets: usize,
    pub packets_left_out: u64,
    pub frames: u64,
    /// Nanoseconds since 1970 of the earliest packet, as text: it has more digits than a script keeps.
    start: String,
    pub notes: Vec<String>,
    columns: Vec<ColumnEntry>,
    strings: &'a [String],
    flows: Vec<FlowEntry>,
    pub conversations: Vec<ConversationEntry<'a>>,
    pub findings: Vec<FindingEntry<'a>>,
    findings_left_out: usize,
    headers: &'static [HeaderLayout],
    icrc_header: u16,
    layouts: Vec<Vec<[u16; 2]>>,
    kinds: [(&'static str, &'static str); KINDS.len()],
    flags: [(&'static str, &'static str); FLAGS.len()],
    opcodes: Vec<String>,
    names: BTreeMap<&'static str, BTreeMap<u32, String>>,
}

/// A conversation with its counts.
#[derive(Debug, Serialize)]
pub(super) struct ConversationEntry<'a> {
    pub ends: &'a [ViewEnd; 2],
    pub service: String,
    paired_by: String,
    #[serde(flatten)]
    pub statistics: Statistics,
}

/// A finding with harmless texts.
#[derive(Debug, Serialize)]
pub(super) struct FindingEntry<'a> {
    pub rule: String,
    pub title: String,
    meaning: String,
    pub severity: Severity,
    pub text: String,
    frames: &'a [u64],
}

impl<'a> Meta<'a> {
    /// Describes the packets of `table`, whose columns lie at `columns`.
    pub(super) fn new(
        table: &'a PacketTable,
        summary: &'a ViewSummary,
        columns: Vec<ColumnEntry>,
        compressed: bool,
    ) -> Self {
        let (flows, conversations) = conversations(table, summary);
        let findings: Vec<_> = summary.findings.iter().take(MAX_FINDINGS).map(finding).collect();
        Self {
            version: VERSION,
            title: harmless(&summary.title),
            compressed,
            packets: table.len(),
            packets_left_out: table.left_out,
            frames: summary.frames,
            start: table.start.unwrap_or_default().as_nanos().to_string(),
            notes: notes(table, summary),
            columns,
            strings: table.strings.texts(),
            flows,
            conversations,
            findings_left_out: summary.findings.len() - findings.len(),
            findings,
            headers: HEADERS,
            icrc_header: HeaderId::Icrc as u16,
            layouts: table.layouts.to_numbers(),
            kinds: KINDS,
            flags: FLAGS,
            opcodes: (0..=255).map(|byte| opcode_label(Opcode(byte))).collect(),
            names: names(),
        }
    }
}

/// Which conversation each flow belongs to, and the conversations.
fn conversations<'a>(
    table: &PacketTable,
    summary: &'a ViewSummary,
) -> (Vec<FlowEntry>, Vec<ConversationEntry<'a>>) {
    let kept = &summary.conversations[..summary.conversations.len().min(MAX_CONVERSATIONS)];
    let flows = flows(kept);
    let counts = count(&table.columns, &flows, kept.len());
    let conversation = |(from, statistics): (&'a ViewConversation, Statistics)| ConversationEntry {
        ends: &from.ends,
        service: harmless(&from.service),
        paired_by: harmless(&from.paired_by),
        statistics,
    };
    (flows, kept.iter().zip(counts).map(conversation).collect())
}

fn flows(conversations: &[ViewConversation]) -> Vec<FlowEntry> {
    let mut flows = Vec::new();
    for (index, conversation) in conversations.iter().enumerate() {
        for (end, flow) in conversation.flows.iter().enumerate() {
            let Some(flow) = flow.and_then(|flow| u16::try_from(flow).ok()) else { continue };
            let flow = usize::from(flow);
            if flows.len() <= flow {
                flows.resize(flow + 1, None);
            }
            flows[flow] = Some((index, end));
        }
    }
    flows
}

fn finding(from: &ViewFinding) -> FindingEntry<'_> {
    FindingEntry {
        rule: harmless(&from.rule),
        title: harmless(&from.title),
        meaning: harmless(&from.meaning),
        severity: from.severity,
        text: harmless(&from.text),
        frames: &from.frames[..from.frames.len().min(MAX_FINDING_FRAMES)],
    }
}

fn notes(table: &PacketTable, summary: &ViewSummary) -> Vec<String> {
    let mut notes: Vec<_> = summary.notes.iter().map(|note| harmless(note)).collect();
    if table.left_out > 0 {
        notes.push(format!(
            "The page is full: {} packets behind the first {} are left out.",
            table.left_out,
            table.len()
        ));
    }
    if table.strings.left_out() > 0 {
        let count = table.strings.left_out();
        notes.push(format!("There are too many different texts: {count} are left out."));
    }
    notes
}

/// Names for the values of fields, by the table that [`super::layout::Field::names`] says.
fn names() -> BTreeMap<&'static str, BTreeMap<u32, String>> {
    let of_bytes = |name: &dyn Fn(u8) -> String| {
        let mut names = BTreeMap::new();
        names.extend((0..=255).map(|byte| (byte.into(), name(byte))));
        names
    };
    let fixed = |pairs: &[(u32, &str)]| {
        let mut names = BTreeMap::new();
        names.extend(pairs.iter().map(|(value, name)| (*value, (*name).to_owned())));
        names
    };
    let mut all = BTreeMap::new();
    all.extend([
        ("opcode", of_bytes(&|byte| Opcode(byte).to_string())),
        ("syndrome", of_bytes(&|byte| syndrome_text(Syndrome(byte)))),
        ("ecn", fixed(&[(0, "not capable"), (1, "ECT(1)"), (2, "ECT(0)"), (3, "CE")])),
        ("ipproto", fixed(&[(17, "UDP"), (27, "IBTA")])),
        (
            "ethertype",
            fixed(&[
                (0x0800, "IPv4"),
                (0x86dd, "IPv6"),
                (0x8100, "802.1Q"),
                (0x88a8, "802.1ad"),
                (0x8915, "RoCEv1"),
            ]),
        ),
        (
            "sll",
            fixed(&[
                (0, "to us"),
                (1, "broadcast"),
                (2, "multicast"),
                (3, "to another"),
                (4, "from us"),
            ]),
        ),
        ("selectivity", fixed(&[(0, "the range"), (1, "the whole region")])),
        ("placement", fixed(&[(1, "global visibility"), (2, "persistence")])),
    ]);
    all
}

#[cfg(test)]
mod tests {
    use super::super::layout::HeaderField;
    use super::*;

    #[test]
    fn every_table_of_names_exists() {
        let names = names();
        let fields = HEADERS.iter().flat_map(|header| header.fields);
        let missing: Vec<&HeaderField> = fields
            .filter(|field| !field.names.is_empty() && !names.contains_key(field.names))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn flows_know_their_conversation_and_sender() {
        let of = |flows| ViewConversation { flows, ..Default::default() };
        let flows = flows(&[of([Some(0), Some(3)]), of([None, Some(1)]), of([Some(70_000), None])]);
        assert_eq!(flows, [Some((0, 0)), Some((1, 1)), None, Some((0, 1))]);
    }

    #[test]
    fn too_many_findings_are_counted() {
        let finding = ViewFinding {
            rule: "R1".into(),
            title: String::new(),
            severity: Severity::Note,
            meaning: String::new(),
            text: "x\u{202e}".into(),
            frames: vec![1; 1000],
        };
        let findings = vec![finding; MAX_FINDINGS + 5];
        let summary = ViewSummary { findings, ..Default::default() };
        let table = PacketTable::new();
        let meta = Meta::new(&table, &summary, Vec::new(), true);
        assert_eq!((meta.findings.len(), meta.findings_left_out), (MAX_FINDINGS, 5));
        assert_eq!(meta.findings[0].frames.len(), MAX_FINDING_FRAMES);
        assert_eq!(meta.findings[0].text, "x\u{fffd}");
    }
}
