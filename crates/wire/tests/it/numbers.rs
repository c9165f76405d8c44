//! PSNs at the wrap, and the tables of codes that an AETH and a queue pair use.

use proptest::prelude::*;
use uroce_wire::*;

const MODULUS: i64 = 1 << 24;
const HALF: i64 = 1 << 23;

/// The distance by the definition: modulo 2^24, in -2^23 to 2^23 - 1.
fn distance(psn: u32, earlier: u32) -> i64 {
    (i64::from(psn) - i64::from(earlier) + HALF).rem_euclid(MODULUS) - HALF
}

#[test]
fn r16_distances_at_the_wrap() {
    let table: [(u32, u32, i32); 12] = [
        (0, 0, 0),
        (1, 0, 1),
        (0, 1, -1),
        (0, 0xff_ffff, 1),
        (0xff_ffff, 0, -1),
        (0x00_000f, 0xff_fff0, 0x1f),
        (0xff_fff0, 0x00_000f, -0x1f),
        (0x7f_ffff, 0, 0x7f_ffff),
        (0x80_0000, 0, -0x80_0000),
        (0x80_0001, 0, -0x7f_ffff),
        (0, 0x80_0000, -0x80_0000),
        (0x7f_fffe, 0xff_ffff, 0x7f_ffff),
    ];
    for (psn, earlier, wanted) in table {
        assert_eq!(Psn::new(psn).since(Psn::new(earlier)), wanted, "{psn:#x} since {earlier:#x}");
        assert_eq!(distance(psn, earlier), i64::from(wanted));
    }
}

/// A responder takes the half range before the expected PSN for repetitions, and all else for the future.
#[test]
fn r16_the_window_of_duplicates_is_half_of_all_psns() {
    for expected in [0, 1, 0x7f_ffff, 0x80_0000, 0xff_ffff].map(Psn::new) {
        assert!(!expected.is_before(expected));
        assert!(expected.sub(1).is_before(expected));
        assert!(expected.sub(1 << 23).is_before(expected), "the oldest duplicate");
        assert!(!expected.sub((1 << 23) + 1).is_before(expected), "one older is the newest");
        assert!(!expected.add(1).is_before(expected));
        assert!(!expected.add((1 << 23) - 1).is_before(expected), "the farthest ahead");
        assert!(expected.add(1 << 23).is_before(expected));
    }
}

#[test]
fn r15_only_24_bits_of_a_psn_and_a_qpn_count() {
    for upper in [0u32, 0x0100_0000, 0xff00_0000] {
        assert_eq!(Psn::new(upper | 0x12_3456), Psn::new(0x12_3456));
        assert_eq!(Qpn::new(upper | 0x12_3456), Qpn::new(0x12_3456));
        assert_eq!(Psn::new(5).add(upper), Psn::new(5));
        assert_eq!(Psn::new(5).sub(upper), Psn::new(5));
    }
    assert_eq!(Psn::new(u32::MAX).get(), Psn::MASK);
    assert_eq!(
        (Psn::new(0xab_cdef).to_string(), Psn::default().to_string()),
        ("0xabcdef".into(), "0x0".into())
    );
    assert_eq!([Qpn::SMI, Qpn::GSI, Qpn::MULTICAST].map(Qpn::get), [0, 1, 0xff_ffff]);
    assert_eq!(
        (Qpn::GSI.to_string(), Qpn::MULTICAST.to_string()),
        ("0x000001".into(), "0xffffff".into())
    );
}

proptest! {
    #[test]
    fn psn_arithmetic_is_that_of_the_definition(a: u32, b: u32, count: u32) {
        let (a, b) = (Psn::new(a), Psn::new(b));
        prop_assert_eq!(i64::from(a.since(b)), distance(a.get(), b.get()));
        prop_assert_eq!(a.is_before(b), distance(a.get(), b.get()) < 0);
        let sum = (i64::from(a.get()) + i64::from(count)).rem_euclid(MODULUS);
        let difference = (i64::from(a.get()) - i64::from(count)).rem_euclid(MODULUS);
        prop_assert_eq!(i64::from(a.add(count).get()), sum);
        prop_assert_eq!(i64::from(a.sub(count).get()), difference);
    }

    /// Two PSNs have one order, but for the two that are opposite: each is before the other.
    #[test]
    fn the_order_of_two_psns_has_one_exception(a: u32, b: u32) {
        let (a, b) = (Psn::new(a), Psn::new(b));
        let opposite = a.add(1 << 23) == b;
        let before = usize::from(a.is_before(b)) + usize::from(b.is_before(a));
        prop_assert_eq!(before, if a == b { 0 } else if opposite { 2 } else { 1 });
    }

    /// Within a window of half of all PSNs order is as that of plain numbers.
    #[test]
    fn order_in_a_window_does_not_depend_on_where_it_starts(start: u32, x in 0u32..1 << 23, y in 0u32..1 << 23) {
        let start = Psn::new(start);
        prop_assert_eq!(start.add(x).is_before(start.add(y)), x < y);
        prop_assert_eq!(start.add(x).since(start.add(y)), x as i32 - y as i32);
    }
}

/// The encoding of RNR NAK timers, in hundredths of a millisecond.
#[test]
fn r37_the_table_of_rnr_timers() {
    let hundredths: [u32; 32] = [
        65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024,
        1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
    ];
    for (code, wanted) in (0u8..).zip(hundredths) {
        assert_eq!(rnr_timer_us(code), wanted * 10, "code {code}");
        assert_eq!(rnr_timer_ns(code), u64::from(wanted) * 10_000);
        assert_eq!(rnr_timer_us(code | 0xe0), wanted * 10, "only 5 bits count");
    }
}

/// 4.096 us times a power of two.
#[test]
fn r75_the_table_of_ack_timeouts() {
    assert_eq!(ack_timeout_ns(0), None);
    for code in 1..32u8 {
        let wanted = 4_096 * 2u64.pow(code.into());
        assert_eq!(ack_timeout_ns(code), Some(wanted), "code {code}");
        assert_eq!(ack_timeout_ns(code | 0xe0), Some(wanted), "only 5 bits count");
    }
    assert_eq!((ack_timeout_ns(0x20), ack_timeout_ns(0xe0)), (None, None));
}

#[test]
fn r52_the_table_of_credit_codes() {
    let counts: [u32; 31] = [
        0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024,
        1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768,
    ];
    for (code, wanted) in (0u8..).zip(counts) {
        assert_eq!(credit_count(code), Some(wanted), "code {code}");
        assert_eq!(credit_count(code | 0xe0), Some(wanted), "only 5 bits count");
    }
    assert_eq!(credit_count(Syndrome::ACK_UNLIMITED), None);
}

/// All 256 syndromes: bit 7 is reserved, bits 6 and 5 are the type.
#[test]
fn r51_the_table_of_syndromes() {
    for byte in 0..=255u8 {
        let value = byte & 0x1f;
        let wanted = match byte {
            0x00..=0x1f => SyndromeKind::Ack { credits: value },
            0x20..=0x3f => SyndromeKind::Rnr { timer: value },
            0x60 => SyndromeKind::Nak(NakCode::PsnSequence),
            0x61 => SyndromeKind::Nak(NakCode::InvalidRequest),
            0x62 => SyndromeKind::Nak(NakCode::RemoteAccess),
            0x63 => SyndromeKind::Nak(NakCode::RemoteOperational),
            0x64 => SyndromeKind::Nak(NakCode::InvalidRdRequest),
            0x65..=0x7f => SyndromeKind::ReservedNak(value),
            0x40..=0x5f | 0x80..=0xff => SyndromeKind::Reserved(byte),
        };
        assert_eq!(Syndrome(byte).kind(), wanted, "{byte:#04x}");
    }
}

#[test]
fn syndromes_are_made_with_the_bits_of_their_kind() {
    for code in 0..=255u8 {
        assert_eq!(Syndrome::ack(code).0, code & 0x1f);
        assert_eq!(Syndrome::rnr(code).0, 0x20 | code & 0x1f);
    }
    let codes = [
        (NakCode::PsnSequence, 0x60, "PSN sequence error"),
        (NakCode::InvalidRequest, 0x61, "invalid request"),
        (NakCode::RemoteAccess, 0x62, "remote access error"),
        (NakCode::RemoteOperational, 0x63, "remote operational error"),
        (NakCode::InvalidRdRequest, 0x64, "invalid RD request"),
    ];
    for (code, syndrome, name) in codes {
        assert_eq!((Syndrome::nak(code).0, code.name()), (syndrome, name));
    }
}

#[test]
fn e13_the_path_mtu_of_a_link_at_each_edge() {
    let mut largest = None;
    for (mtu, bytes) in Mtu::ALL.into_iter().zip([256, 512, 1024, 2048, 4096]) {
        assert_eq!((mtu.bytes(), mtu.to_string()), (bytes, bytes.to_string()));
        assert_eq!(Mtu::largest_for_link(bytes + 79), largest, "one byte short of {bytes}");
        assert_eq!(Mtu::largest_for_link(bytes + 80), Some(mtu));
        largest = Some(mtu);
    }
    assert_eq!((Mtu::largest_for_link(0), Mtu::largest_for_link(usize::MAX)), (None, largest));
    assert!(Mtu::ALL.is_sorted(), "smallest first");
}

#[test]
fn path_mtus_have_the_codes_1_to_5_and_no_others() {
    for code in 0..=255u8 {
        let wanted = (1..=5).contains(&code).then(|| 128usize << code);
        assert_eq!(Mtu::from_code(code).map(Mtu::bytes), wanted, "code {code}");
    }
    for bytes in 0..=8192 {
        let known = [256, 512, 1024, 2048, 4096].contains(&bytes);
        assert_eq!(Mtu::from_bytes(bytes).is_some(), known, "{bytes} bytes");
    }
}

/// As many packets as fit an IP packet, and at most 64.
#[test]
fn a_train_is_as_long_as_both_limits_allow() {
    for length in 16..=TRAIN_BYTES + 1 {
        let packets = train_packets(length);
        assert!(packets * length <= TRAIN_BYTES && packets <= TRAIN_PACKETS, "{length} bytes");
        let one_more = (packets + 1) * length > TRAIN_BYTES || packets == TRAIN_PACKETS;
        assert!(one_more, "{packets} packets of {length} bytes leave room for another");
    }
}
