//! The wire's faults, and a witness who reads every packet and knows when it will arrive.

use std::cell::RefCell;
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::rc::Rc;

use uroce_transport::{Instant, limits};
use uroce_wire::{NakCode, Operation, Psn, SyndromeKind, read_seen, rnr_timer_us};

use super::rng::Rng;
use crate::harness::{Fate, Pair, Seen};

/// Chances in percent.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    pub loss: usize,
    pub duplicate: usize,
    pub delay: usize,
    pub delay_ns: usize,
    /// How often one and the same packet may be lost.
    pub losses_per_packet: usize,
}

fn since(psn: u32, earlier: u32) -> i32 {
    ((psn.wrapping_sub(earlier) << 8) as i32) >> 8
}

/// What the witness knows of one requester.
#[derive(Default)]
struct Requester {
    /// One past the highest PSN of a response that arrived.
    una: Option<u32>,
    /// READs and the like that are not answered yet: the next PSN that is due, and the last.
    reads: Vec<(u32, u32)>,
    /// Responses that arrived before an earlier one.
    placed: HashSet<u32>,
    /// One past the highest PSN that is known to be executed.
    answered: Option<u32>,
    /// Last PSNs of those that were asked for.
    open: Vec<u32>,
    /// Of those, FLUSHes and ATOMIC WRITEs, which a plain ACK answers as well.
    placements: Vec<u32>,
    /// PSN that got an RNR NAK, and until when nothing may come from it on.
    rnr: Option<(u32, Instant)>,
}

impl Requester {
    /// Takes in a response, and those behind it that are there already.
    fn take_response(&mut self, psn: u32) {
        self.placed.insert(psn);
        self.note_answered(psn);
        while let Some(open) = self.reads.first_mut().filter(|open| self.placed.remove(&open.0)) {
            let (taken, last) = *open;
            open.0 = (taken + 1) & 0xff_ffff;
            self.una = Some(open.0);
            if taken == last {
                self.reads.remove(0);
                self.open.retain(|open| *open != last);
            }
        }
        let next = self.reads.first().map(|open| open.0);
        let end = self.answered.filter(|end| next.is_none_or(|next| since(next, *end) >= 0));
        let beyond = end.filter(|end| self.una.is_none_or(|una| since(*end, una) > 0));
        self.una = beyond.or(self.una);
    }

    /// Everything up to `psn` was executed.
    fn note_answered(&mut self, psn: u32) {
        let end = (psn + 1) & 0xff_ffff;
        let known = self.answered.filter(|before| since(*before, end) >= 0);
        self.answered = known.or(Some(end));
    }
}

/// What the witness knows of one responder.
#[derive(Default)]
struct Responder {
    last_ack: Option<u32>,
    last_msn: Option<u32>,
    /// PSNs of sequence NAKs, and how far the responder had seen by the last gap list of each.
    sequence_naks: HashMap<u32, Option<Psn>>,
    rnr_at: Option<u32>,
}

pub struct Witness {
    rd_atomic: usize,
    mtu: usize,
    latency: u64,
    requesters: [Requester; 2],
    responders: [Responder; 2],
    arriving: Vec<(Instant, u64, Seen)>,
    count: u64,
    loud: bool,
    pub hash: DefaultHasher,
}

impl Witness {
    pub fn new(pair: &Pair) -> Witness {
        Witness {
            rd_atomic: pair.setup.rd_atomic.into(),
            mtu: pair.setup.mtu.bytes(),
            latency: pair.latency_ns,
            requesters: Default::default(),
            responders: Default::default(),
            arriving: vec![],
            count: 0,
            loud: std::env::var_os("UROCE_TRACE").is_some(),
            hash: DefaultHasher::new(),
        }
    }

    fn watch(&mut self, seen: &Seen, fate: &Fate) {
        self.count += 1;
        if self.loud {
            let (at, psn, name) = (seen.at.as_nanos(), seen.psn, seen.name());
            eprintln!("{at} {} {name} {psn:#x} {:x?} {fate:?}", seen.from, seen.syndrome());
        }
        let head = &seen.bytes[..12];
        (seen.at.as_nanos(), seen.from, head, seen.bytes.len()).hash(&mut self.hash);
        self.arrivals(seen.at);
        if seen.packet().info.is_request() {
            self.check_request(seen);
        } else {
            self.check_response(seen);
        }
        let at = seen.at.add_ns(self.latency);
        match fate {
            Fate::Drop | Fate::Replace(_) => {}
            Fate::Delay(ns) => self.arriving.push((at.add_ns(*ns), self.count, seen.clone())),
            Fate::DuplicateLate(ns) => {
                self.arriving.push((at, self.count, seen.clone()));
                self.arriving.push((at.add_ns(*ns), self.count, seen.clone()));
            }
            Fate::Deliver | Fate::Duplicate => {
                self.arriving.push((at, self.count, seen.clone()));
            }
        }
    }

    /// Takes note of the responses that have arrived by `now`.
    fn arrivals(&mut self, now: Instant) {
        self.arriving.sort_by_key(|(at, count, _)| (*at, *count));
        let due = self.arriving.partition_point(|(at, ..)| *at <= now);
        for (at, _, seen) in self.arriving.drain(..due).collect::<Vec<_>>() {
            if seen.packet().info.is_response() {
                self.response_arrived(at, &seen);
            }
        }
    }

    fn response_arrived(&mut self, at: Instant, seen: &Seen) {
        let requester = &mut self.requesters[1 - seen.from];
        let packet = seen.packet();
        let kind = packet.aeth().map(|aeth| aeth.syndrome.kind());
        let plain = packet.info.operation == Operation::Acknowledge
            && matches!(kind, Some(SyndromeKind::Ack { .. }));
        let placement = requester.placements.contains(&seen.psn)
            && requester.reads.first().is_some_and(|open| open.0 == seen.psn);
        if plain && placement {
            return requester.take_response(seen.psn);
        }
        let upto = if plain { 1 } else { 0 };
        let missing = requester.reads.iter().any(|(_, last)| since(*last, seen.psn) < upto);
        let stale = requester.una.is_some_and(|una| since(seen.psn, una) < 0);
        if stale {
            return;
        }
        if packet.info.operation != Operation::Acknowledge {
            return requester.take_response(seen.psn);
        }
        if let Some(SyndromeKind::Rnr { timer }) = kind {
            let copy = requester.rnr.is_some_and(|(psn, until)| psn == seen.psn && at < until);
            if !copy {
                let until = at.add_ns(u64::from(rnr_timer_us(timer)) * 1000);
                requester.rnr = Some((seen.psn, until));
            }
        }
        if missing {
            // It says that all before it was executed, and that a response is missing (R68).
            let last = if plain { seen.psn } else { seen.psn.wrapping_sub(1) & 0xff_ffff };
            return requester.note_answered(last);
        }
        requester.una = Some(match kind {
            Some(SyndromeKind::Nak(_) | SyndromeKind::Rnr { .. }) => seen.psn,
            _ => (seen.psn + 1) & 0xff_ffff,
        });
    }

    /// B15, R79, R17 on the requester's side.
    fn check_request(&mut self, seen: &Seen) {
        let packet = seen.packet();
        let requester = &mut self.requesters[seen.from];
        if let Some((psn, until)) = requester.rnr {
            let early = since(seen.psn, psn) >= 0 && seen.at < until;
            assert!(!early, "B15: PSN {:#x} sent during the wait for {psn:#x}", seen.psn);
        }
        let mut last = seen.psn;
        if !matches!(packet.info.operation, Operation::Send | Operation::Write) {
            if packet.info.operation == Operation::ReadRequest {
                let length = packet.reth().unwrap().length as usize;
                let psns = length.div_ceil(self.mtu).max(1) as u32;
                last = (seen.psn + psns - 1) & 0xff_ffff;
            }
            if matches!(packet.info.operation, Operation::Flush | Operation::AtomicWrite) {
                requester.placements.push(seen.psn);
            }
            let whole = |read: &&(u32, u32)| since(last, read.1) <= 0;
            // A gap is part of a request that is open.
            let end = requester.reads.iter().find(whole).map_or(last, |read| read.1);
            if requester.reads.iter().all(|read| read.1 != end) {
                requester.reads.push((seen.psn, end));
            }
            if !requester.open.contains(&end) {
                requester.open.push(end);
            }
            let open = requester.open.len();
            assert!(open <= self.rd_atomic, "R79: open {:x?}", requester.open);
        }
        if let Some(una) = requester.una {
            let out = since(last, una);
            let max =
                limits::SHORT_PATH_WINDOW + (limits::READ_SPLIT_BYTES as usize / self.mtu) as u32;
            assert!(out <= max as i32, "R17: {out} PSNs in flight");
        }
    }

    /// R45, R50, R53, R56 on the responder's side.
    fn check_response(&mut self, seen: &Seen) {
        let responder = &mut self.responders[seen.from];
        let packet = seen.packet();
        let Some(aeth) = packet.aeth() else { return };
        if packet.info.operation != Operation::Acknowledge {
            return;
        }
        match aeth.syndrome.kind() {
            SyndromeKind::Ack { .. } => {
                let back = responder.last_ack.is_some_and(|last| since(seen.psn, last) < 0);
                assert!(!back, "R45: ACK {:#x} after a later one", seen.psn);
                responder.last_ack = Some(seen.psn);
                let back = responder.last_msn.is_some_and(|last| since(aeth.msn, last) < 0);
                assert!(!back, "R50: the MSN of ACK {:#x} goes back", seen.psn);
                responder.last_msn = Some(aeth.msn);
            }
            SyndromeKind::Nak(NakCode::PsnSequence) => {
                // ADR 33: a NAK comes again to tell of packets that had not been seen by the last one.
                let told = read_seen(packet.payload(), packet.bth.psn);
                if let Some(before) = responder.sequence_naks.insert(seen.psn, told) {
                    let news = told.is_some_and(|told| before.is_none_or(|at| told.since(at) > 0));
                    assert!(news, "R53: two sequence NAKs for PSN {:#x}", seen.psn);
                }
                assert!(responder.rnr_at != Some(seen.psn), "R56: NAK after RNR {:#x}", seen.psn);
            }
            SyndromeKind::Rnr { .. } => responder.rnr_at = Some(seen.psn),
            _ => {}
        }
    }
}

/// Puts faults on the wire of `pair`; every packet passes by the witness.
pub fn install(pair: &mut Pair, faults: Faults, mut rng: Rng, witness: Rc<RefCell<Witness>>) {
    let mut lost: HashMap<(usize, u8, u32), usize> = HashMap::new();
    pair.filter(move |seen| {
        let losses = lost.entry((seen.from, seen.opcode.0, seen.psn)).or_default();
        let fate = if rng.chance(faults.loss) && *losses < faults.losses_per_packet {
            *losses += 1;
            Fate::Drop
        } else if rng.chance(faults.duplicate) {
            if rng.chance(50) {
                Fate::Duplicate
            } else {
                Fate::DuplicateLate(rng.below(faults.delay_ns) as u64)
            }
        } else if rng.chance(faults.delay) {
            Fate::Delay(rng.below(faults.delay_ns) as u64)
        } else {
            Fate::Deliver
        };
        witness.borrow_mut().watch(seen, &fate);
        fate
    });
}
