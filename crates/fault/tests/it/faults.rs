//! Each fault, seen from the other end of the wire.

use uroce_fault::{Direction, Origin, Refusal, Verdict};
use uroce_wire::{Aeth, Bth, Header, Reth};

use crate::packets::{REMOTE_QP, TestPacket, Wire, ack, data, ms, send, send_back, write_only};

#[test]
fn nothing_happens_to_packets_without_a_matching_rule() {
    let mut wire = Wire::new("rx -> drop; tx op=write -> drop");
    assert_eq!(wire.give(&send(1)), Verdict::Pass);
    assert_eq!(wire.comments, [""]);
    assert_eq!(wire.injector.counters().passed, 1);
}

#[test]
fn drop_takes_packets_away() {
    let mut wire = Wire::new("lost: tx psn=1 -> drop");
    assert_eq!(wire.give(&send(1)), Verdict::Dropped);
    assert_eq!(wire.give(&send(2)), Verdict::Pass);
    assert_eq!(wire.comments, ["fault: dropped by rule \"lost\"", ""]);
    assert_eq!(wire.finish().psns(), [2]);
}

#[test]
fn duplicates_follow_their_packet() {
    assert_eq!(Wire::psns_through("tx psn=1 -> dup=2", 3), [0, 1, 1, 1, 2]);
    let mut wire = Wire::new("any -> dup");
    wire.give(&send(1));
    assert_eq!(wire.out[0].packet, wire.out[1].packet);
    assert_eq!([wire.out[0].origin, wire.out[1].origin], [Origin::Packet, Origin::Copy]);
    assert_eq!(wire.out[1].faults, "fault: duplicated by rule 1");
}

#[test]
fn delay_is_exact() {
    let mut wire = Wire::new("any -> delay=10ms");
    assert_eq!(wire.give(&send(1)), Verdict::Taken);
    assert_eq!(wire.injector.poll_timeout(), Some(ms(10)));
    wire.now = ms(10) - std::time::Duration::from_nanos(1);
    assert!(wire.injector.poll_packet(wire.now).is_none());
    wire.finish();
    assert_eq!((wire.out[0].at, &wire.out[0].packet), (ms(10), &send(1)));
    assert_eq!(wire.out[0].faults, "fault: delayed by 10ms by rule 1");
}

#[test]
fn corruption_flips_one_bit_and_leaves_the_icrc_wrong() {
    let mut wire = Wire::new("any -> corrupt=payload@17.3");
    wire.give(&send(1));
    let (packet, mut expected) = (&wire.out[0].packet, send(1).bytes);
    expected[12 + 17] ^= 1 << 3;
    assert_eq!(packet.bytes, expected);
    assert!(!packet.icrc_is_right() && wire.out[0].is_damaged);
    assert_eq!(wire.out[0].faults, "fault: bit 3 of payload byte 17 turned round by rule 1");
}

#[test]
fn corruption_with_a_repaired_icrc() {
    let mut wire = Wire::new("any -> corrupt=payload, fix-icrc");
    wire.give(&send(1));
    assert_ne!(wire.out[0].packet, send(1));
    assert!(wire.out[0].packet.icrc_is_right() && !wire.out[0].is_damaged);
}

#[test]
fn each_direction_is_polled_by_itself() {
    let mut wire = Wire::new("tx -> delay=10ms; rx -> delay=5ms");
    let injector = &mut wire.injector;
    for packet in [send(1), send_back(2)] {
        injector.handle_packet(ms(0), &packet.meta, &packet.bytes);
    }
    assert_eq!(injector.poll_timeout(), Some(ms(5)));
    assert_eq!(injector.poll_timeout_of(Direction::Tx), Some(ms(10)));
    assert!(injector.poll_packet_of(Direction::Tx, ms(9)).is_none());
    let release = injector.poll_packet_of(Direction::Tx, ms(10)).expect("due");
    assert_eq!((release.meta, release.packet), (send(1).meta, &send(1).bytes[..]));
    assert_eq!(injector.poll_packet(ms(10)).expect("due").meta, send_back(2).meta);
    assert_eq!((injector.poll_timeout(), injector.waiting()), (None, (0, 0)));
}

#[test]
fn a_held_packet_goes_on_behind_so_many_others() {
    assert_eq!(Wire::psns_through("tx psn=1 -> hold=3", 7), [0, 2, 3, 4, 1, 5, 6]);
    // Dropped packets do not pass; delayed ones pass when they leave.
    assert_eq!(Wire::psns_through("tx psn=1 -> hold; tx psn=2 -> drop", 4), [0, 3, 1]);
    assert_eq!(Wire::psns_through("tx psn=1 -> hold; tx -> delay=1ms", 3), [0, 2, 1]);
}

#[test]
fn a_held_packet_goes_on_by_itself_in_the_end() {
    let mut wire = Wire::new("any -> hold=3/20ms");
    wire.give(&send(1));
    assert_eq!(wire.finish().out[0].at, ms(20));
    assert_eq!(Wire::psns_through("any -> hold=9", 3), [0, 1, 2]);
}

#[test]
fn packets_of_other_queue_pairs_do_not_count_for_a_held_one() {
    let mut wire = Wire::new("tx psn=1 -> hold=1");
    wire.give(&send(1));
    wire.give(&send_back(2));
    assert_eq!(wire.psns(), [2]);
    wire.give(&send(3));
    assert_eq!(wire.psns(), [2, 3, 1]);
}

#[test]
fn jitter_stays_within_its_bounds_and_reorders() {
    let mut wire = Wire::new("any -> delay=10ms~4ms");
    for psn in 0..200 {
        wire.give(&send(psn));
    }
    wire.finish();
    assert!(wire.out.iter().all(|out| (ms(6)..=ms(14)).contains(&out.at)));
    let spread = wire.out[199].at - wire.out[0].at;
    assert!(spread > ms(7), "{spread:?}");
    assert!(!wire.psns().is_sorted());
}

#[test]
fn a_rate_spaces_packets_and_its_queue_is_limited() {
    // 80 bytes and 42 in front of them: 976 bits.
    let mut wire = Wire::new("any -> rate=976kbit/244");
    for psn in 0..3 {
        wire.give(&send(psn));
    }
    wire.finish();
    assert_eq!(wire.out.iter().map(|out| out.at).collect::<Vec<_>>(), [ms(1), ms(2)]);
    assert!(wire.comments[2].contains("queue of the rate limit is full"), "{:?}", wire.comments);
    wire.give(&send(3));
    assert_eq!(wire.finish().out[2].at, ms(3));
}

#[test]
fn a_mark_changes_nothing_but_the_traffic_class() {
    let mut wire = Wire::new("any -> ce");
    wire.give(&send(1));
    let (marked, original) = (&wire.out[0].packet, send(1));
    assert_eq!((marked.meta.traffic_class, original.meta.traffic_class), (3, 2));
    assert_eq!(marked.bytes, original.bytes);
    assert!(marked.icrc_is_right() && !wire.out[0].is_damaged);
}

#[test]
fn every_part_of_a_packet_can_be_damaged() {
    for (part, bytes) in [("header", 0..12), ("payload", 12..76), ("icrc", 76..80), ("any", 0..80)]
    {
        let mut wire = Wire::new(&format!("any -> corrupt={part}"));
        let mut touched = std::collections::BTreeSet::new();
        for _ in 0..2000 {
            wire.give(&send(1));
            let pairs = wire.out.pop().expect("released").packet;
            assert!(!pairs.icrc_is_right(), "{part}");
            let original = send(1).bytes;
            touched.extend((0..80).filter(|at| pairs.bytes[*at] != original[*at]));
        }
        // Byte 4 of the BTH is not under the ICRC.
        assert_eq!(touched, bytes.filter(|at| *at != 4).collect(), "{part}");
    }
}

#[test]
fn truncation_with_and_without_a_right_icrc() {
    let mut wire =
        Wire::new("psn=1 -> truncate=30; psn=2 -> truncate=30, fix-icrc; any -> truncate=80");
    for psn in 1..4 {
        wire.give(&send(psn));
    }
    let lengths = wire.out.iter().map(|out| out.packet.bytes.len());
    assert_eq!(lengths.collect::<Vec<_>>(), [30, 30, 80]);
    let right = wire.out.iter().map(|out| out.packet.icrc_is_right());
    assert_eq!(right.collect::<Vec<_>>(), [false, true, true]);
    let last = wire.injector.report().last().expect("three rules");
    assert_eq!((last.applied, last.not_applied, last.reason), (0, 1, Some(Refusal::NotLonger)));
}

#[test]
fn fields_are_set_and_the_icrc_is_made_right() {
    let set = |rules: &str, packet: &TestPacket| {
        let mut wire = Wire::new(&format!("any -> {rules}"));
        wire.give(packet);
        let out = wire.out.pop().expect("released");
        assert_eq!(out.packet.icrc_is_right(), !out.is_damaged, "{rules}");
        out
    };
    let bth = |rules| Bth::read(&set(rules, &send(5)).packet.bytes).expect("a BTH");
    assert_eq!(bth("set:psn=0x123456").psn.get(), 0x12_3456);
    assert_eq!(bth("set:psn=-6").psn.get(), 0xff_ffff);
    assert_eq!(bth("set:dest_qp=+1").dest_qpn.get(), REMOTE_QP + 1);
    assert_eq!((bth("set:pkey=0x7fff").pkey, bth("set:tver=15").tver), (0x7fff, 15));
    assert_eq!((bth("set:opcode=4").opcode.0, bth("set:pad=3").pad), (4, 3));
    let marks = bth("set:fecn=1, set:becn=1, set:se=1, set:ackreq=1, set:migreq=0");
    assert!(marks.fecn && marks.becn && marks.solicited && marks.ack_req && !marks.migreq);
    let write = set("set:va=0xfedcba9876543210, set:rkey=7, set:len=9", &write_only(1)).packet;
    let reth = Reth::read(&write.bytes[12..]).expect("a RETH");
    assert_eq!((reth.va, reth.rkey, reth.length), (0xfedc_ba98_7654_3210, 7, 9));
    let refused = set("set:syndrome=0x62, set:msn=+1", &ack(4)).packet;
    assert_eq!(Aeth::read(&refused.bytes[12..]).expect("an AETH").msn, 5);
    assert_eq!(refused.syndrome(), 0x62);
    assert!(set("set:psn=1, keep-icrc", &send(5)).is_damaged);
}

#[test]
fn a_field_that_a_packet_lacks_is_not_set() {
    let mut wire = Wire::new("any -> set:rkey=1");
    assert_eq!(wire.give(&send(1)), Verdict::Pass);
    let report = wire.injector.report().next().expect("a rule");
    assert_eq!((report.matched, report.applied), (1, 0));
    assert_eq!(report.reason, Some(Refusal::NoSuchField));
}

#[test]
fn every_field_lies_where_the_wire_crate_reads_it() {
    let atomic = data(uroce_wire::Opcode::XRC_FETCH_ADD, 1);
    let mut wire = Wire::new("any -> set:va=1, set:rkey=2, set:swap=3, set:compare=4, set:srqn=5");
    wire.give(&atomic);
    let packet = uroce_wire::Packet::parse(&wire.out[0].packet.bytes).expect("a packet");
    let header = packet.atomic_eth().expect("an AtomicETH");
    assert_eq!((header.va, header.rkey, packet.xrceth().expect("XRCETH").srqn), (1, 2, 5));
    let mut wire = Wire::new("any -> set:imm=6, set:qkey=7, set:src_qp=8");
    wire.give(&data(uroce_wire::Opcode::UD_SEND_ONLY_IMM, 1));
    let packet = uroce_wire::Packet::parse(&wire.out[0].packet.bytes).expect("a packet");
    assert_eq!((packet.immdt(), packet.deth().expect("DETH").src_qpn.get()), (Some(6), 8));
    let mut wire = Wire::new("any -> set:inv_rkey=9");
    wire.give(&data(uroce_wire::Opcode::RC_SEND_ONLY_INV, 1));
    let packet = uroce_wire::Packet::parse(&wire.out[0].packet.bytes).expect("a packet");
    assert_eq!(packet.ieth(), Some(9));
}

#[test]
fn mute_silences_one_direction_for_a_time() {
    let mut wire = Wire::new("tx psn=1 -> mute=10ms");
    wire.give(&send(0));
    wire.give(&send(1));
    wire.give(&send(2));
    wire.give(&send_back(9));
    wire.now = ms(10);
    wire.give(&send(3));
    assert_eq!(wire.psns(), [0, 9, 3]);
    assert_eq!(wire.comments[2], "fault: dropped while muted by rule 1");
}

#[test]
fn stop_ends_all_rules() {
    assert_eq!(Wire::psns_through("psn=2 -> stop; any -> drop", 5), [2, 3, 4]);
}

#[test]
fn pass_protects_packets_from_later_rules() {
    assert_eq!(Wire::psns_through("psn=2 -> pass; any -> drop", 5), [2]);
}
