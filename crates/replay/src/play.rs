//! Plays a recording.

use std::collections::HashSet;
use std::time::Duration;

use uroce_fault::{Direction, FaultInjector, Plan};
use uroce_transport::{Arrival, Instant, limits};
use uroce_wire::{Flow, Packet, ROCE_PORT};

use crate::answers::{Answers, Asked};
use crate::compare::{Options, compare};
use crate::device::Responder;
use crate::faulty::{Parcel, Way, meta};
use crate::lost::lost;
use crate::receives::Receives;
use crate::rekey::rekey;
use crate::report::{Played, Turns};
use crate::request::Request;
use crate::{Limits, Recording, ReplayError, Report, Setup};

/// The virtual clock at the first packet: no time of the queue pair lies before its origin.
const ORIGIN_NS: u64 = 1_000_000_000;
/// No responder takes requests in for longer than this before it answers.
const LONGEST_TURN_NS: u64 = 1_000_000;
/// Bytes of the UDP header.
const UDP_HEADER: u16 = 8;

/// What the queue pair of now is like.
#[derive(Debug, Default)]
pub struct Device {
    /// It drops what comes behind a gap, as most network cards do, instead of keeping it.
    pub drops_behind_gap: bool,
    /// What was lost between the capture and the responder is not played to it.
    pub skips_lost: bool,
    /// Faults between the recording and the queue pair, and their seed; `rx` is what it gets.
    pub faults: Option<(Plan, u64)>,
}

/// Plays `recording` to a queue pair that is set up as the recording has it, and compares its answers
/// with the recorded ones.
///
/// A capture does not show which requests the responder took in together before it answered. So it is
/// played twice, with an answer after each request and with answers where the recording has some; the
/// report is of that one with fewer differences.
///
/// # Errors
/// [`ReplayError`]: what the recording lacks, or which limit it goes beyond.
pub fn play(
    mut recording: Recording,
    device: &Device,
    limits: &Limits,
    options: &Options,
) -> Result<Report, ReplayError> {
    recording.take_out_damaged();
    let setup = Setup::learn(&mut recording, limits)?;
    let lost = if device.skips_lost { lost(&recording) } else { HashSet::new() };
    let mut best: Option<Report> = None;
    for turns in [Turns::Each, Turns::Together] {
        let report = play_once(&recording, &setup, device, &lost, turns, limits, options)?;
        let is_better = best.as_ref().is_none_or(|best| report.differences() < best.differences());
        if is_better {
            best = Some(report);
        }
        if best.as_ref().is_some_and(|best| best.differences() == 0) {
            break;
        }
    }
    best.ok_or(ReplayError::NoRequest)
}

fn play_once(
    recording: &Recording,
    setup: &Setup,
    device: &Device,
    lost: &HashSet<u64>,
    turns: Turns,
    limits: &Limits,
    options: &Options,
) -> Result<Report, ReplayError> {
    let mut player = Player {
        recording,
        responder: Responder::new(recording, setup, !device.drops_behind_gap)?,
        way: Way::new(device.faults.as_ref().map(|(plan, seed)| FaultInjector::new(plan, *seed))),
        receives: Receives::of(recording),
        turns,
        answers: Answers::new(setup.first_psn, limits.answers),
        clock: 0,
        waiting_since: None,
        played: Played { turns, ..Played::default() },
    };
    player.play(lost)?;
    let Player { answers, played, way, .. } = player;
    let faults = way.rules();
    Ok(Report { faults, ..compare(recording, setup, answers.into_list(), played, options) })
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

struct Player<'a> {
    recording: &'a Recording,
    responder: Responder,
    way: Way,
    receives: Receives,
    turns: Turns,
    answers: Answers,
    /// Times of the recording may go back; this one does not.
    clock: u64,
    /// When the first request came that the queue pair has not been asked about.
    waiting_since: Option<u64>,
    played: Played,
}

impl Player<'_> {
    fn play(&mut self, lost: &HashSet<u64>) -> Result<(), ReplayError> {
        let recording = self.recording;
        let mut requests = recording.requests.iter().peekable();
        let mut last = recording.requests.first();
        while let Some(request) = requests.next() {
            if let Some(before) = last.replace(request) {
                self.deliver_delayed(before, request.time, self.turns == Turns::Each)?;
            }
            self.clock = self.clock.max(request.time);
            if lost.contains(&request.position) {
                self.played.lost += 1;
            } else {
                self.give(request);
            }
            let is_turn = requests.peek().is_none_or(|next| self.is_turn(request, next));
            self.deliver(request, is_turn)?;
        }
        let Some(last) = last else { return Ok(()) };
        self.deliver_delayed(last, u64::MAX, true)?;
        self.clock = self.clock.max(recording.duration);
        self.deliver(last, true)
    }

    /// Hands over what rules have delayed until `end` at the latest, each packet at its time.
    fn deliver_delayed(
        &mut self,
        request: &Request,
        end: u64,
        is_turn: bool,
    ) -> Result<(), ReplayError> {
        while let Some(at) = self.way.poll_timeout().map(nanoseconds).filter(|at| *at <= end) {
            self.clock = self.clock.max(at);
            self.deliver(request, is_turn)?;
        }
        Ok(())
    }

    /// Puts a request on its way.
    fn give(&mut self, request: &Request) {
        self.played.requests += 1;
        if self.receives.wants_receive(request) {
            self.responder.post_receive();
        }
        let mut bytes = request.bytes.to_vec();
        rekey(&mut bytes, |key| self.responder.keys.get(&key).copied());
        let meta = meta(Direction::Rx, self.flow(request), request.traffic_class);
        self.way.push(meta, bytes);
    }

    /// The queue pair answers between these two requests.
    fn is_turn(&mut self, request: &Request, next: &Request) -> bool {
        let answers = &self.recording.answers;
        let behind = answers.partition_point(|answer| answer.position < request.position);
        let is_answered = answers.get(behind).is_some_and(|answer| answer.position < next.position);
        let since = *self.waiting_since.get_or_insert(request.time);
        let is_late = next.time.saturating_sub(since) > LONGEST_TURN_NS;
        self.turns == Turns::Each || is_answered || is_late
    }

    fn flow(&self, request: &Request) -> Flow {
        Flow {
            src: self.recording.requester.address,
            dst: self.recording.responder.address,
            src_port: request.source_port,
            dst_port: ROCE_PORT,
        }
    }

    /// Hands over what is on its way, until nothing is; answers count as those to `request`.
    fn deliver(&mut self, request: &Request, is_turn: bool) -> Result<(), ReplayError> {
        if is_turn {
            self.waiting_since = None;
        }
        loop {
            while let Some(parcel) = self.way.pop(Duration::from_nanos(self.clock)) {
                match parcel.meta.direction {
                    Direction::Rx => self.hand_over(request, &parcel),
                    Direction::Tx => self.note_answer(request, &parcel.bytes)?,
                }
            }
            if !is_turn || !self.poll(request) {
                return Ok(());
            }
        }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(ORIGIN_NS.saturating_add(self.clock))
    }

    fn hand_over(&mut self, request: &Request, parcel: &Parcel) {
        let arrival = Arrival {
            src: self.recording.requester.address,
            dst: self.recording.responder.address,
            traffic_class: parcel.meta.traffic_class,
            hop_limit: request.hop_limit,
            ip_id: 0,
            udp_len: (parcel.bytes.len() as u16).saturating_add(UDP_HEADER),
        };
        let taken = self.responder.handle(self.now(), &arrival, &parcel.bytes);
        self.played.not_admitted += u64::from(taken.is_err());
    }

    /// Puts the next answer on its way, if there is one. Those to a READ are many: they are noted one by one.
    fn poll(&mut self, request: &Request) -> bool {
        let Flow { src, dst, src_port, dst_port } = self.flow(request);
        let back = Flow { src: dst, dst: src, src_port, dst_port };
        let (now, mut out) = (self.now(), [0; limits::MAX_PACKET]);
        let Some(bytes) = self.responder.poll(now, &mut out) else { return false };
        self.way.push(meta(Direction::Tx, back, 0), bytes.to_vec());
        true
    }

    fn note_answer(&mut self, request: &Request, bytes: &[u8]) -> Result<(), ReplayError> {
        let Ok(packet) = Packet::parse(bytes) else { return Ok(()) };
        let Request { position, frame, .. } = *request;
        let time = self.clock;
        self.answers.add(&packet, |_| Asked { position, frame, time })
    }
}
