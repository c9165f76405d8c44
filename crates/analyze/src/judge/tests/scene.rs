//! Two ends, and the judge that watches them.

use std::time::Duration;

use uroce_wire::{Aeth, AtomicEth, Deth, NakCode, Opcode, Qpn, Reth, Syndrome};

use crate::judge::{Explanation, Finding, Judge, Severity};
use crate::sample;
use crate::track::{Tracker, TrackerConfig};
use crate::{Packet, Timestamp};

/// Queue pair of 10.0.0.1, which sends requests.
pub const ASKS: u32 = 0x11;
/// Queue pair of 10.0.0.2, which answers.
pub const ANSWERS: u32 = 0x22;
/// Payload of full packets.
pub const MTU: u32 = 1024;

/// A capture that grows packet by packet.
pub struct Scene {
    tracker: Tracker,
    judge: Judge,
    frame: u64,
    now: u64,
}

impl Scene {
    /// Nothing was captured yet.
    pub fn new() -> Self {
        Self {
            tracker: Tracker::new(TrackerConfig::default()),
            judge: Judge::new(),
            frame: 0,
            now: 1_000_000_000,
        }
    }

    /// SENDs with the PSNs 0 to 9 were acknowledged, so that both directions are known.
    pub fn connected() -> Self {
        let mut scene = Self::new();
        for psn in 0..10 {
            scene.send(psn);
            scene.ack(psn, psn + 1);
        }
        scene
    }

    pub fn wait(&mut self, time: Duration) {
        self.now += u64::try_from(time.as_nanos()).expect("a short time");
    }

    /// Captures `packet` 10 us after the one before.
    pub fn give(&mut self, packet: Packet, payload: &[u8]) {
        self.frame += 1;
        self.now += 10_000;
        let time = Timestamp::from_nanos(self.now);
        let packet = Packet { frame: self.frame, time, ..packet };
        let annotation = self.tracker.handle_packet(&packet, payload);
        self.judge.handle_packet(&packet, payload, &annotation, &self.tracker);
    }

    /// Captures packets that come 1 us apart.
    pub fn crowd(&mut self, packets: &[Packet]) {
        for packet in packets {
            self.now -= 9_000;
            self.give(*packet, &[0; 16]);
        }
    }

    pub fn request(&mut self, opcode: Opcode, psn: u32, bytes: u32) {
        self.give(request(opcode, psn, bytes), &[]);
    }

    pub fn send(&mut self, psn: u32) {
        self.request(Opcode::RC_SEND_ONLY, psn, 100);
    }

    /// The same, which asks for a list of gaps (ADR 33).
    pub fn send_asking(&mut self, psn: u32) {
        let mut packet = request(Opcode::RC_SEND_ONLY, psn, 100);
        packet.bth.reserved7 = uroce_wire::TAKES_GAP_LISTS;
        self.give(packet, &[]);
    }

    pub fn read(&mut self, psn: u32, length: u32) {
        let reth = Some(Reth { va: 0x1000, rkey: 7, length });
        self.give(Packet { reth, ..request(Opcode::RC_READ_REQUEST, psn, 0) }, &[]);
    }

    pub fn fetch_add(&mut self, psn: u32, add: u64) {
        self.give(fetch_add(psn, add, 64), &[]);
    }

    pub fn answer(&mut self, psn: u32, syndrome: Syndrome, msn: u32) {
        let aeth = Some(Aeth { syndrome, msn });
        self.give(Packet { aeth, ..sample::answer(ASKS, psn, syndrome) }, &[]);
    }

    pub fn ack(&mut self, psn: u32, msn: u32) {
        self.answer(psn, Syndrome::ack(31), msn);
    }

    pub fn nak(&mut self, psn: u32, code: NakCode) {
        self.answer(psn, Syndrome::nak(code), psn);
    }

    pub fn nak_with_list(&mut self, psn: u32, list: &[u8]) {
        let syndrome = Syndrome::nak(NakCode::PsnSequence);
        let aeth = Some(Aeth { syndrome, msn: psn });
        let payload_len = list.len() as u32;
        let answer = sample::answer(ASKS, psn, syndrome);
        self.give(Packet { aeth, payload_len, ..answer }, list);
    }

    pub fn rnr(&mut self, psn: u32) {
        self.answer(psn, Syndrome::rnr(12), psn);
    }

    pub fn response(&mut self, opcode: Opcode, psn: u32, bytes: u32) {
        let info = opcode.info().expect("a defined opcode");
        let has_aeth = info.headers.contains(uroce_wire::HeaderSet::AETH);
        let aeth = has_aeth.then_some(Aeth { syndrome: Syndrome::ack(31), msn: 99 });
        let packet = back(opcode, psn, bytes);
        self.give(Packet { aeth, ..packet }, &[]);
    }

    pub fn atomic_response(&mut self, psn: u32, value: u64) {
        let opcode = Opcode::RC_ATOMIC_ACKNOWLEDGE;
        let aeth = Some(Aeth { syndrome: Syndrome::ack(31), msn: 99 });
        self.give(Packet { aeth, atomic_ack: Some(value), ..back(opcode, psn, 0) }, &[]);
    }

    /// A management datagram from 10.0.0.1, or from 10.0.0.2.
    pub fn mad(&mut self, is_back: bool, message: impl Into<uroce_cm::Message>) {
        let mad = uroce_cm::Mad { tid: 1, message: message.into() };
        let bytes = mad.emit();
        self.give(management(is_back), &bytes);
    }

    /// The capture ends: all that was found.
    pub fn findings(mut self) -> Vec<Finding> {
        self.tracker.finish();
        self.judge.finish(&self.tracker);
        self.judge.findings()
    }

    /// The capture ends: how connections came to their end.
    pub fn explanations(mut self) -> Vec<Explanation> {
        self.tracker.finish();
        self.judge.finish(&self.tracker);
        self.judge.explanations()
    }

    /// The capture ends: names of the findings.
    pub fn names(self) -> Vec<&'static str> {
        self.findings().iter().map(|finding| finding.rule.name).collect()
    }

    /// The capture ends, and the rule with this name was broken.
    #[track_caller]
    pub fn breaks(self, name: &str) -> Finding {
        let findings = self.findings();
        let found = findings.iter().find(|finding| finding.rule.name == name);
        found.unwrap_or_else(|| panic!("{name} is not among {findings:#?}")).clone()
    }

    /// The capture ends, and there is no warning and no error.
    #[track_caller]
    pub fn keeps_all(self) {
        let findings = self.findings();
        let bad = |finding: &&Finding| finding.rule.severity > Severity::Note;
        assert_eq!(findings.iter().find(bad), None);
    }

    /// The capture ends, and the rule with this name was not broken.
    #[track_caller]
    pub fn keeps(self, name: &str) {
        assert!(crate::judge::Rule::by_name(name).is_some(), "{name} is a rule");
        let findings = self.findings();
        let found = findings.iter().find(|finding| finding.rule.name == name);
        assert_eq!(found, None);
    }
}

/// A request from 10.0.0.1 with as many pad bytes as it needs.
pub fn request(opcode: Opcode, psn: u32, bytes: u32) -> Packet {
    let mut packet = sample::packet(opcode, ANSWERS, psn);
    packet.payload_len = bytes;
    packet.bth.pad = u8::try_from(bytes.wrapping_neg() & 3).expect("less than 4");
    packet
}

/// A packet from 10.0.0.2.
pub fn back(opcode: Opcode, psn: u32, bytes: u32) -> Packet {
    let packet = request(opcode, psn, bytes);
    let (source, destination) = (packet.destination, packet.source);
    let mut packet = Packet { source, destination, ..packet };
    packet.bth.dest_qpn = Qpn::new(ASKS);
    packet
}

pub fn fetch_add(psn: u32, add: u64, va: u64) -> Packet {
    let atomic_eth = Some(AtomicEth { va, rkey: 7, swap_add: add, compare: 0 });
    Packet { atomic_eth, ..request(Opcode::RC_FETCH_ADD, psn, 0) }
}

pub fn management(is_back: bool) -> Packet {
    let way = if is_back { back } else { request };
    let mut packet = way(Opcode::UD_SEND_ONLY, 0, 256);
    packet.bth.dest_qpn = Qpn::GSI;
    packet.deth = Some(Deth { qkey: uroce_cm::GSI_QKEY, src_qpn: Qpn::GSI });
    packet
}
