//! What each action does to the bytes of a packet, and to nothing else.

use proptest::prelude::*;
use uroce_fault::{Direction, Origin, Refusal, Verdict};
use uroce_wire::{HeaderSet, Opcode};

use crate::packets::{Out, TestPacket, Wire, ms, send};

/// Name, header, first bit in it and width, as the specification lays the fields out.
const FIELDS: [(&str, HeaderSet, usize, usize); 29] = [
    ("opcode", HeaderSet::empty(), 0, 8),
    ("se", HeaderSet::empty(), 8, 1),
    ("migreq", HeaderSet::empty(), 9, 1),
    ("pad", HeaderSet::empty(), 10, 2),
    ("tver", HeaderSet::empty(), 12, 4),
    ("pkey", HeaderSet::empty(), 16, 16),
    ("fecn", HeaderSet::empty(), 32, 1),
    ("becn", HeaderSet::empty(), 33, 1),
    ("dest_qp", HeaderSet::empty(), 40, 24),
    ("ackreq", HeaderSet::empty(), 64, 1),
    ("psn", HeaderSet::empty(), 72, 24),
    ("srqn", HeaderSet::XRCETH, 8, 24),
    ("qkey", HeaderSet::DETH, 0, 32),
    ("src_qp", HeaderSet::DETH, 40, 24),
    ("plt", HeaderSet::FETH, 28, 4),
    ("sel", HeaderSet::FETH, 26, 2),
    ("va", HeaderSet::RETH, 0, 64),
    ("rkey", HeaderSet::RETH, 64, 32),
    ("len", HeaderSet::RETH, 96, 32),
    ("syndrome", HeaderSet::AETH, 0, 8),
    ("msn", HeaderSet::AETH, 8, 24),
    ("va", HeaderSet::ATOMIC_ETH, 0, 64),
    ("rkey", HeaderSet::ATOMIC_ETH, 64, 32),
    ("swap", HeaderSet::ATOMIC_ETH, 96, 64),
    ("compare", HeaderSet::ATOMIC_ETH, 160, 64),
    ("original", HeaderSet::ATOMIC_ACK_ETH, 0, 64),
    ("imm", HeaderSet::IMMDT, 0, 32),
    ("inv_rkey", HeaderSet::IETH, 0, 32),
    ("rkey", HeaderSet::IETH, 0, 32),
];

/// Bytes of the headers behind the BTH, in their order.
const ORDER: [(HeaderSet, usize); 9] = [
    (HeaderSet::XRCETH, 4),
    (HeaderSet::DETH, 8),
    (HeaderSet::FETH, 4),
    (HeaderSet::RETH, 16),
    (HeaderSet::AETH, 4),
    (HeaderSet::ATOMIC_ETH, 28),
    (HeaderSet::ATOMIC_ACK_ETH, 8),
    (HeaderSet::IMMDT, 4),
    (HeaderSet::IETH, 4),
];

fn opcodes() -> impl Iterator<Item = (Opcode, HeaderSet)> {
    (0..=255u8).filter_map(|byte| Opcode(byte).info().map(|info| (Opcode(byte), info.headers)))
}

/// The first bit of a field in packets with these headers.
fn first_bit(headers: HeaderSet, header: HeaderSet, bit: usize) -> Option<usize> {
    if header.is_empty() {
        return Some(bit);
    }
    let before = ORDER.iter().take_while(|(other, _)| *other != header);
    let bytes: usize =
        before.filter(|(other, _)| headers.contains(*other)).map(|(_, len)| len).sum();
    headers.contains(header).then_some((12 + bytes) * 8 + bit)
}

fn packet(opcode: Opcode, fill: u8) -> TestPacket {
    let headers = opcode.info().expect("known").header_len - 12;
    TestPacket::new(Direction::Tx, opcode, 0x22, 7, &vec![fill; headers + 8])
}

/// The packet that comes out of one rule.
fn through(rule: &str, packet: &TestPacket) -> Out {
    let mut wire = Wire::new(&format!("any -> {rule}"));
    wire.give(packet);
    wire.finish();
    wire.out.remove(0)
}

/// A number of `width` bits from bit `first` of some bytes.
fn bits(bytes: &[u8], first: usize, width: usize) -> u64 {
    (first..first + width)
        .fold(0, |value, at| value << 1 | u64::from(bytes[at / 8] >> (7 - at % 8) & 1))
}

/// Each field of each opcode, to ones and to zeros: its bits change, the ICRC is made right, no other bit changes.
#[test]
fn a_field_is_set_where_the_specification_has_it_and_nowhere_else() {
    for (name, header, bit, width) in FIELDS {
        for (opcode, headers) in opcodes() {
            let Some(first) = first_bit(headers, header, bit) else { continue };
            let max = u64::MAX >> (64 - width);
            for (value, fill) in [(max, 0x00), (0, 0xff), (max / 3, 0x5a)] {
                let before = packet(opcode, fill);
                let after = through(&format!("set:{name}={value}"), &before);
                let (old, new) = (&before.bytes, &after.packet.bytes);
                // A field of several headers is that of the first of them which the packet has.
                assert_eq!(bits(new, first, width), value, "{name} of {opcode}");
                let covered = old.len() - 4;
                for at in (0..covered * 8).filter(|at| !(first..first + width).contains(at)) {
                    assert_eq!(bits(new, at, 1), bits(old, at, 1), "{name} of {opcode}: bit {at}");
                }
                assert!(after.packet.icrc_is_right() && !after.is_damaged, "{name} of {opcode}");
            }
        }
    }
}

#[test]
fn a_field_of_headers_that_a_packet_lacks_is_refused() {
    for (opcode, headers) in opcodes() {
        for (name, ..) in FIELDS {
            let mut wire = Wire::new(&format!("any -> set:{name}=1"));
            let has = FIELDS
                .iter()
                .any(|(other, header, ..)| *other == name && headers.contains(*header));
            let verdict = wire.give(&packet(opcode, 0));
            assert_eq!(verdict == Verdict::Taken, has, "{name} of {opcode}");
            let report = wire.injector.report().next().expect("a rule");
            assert_eq!(report.reason, (!has).then_some(Refusal::NoSuchField), "{name} of {opcode}");
        }
    }
}

proptest! {
    /// Adding and taking away are modulo the width of the field.
    #[test]
    fn fields_change_by_a_number_modulo_their_width(old in 0u32..1 << 24, by in 0u32..1 << 24) {
        let before = send(old);
        let more = through(&format!("set:psn=+{by}"), &before).packet;
        prop_assert_eq!(more.psn(), (old + by) & 0xff_ffff);
        let less = through(&format!("set:psn=-{by}"), &before).packet;
        prop_assert_eq!(less.psn(), old.wrapping_sub(by) & 0xff_ffff);
        prop_assert!(more.icrc_is_right() && less.icrc_is_right());
    }

    /// A bit at a place of its area, and no other.
    #[test]
    fn corruption_at_a_place_turns_that_bit_round(
        area in 0usize..4, byte in 0usize..90, bit in 0usize..8, payload in 0usize..70,
    ) {
        let before = TestPacket::new(Direction::Tx, Opcode::RC_SEND_LAST_IMM, 0x22, 7, &vec![0x77; 4 + payload]);
        let length = before.bytes.len();
        let (name, start, end) =
            [("any", 0, length), ("header", 0, 16), ("payload", 16, length - 4), ("icrc", length - 4, length)][area];
        let mut wire = Wire::new(&format!("any -> corrupt={name}@{byte}.{bit}"));
        let verdict = wire.give(&before);
        if start + byte >= end {
            prop_assert_eq!(verdict, Verdict::Pass);
            let report = wire.injector.report().next().expect("a rule");
            prop_assert_eq!((report.not_applied, report.reason), (1, Some(Refusal::NoSuchByte)));
            return Ok(());
        }
        let mut wanted = before.bytes.clone();
        wanted[start + byte] ^= 1 << bit;
        prop_assert_eq!(&wire.out[0].packet.bytes, &wanted);
        prop_assert!(wire.out[0].is_damaged);
    }

    #[test]
    fn truncation_keeps_the_first_bytes_of_a_longer_packet(to in 0usize..100, payload in 0usize..70) {
        let before = TestPacket::new(Direction::Tx, Opcode::RC_SEND_ONLY, 0x22, 7, &vec![0x77; payload]);
        let mut wire = Wire::new(&format!("any -> truncate={to}"));
        let verdict = wire.give(&before);
        if to >= before.bytes.len() {
            prop_assert_eq!(verdict, Verdict::Pass);
        } else {
            prop_assert_eq!(&wire.out[0].packet.bytes[..], &before.bytes[..to]);
            let cut = format!("fault: cut from {} to {to} bytes by rule 1", before.bytes.len());
            prop_assert_eq!(&wire.out[0].faults, &cut);
        }
    }
}

/// Fields first, whose ICRC is made right, then damage, whatever the order in which they are written.
#[test]
fn the_order_of_actions_in_a_rule_does_not_matter() {
    let actions = ["set:psn=5", "corrupt=payload@0.0", "ce", "set:dest_qp=0x33"];
    let first = through(&actions.join(", "), &send(1));
    assert!(!first.packet.icrc_is_right() && first.is_damaged);
    for turn in 1..actions.len() {
        let mut turned = actions;
        turned.rotate_left(turn);
        let out = through(&turned.join(", "), &send(1));
        assert_eq!((out.packet, out.is_damaged), (first.packet.clone(), true), "{turned:?}");
    }
}

/// The ICRC of a packet after each combination of what changes it and what is said of it.
#[test]
fn the_icrc_is_right_or_wrong_as_the_rule_says() {
    let cases = [
        ("set:psn=5", true),
        ("set:psn=5, keep-icrc", false),
        ("set:psn=5, keep-icrc, fix-icrc", true),
        ("corrupt=payload@3", false),
        ("corrupt=payload@3, keep-icrc", false),
        ("corrupt=payload@3, fix-icrc", true),
        ("corrupt=icrc@0.0", false),
        ("corrupt=icrc@0.0, fix-icrc", true),
        ("truncate=40", false),
        ("truncate=40, fix-icrc", true),
        ("set:psn=5, corrupt=payload@3", false),
        ("set:psn=5, truncate=40, fix-icrc", true),
        ("ce", true),
        ("delay=1ms", true),
        ("dup", true),
    ];
    for (actions, right) in cases {
        let out = through(actions, &send(1));
        assert_eq!((out.packet.icrc_is_right(), out.is_damaged), (right, !right), "{actions}");
    }
}

/// What is made wrong in one rule is made right by a later one that sets a field, and the mark goes with it.
#[test]
fn rules_beside_each_other_work_on_the_same_bytes() {
    let mut wire =
        Wire::new("any -> corrupt=payload@0.0 also; any -> set:psn=9 also; any -> dup=2");
    wire.give(&send(1));
    assert_eq!(
        wire.out.iter().map(|out| out.origin).collect::<Vec<_>>(),
        [Origin::Packet, Origin::Copy, Origin::Copy]
    );
    for out in &wire.out {
        let mut wanted = send(9).bytes;
        wanted[12] ^= 1;
        assert_eq!(out.packet.bytes[..76], wanted[..76]);
        assert!(out.packet.icrc_is_right() && !out.is_damaged);
    }
}

/// Bytes that are no packet are kept, changed or dropped as any, and nothing panics.
#[test]
fn fragments_of_a_packet_of_each_length() {
    let whole = packet(Opcode::XRC_WRITE_ONLY_IMM, 0x11);
    for length in 0..whole.bytes.len() {
        let mut cut = whole.clone();
        cut.bytes.truncate(length);
        for rule in [
            "drop",
            "dup",
            "delay=1ms",
            "ce",
            "corrupt",
            "truncate=3",
            "set:psn=1",
            "fix-icrc",
            "answer:ack",
        ] {
            let mut wire = Wire::new(&format!("any -> {rule}"));
            let verdict = wire.give(&cut);
            wire.finish();
            let counters = wire.injector.counters();
            assert_eq!(
                (counters.seen, counters.dropped),
                (1, u64::from(verdict == Verdict::Dropped))
            );
            assert_eq!(
                wire.out.is_empty(),
                verdict == Verdict::Dropped,
                "{rule} of {length} bytes"
            );
        }
        let set = length >= 12;
        let mut wire = Wire::new("any -> set:psn=1");
        assert_eq!(wire.give(&cut) == Verdict::Taken, set, "{length} bytes have a BTH or not");
    }
}

/// A copy is a packet of its own: it has the changes, and comes at the same time.
#[test]
fn copies_have_the_changes_of_their_packet() {
    let mut wire = Wire::new("any -> set:psn=5, dup=3, delay=2ms, ce");
    assert_eq!(wire.give(&send(1)), Verdict::Taken);
    wire.finish();
    assert_eq!(wire.psns(), [5, 5, 5, 5]);
    for out in &wire.out {
        assert_eq!((out.at, out.packet.meta.traffic_class & 3), (ms(2), 3));
        assert!(out.packet.icrc_is_right());
        let comment = "fault: psn set to 0x5 by rule 1; marked \"congestion experienced\" by rule 1; \
                       duplicated 3 times by rule 1; delayed by 2ms by rule 1";
        assert_eq!(out.faults, comment);
    }
    let counters = wire.injector.counters();
    assert_eq!((counters.released, counters.added), (1, 3));
}
