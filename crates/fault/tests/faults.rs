//! Each fault, seen from the other end of the wire.

mod packets;

use packets::{Wire, ms, send, send_back};
use uroce_fault::{Direction, Origin, Verdict};

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
