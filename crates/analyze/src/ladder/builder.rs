//! From packets to rows.

use uroce_wire::{Psn, Qpn};

use super::config::{LadderConfig, PsnStyle};
use super::step::Step;
use super::{Arrow, ArrowKind, End, Ladder, fold, label};
use crate::{Packet, Timestamp};

/// What is known about a packet beyond its own bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mark {
    /// Queue pair of the sender, if it is known.
    pub source_qpn: Option<Qpn>,
    /// Name of the message of connection management that it carries: [`cm_message`](crate::cm_message).
    pub message: Option<&'static str>,
    /// It carries what was sent before.
    pub is_retransmission: bool,
    /// It was dropped on its way.
    pub is_lost: bool,
    /// It asks for a request whose newest copy is in this frame.
    pub misses: Option<u64>,
    /// What is remarkable about it, a short sentence each.
    pub notes: Vec<String>,
    /// What only this packet has; a run of packets that differ in nothing else is folded.
    pub aside: Option<String>,
}

/// Takes packets in the order of the capture and makes a [`Ladder`] of those that belong to the
/// conversation of the first one.
#[derive(Debug)]
pub struct LadderBuilder {
    config: LadderConfig,
    start: Timestamp,
    ends: Option<[End; 2]>,
    /// First PSN of the left requester and of the right one.
    first_psns: [Option<Psn>; 2],
    steps: Vec<Step>,
    left_out: u64,
    elsewhere: u64,
}

impl LadderBuilder {
    /// A ladder without packets.
    pub fn new(config: LadderConfig) -> Self {
        Self {
            config,
            start: Timestamp::default(),
            ends: None,
            first_psns: [None; 2],
            steps: Vec::new(),
            left_out: 0,
            elsewhere: 0,
        }
    }

    /// Takes the next packet.
    pub fn handle_packet(&mut self, packet: &Packet, mark: Mark) {
        let Some(to_right) = self.direction(packet, mark.source_qpn) else {
            self.elsewhere += 1;
            return;
        };
        if self.steps.len() >= self.config.most_packets {
            self.left_out += 1;
            return;
        }
        if let Some(frame) = mark.misses {
            self.mark_lost(frame, packet);
        }
        let step = self.step(packet, to_right, mark);
        self.steps.push(step);
    }

    /// The rows; `None` if there was no packet.
    pub fn finish(self) -> Option<Ladder> {
        Some(Ladder {
            ends: self.ends?,
            rows: fold::rows(self.steps, &self.config),
            left_out: self.left_out,
            elsewhere: self.elsewhere,
        })
    }

    /// The request in `frame` did not arrive: `nak` asks for it.
    fn mark_lost(&mut self, frame: u64, nak: &Packet) {
        let at = self.steps.partition_point(|step| step.arrow.frame < frame);
        let of_frame = self.steps[at..].iter_mut().map(|step| &mut step.arrow);
        let mut of_frame = of_frame.take_while(|arrow| arrow.frame == frame);
        let found = of_frame.find(|arrow| arrow.psn == nak.bth.psn);
        if let Some(arrow) = found.filter(|arrow| !arrow.is_lost) {
            arrow.is_lost = true;
            arrow.notes.push(format!("missing at the receiver: NAK in frame {}", nak.frame));
        }
    }

    /// Whether the packet goes to the right; `None` if it belongs to other queue pairs. The first
    /// packet decides which ends there are.
    fn direction(&mut self, packet: &Packet, source_qpn: Option<Qpn>) -> Option<bool> {
        let to_gsi = packet.bth.dest_qpn == Qpn::GSI;
        let source_qpn = packet.deth.map(|deth| deth.src_qpn).or(source_qpn);
        let from = End { address: packet.source_ip(), qpn: source_qpn.filter(|_| !to_gsi) };
        let to = End {
            address: packet.destination_ip(),
            qpn: Some(packet.bth.dest_qpn).filter(|_| !to_gsi),
        };
        if self.ends.is_none() {
            self.start = packet.time;
        }
        let ends = self.ends.get_or_insert([from, to]);
        [true, false].into_iter().find(|to_right| join(ends, *to_right, from, to))
    }

    fn step(&mut self, packet: &Packet, to_right: bool, mark: Mark) -> Step {
        let kind = label::kind(packet);
        let (operation, psn, details) = match mark.message {
            Some(name) => (format!("CM {name} to QP 1"), String::new(), String::new()),
            None => (
                label::operation(packet),
                self.psn_text(packet, kind, to_right),
                label::details(packet),
            ),
        };
        let words = |parts: &[&str]| {
            let parts: Vec<_> = parts.iter().filter(|part| !part.is_empty()).copied().collect();
            parts.join(" ")
        };
        let arrow = Arrow {
            frame: packet.frame,
            time: packet.time.since(self.start),
            to_right,
            opcode: packet.bth.opcode,
            psn: packet.bth.psn,
            label: words(&[&operation, &psn, &details]),
            kind,
            is_lost: mark.is_lost,
            is_retransmission: mark.is_retransmission,
            notes: mark.notes.iter().cloned().chain(mark.aside).collect(),
        };
        let notes = mark.notes;
        Step { arrow, psn, notes, shape: words(&[&operation, &details]) }
    }

    /// The PSN as it is to be shown; empty where it means nothing.
    fn psn_text(&mut self, packet: &Packet, kind: ArrowKind, to_right: bool) -> String {
        let psn = packet.bth.psn;
        match (self.config.psns, kind) {
            (_, ArrowKind::Congestion) => String::new(),
            (PsnStyle::Absolute, _) | (_, ArrowKind::Other) => psn.to_string(),
            (PsnStyle::Relative, _) => {
                let is_request = kind == ArrowKind::Request;
                let requester = usize::from(is_request != to_right);
                let first = *self.first_psns[requester].get_or_insert(psn);
                psn.since(first).to_string()
            }
        }
    }
}

/// Takes `from` and `to` as the ends of an arrow in this direction, if they can be; what they tell
/// about queue pairs is added.
fn join(ends: &mut [End; 2], to_right: bool, from: End, to: End) -> bool {
    let (sender, receiver) = if to_right { (0, 1) } else { (1, 0) };
    let fits = fits(ends[sender], from) && fits(ends[receiver], to);
    if fits {
        ends[sender].qpn = ends[sender].qpn.or(from.qpn);
        ends[receiver].qpn = ends[receiver].qpn.or(to.qpn);
    }
    fits
}

fn fits(end: End, other: End) -> bool {
    let same_qpn = end.qpn.zip(other.qpn).is_none_or(|(one, two)| one == two);
    end.address == other.address && same_qpn
}
