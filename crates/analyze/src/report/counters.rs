//! What the counters of the NICs at both ends would say, as far as the packets tell.

use serde::Serialize;

use super::table::Table;
use super::{ConversationRow, EndRow, FlowRow, Report};
use crate::TextStyle;
use crate::track::{Figures, RetransmissionCause, Verb};

/// One counter: how it follows from what an end sent and what was sent to it.
#[derive(Debug)]
pub struct Counter {
    /// The name that NICs have; one of ours if none has it.
    pub name: &'static str,
    /// The counter of kernel rxe and of our devices that counts the same; empty if they have none.
    pub also: &'static str,
    /// What is counted in the capture.
    pub derivation: &'static str,
    value: Value,
}

/// Which packets a counter follows from.
#[derive(Debug)]
enum Value {
    /// Those that the end sent.
    Sent(fn(&Figures) -> u64),
    /// Those that were sent to it.
    Arrived(fn(&Figures) -> u64),
}

use Value::{Arrived, Sent};

const fn counter(
    name: &'static str,
    also: &'static str,
    derivation: &'static str,
    value: Value,
) -> Counter {
    Counter { name, also, derivation, value }
}

/// All counters: those of a requester, of a responder, and of both.
pub const COUNTERS: [Counter; 21] = [
    counter(
        "packet_seq_err",
        "rcvd_seq_err",
        "PSN sequence error NAKs to the end",
        Arrived(|flow| flow.naks[0]),
    ),
    counter(
        "implied_nak_seq_err",
        "",
        "rounds of repetition of the end because a later answer came before that of a READ or atomic",
        Sent(|flow| rounds(flow, RetransmissionCause::ImpliedNak)),
    ),
    counter(
        "local_ack_timeout_err",
        "ack_timeout",
        "rounds of repetition of the end after a silence of at least the local ACK timeout",
        Sent(|flow| rounds(flow, RetransmissionCause::AckTimeout)),
    ),
    counter(
        "rnr_nak_retry_err",
        "rcvd_rnr_err",
        "RNR NAKs to the end",
        Arrived(|flow| flow.rnr_naks),
    ),
    counter(
        "completer_retry_err",
        "completer_retry_err",
        "rounds of repetition of the end, whatever the cause",
        Sent(|flow| flow.retransmissions.iter().map(|repeated| repeated.rounds).sum()),
    ),
    counter(
        "retransmitted_pkts",
        "retransmitted_pkts",
        "requests that the end sent again",
        Sent(Figures::retransmitted),
    ),
    counter(
        "req_remote_invalid_request",
        "",
        "invalid request NAKs to the end",
        Arrived(|flow| flow.naks[1]),
    ),
    counter(
        "req_remote_access_errors",
        "",
        "remote access error NAKs to the end",
        Arrived(|flow| flow.naks[2]),
    ),
    counter(
        "req_remote_operational_errors",
        "",
        "remote operational error NAKs to the end (no NIC has this name)",
        Arrived(|flow| flow.naks[3]),
    ),
    counter(
        "rp_cnp_handled",
        "rcvd_cnp",
        "congestion notifications to the end; whether it slowed down is not seen",
        Arrived(|flow| flow.cnps),
    ),
    counter(
        "out_of_sequence",
        "out_of_seq_request",
        "PSN sequence error NAKs of the end: one for each gap that it saw",
        Sent(|flow| flow.naks[0]),
    ),
    counter(
        "duplicate_request",
        "duplicate_request",
        "requests to the end that it had acknowledged or answered before, and those that the network doubled",
        Arrived(|flow| flow.answered_before + flow.duplicates),
    ),
    counter(
        "out_of_buffer",
        "send_rnr_err",
        "RNR NAKs of the end; datagrams without a receive leave no trace",
        Sent(|flow| flow.rnr_naks),
    ),
    counter(
        "resp_invalid_request",
        "",
        "invalid request NAKs of the end (no NIC has this name)",
        Sent(|flow| flow.naks[1]),
    ),
    counter(
        "resp_remote_access_errors",
        "",
        "remote access error NAKs of the end",
        Sent(|flow| flow.naks[2]),
    ),
    counter(
        "np_ecn_marked_roce_packets",
        "",
        "packets to the end that are marked \"congestion experienced\"",
        Arrived(|flow| flow.congestion_marks),
    ),
    counter("np_cnp_sent", "", "congestion notifications of the end", Sent(|flow| flow.cnps)),
    counter(
        "rx_icrc_encapsulated",
        "drop_bad_icrc",
        "damaged packets to the end: a wrong ICRC where others are right",
        Arrived(|flow| flow.damaged),
    ),
    counter(
        "rx_read_requests",
        "",
        "READs to the end, each counted once",
        Arrived(|flow| messages(flow, &[Verb::Read])),
    ),
    counter(
        "rx_write_requests",
        "",
        "WRITEs to the end, each counted once",
        Arrived(|flow| messages(flow, &[Verb::Write])),
    ),
    counter(
        "rx_atomic_requests",
        "",
        "atomics to the end, each counted once",
        Arrived(|flow| messages(flow, &[Verb::CompareSwap, Verb::FetchAdd])),
    ),
];

fn rounds(flow: &Figures, cause: RetransmissionCause) -> u64 {
    flow.retransmissions[cause.index()].rounds
}

fn messages(flow: &Figures, verbs: &[Verb]) -> u64 {
    verbs.iter().map(|verb| flow.verbs[verb.index()].messages).sum()
}

/// The counters of one end of a conversation.
#[derive(Debug, Clone, Serialize)]
pub struct EndCounters {
    /// Number of the conversation.
    pub conversation: usize,
    /// The end.
    #[serde(flatten)]
    pub end: EndRow,
    /// Values by name; null where the packets that tell were not captured.
    pub counters: serde_json::Map<String, serde_json::Value>,
}

/// An end: what it sent, and what was sent to it.
struct EndFlows<'a> {
    row: EndRow,
    sent: Option<&'a FlowRow>,
    arrived: Option<&'a FlowRow>,
}

impl EndFlows<'_> {
    fn value(&self, counter: &Counter) -> Option<u64> {
        match counter.value {
            Sent(value) => self.sent.map(|flow| value(&flow.figures)),
            Arrived(value) => self.arrived.map(|flow| value(&flow.figures)),
        }
    }
}

/// Both ends of a conversation; the sender of its first flow comes first.
fn ends(row: &ConversationRow) -> Vec<EndFlows<'_>> {
    let (first, second) = (row.flows.first(), row.flows.get(1));
    let Some(flow) = first else { return Vec::new() };
    vec![
        EndFlows { row: flow.source, sent: first, arrived: second },
        EndFlows { row: flow.destination, sent: second, arrived: first },
    ]
}

impl Report {
    /// The counters of both ends of each conversation.
    pub fn counters(&self) -> Vec<EndCounters> {
        let of_end = |row: &ConversationRow, end: &EndFlows<'_>| EndCounters {
            conversation: row.number,
            end: end.row,
            counters: COUNTERS
                .iter()
                .map(|counter| (counter.name.to_owned(), end.value(counter).into()))
                .collect(),
        };
        let rows = self.conversations.iter();
        rows.flat_map(|row| ends(row).into_iter().map(move |end| of_end(row, &end))).collect()
    }

    /// The counters that are not 0, a table for each conversation.
    pub fn counters_text(&self, style: TextStyle) -> String {
        self.conversations.iter().map(|row| table(row, style)).collect()
    }
}

fn table(row: &ConversationRow, style: TextStyle) -> String {
    let ends = ends(row);
    let mut table = Table::new(&[], &[1, 2]);
    let title = format!("Counters of #{}", row.number);
    let title = if style.has_colour { format!("\x1b[1m{title}\x1b[0m") } else { title };
    table.row([String::new()].into_iter().chain(ends.iter().map(|end| end.row.text())).collect());
    for counter in &COUNTERS {
        let values: Vec<_> = ends.iter().map(|end| end.value(counter)).collect();
        if values.iter().any(|value| value.is_some_and(|value| value > 0)) {
            let text = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
            let cells = values.into_iter().map(text);
            table.row([counter.name.to_owned()].into_iter().chain(cells).collect());
        }
    }
    let lines: String = table.lines().skip(1).map(|line| format!("  {line}\n")).collect();
    format!("\n{title}\n{lines}")
}
