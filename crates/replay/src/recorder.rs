//! From frames to recordings.

use std::collections::HashMap;
use std::net::IpAddr;

use uroce_analyze::report::closed_by;
use uroce_analyze::track::{Flow, Role};
use uroce_analyze::{
    Dissector, DissectorConfig, FlowId, Frame, IcrcStatus, Packet, Timestamp, Tracker,
    TrackerConfig,
};
use uroce_wire::{ICRC_LEN, OpcodeInfo, Qpn, Service};

use crate::Limits;
use crate::answer::{Answer, digest};
use crate::recording::{Recording, Side};
use crate::request::Request;

/// Most ends of connections that are remembered.
const MOST_CLOSED: usize = 65_536;

/// Collects requests and answers of all conversations of a capture.
#[derive(Debug)]
pub struct Recorder {
    dissector: Dissector,
    tape: Tape,
}

/// What the packets of one direction are.
#[derive(Debug, Default)]
struct Track {
    requests: Vec<Request>,
    answers: Vec<Answer>,
    /// Packets with a right ICRC: the wrong ones are damage, and not how the capture was made.
    intact: u64,
    left_out_requests: u64,
    left_out_answers: u64,
    taken_away: u64,
}

#[derive(Debug)]
struct Tape {
    limits: Limits,
    tracker: Tracker,
    tracks: HashMap<FlowId, Track>,
    /// When a DREQ last named this queue pair.
    closed: HashMap<(IpAddr, Qpn), u64>,
    packets: usize,
    bytes: usize,
    position: u64,
    start: Option<Timestamp>,
    duration: u64,
}

impl Recorder {
    /// A recorder that has seen nothing.
    pub fn new(dissector: DissectorConfig, limits: Limits) -> Self {
        let tape = Tape {
            limits,
            tracker: Tracker::new(TrackerConfig::default()),
            tracks: HashMap::new(),
            closed: HashMap::new(),
            packets: 0,
            bytes: 0,
            position: 0,
            start: None,
            duration: 0,
        };
        Self { dissector: Dissector::new(dissector), tape }
    }

    /// Takes in the next frame of the capture.
    pub fn handle_frame(&mut self, frame: &Frame<'_>) {
        let tape = &mut self.tape;
        // It never came to the responder, or never left its sender.
        let is_taken_away = uroce_fault::is_taken_away(frame.comment);
        self.dissector.dissect(frame, &mut |packet, payload, captured| {
            tape.handle_packet(packet, payload, captured, is_taken_away);
        });
    }

    /// RoCE packets so far.
    pub fn packets(&self) -> u64 {
        self.tape.position
    }

    /// What was recorded, one for each queue pair of a reliable connection that got requests, in the
    /// order of the capture.
    pub fn finish(self) -> Vec<Recording> {
        let Tape { mut tracker, mut tracks, closed, duration, .. } = self.tape;
        tracker.finish();
        let mut recordings = Vec::new();
        for flow in tracker.flows() {
            let Some(track) = tracks.get_mut(&flow.id()) else { continue };
            let requests = track.take_requests();
            if requests.iter().all(|request| request.is_damaged) {
                continue;
            }
            let (left_out, taken_away) = (track.left_out_requests, track.taken_away);
            let back = flow.peer().and_then(|peer| tracks.get_mut(&peer));
            let (answers, lost) = back
                .map(|track| (track.take_answers(), track.left_out_answers))
                .unwrap_or_default();
            let recording = blank(flow, &tracker);
            let closed_at = |side: Side| closed.get(&(side.address, side.qpn?)).copied();
            let closed = closed_at(recording.requester).max(closed_at(recording.responder));
            let left_out = left_out + lost;
            recordings.push(Recording {
                requests,
                answers,
                left_out,
                taken_away,
                duration,
                closed,
                ..recording
            });
        }
        recordings
    }
}

impl Track {
    fn take_requests(&mut self) -> Vec<Request> {
        let mut requests = std::mem::take(&mut self.requests);
        for request in requests.iter_mut().filter(|_| self.intact == 0) {
            request.is_damaged = false;
        }
        requests
    }

    fn take_answers(&mut self) -> Vec<Answer> {
        let mut answers = std::mem::take(&mut self.answers);
        for answer in answers.iter_mut().filter(|_| self.intact == 0) {
            answer.is_damaged = false;
        }
        answers
    }
}

/// A recording of `flow` without packets.
fn blank(flow: &Flow, tracker: &Tracker) -> Recording {
    let key = flow.key();
    let responder = Side { address: key.destination, qpn: Some(key.destination_qpn) };
    let requester = Side { address: key.source, qpn: flow.source_qpn() };
    let first_psn = tracker.connections().iter().rev().find_map(|connection| {
        let is = |end: &uroce_analyze::track::Endpoint| {
            (end.address, end.qpn) == (key.destination, key.destination_qpn)
        };
        if is(&connection.passive) {
            Some(connection.active_psn)
        } else if is(&connection.active) {
            Some(connection.passive_psn)
        } else {
            None
        }
    });
    Recording {
        requester,
        responder,
        requests: Vec::new(),
        answers: Vec::new(),
        first_psn,
        path_mtu: flow.path_mtu(),
        left_out: 0,
        taken_away: 0,
        damaged: 0,
        restarts: flow.figures().restarts,
        duration: 0,
        closed: None,
    }
}

impl Tape {
    fn handle_packet(
        &mut self,
        packet: &Packet,
        payload: &[u8],
        captured: &[u8],
        is_taken_away: bool,
    ) {
        self.position += 1;
        let start = *self.start.get_or_insert(packet.time);
        let time = packet.time.as_nanos().saturating_sub(start.as_nanos());
        // Beyond the limits the recording is over.
        if self.packets < self.limits.packets {
            self.duration = self.duration.max(time);
        }
        let annotation = self.tracker.handle_packet(packet, payload);
        if let Some(end) = closed_by(packet, &annotation, payload)
            && self.closed.len() < MOST_CLOSED
        {
            self.closed.insert(end, time);
        }
        let (Some(info), false) = (packet.opcode_info, annotation.is_second_sighting) else {
            return;
        };
        if annotation.flow == FlowId::UNTRACKED
            || !matches!(info.service, Service::Rc | Service::Cnp)
        {
            return;
        }
        let is_request = annotation.role == Role::Request;
        let bytes = if is_request { whole_len(packet, info) } else { payload.len() };
        let has_room = captured.len() >= info.header_len
            && self.packets < self.limits.packets
            && bytes <= self.limits.bytes.saturating_sub(self.bytes);
        let track = self.tracks.entry(annotation.flow).or_default();
        if is_taken_away {
            track.taken_away += u64::from(is_request);
            return;
        }
        if !has_room {
            track.left_out_requests += u64::from(is_request);
            track.left_out_answers += u64::from(!is_request);
            return;
        }
        self.packets += 1;
        self.bytes += bytes;
        track.intact += u64::from(packet.icrc.is_good());
        if is_request {
            track.requests.push(request(packet, captured, bytes, self.position, time));
        } else {
            track.answers.push(answer(packet, info, payload, self.position, time));
        }
    }
}

/// Bytes from BTH to ICRC on the wire.
fn whole_len(packet: &Packet, info: &OpcodeInfo) -> usize {
    info.header_len + packet.payload_len as usize + usize::from(packet.bth.pad) + ICRC_LEN
}

fn request(packet: &Packet, captured: &[u8], length: usize, position: u64, time: u64) -> Request {
    let mut bytes = vec![0; length].into_boxed_slice();
    let there = captured.len().min(length);
    bytes[..there].copy_from_slice(&captured[..there]);
    Request {
        position,
        frame: packet.frame,
        time,
        psn: packet.bth.psn,
        place: 0,
        traffic_class: packet.traffic_class,
        hop_limit: packet.hop_limit,
        source_port: packet.source.port(),
        is_damaged: matches!(packet.icrc, IcrcStatus::Wrong { .. }),
        is_cut: there < length,
        bytes,
    }
}

fn answer(
    packet: &Packet,
    info: &'static OpcodeInfo,
    payload: &[u8],
    position: u64,
    time: u64,
) -> Answer {
    let is_whole = payload.len() == packet.payload_len as usize;
    Answer {
        position,
        frame: packet.frame,
        time,
        info,
        psn: packet.bth.psn,
        place: 0,
        aeth: packet.aeth,
        length: packet.payload_len,
        original: packet.atomic_ack,
        digest: is_whole.then(|| digest(payload)),
        is_damaged: matches!(packet.icrc, IcrcStatus::Wrong { .. }),
        data: if is_whole { payload.into() } else { Box::default() },
    }
}
