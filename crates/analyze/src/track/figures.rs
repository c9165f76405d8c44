//! Figures of one flow.

use serde::Serialize;

use super::histogram::Histogram;
use super::message::{Message, Outcome, Verb};
use super::retransmission_cause::RetransmissionCause;
use crate::{Packet, Timestamp};

/// Values of a header field that are remembered for each flow.
const MAX_VALUES: usize = 8;

/// Distinct values of a header field, the first eight of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Values {
    values: [u16; MAX_VALUES],
    count: u8,
    /// There were more.
    pub is_cut: bool,
}

impl Values {
    /// The values in the order in which they came.
    pub fn as_slice(&self) -> &[u16] {
        &self.values[..usize::from(self.count)]
    }

    fn note(&mut self, value: u16) {
        if self.as_slice().contains(&value) {
            return;
        }
        match self.values.get_mut(usize::from(self.count)) {
            Some(place) => {
                *place = value;
                self.count += 1;
            }
            None => self.is_cut = true,
        }
    }
}

/// Requests that were sent again for one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Repeated {
    /// Packets.
    pub packets: u64,
    /// Payload bytes of them.
    pub bytes: u64,
    /// Times that the requester began to send again.
    pub rounds: u64,
}

/// Messages of one verb.
#[derive(Debug, Clone, Default)]
pub struct VerbFigures {
    /// Messages that are no longer under way.
    pub messages: u64,
    /// Messages that were completed, or sent to the end on a service without acknowledgements.
    pub completed: u64,
    /// Messages that a NAK refused.
    pub refused: u64,
    /// Messages of which packets are missing in the capture.
    pub incomplete: u64,
    /// Messages of which packets were sent again.
    pub retransmitted: u64,
    /// Their payload bytes; of READs what was asked for.
    pub bytes: u64,
    /// Payload bytes of each.
    pub sizes: Histogram,
    /// Nanoseconds from the first request to the completing answer.
    pub times: Histogram,
}

/// Figures of one direction. Names in JSON are those of the Open Traffic Generator where it has one.
///
/// "Of its requests" means: the requests that travel in this flow, and what the other flow answers
/// to them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Figures {
    /// Packets of any kind; second sightings are not counted.
    #[serde(rename = "frames_tx")]
    pub packets: u64,
    /// Bytes on the wire of them.
    #[serde(rename = "tx_bytes")]
    pub wire_bytes: u64,
    /// Payload bytes of them, repetitions included.
    pub payload_bytes: u64,
    /// Payload bytes that had not been seen before: requests and responses.
    pub goodput_bytes: u64,
    /// Of them, those of READ responses, which requests of the peer asked for.
    pub response_goodput_bytes: u64,
    /// When the first packet was seen.
    #[serde(skip)]
    pub first_time: Option<Timestamp>,
    /// When the last packet was seen.
    #[serde(skip)]
    pub last_time: Option<Timestamp>,
    /// Packets that carry requests, repetitions included; datagrams, too.
    #[serde(rename = "data_frames_tx")]
    pub requests: u64,
    /// Requests that were sent again, by cause; see [`RetransmissionCause::index`].
    pub retransmissions: [Repeated; RetransmissionCause::ALL.len()],
    /// Requests that were sent again although an answer to them, or to later ones, had been seen: duplicates to the
    /// responder.
    pub answered_before: u64,
    /// Packets that the network made two of.
    pub duplicates: u64,
    /// Requests that came behind later ones.
    pub reordered: u64,
    /// Most packets that one of them came late by.
    pub reordering_depth: u64,
    /// Requests that were skipped when later ones were seen.
    #[serde(rename = "frame_sequence_error")]
    pub skipped: u64,
    /// PSNs that were skipped and sent again after a NAK, or that a NAK asks for and the newest round of repetition
    /// skipped: lost before the capture point.
    pub lost_before: u64,
    /// PSNs that were seen, in that round too, and that a NAK asks for: lost behind the capture point.
    pub lost_behind: u64,
    /// PSNs that were acknowledged and never seen: lost by the capture.
    pub lost_by_capture: u64,
    /// PSNs that were skipped, never seen and never acknowledged.
    pub lost_unknown: u64,
    /// Times that the flow began anew with other PSNs.
    pub restarts: u64,
    /// READ, atomic and other responses, repetitions included.
    pub responses: u64,
    /// Of them, those that answer nothing under way, and ACKs that do so.
    pub unsolicited: u64,
    /// Responses that were seen before.
    pub repeated_responses: u64,
    /// Responses that were skipped when later ones were seen.
    pub skipped_responses: u64,
    /// Acknowledgements in this flow, NAKs not among them.
    #[serde(rename = "ack_tx")]
    pub acks: u64,
    /// Of them, those that say nothing new.
    pub repeated_acks: u64,
    /// NAKs in this flow by code, without RNR NAKs: PSN sequence error, invalid request, remote access
    /// error, remote operational error, invalid RD request, codes that are not defined.
    pub naks: [u64; 6],
    /// All NAKs in this flow, without RNR NAKs.
    #[serde(rename = "nak_tx")]
    pub nak_total: u64,
    /// RNR NAKs in this flow.
    pub rnr_naks: u64,
    /// Fewest credits that an acknowledgement in this flow gave; `None` if all were "unlimited".
    pub credits_min: Option<u32>,
    /// Most of them.
    pub credits_max: Option<u32>,
    /// Requests of this flow that were acknowledged or answered.
    pub acknowledged: u64,
    /// Acknowledgements and responses that acknowledged them.
    pub acknowledged_by: u64,
    /// Nanoseconds that RNR NAKs promised for its requests, added up.
    pub rnr_promised_ns: u64,
    /// Nanoseconds that these waits took.
    pub rnr_waited_ns: u64,
    /// Most payload bytes under way of its requests.
    pub max_outstanding_bytes: u64,
    /// Most PSNs under way of its requests.
    pub max_outstanding_packets: u64,
    /// Most READs and atomics under way of its requests.
    pub max_outstanding_reads: u32,
    /// Nanoseconds from a request of this flow to its answer, repetitions left out (Karn).
    #[serde(skip)]
    pub round_trips: Histogram,
    /// Packets that are marked "congestion experienced".
    #[serde(rename = "ecn_ce_rx")]
    pub congestion_marks: u64,
    /// Congestion notification packets in this flow.
    #[serde(rename = "cnp_tx")]
    pub cnps: u64,
    /// Packets with a wrong ICRC.
    pub icrc_errors: u64,
    /// Of them, those that are damage: where no ICRC is right, a wrong one is the way of capturing.
    #[serde(skip)]
    pub damaged: u64,
    /// Packets that a snap length cut.
    pub cut: u64,
    /// Largest payload of a packet that is not the last of its message: the path MTU.
    pub path_mtu: Option<u32>,
    /// Messages of its requests by verb; see [`Verb::index`].
    #[serde(skip)]
    pub verbs: [VerbFigures; Verb::ALL.len()],
    /// Messages that are no longer under way.
    #[serde(rename = "message_tx")]
    pub messages: u64,
    /// Of them, those that were completed.
    #[serde(rename = "message_complete_rx")]
    pub messages_completed: u64,
    /// Of them, those that were refused or flushed.
    #[serde(rename = "message_fail")]
    pub messages_failed: u64,
    /// Sightings at a second interface of the capture.
    pub second_sightings: u64,
    /// P_Keys of its packets.
    #[serde(skip)]
    pub pkeys: Values,
    /// UDP source ports.
    #[serde(skip)]
    pub source_ports: Values,
    /// IPv4 TOS or traffic class without the ECN bits.
    #[serde(skip)]
    pub traffic_classes: Values,
}

impl Figures {
    /// Counts what every packet has.
    pub(super) fn note_packet(&mut self, packet: &Packet) {
        self.packets += 1;
        self.wire_bytes += u64::from(packet.wire_len);
        self.payload_bytes += u64::from(packet.payload_len);
        self.first_time = Some(self.first_time.map_or(packet.time, |time| time.min(packet.time)));
        self.last_time = Some(self.last_time.map_or(packet.time, |time| time.max(packet.time)));
        self.congestion_marks += u64::from(packet.is_congestion_experienced());
        self.icrc_errors += u64::from(matches!(packet.icrc, crate::IcrcStatus::Wrong { .. }));
        self.cut += u64::from(packet.is_cut);
        self.pkeys.note(packet.bth.pkey);
        self.source_ports.note(packet.source.port());
        self.traffic_classes.note(u16::from(packet.traffic_class & !3));
    }

    /// Counts what is certain about a damaged packet.
    pub(super) fn note_damaged(&mut self, packet: &Packet) {
        self.packets += 1;
        self.wire_bytes += u64::from(packet.wire_len);
        self.icrc_errors += 1;
        self.damaged += 1;
    }

    /// Counts a request that was sent again.
    pub(super) fn note_repeated(
        &mut self,
        cause: RetransmissionCause,
        bytes: u32,
        is_new_round: bool,
    ) {
        let repeated = &mut self.retransmissions[cause.index()];
        repeated.packets += 1;
        repeated.bytes += u64::from(bytes);
        repeated.rounds += u64::from(is_new_round);
    }

    /// What was counted for one cause turns out to be of another one.
    pub(super) fn move_repeated(
        &mut self,
        from: RetransmissionCause,
        to: RetransmissionCause,
        moved: Repeated,
    ) {
        let old = &mut self.retransmissions[from.index()];
        old.packets = old.packets.saturating_sub(moved.packets);
        old.bytes = old.bytes.saturating_sub(moved.bytes);
        old.rounds = old.rounds.saturating_sub(moved.rounds);
        let new = &mut self.retransmissions[to.index()];
        new.packets += moved.packets;
        new.bytes += moved.bytes;
        new.rounds += moved.rounds;
    }

    /// Counts a message that is no longer under way.
    pub(super) fn note_message(&mut self, message: &Message) {
        let verb = &mut self.verbs[message.verb.index()];
        let completed = matches!(message.outcome, Outcome::Completed | Outcome::Sent);
        let refused = matches!(message.outcome, Outcome::Refused(_));
        verb.messages += 1;
        verb.completed += u64::from(completed);
        verb.refused += u64::from(refused);
        verb.incomplete += u64::from(message.is_incomplete);
        verb.retransmitted += u64::from(message.retransmitted > 0);
        verb.bytes += message.bytes;
        verb.sizes.record(message.bytes);
        if message.outcome == Outcome::Completed {
            verb.times.record(message.duration.as_nanos() as u64);
        }
        self.messages += 1;
        self.messages_completed += u64::from(completed);
        self.messages_failed += u64::from(refused || message.outcome == Outcome::Flushed);
    }

    /// Packets that were sent again, whatever the cause.
    pub fn retransmitted(&self) -> u64 {
        self.retransmissions.iter().map(|repeated| repeated.packets).sum()
    }

    /// Requests for each answer that acknowledged any; `None` without answers.
    pub fn requests_per_answer(&self) -> Option<f64> {
        (self.acknowledged_by > 0).then(|| self.acknowledged as f64 / self.acknowledged_by as f64)
    }

    /// Bits per second of payload that had not been seen before; `None` for a single moment.
    pub fn goodput_bps(&self) -> Option<f64> {
        let seconds = self.last_time?.since(self.first_time?).as_secs_f64();
        (seconds > 0.0).then(|| self.goodput_bytes as f64 * 8.0 / seconds)
    }
}
