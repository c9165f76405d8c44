//! Packets in any order, with anything in them.

use proptest::prelude::*;
use uroce_wire::{Aeth, Opcode, Reth, Syndrome};

use crate::Direction;
use crate::track::testkit::{A, B, End, Wire};
use crate::track::{TrackerConfig, UnwrappedPsn};

/// Opcode, PSN, syndrome, length, which end sends, queue pair, microseconds, direction.
type Any = (u8, u32, u8, u32, bool, u32, u16, u8);

fn limits() -> TrackerConfig {
    TrackerConfig {
        max_flows: 6,
        max_psns: 64,
        max_psns_in_all: 256,
        max_open_messages: 16,
        max_finished_messages: 16,
        slowest_messages: 2,
        max_connections: 4,
        ..TrackerConfig::default()
    }
}

fn give(wire: &mut Wire, (opcode, psn, syndrome, length, back, qpn, wait, direction): Any) {
    let (a, b) = (End { qpn: A.qpn + qpn % 4, ..A }, End { qpn: B.qpn + qpn % 4, ..B });
    let (from, to) = if back { (b, a) } else { (a, b) };
    wire.step_us = u64::from(wait);
    wire.direction = match direction % 4 {
        0 => Some(Direction::Inbound),
        1 => Some(Direction::Outbound),
        _ => None,
    };
    let mut packet = wire.packet(from, to, Opcode(opcode), psn);
    packet.aeth = (syndrome % 5 != 0).then_some(Aeth { syndrome: Syndrome(syndrome), msn: psn });
    packet.reth = (syndrome % 3 != 0).then_some(Reth { va: 0, rkey: 0, length });
    packet.payload_len = length % 5000;
    let annotation = wire.give(&packet);
    assert_eq!(annotation.psn.on_wire(), packet.bth.psn);
}

/// Requests, answers and everything else, mostly close to each other.
fn any_packet() -> impl Strategy<Value = Any> {
    let opcode = prop_oneof![6 => 0u8..0x20, 1 => Just(0x64), 1 => Just(0x81), 1 => any::<u8>()];
    let psn = prop_oneof![8 => 0u32..80, 2 => 0xff_ffc0u32..0x100_0000, 1 => any::<u32>()];
    let length = prop_oneof![4 => 0u32..6000, 1 => any::<u32>()];
    (opcode, psn, any::<u8>(), length, any::<bool>(), any::<u32>(), any::<u16>(), any::<u8>())
}

proptest! {
    #[test]
    fn nothing_panics_and_everything_stays_bounded(packets in prop::collection::vec(any_packet(), 1..200)) {
        let mut wire = Wire::with(limits());
        let given = packets.len() as u64;
        packets.into_iter().for_each(|packet| give(&mut wire, packet));
        let summary = wire.tracker.finish();
        prop_assert_eq!(summary.packets, given);
        prop_assert!(wire.tracker.flows().len() <= 6);
        let psns: usize = wire.tracker.flows().iter().map(|flow| flow.requests.slots.capacity()).sum();
        prop_assert!(psns <= 256);
        for flow in wire.tracker.flows() {
            prop_assert_eq!(flow.requests.messages.len(), 0);
            prop_assert!(flow.slowest().len() <= 2);
        }
        prop_assert!(wire.messages().len() <= 16);
    }

    #[test]
    fn every_packet_counts_once(packets in prop::collection::vec(any_packet(), 1..100)) {
        let mut wire = Wire::with(limits());
        let given = packets.len() as u64;
        packets.into_iter().for_each(|packet| give(&mut wire, packet));
        let summary = wire.tracker.finish();
        let flows = wire.tracker.flows().iter().map(|flow| flow.figures());
        let counted: u64 = flows.map(|figures| figures.packets + figures.second_sightings).sum();
        prop_assert_eq!(counted + summary.untracked_packets, given);
    }

    #[test]
    fn a_stream_with_losses_that_are_repaired_completes_every_message(
        first in 0u32..0x100_0000,
        lost in prop::collection::vec(any::<bool>(), 1..200),
    ) {
        let mut wire = Wire::new();
        let psn = |index: usize| uroce_wire::Psn::new(first).add(index as u32).get();
        wire.send(A, B, psn(0));
        wire.ack(B, A, psn(0));
        for (index, lost) in lost.iter().enumerate() {
            if !lost {
                wire.send(A, B, psn(index + 1));
            }
        }
        for (index, lost) in lost.iter().enumerate() {
            if *lost {
                wire.nak(B, A, psn(index + 1), uroce_wire::NakCode::PsnSequence);
                wire.send(A, B, psn(index + 1));
            }
        }
        wire.ack(B, A, psn(lost.len()));
        wire.tracker.finish();
        let figures = wire.tracker.flows()[0].figures();
        prop_assert_eq!(figures.messages_completed, lost.len() as u64 + 1);
        prop_assert_eq!(figures.goodput_bytes, 100 * (lost.len() as u64 + 1));
        prop_assert_eq!((figures.lost_by_capture, figures.lost_unknown), (0, 0));
    }
}

#[test]
fn a_read_of_two_gigabytes_costs_no_more_than_a_small_one() {
    let mut wire = Wire::with(TrackerConfig { path_mtu: Some(256), ..limits() });
    let read = wire.read(A, B, 0, 1 << 31);
    assert_eq!(read.outstanding.packets, 1 << 23);
    let answer = wire.data(B, A, Opcode::RC_READ_RESPONSE_FIRST, 0, 256);
    assert_eq!(answer.psn, UnwrappedPsn(1 << 24));
    let capacity = wire.tracker.flows()[0].requests.slots.capacity();
    assert!(capacity <= 64, "{capacity}");
}
