//! Figures beside what was really done on the wire.

use proptest::prelude::*;
use uroce_wire::NakCode;

use crate::track::testkit::{A, B, MTU, Wire, read_opcode};
use crate::track::{CapturePoint, FlowId, Outcome, Role, Verb};

const REQUESTS: FlowId = FlowId(0);

/// What a work request does.
#[derive(Debug, Clone, Copy)]
enum Work {
    Send,
    Write(u32),
    Read(u32),
    FetchAdd,
}

fn work() -> impl Strategy<Value = Work> {
    prop_oneof![
        Just(Work::Send),
        (1u32..6).prop_map(Work::Write),
        (1u32..4 * MTU).prop_map(Work::Read),
        Just(Work::FetchAdd),
    ]
}

impl Work {
    /// PSNs that it takes.
    fn psns(self) -> u32 {
        match self {
            Self::Send | Self::FetchAdd => 1,
            Self::Write(packets) => packets,
            Self::Read(bytes) => bytes.div_ceil(MTU),
        }
    }

    fn bytes(self) -> u64 {
        match self {
            Self::Send => 100,
            Self::Write(packets) => u64::from(packets * MTU),
            Self::Read(bytes) => bytes.into(),
            Self::FetchAdd => 8,
        }
    }

    fn verb(self) -> Verb {
        match self {
            Self::Send => Verb::Send,
            Self::Write(_) => Verb::Write,
            Self::Read(_) => Verb::Read,
            Self::FetchAdd => Verb::FetchAdd,
        }
    }

    fn request(self, wire: &mut Wire, psn: u32) {
        match self {
            Self::Send => _ = wire.send(A, B, psn),
            Self::Write(packets) => _ = wire.write(A, B, psn, packets, |_| true),
            Self::Read(bytes) => _ = wire.read(A, B, psn, bytes),
            Self::FetchAdd => _ = wire.fetch_add(A, B, psn),
        }
    }

    /// The last answer to it.
    fn answer(self, wire: &mut Wire, psn: u32) {
        match self {
            Self::Send | Self::Write(_) => _ = wire.ack(B, A, psn + self.psns() - 1),
            Self::Read(bytes) => {
                let packets = self.psns();
                for index in 0..packets {
                    let rest = bytes - index * MTU;
                    wire.data(B, A, read_opcode(index, packets), psn + index, rest.min(MTU));
                }
            }
            Self::FetchAdd => {
                wire.data(B, A, uroce_wire::Opcode::RC_ATOMIC_ACKNOWLEDGE, psn, 0);
            }
        }
    }
}

proptest! {
    #[test]
    fn of_a_wire_without_loss_every_message_is_complete_and_nothing_is_strange(
        works in prop::collection::vec(work(), 1..30), depth in 1usize..6,
    ) {
        let mut wire = Wire::new();
        let mut psn = 100;
        for batch in works.chunks(depth) {
            let first = psn;
            for work in batch {
                work.request(&mut wire, psn);
                psn += work.psns();
            }
            let mut at = first;
            for work in batch {
                work.answer(&mut wire, at);
                at += work.psns();
            }
        }
        let messages = wire.messages();
        prop_assert_eq!(messages.len(), works.len());
        for (message, work) in messages.iter().zip(&works) {
            prop_assert_eq!(message.verb, work.verb());
            prop_assert_eq!(message.outcome, Outcome::Completed);
            prop_assert!(!message.is_incomplete);
            if !matches!(work, Work::FetchAdd) {
                prop_assert_eq!(message.bytes, work.bytes());
            }
        }
        wire.tracker.finish();
        let outstanding = wire.tracker.flow(REQUESTS).expect("it").requests.outstanding();
        prop_assert_eq!((outstanding.packets, outstanding.bytes, outstanding.reads), (0, 0, 0));
        let figures = wire.figures(REQUESTS);
        prop_assert_eq!(figures.messages_completed, works.len() as u64);
        prop_assert_eq!((figures.retransmitted(), figures.skipped, figures.duplicates), (0, 0, 0));
        prop_assert_eq!((figures.reordered, figures.lost_behind, figures.lost_unknown), (0, 0, 0));
        let requests: u64 = works.iter().map(|work| match work {
            Work::Write(packets) => u64::from(*packets),
            _ => 1,
        }).sum();
        prop_assert_eq!(figures.requests, requests);
    }

    #[test]
    fn what_was_lost_on_either_side_of_the_capture_is_counted_there(
        rounds in prop::collection::vec((2u32..12, 0u32..11), 1..12), before: bool,
    ) {
        let mut wire = Wire::new();
        wire.send(A, B, 0);
        wire.ack(B, A, 0);
        let (mut psn, mut again) = (1, 0);
        for (window, missing) in &rounds {
            // Behind the missing packet another one arrives, so that the responder can tell.
            let missing = missing % (window - 1);
            let seen = (0..*window).filter(|index| !before || *index != missing);
            wire.sends(A, B, seen.map(|index| psn + index));
            wire.nak(B, A, psn + missing, NakCode::PsnSequence);
            wire.sends(A, B, (missing..*window).map(|index| psn + index));
            wire.ack(B, A, psn + window - 1);
            again += u64::from(window - missing);
            psn += window;
        }
        wire.tracker.finish();
        let lost = rounds.len() as u64;
        let figures = wire.figures(REQUESTS);
        let expected = if before { (lost, 0) } else { (0, lost) };
        prop_assert_eq!((figures.lost_before, figures.lost_behind), expected);
        prop_assert_eq!((figures.retransmitted(), figures.lost_unknown), (again, 0));
        prop_assert_eq!(figures.messages_completed, u64::from(psn));
        let point = wire.tracker.flow(REQUESTS).expect("it").capture_point();
        prop_assert_eq!(point, if before { CapturePoint::Receiver } else { CapturePoint::Sender });
    }

    #[test]
    fn acknowledgements_settle_what_they_say_and_no_more(
        acks in prop::collection::vec(0u32..20, 1..20),
    ) {
        let mut wire = Wire::new();
        wire.sends(A, B, 0..20);
        let mut settled = 0;
        for psn in acks {
            let ack = wire.ack(B, A, psn);
            let new = (psn + 1).saturating_sub(settled);
            settled = settled.max(psn + 1);
            let found = ack.acknowledges.map_or(0, |found| found.packets);
            prop_assert_eq!(found, u64::from(new));
            prop_assert_eq!(ack.role, Role::Acknowledgement);
            prop_assert_eq!(ack.outstanding.packets, u64::from(20 - settled));
            prop_assert_eq!(ack.outstanding.bytes, u64::from(20 - settled) * 100);
        }
        prop_assert_eq!(wire.messages().len(), settled as usize);
        prop_assert_eq!(wire.figures(REQUESTS).acknowledged, u64::from(settled));
    }

    #[test]
    fn two_flows_in_turn_are_as_each_alone(
        psns in prop::collection::vec((any::<bool>(), 1u32..4), 1..40),
    ) {
        let ends = [(A, B), (
            crate::track::testkit::End { host: 3, qpn: 0x33 },
            crate::track::testkit::End { host: 4, qpn: 0x44 },
        )];
        let mut together = Wire::new();
        let mut alone = [Wire::new(), Wire::new()];
        let mut next = [0; 2];
        for (which, count) in psns {
            let which = usize::from(which);
            let (from, to) = ends[which];
            for psn in next[which]..next[which] + count {
                together.send(from, to, psn);
                alone[which].send(from, to, psn);
            }
            next[which] += count;
            together.ack(to, from, next[which] - 1);
            alone[which].ack(to, from, next[which] - 1);
        }
        let of = |wire: &Wire, from: crate::track::testkit::End| {
            let flows = wire.tracker.flows().iter();
            let mut own = flows.filter(|flow| flow.key().source == from.address());
            own.next().map(|flow| {
                let figures = flow.figures();
                (figures.packets, figures.payload_bytes, figures.messages_completed, figures.acknowledged)
            })
        };
        for ((from, to), alone) in ends.into_iter().zip(&alone) {
            prop_assert_eq!(of(&together, from), of(alone, from));
            prop_assert_eq!(of(&together, to), of(alone, to));
        }
    }
}
