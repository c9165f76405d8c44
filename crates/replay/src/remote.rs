//! A recording played to a queue pair of another device, over a wire.

use std::collections::{BTreeMap, HashMap, HashSet};

use uroce_wire::{Packet, Qpn};

use crate::answer::Answer;
use crate::answers::{Answers, Asked};
use crate::compare::{Options, compare};
use crate::lost::lost;
use crate::receives::Receives;
use crate::rekey::{Placement, relocate, set_dest_qpn};
use crate::report::{Played, Turns};
use crate::request::Request;
use crate::{Limits, Recording, ReplayError, Report, Setup};

/// A packet to send to the queue pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteRequest {
    /// BTH to pad, with the queue pair number, keys and addresses of now; the ICRC goes behind it.
    pub covered: Vec<u8>,
    /// UDP source port.
    pub source_port: u16,
    /// IPv4 type of service or IPv6 traffic class, ECN bits included.
    pub traffic_class: u8,
    /// A receive has to be posted before it is sent.
    pub wants_receive: bool,
}

/// Plays a recording to a queue pair of another device and takes in what that answers.
///
/// The queue pair has to be in RTR or RTS, as [`setup`](Self::setup) says. PSNs stay those of the recording;
/// queue pair number, keys and addresses become those of now.
#[derive(Debug)]
pub struct Remote {
    recording: Recording,
    setup: Setup,
    lost: HashSet<u64>,
    receives: Receives,
    qpn: Qpn,
    own_qpn: Qpn,
    placed: HashMap<u32, Placement>,
    /// Index of the next request.
    next: usize,
    /// The newest request of each PSN that was sent.
    sent: BTreeMap<i64, Asked>,
    newest: Asked,
    answers: Answers,
    played: Played,
}

impl Remote {
    /// Learns from `recording` what the queue pair and its memory must be like. With `skips_lost`, requests that were
    /// lost between the capture and the responder are not played.
    ///
    /// # Errors
    /// [`ReplayError`]: what the recording lacks, which limit it goes beyond, or memory windows, which only the
    /// responder's application can make.
    pub fn new(
        mut recording: Recording,
        skips_lost: bool,
        limits: &Limits,
    ) -> Result<Self, ReplayError> {
        recording.take_out_damaged();
        let setup = Setup::learn(&mut recording, limits)?;
        if let Some(window) = setup.regions.iter().find(|region| region.is_window) {
            let reason = format!("rkey {:#010x} was a memory window", window.rkey);
            return Err(ReplayError::Setup(reason));
        }
        Ok(Self {
            lost: if skips_lost { lost(&recording) } else { HashSet::new() },
            receives: Receives::of(&recording),
            qpn: Qpn::new(0),
            own_qpn: Qpn::new(0),
            placed: HashMap::new(),
            next: 0,
            sent: BTreeMap::new(),
            newest: Asked::default(),
            answers: Answers::new(setup.first_psn, limits.answers),
            played: Played { turns: Turns::Peer, ..Played::default() },
            recording,
            setup,
        })
    }

    /// What the queue pair and its memory must be like.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The region of `rkey` in the recording lies at `va` now, under the key `new_rkey`.
    pub fn place(&mut self, rkey: u32, va: u64, new_rkey: u32) {
        let region = self.setup.regions.iter().find(|region| region.rkey == rkey);
        if let Some(region) = region {
            self.placed.insert(rkey, Placement { start: region.start, va, rkey: new_rkey });
        }
    }

    /// Requests go to queue pair `qpn`; it answers to `own_qpn`.
    pub fn connect(&mut self, qpn: Qpn, own_qpn: Qpn) {
        (self.qpn, self.own_qpn) = (qpn, own_qpn);
    }

    /// When the next request was sent, in nanoseconds since the first packet of the recording; `None` after the last.
    pub fn next_time(&mut self) -> Option<u64> {
        while let Some(request) = self.recording.requests.get(self.next) {
            if !self.lost.contains(&request.position) {
                return Some(request.time);
            }
            self.played.lost += 1;
            self.next += 1;
        }
        None
    }

    /// The next request, to be sent now.
    pub fn poll_request(&mut self) -> Option<RemoteRequest> {
        self.next_time()?;
        let request = self.recording.requests.get(self.next)?;
        self.next += 1;
        self.played.requests += 1;
        let Request { position, frame, time, .. } = *request;
        self.newest = Asked { position, frame, time };
        self.sent.insert(request.place, self.newest);
        let mut bytes = request.bytes.to_vec();
        relocate(&mut bytes, &self.placed);
        set_dest_qpn(&mut bytes, self.qpn);
        bytes.truncate(bytes.len().saturating_sub(uroce_wire::ICRC_LEN));
        Some(RemoteRequest {
            covered: bytes,
            source_port: request.source_port,
            traffic_class: request.traffic_class,
            wants_receive: self.receives.wants_receive(request),
        })
    }

    /// Takes in a packet, BTH to ICRC. What is for another queue pair is left out.
    ///
    /// # Errors
    /// [`ReplayError::TooManyAnswers`].
    pub fn handle_packet(&mut self, bytes: &[u8]) -> Result<(), ReplayError> {
        let Ok(packet) = Packet::parse(bytes) else { return Ok(()) };
        if packet.bth.dest_qpn != self.own_qpn {
            return Ok(());
        }
        let (sent, newest) = (&self.sent, self.newest);
        self.answers.add(&packet, |answer| asked(sent, newest, answer))
    }

    /// Answers of then and now, side by side.
    pub fn finish(self, options: &Options) -> Report {
        compare(&self.recording, &self.setup, self.answers.into_list(), self.played, options)
    }
}

/// The request that an answer is about. On a wire more requests have been sent since; but a sequence NAK is about one that
/// did not come, so the newest one stands for it.
fn asked(sent: &BTreeMap<i64, Asked>, newest: Asked, answer: &Answer) -> Asked {
    if answer.is_sequence_nak() || answer.is_congestion_notification() {
        return newest;
    }
    sent.range(..=answer.place).next_back().map_or(newest, |(_, found)| *found)
}
