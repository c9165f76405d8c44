//! Conversations as rows.

use std::net::IpAddr;

use serde::Serialize;
use uroce_wire::{Qpn, Service};

use crate::track::{Figures, Flow, Histogram, Repeated, RetransmissionCause, Verb};

/// One end: an address and a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EndRow {
    /// Address.
    pub address: IpAddr,
    /// Number of the queue pair, if it is known.
    pub qpn: Option<u32>,
}

impl EndRow {
    /// The end at `address` with queue pair `qpn`.
    pub(super) fn new(address: IpAddr, qpn: Option<Qpn>) -> Self {
        Self { address, qpn: qpn.map(Qpn::get) }
    }

    /// Address and queue pair: `10.0.0.1 0x11`.
    pub(super) fn text(&self) -> String {
        let qpn = self.qpn.map_or_else(|| "?".to_owned(), |qpn| format!("{qpn:#x}"));
        format!("{} {qpn}", self.address)
    }
}

/// Two queue pairs that talk to each other.
#[derive(Debug, Clone, Serialize)]
pub struct ConversationRow {
    /// Number in the report; the first is 1.
    pub number: usize,
    /// Transport service: RC, UC, UD, XRC; empty if no packet tells.
    pub service: &'static str,
    /// How it was found out that the two belong together; empty if only one direction is known.
    pub paired_by: &'static str,
    /// Path MTU in bytes, if it is known.
    pub path_mtu: Option<u32>,
    /// How it stood at the end: `open`, `closed` or `failed`.
    pub state: &'static str,
    /// Why it failed.
    pub failure: Option<String>,
    /// Both directions, or the only one that was captured. The first to send a request is first.
    pub flows: Vec<FlowRow>,
}

/// One direction of a conversation.
#[derive(Debug, Clone, Serialize)]
pub struct FlowRow {
    /// Sender.
    pub source: EndRow,
    /// Receiver.
    pub destination: EndRow,
    /// What was counted.
    #[serde(flatten)]
    pub figures: Figures,
    /// Requests that were sent again, whatever the cause.
    pub data_frames_retransmitted: u64,
    /// The same by cause; causes that did not occur are left out.
    pub sent_again: Vec<SentAgain>,
    /// Bits per second of payload that had not been seen before.
    pub goodput_bps: Option<f64>,
    /// Times from a request of this flow to its answer.
    pub round_trip_ns: Option<Quantiles>,
    /// Messages by verb.
    pub verbs: Vec<VerbRow>,
}

/// Requests that were sent again for one cause.
#[derive(Debug, Clone, Serialize)]
pub struct SentAgain {
    /// The cause.
    pub cause: &'static str,
    /// Packets, bytes and rounds.
    #[serde(flatten)]
    pub counted: Repeated,
}

/// Messages of one verb.
#[derive(Debug, Clone, Serialize)]
pub struct VerbRow {
    /// The verb.
    pub verb: &'static str,
    /// Messages.
    pub messages: u64,
    /// Of them, those that were completed.
    pub completed: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes of each.
    pub size: Option<Quantiles>,
    /// Nanoseconds from the first request to the completing answer.
    pub time_ns: Option<Quantiles>,
}

/// A distribution, in the unit of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Quantiles {
    /// Values.
    pub count: u64,
    /// The smallest.
    pub min: u64,
    /// Half of all are not above.
    pub p50: u64,
    /// 99 % are not above.
    pub p99: u64,
    /// The largest.
    pub max: u64,
}

impl Quantiles {
    /// Those of a histogram; `None` if it is empty.
    pub(super) fn of(histogram: &Histogram) -> Option<Self> {
        Some(Self {
            count: histogram.count(),
            min: histogram.min()?,
            p50: histogram.quantile(0.5)?,
            p99: histogram.quantile(0.99)?,
            max: histogram.max()?,
        })
    }
}

impl ConversationRow {
    /// Packets of `flow`, one of its own, that were lost and that nobody sends again.
    pub(super) fn lost_for_good(&self, flow: &FlowRow) -> u64 {
        let is_unreliable = self.service == service_name(Some(Service::Uc));
        if is_unreliable { flow.figures.lost_unknown } else { 0 }
    }
}

impl FlowRow {
    /// The row of a flow.
    pub(super) fn new(flow: &Flow) -> Self {
        let (key, figures) = (flow.key(), flow.figures());
        Self {
            source: EndRow::new(key.source, flow.source_qpn()),
            destination: EndRow::new(key.destination, Some(key.destination_qpn)),
            figures: figures.clone(),
            data_frames_retransmitted: figures.retransmitted(),
            sent_again: sent_again(figures),
            goodput_bps: figures.goodput_bps(),
            round_trip_ns: Quantiles::of(&figures.round_trips),
            verbs: Verb::ALL.iter().filter_map(|verb| verb_row(*verb, figures)).collect(),
        }
    }
}

fn sent_again(figures: &Figures) -> Vec<SentAgain> {
    let causes = RetransmissionCause::ALL.iter().zip(figures.retransmissions);
    let causes = causes.filter(|(_, counted)| counted.packets > 0);
    causes.map(|(cause, counted)| SentAgain { cause: cause.name(), counted }).collect()
}

fn verb_row(verb: Verb, figures: &Figures) -> Option<VerbRow> {
    let counted = &figures.verbs[verb.index()];
    (counted.messages > 0).then(|| VerbRow {
        verb: verb.name(),
        messages: counted.messages,
        completed: counted.completed,
        bytes: counted.bytes,
        size: Quantiles::of(&counted.sizes),
        time_ns: Quantiles::of(&counted.times),
    })
}

/// Name of a transport service.
pub(super) const fn service_name(service: Option<Service>) -> &'static str {
    match service {
        Some(Service::Rc) => "RC",
        Some(Service::Uc) => "UC",
        Some(Service::Ud) => "UD",
        Some(Service::Xrc) => "XRC",
        Some(Service::Cnp) | None => "",
    }
}
