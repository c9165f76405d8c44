//! Packets that stand alone, held against the rules: each finding with the packet that shows it, and the one next to it
//! that does not.

use std::collections::BTreeSet;

use proptest::prelude::*;
use uroce_analyze::judge::{Judge, RULES, Rule, Severity};
use uroce_analyze::{IcrcStatus, Packet, Timestamp, Tracker, TrackerConfig};
use uroce_wire::{
    Aeth, AtomicEth, Bth, Deth, HeaderSet, Opcode, OpcodeInfo, Operation, Position, Psn, Qpn, Reth,
    Service, Syndrome,
};

/// Names of the findings of a capture of these packets.
fn findings(packets: &[Packet]) -> BTreeSet<&'static str> {
    let (mut tracker, mut judge) = (Tracker::new(TrackerConfig::default()), Judge::new());
    for (index, packet) in packets.iter().enumerate() {
        let time = Timestamp::from_nanos(1_000_000_000 + index as u64 * 10_000);
        let packet = Packet { frame: index as u64 + 1, time, ..*packet };
        let payload = vec![0; packet.payload_len.min(256) as usize];
        let annotation = tracker.handle_packet(&packet, &payload);
        judge.handle_packet(&packet, &payload, &annotation, &tracker);
    }
    tracker.finish();
    judge.finish(&tracker);
    judge.findings().iter().map(|finding| finding.rule.name).collect()
}

/// A packet of an opcode with all its headers and so many bytes of payload, rightly padded.
fn packet(opcode: Opcode, bytes: u32) -> Packet {
    let mut bth = Bth::new(opcode, Qpn::new(0x22), Psn::new(0));
    bth.pad = (bytes.wrapping_neg() & 3) as u8;
    let has = |set| opcode.info().is_some_and(|info| info.headers.contains(set));
    Packet {
        source: "10.0.0.1:50000".parse().expect("an address"),
        destination: "10.0.0.2:4791".parse().expect("an address"),
        icrc: IcrcStatus::Right,
        payload_len: bytes,
        wire_len: bytes + 60,
        reth: has(HeaderSet::RETH).then_some(Reth { va: 0, rkey: 1, length: bytes }),
        aeth: has(HeaderSet::AETH).then_some(Aeth { syndrome: Syndrome::ack(31), msn: 1 }),
        deth: has(HeaderSet::DETH).then_some(Deth { qkey: 7, src_qpn: Qpn::new(9) }),
        atomic_eth: has(HeaderSet::ATOMIC_ETH).then_some(AtomicEth {
            va: 8,
            rkey: 1,
            swap_add: 1,
            compare: 0,
        }),
        ..Packet::new(bth)
    }
}

/// What is found of one packet of a kind that the rules know alone.
fn alone(packet: &Packet) -> BTreeSet<&'static str> {
    let of_packets = [
        "pad-wrong",
        "transport-version",
        "reserved-bits",
        "opcode-undefined",
        "opcode-not-judged",
        "payload-too-long",
        "payload-of-opcode",
        "dma-length",
        "atomic-misaligned",
        "syndrome-reserved",
        "response-with-nak",
        "hop-limit-low",
        "gsi-service",
        "gsi-qkey",
        "gsi-length",
        "multicast-service",
    ];
    findings(&[*packet]).into_iter().filter(|name| of_packets.contains(name)).collect()
}

fn infos() -> impl Iterator<Item = &'static OpcodeInfo> {
    (0..=255u8).filter_map(|byte| Opcode(byte).info()).filter(|info| info.service != Service::Cnp)
}

/// Lengths at each edge, and the pad that belongs to them.
const LENGTHS: [u32; 12] = [0, 1, 3, 4, 7, 8, 9, 16, 1024, 4096, 4097, 4100];

#[test]
fn r24_each_opcode_with_each_length_is_judged_by_the_book() {
    for info in infos() {
        for bytes in LENGTHS {
            let allowed = match info.operation {
                Operation::AtomicWrite => bytes == 8,
                Operation::Send | Operation::Write | Operation::ReadResponse => {
                    bytes > 0 || info.position == Position::Only
                }
                _ => bytes == 0,
            };
            let found = alone(&packet(info.opcode, bytes));
            assert_eq!(found.contains("payload-of-opcode"), !allowed, "{} {bytes}", info.name);
            let too_long = allowed && bytes > 4096;
            assert_eq!(found.contains("payload-too-long"), too_long, "{} {bytes}", info.name);
        }
    }
}

#[test]
fn r11_each_length_with_each_pad_is_judged_by_the_book() {
    for info in infos() {
        for bytes in LENGTHS {
            for pad in 0..4u8 {
                let mut packet = packet(info.opcode, bytes);
                packet.bth.pad = pad;
                let fills = (bytes + u32::from(pad)) % 4 == 0;
                let may_pad = info.carries_payload()
                    && matches!(info.position, Position::Last | Position::Only);
                let wrong = !fills || pad > 0 && !may_pad;
                let found = alone(&packet).contains("pad-wrong");
                assert_eq!(found, wrong, "{} {bytes} bytes, pad {pad}", info.name);
            }
        }
    }
}

#[test]
fn r51_r47_each_syndrome_of_each_answer_is_judged_by_the_book() {
    for info in infos().filter(|info| info.headers.contains(HeaderSet::AETH)) {
        for byte in 0..=255u8 {
            let mut packet = packet(info.opcode, if info.carries_payload() { 8 } else { 0 });
            packet.aeth = Some(Aeth { syndrome: Syndrome(byte), msn: 1 });
            let defined = matches!(byte, 0x00..=0x3f | 0x60..=0x64);
            let found = alone(&packet);
            assert_eq!(found.contains("syndrome-reserved"), !defined, "{} {byte:#x}", info.name);
            let refuses = info.operation == Operation::ReadResponse && defined && byte >= 0x20;
            assert_eq!(found.contains("response-with-nak"), refuses, "{} {byte:#x}", info.name);
        }
    }
}

#[test]
fn r23_each_opcode_is_judged_shown_or_undefined() {
    for byte in 0..=255u8 {
        let opcode = Opcode(byte);
        let found = alone(&packet(opcode, 0));
        let of_makers = (0x40..=0x5f).contains(&byte) || byte >= 0xc0;
        assert_eq!(found.contains("opcode-not-judged"), of_makers, "{byte:#x}");
        let undefined = opcode.info().is_none() && !of_makers;
        assert_eq!(found.contains("opcode-undefined"), undefined, "{byte:#x}");
    }
}

/// One field changed, and what is found then; first the value at which nothing is found.
#[test]
fn fields_at_their_edges() {
    type Change = fn(&mut Packet, u32);
    /// Rule, opcode, what is changed, values that keep the rule, and values that break it.
    type Case = (&'static str, Opcode, Change, &'static [u32], &'static [u32]);
    let cases: [Case; 7] = [
        (
            "transport-version",
            Opcode::RC_SEND_ONLY,
            |packet, value| packet.bth.tver = value as u8,
            &[0],
            &[1, 15],
        ),
        (
            "reserved-bits",
            Opcode::RC_SEND_ONLY,
            |packet, value| packet.bth.reserved6 = value as u8,
            &[0],
            &[1, 0x3f],
        ),
        (
            "reserved-bits",
            Opcode::RC_SEND_ONLY,
            |packet, value| packet.bth.reserved7 = value as u8,
            &[0],
            &[1, 0x7f],
        ),
        (
            "hop-limit-low",
            Opcode::RC_SEND_ONLY,
            |packet, value| packet.hop_limit = value as u8,
            &[2, 64, 255],
            &[0, 1],
        ),
        (
            "dma-length",
            Opcode::RC_READ_REQUEST,
            |packet, length| packet.reth = Some(Reth { va: 0, rkey: 1, length }),
            &[0, 1, 1 << 31],
            &[(1 << 31) + 1, u32::MAX],
        ),
        (
            "atomic-misaligned",
            Opcode::RC_FETCH_ADD,
            |packet, va| {
                packet.atomic_eth =
                    Some(AtomicEth { va: va.into(), rkey: 1, swap_add: 1, compare: 0 })
            },
            &[0, 8, 0xffff_fff8],
            &[1, 4, 7, 0xffff_ffff],
        ),
        (
            "gsi-qkey",
            Opcode::UD_SEND_ONLY,
            |packet, qkey| {
                packet.bth.dest_qpn = Qpn::GSI;
                packet.deth = Some(Deth { qkey, src_qpn: Qpn::GSI });
            },
            &[0x8001_0000],
            &[0, 0x8001_0001, 0x0001_0000],
        ),
    ];
    for (name, opcode, change, keep, breaks) in cases {
        for (value, wanted) in
            keep.iter().map(|value| (value, false)).chain(breaks.iter().map(|value| (value, true)))
        {
            let mut packet = packet(opcode, if name == "gsi-qkey" { 256 } else { 0 });
            change(&mut packet, *value);
            assert_eq!(alone(&packet).contains(name), wanted, "{name} {value:#x}");
        }
    }
}

#[test]
fn r14_r101_special_queue_pairs_take_datagrams_only() {
    for info in infos() {
        for (qpn, rule) in [(Qpn::GSI, "gsi-service"), (Qpn::MULTICAST, "multicast-service")] {
            let mut packet = packet(info.opcode, 0);
            packet.bth.dest_qpn = qpn;
            let found = alone(&packet).contains(rule);
            assert_eq!(found, info.service != Service::Ud, "{} to {qpn}", info.name);
        }
    }
    for bytes in [0, 255, 256, 257] {
        let mut mad = packet(Opcode::UD_SEND_ONLY, bytes);
        mad.bth.dest_qpn = Qpn::GSI;
        mad.deth = Some(Deth { qkey: 0x8001_0000, src_qpn: Qpn::GSI });
        assert_eq!(alone(&mad).contains("gsi-length"), bytes != 256, "{bytes} bytes");
    }
}

/// Two packets of a connection: what may change between them, and what is told of it.
#[test]
fn what_changes_between_two_packets_of_a_connection() {
    type Change = fn(&mut Packet);
    let cases: [(&str, Change); 4] = [
        ("source-port-changes", |packet| packet.source.set_port(50_001)),
        ("dscp-changes", |packet| packet.traffic_class = 0x08),
        ("pkey-changes", |packet| packet.bth.pkey = 0x8001),
        ("migreq-changes", |packet| packet.bth.migreq = false),
    ];
    let first = packet(Opcode::RC_SEND_ONLY, 16);
    let mut second = first;
    second.bth.psn = Psn::new(1);
    for (name, change) in cases {
        assert!(!findings(&[first, second]).contains(name), "{name}");
        let mut changed = second;
        change(&mut changed);
        assert!(findings(&[first, changed]).contains(name), "{name}");
    }
    // The ECN field and the membership bit of the P_Key may change.
    let mut harmless = second;
    (harmless.traffic_class, harmless.bth.pkey) = (3, 0x7fff);
    let found = findings(&[first, harmless]);
    assert!(!found.contains("dscp-changes") && !found.contains("pkey-changes"), "{found:?}");
}

/// FIRST, MIDDLE, LAST and ONLY in every order of two, of SENDs and WRITEs.
#[test]
fn r21_each_pair_of_opcodes_is_in_order_or_not() {
    let kinds: Vec<_> = infos()
        .filter(|info| {
            info.service == Service::Rc
                && matches!(info.operation, Operation::Send | Operation::Write)
        })
        .collect();
    for before in &kinds {
        for next in &kinds {
            let bytes = |info: &OpcodeInfo| if info.ends() { 16 } else { 1024 };
            let first = packet(before.opcode, bytes(before));
            let mut second = packet(next.opcode, bytes(next));
            second.bth.psn = Psn::new(1);
            let follows = match before.ends() {
                true => next.starts(),
                false => !next.starts() && before.operation == next.operation,
            };
            let found = findings(&[first, second]).contains("opcode-sequence");
            assert_eq!(found, !follows, "{} behind {}", next.name, before.name);
        }
    }
}

#[test]
fn rules_have_an_id_a_name_and_two_sentences() {
    for rule in RULES {
        let is_name = rule.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        assert!(
            is_name && !rule.name.starts_with('-') && !rule.name.ends_with('-'),
            "{}",
            rule.name
        );
        assert!(rule.meaning.ends_with('.') && rule.advice.ends_with(['.', '?']), "{}", rule.name);
        assert!(!rule.title.ends_with('.') && rule.title.len() > 5, "{}", rule.name);
        assert!(std::ptr::eq(Rule::by_name(rule.name).expect("it is found"), *rule));
    }
    let of = |severity| RULES.iter().filter(|rule| rule.severity == severity).count();
    let counts = [Severity::Error, Severity::Warning, Severity::Note].map(of);
    assert!(
        counts.iter().all(|count| *count > 10) && counts.iter().sum::<usize>() == RULES.len(),
        "{counts:?}"
    );
}

fn any_packet() -> impl Strategy<Value = Packet> {
    let numbers = (any::<u8>(), 0u32..6, 0u32..5000, 0u8..4, any::<u8>(), 0u32..4, any::<bool>());
    numbers.prop_map(|(opcode, psn, bytes, pad, syndrome, qpn, is_back)| {
        let mut packet = packet(Opcode(opcode), bytes);
        packet.bth.psn = Psn::new(psn.wrapping_sub(3));
        packet.bth.pad = pad;
        packet.bth.dest_qpn = Qpn::new([0x22, 1, 0xff_ffff, 0x11][qpn as usize]);
        if let Some(aeth) = &mut packet.aeth {
            aeth.syndrome = Syndrome(syndrome);
        }
        if is_back {
            (packet.source, packet.destination) = (packet.destination, packet.source);
        }
        packet
    })
}

proptest! {
    /// Whatever comes, every finding is one of the rules, once for each flow, with frames of the capture in order.
    #[test]
    fn findings_name_frames_of_the_capture(packets in prop::collection::vec(any_packet(), 1..60)) {
        let (mut tracker, mut judge) = (Tracker::new(TrackerConfig::default()), Judge::new());
        for (index, packet) in packets.iter().enumerate() {
            let packet = Packet { frame: index as u64 + 1, ..*packet };
            let annotation = tracker.handle_packet(&packet, &[]);
            judge.handle_packet(&packet, &[], &annotation, &tracker);
        }
        tracker.finish();
        judge.finish(&tracker);
        let mut seen = BTreeSet::new();
        let findings = judge.findings();
        prop_assert!(findings.windows(2).all(|pair| pair[0].rule.severity >= pair[1].rule.severity));
        for finding in findings {
            let flow = finding.flow.map(|flow| format!("{flow:?}"));
            prop_assert!(seen.insert((finding.rule.name, flow)), "{} twice", finding.rule.name);
            prop_assert!(finding.frames.is_sorted() && finding.frames.len() <= 8);
            prop_assert!(finding.frames.iter().chain([&finding.last_frame]).all(|frame| *frame <= packets.len() as u64));
            prop_assert!(finding.count >= finding.frames.len() as u64 && !finding.text.is_empty());
        }
    }
}
