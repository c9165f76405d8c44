//! Rules for connection management, checked from the MADs on the wire alone (IBTA chapter 12): who may say what, and how often.

use std::collections::HashMap;
use std::net::IpAddr;

use uroce_wire::Packet;

use crate::coverage::Coverage;
use crate::violation::{Check, Invariant, ensure};

const CLASS_CM: u8 = 7;
/// Bytes in front of a message.
const HEADER: usize = 24;

const REQ: u16 = 0x10;
const MRA: u16 = 0x11;
const REJ: u16 = 0x12;
const REP: u16 = 0x13;
const RTU: u16 = 0x14;
const DREQ: u16 = 0x15;
const DREP: u16 = 0x16;
const SIDR_REQ: u16 = 0x17;
const SIDR_REP: u16 = 0x18;

/// A question is sent once, and 15 times again at most.
const MOST_TRIES: u64 = 16;

/// A MAD of connection management, as far as the rules are about it.
#[derive(Debug, Clone, Copy)]
struct CmMad<'a> {
    attribute: u16,
    /// What its sender calls the connection, and what its receiver calls it.
    ids: [u32; 2],
    bytes: &'a [u8],
}

impl<'a> CmMad<'a> {
    fn parse(bytes: &'a [u8]) -> Option<CmMad<'a>> {
        if *bytes.get(1)? != CLASS_CM || bytes.len() != 256 {
            return None;
        }
        let word = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let attribute = (word(16)? >> 16) as u16;
        let first = word(HEADER)?;
        let ids = match attribute {
            REQ | SIDR_REQ => [first, 0],
            // It has no name but that of its question.
            SIDR_REP => [0, first],
            _ => [first, word(HEADER + 4)?],
        };
        Some(CmMad { attribute, ids, bytes })
    }

    /// How often its sender sends it without being asked.
    fn tries(&self) -> u64 {
        1 + u64::from(self.bytes[HEADER + 51] >> 4)
    }

    fn name(&self) -> &'static str {
        match self.attribute {
            REQ => "REQ",
            MRA => "MRA",
            REJ => "REJ",
            REP => "REP",
            RTU => "RTU",
            DREQ => "DREQ",
            DREP => "DREP",
            SIDR_REQ => "SIDR_REQ",
            SIDR_REP => "SIDR_REP",
            _ => "MAD",
        }
    }
}

/// From whom, to whom, what, and both ids.
type Key = (IpAddr, IpAddr, u16, [u32; 2]);

/// What was sent again and again.
#[derive(Debug, Default)]
struct Copies {
    count: u64,
    bytes: Vec<u8>,
    /// Of a REQ: how often it began again with another path MTU.
    restarts: u64,
}

/// The MADs of connection management between all nodes.
#[derive(Debug, Default)]
pub(super) struct MadMonitor {
    sent: HashMap<Key, Copies>,
    arrived: HashMap<Key, u64>,
    /// How often a REQ may be sent, by its sender and its id: the other messages of the connection, too.
    tries: HashMap<(IpAddr, u32), u64>,
    /// The name that a REQ was given, by its receiver, its sender and its id.
    accepted: HashMap<(IpAddr, IpAddr, u32), u32>,
    /// RTUs that are due at once, each since when.
    due: Vec<(Key, u64)>,
}

impl MadMonitor {
    /// A packet for QP 1 that has arrived undamaged, from whoever says so.
    pub(super) fn handle_arrived(
        &mut self,
        now_ns: u64,
        src: IpAddr,
        dst: IpAddr,
        packet: &Packet<'_>,
    ) {
        let Some(mad) = CmMad::parse(packet.payload()) else { return };
        self.note_repeated_rep(now_ns, src, dst, &mad);
        *self.arrived.entry((src, dst, mad.attribute, mad.ids)).or_default() += 1;
    }

    /// A packet for QP 1 that a NIC sends.
    pub(super) fn handle_sent(
        &mut self,
        src: IpAddr,
        dst: IpAddr,
        packet: &Packet<'_>,
        now_ns: u64,
        coverage: &mut Coverage,
    ) -> Check {
        let Some(mad) = CmMad::parse(packet.payload()) else { return Ok(()) };
        self.check_due(now_ns, src, dst, &mad)?;
        if mad.attribute == MRA {
            coverage.count("an MRA");
        }
        self.check_cause(src, dst, &mad)?;
        self.check_copy(src, dst, &mad, coverage)?;
        let is_second = |known: &mut u32| *known != mad.ids[0];
        if mad.attribute == REP {
            let known = self.accepted.entry((src, dst, mad.ids[1])).or_insert(mad.ids[0]);
            // R108: one connection comes of one REQ.
            ensure(!is_second(known), Invariant::Messages, || {
                "a REQ that comes again is answered as a new one".to_owned()
            })?;
        }
        Ok(())
    }

    /// R109: a caller that has confirmed a REP does so again when it comes again, as long as the connection stands.
    fn note_repeated_rep(&mut self, now_ns: u64, src: IpAddr, dst: IpAddr, mad: &CmMad<'_>) {
        let ids = [mad.ids[1], mad.ids[0]];
        let has_ended = [DREQ, DREP, REJ].iter().any(|attribute| {
            self.has_sent(dst, src, *attribute, ids)
                || self.arrived(src, dst, *attribute, mad.ids) > 0
        });
        if mad.attribute == REP && self.has_sent(dst, src, RTU, ids) && !has_ended {
            self.due.push(((dst, src, RTU, ids), now_ns));
        }
    }

    /// R109: an RTU that was due was sent at that moment, or the connection has ended then.
    fn check_due(&mut self, now_ns: u64, src: IpAddr, dst: IpAddr, mad: &CmMad<'_>) -> Check {
        self.due.retain(|(key, since_ns)| {
            let (from, to, _, ids) = *key;
            !(*since_ns == now_ns && (from, to, ids) == (src, dst, mad.ids))
        });
        let is_late = self.due.iter().any(|(_, since_ns)| *since_ns < now_ns);
        ensure(!is_late, Invariant::Sequence, || "a REP that comes again draws no RTU".to_owned())
    }

    fn arrived(&self, from: IpAddr, at: IpAddr, attribute: u16, ids: [u32; 2]) -> u64 {
        self.arrived.get(&(from, at, attribute, ids)).copied().unwrap_or_default()
    }

    fn has_sent(&self, from: IpAddr, to: IpAddr, attribute: u16, ids: [u32; 2]) -> bool {
        self.sent.contains_key(&(from, to, attribute, ids))
    }

    /// I9: what is sent follows from what this node has begun, or has been told.
    fn check_cause(&self, src: IpAddr, dst: IpAddr, mad: &CmMad<'_>) -> Check {
        let [own, theirs] = mad.ids;
        let reqs = self.arrived(dst, src, REQ, [theirs, 0]);
        let reps = self.arrived(dst, src, REP, [theirs, own]);
        let holds = match mad.attribute {
            REP => reqs > 0,
            RTU => reps > 0,
            MRA => reqs + reps > 0,
            DREP => self.arrived(dst, src, DREQ, [theirs, own]) > 0,
            SIDR_REP => self.arrived(dst, src, SIDR_REQ, [theirs, 0]) > 0,
            DREQ => reps > 0 || self.has_sent(src, dst, REP, mad.ids),
            REJ => {
                // An RTU for a call that is gone draws one, too.
                let rtus = self.arrived(dst, src, RTU, [theirs, own]);
                reqs + reps + rtus > 0
                    || self.has_sent(src, dst, REQ, [own, 0])
                    || self.has_sent(src, dst, REP, mad.ids)
            }
            _ => true,
        };
        ensure(holds, Invariant::Strangers, || {
            format!("{src} sends a {} to {dst}, which nothing has asked for", mad.name())
        })
    }

    /// I7, I11: what is sent again is the same, and no more often than allowed.
    fn check_copy(
        &mut self,
        src: IpAddr,
        dst: IpAddr,
        mad: &CmMad<'_>,
        coverage: &mut Coverage,
    ) -> Check {
        let [own, theirs] = mad.ids;
        if mad.attribute == REQ {
            self.tries.insert((src, own), mad.tries());
        }
        let tries_of = |node, id| self.tries.get(&(node, id)).copied().unwrap_or_default();
        // The REQ of a connection says how often; one of both ends has sent it.
        let tries = tries_of(src, own).max(tries_of(dst, theirs));
        let most = match mad.attribute {
            REP => tries + self.arrived(dst, src, REQ, [theirs, 0]),
            RTU => self.arrived(dst, src, REP, [theirs, own]),
            DREP => self.arrived(dst, src, DREQ, [theirs, own]),
            DREQ | REQ => tries,
            SIDR_REQ => MOST_TRIES,
            SIDR_REP => self.arrived(dst, src, SIDR_REQ, [theirs, 0]),
            _ => u64::MAX,
        };
        let copies = self.sent.entry((src, dst, mad.attribute, mad.ids)).or_default();
        let is_new = copies.count == 0;
        copies.count += 1;
        let same = is_new || copies.bytes == mad.bytes;
        if is_new {
            copies.bytes.extend_from_slice(mad.bytes);
        } else {
            coverage.count("a MAD that is sent again");
        }
        if mad.attribute == REQ && !same {
            coverage.count("a call that begins again with a smaller path MTU");
            (copies.bytes, copies.restarts) = (mad.bytes.to_vec(), copies.restarts + 1);
        }
        let most = most.saturating_mul(1 + copies.restarts);
        ensure(copies.count <= most, Invariant::Bounds, || {
            format!("a {} is sent {} times, and {most} are allowed", mad.name(), copies.count)
        })?;
        let must_be_same = matches!(mad.attribute, REP | RTU | DREQ | SIDR_REQ);
        ensure(same || !must_be_same, Invariant::Sequence, || {
            format!("a {} that is sent again is not the same", mad.name())
        })
    }
}

#[cfg(test)]
mod tests {
    use uroce_wire::{Bth, Deth, HeaderWriter, Opcode, Psn, Qpn};

    use super::*;

    const CALLER: [u8; 4] = [10, 0, 0, 1];
    const CALLED: [u8; 4] = [10, 0, 0, 2];

    /// A packet with a MAD; of a REQ that is sent once more at most.
    fn packet(attribute: u16, ids: [u32; 2]) -> Vec<u8> {
        let mut space = [0; 64];
        let mut headers = HeaderWriter::new(&mut space);
        headers.put(&Bth::new(Opcode::UD_SEND_ONLY, Qpn::GSI, Psn::new(0))).expect("room");
        headers.put(&Deth { qkey: 0x8001_0000, src_qpn: Qpn::GSI }).expect("room");
        let len = headers.len();
        let mut mad = [0; 256];
        mad[..4].copy_from_slice(&[1, CLASS_CM, 2, 3]);
        mad[16..18].copy_from_slice(&attribute.to_be_bytes());
        mad[HEADER..HEADER + 4].copy_from_slice(&ids[0].to_be_bytes());
        if attribute == REQ {
            mad[HEADER + 51] = 1 << 4;
        } else {
            mad[HEADER + 4..HEADER + 8].copy_from_slice(&ids[1].to_be_bytes());
        }
        [&space[..len], &mad, &[0; 4]].concat()
    }

    /// A MAD that leaves, and arrives if `arrives`. The rule that it breaks.
    fn send(
        monitor: &mut MadMonitor,
        (now_ns, from, arrives): (u64, [u8; 4], bool),
        (attribute, ids): (u16, [u32; 2]),
    ) -> Option<Invariant> {
        let to = if from == CALLER { CALLED } else { CALLER };
        let (bytes, coverage) = (packet(attribute, ids), &mut Coverage::default());
        let parsed = Packet::parse(&bytes).expect("a packet");
        let sent = monitor.handle_sent(from.into(), to.into(), &parsed, now_ns, coverage);
        if arrives {
            monitor.handle_arrived(now_ns, from.into(), to.into(), &parsed);
        }
        sent.err().map(|(invariant, _)| invariant)
    }

    /// A connection of 1 and 2 whose RTU was lost.
    fn confirmed() -> MadMonitor {
        let mut monitor = MadMonitor::default();
        let calls = [(CALLER, REQ, [1, 0]), (CALLED, REP, [2, 1]), (CALLER, RTU, [1, 2])];
        for (from, attribute, ids) in calls {
            let arrives = attribute != RTU;
            assert_eq!(send(&mut monitor, (0, from, arrives), (attribute, ids)), None);
        }
        monitor
    }

    #[test]
    fn i9_an_answer_to_nothing_is_a_breach() {
        for (attribute, ids) in [(REP, [2, 1]), (RTU, [1, 2]), (DREP, [1, 2]), (DREQ, [1, 2])] {
            let mut monitor = MadMonitor::default();
            let breach = send(&mut monitor, (0, CALLED, true), (attribute, ids));
            assert_eq!(breach, Some(Invariant::Strangers), "{attribute:#x}");
        }
    }

    #[test]
    fn i6_a_second_name_for_one_req_is_a_breach() {
        let mut monitor = confirmed();
        let breach = send(&mut monitor, (1, CALLED, true), (REP, [3, 1]));
        assert_eq!(breach, Some(Invariant::Messages));
    }

    #[test]
    fn i7_a_rep_that_comes_again_draws_an_rtu_at_once() {
        for (at_ns, breach) in [(5, None), (6, Some(Invariant::Sequence))] {
            let mut monitor = confirmed();
            assert_eq!(send(&mut monitor, (5, CALLED, true), (REP, [2, 1])), None);
            assert_eq!(send(&mut monitor, (at_ns, CALLER, true), (RTU, [1, 2])), breach);
        }
    }

    #[test]
    fn i11_a_req_is_sent_as_often_as_it_says() {
        let mut monitor = MadMonitor::default();
        let mut once = || send(&mut monitor, (0, CALLER, true), (REQ, [1, 0]));
        assert_eq!([once(), once(), once()], [None, None, Some(Invariant::Bounds)]);
    }
}
