//! Queue pairs of stock programs, for machines on which no agent may run.
//!
//! A program such as `ib_write_bw` makes its queue pair and its memory before it can be asked for something, and tells of
//! them over TCP. So a case gets the queue pair of a program that takes what the case sends, and what only an application
//! could tell is not looked at.

use std::fmt;

use uroce_wire::{AtomicEth, Operation, Reth, Service};

use crate::memory::Region;
use crate::{Link, Packet, Stop};

/// Operations that the queue pair of a program takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Takes {
    /// SENDs: it has receives.
    pub send: bool,
    /// WRITEs without immediate data.
    pub write: bool,
    /// READs.
    pub read: bool,
    /// Compare and swap, fetch and add.
    pub atomic: bool,
}

impl Takes {
    /// It takes all that `needed` takes.
    pub fn includes(self, needed: Takes) -> bool {
        self.with(needed) == self
    }

    /// What either takes.
    #[must_use]
    pub fn with(self, other: Takes) -> Takes {
        Takes {
            send: self.send || other.send,
            write: self.write || other.write,
            read: self.read || other.read,
            atomic: self.atomic || other.atomic,
        }
    }

    /// What it takes and the other does not.
    fn without(self, other: Takes) -> Takes {
        Takes {
            send: self.send && !other.send,
            write: self.write && !other.write,
            read: self.read && !other.read,
            atomic: self.atomic && !other.atomic,
        }
    }

    /// What a queue pair must take that is to execute this packet. Packets of other services and responses ask for nothing.
    fn of(packet: &Packet) -> Option<Takes> {
        let none = Takes::default();
        let Some(info) = packet.bth.opcode.info().filter(|info| info.service == Service::Rc) else {
            return Some(none);
        };
        match info.operation {
            Operation::Send => Some(Takes { send: true, ..none }),
            Operation::Write => {
                let send = packet.imm.is_some();
                Some(Takes { send, write: true, ..none })
            }
            Operation::ReadRequest => Some(Takes { read: true, ..none }),
            Operation::CompareSwap | Operation::FetchAdd => Some(Takes { atomic: true, ..none }),
            Operation::Flush | Operation::AtomicWrite => None,
            _ => Some(none),
        }
    }
}

impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (self.send, "SEND"),
            (self.write, "WRITE"),
            (self.read, "READ"),
            (self.atomic, "atomics"),
        ];
        let words: Vec<&str> =
            all.iter().filter(|(takes, _)| *takes).map(|(_, word)| *word).collect();
        f.write_str(&words.join(" and "))
    }
}

/// The queue pair that a case asks for.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Its connection; the first PSN that the program sends is its own choice.
    pub link: Link,
    /// Operations that it must take.
    pub takes: Takes,
    /// It has receives; false: it must have none.
    pub receives: bool,
    /// What of it no stock program has, if there is something.
    pub only_by_agent: Option<&'static str>,
}

/// The queue pair that a program offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Its queue pair number.
    pub qpn: u32,
    /// The first PSN that it sends.
    pub psn: u32,
    /// Its path MTU: code 1 to 5.
    pub mtu: u8,
    /// Operations that it takes.
    pub takes: Takes,
    /// Where its memory begins.
    pub va: u64,
    /// The remote key of its memory.
    pub rkey: u32,
    /// Bytes that its memory has at least; where it ends is not known.
    pub length: u32,
}

impl Offer {
    pub(crate) fn region(&self) -> Region {
        Region { number: 0, va: self.va, rkey: self.rkey, length: self.length }
    }
}

/// No memory of a program is as large as this.
const LARGEST: u64 = 1 << 30;

/// What a case may not send to the queue pair of a program, because what is right cannot be told.
pub(crate) fn refusal(packet: &Packet, takes: Takes, region: &Region) -> Result<(), Refusal> {
    let Some(needed) = Takes::of(packet) else { return Err(Refusal::NeedsAgent("its operation")) };
    if !takes.includes(needed) {
        return Err(Refusal::Takes(needed.without(takes)));
    }
    match ends_in_doubt(packet, region) {
        true => Err(Refusal::NeedsAgent("where the memory ends")),
        false => Ok(()),
    }
}

/// Why a packet is not sent.
pub(crate) enum Refusal {
    /// The queue pair must take this as well.
    Takes(Takes),
    /// Only an agent knows this.
    NeedsAgent(&'static str),
}

/// The range is around an end of the memory, which is somewhere beyond what the program told.
fn ends_in_doubt(packet: &Packet, region: &Region) -> bool {
    let reth = packet.reth.map(|Reth { va, rkey, length }| (va, rkey, u64::from(length)));
    let atomic = packet.atomic.map(|AtomicEth { va, rkey, .. }| (va, rkey, 8));
    let Some((va, rkey, length)) = reth.or(atomic) else { return false };
    let known = region.va..=region.va.saturating_add(region.length.into());
    let end = va.saturating_add(length);
    let around = region.va.saturating_sub(LARGEST)..=known.end().saturating_add(LARGEST);
    let inside = known.contains(&va) && known.contains(&end);
    rkey == region.rkey && length > 0 && !inside && around.contains(&va) && around.contains(&end)
}

/// The verdict on what only an agent could do or tell.
pub(crate) fn needs_agent<T>(what: &str) -> Result<T, Stop> {
    Err(Stop::NotApplicable(format!("needs an agent: {what}")))
}

#[cfg(test)]
mod tests {
    use uroce_wire::{Opcode, Psn};

    use super::*;
    use crate::fake::{FakeWire, card};
    use crate::{
        AgentError, AgentLink, Bench, Card, Patience, Reply, Report, Request, Selection, Verdict,
        run,
    };

    /// Programs that never answer a packet.
    struct Programs {
        takes: Vec<Takes>,
        wanted: Vec<Wanted>,
    }

    impl AgentLink for Programs {
        fn knows_device(&self) -> bool {
            false
        }

        fn call(
            &mut self,
            request: &Request,
            _waiting: &mut dyn FnMut(),
        ) -> Result<Reply, AgentError> {
            match request {
                Request::Clear => Ok(Reply::Done),
                _ => Err(AgentError::NeedsAgent("this".to_owned())),
            }
        }

        fn offer(&mut self, wanted: &Wanted) -> Result<Option<Offer>, AgentError> {
            if let Some(what) = wanted.only_by_agent {
                return Err(AgentError::NeedsAgent(what.to_owned()));
            }
            self.wanted.push(wanted.clone());
            let takes = self.takes.iter().find(|takes| takes.includes(wanted.takes));
            let takes = *takes.ok_or_else(|| AgentError::NeedsAgent("none".to_owned()))?;
            let (va, length) = (REGION.va, REGION.length);
            Ok(Some(Offer { qpn: 9, psn: 3, mtu: 3, takes, va, rkey: 7, length }))
        }
    }

    const WRITES: Takes = Takes { write: true, send: false, read: false, atomic: false };
    const READS: Takes = Takes { read: true, write: false, ..WRITES };

    fn ran(case: &str, takes: &[Takes]) -> (Report, Programs) {
        ran_on(&card(), case, takes)
    }

    fn ran_on(card: &Card, case: &str, takes: &[Takes]) -> (Report, Programs) {
        let mut programs = Programs { takes: takes.to_vec(), wanted: vec![] };
        let selection = Selection { only: vec![case.to_owned()], ..Selection::default() };
        let mut wire = FakeWire::default();
        let report = run(&selection, &mut wire, &mut programs, card, &mut |_| true);
        assert_eq!(report.lost, None);
        (report, programs)
    }

    fn needs_agent_in(report: &Report) -> bool {
        matches!(&report.cases[0].verdict, Verdict::NotApplicable(why) if why.contains("agent"))
    }

    #[test]
    fn nothing_is_said_of_what_a_device_has_that_nobody_was_asked_about() {
        let unknown = Card::new("unknown", card().address);
        for case in ["rc.responder.flush", "xrc.requester.good", "rc.responder.window"] {
            let (report, _) = ran_on(&unknown, case, &[WRITES, READS]);
            assert!(needs_agent_in(&report), "{case}: {:?}", report.cases[0].verdict);
        }
    }

    #[test]
    fn a_case_gets_the_program_that_takes_what_it_sends() {
        let (report, programs) = ran("rc.responder.read-headers", &[WRITES, READS]);
        let wanted: Vec<Takes> = programs.wanted.iter().map(|wanted| wanted.takes).collect();
        assert_eq!(wanted[..2], [Takes::default(), READS]);
        assert!(matches!(report.cases[0].verdict, Verdict::Fail(_)), "the program answers nothing");
        let (report, _) = ran("rc.responder.read-headers", &[WRITES]);
        assert!(needs_agent_in(&report), "{:?}", report.cases[0].verdict);
    }

    #[test]
    fn what_no_program_has_needs_an_agent() {
        for case in ["rnr-send", "right-missing", "state-rtr", "other-domain", "rnr-shared"] {
            let (report, _) = ran(&format!("rc.responder.{case}"), &[WRITES]);
            assert!(needs_agent_in(&report), "{case}: {:?}", report.cases[0].verdict);
        }
        let (report, _) = ran("rc.requester.read-", &[WRITES]);
        assert_eq!(report.count("not applicable"), report.cases.len());
    }

    #[test]
    fn the_queue_pair_of_a_program_ends_when_the_next_is_opened() {
        let mut programs = Programs { takes: vec![WRITES], wanted: vec![] };
        let (mut wire, card) = (FakeWire::default(), card());
        let bench = Bench::new(&mut wire, &mut programs, &card, Patience::default(), 0);
        let open = || bench.rc().open().expect("there is a program");
        let (first, second) = (open(), open());
        assert!(second.tx(&second.write(16)).is_ok());
        assert!(matches!(first.tx(&first.write(16)), Err(Stop::NotApplicable(_))));
    }

    #[test]
    fn a_broken_rule_is_seen_without_an_agent() {
        let (report, _) = ran("rc.responder.nak-once-per-gap", &[WRITES]);
        assert!(matches!(report.cases[0].verdict, Verdict::Fail(_)));
    }

    const REGION: Region = Region { number: 0, va: 0x1000_0000_0000, rkey: 7, length: 64 << 10 };

    fn write(va: u64, length: u32, rkey: u32) -> Packet {
        let mut packet = Packet::new(Opcode::RC_WRITE_ONLY, 1, Psn::new(0), vec![]);
        packet.reth = Some(Reth { va, rkey, length });
        packet
    }

    #[test]
    fn a_range_is_in_doubt_only_near_an_end_of_the_memory() {
        let doubt = |va, length, rkey| ends_in_doubt(&write(va, length, rkey), &REGION);
        let end = REGION.va + u64::from(REGION.length);
        assert!(!doubt(REGION.va, REGION.length, 7));
        assert!(doubt(end - 15, 16, 7) && doubt(REGION.va - 1, 16, 7) && doubt(end, 16, 7));
        assert!(!doubt(end - 15, 16, 8), "a wrong key is wrong everywhere");
        assert!(!doubt(u64::MAX - 15, 16, 7), "the end of the address space is no memory");
        assert!(!doubt(REGION.va, 0x8000_0001, 7), "no program has so much");
        assert!(!doubt(3, 0, 7), "an empty range is nowhere");
    }

    #[test]
    fn what_a_packet_needs_follows_from_its_opcode() {
        let needs = |opcode| {
            Takes::of(&Packet::new(opcode, 1, Psn::new(0), vec![])).map(|takes| takes.to_string())
        };
        assert_eq!(needs(Opcode::RC_SEND_MIDDLE).as_deref(), Some("SEND"));
        assert_eq!(needs(Opcode::RC_WRITE_ONLY_IMM).as_deref(), Some("SEND and WRITE"));
        assert_eq!(needs(Opcode::RC_READ_REQUEST).as_deref(), Some("READ"));
        assert_eq!(needs(Opcode::RC_FETCH_ADD).as_deref(), Some("atomics"));
        assert_eq!(needs(Opcode::RC_ACKNOWLEDGE).as_deref(), Some(""));
        assert_eq!(needs(Opcode(0x24)).as_deref(), Some(""));
        assert_eq!(needs(Opcode::RC_FLUSH), None);
    }
}
