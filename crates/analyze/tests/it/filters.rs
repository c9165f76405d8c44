//! Filter expressions beside the opcode table.

use std::collections::BTreeSet;
use std::net::IpAddr;

use proptest::prelude::*;
use uroce_analyze::{
    Filter, FrameRange, Learned, OpcodeFilter, Packet, PsnRange, Timestamp, parse_qpn,
};
use uroce_wire::{
    Aeth, Bth, Deth, NakCode, Opcode, OpcodeInfo, Operation, Psn, Qpn, Service, Syndrome,
};

fn packet(opcode: Opcode) -> Packet {
    let end = |text: &str| text.parse().expect("an address");
    Packet {
        frame: 7,
        time: Timestamp::from_nanos(5),
        source: end("10.0.0.1:50000"),
        destination: end("10.0.0.2:4791"),
        ..Packet::new(Bth::new(opcode, Qpn::new(0x11), Psn::new(0x100)))
    }
}

fn infos() -> impl Iterator<Item = &'static OpcodeInfo> {
    (0..=u8::MAX).filter_map(|byte| Opcode(byte).info())
}

/// Names of the opcodes that a word chooses.
fn chosen(word: &str) -> BTreeSet<&'static str> {
    let filter: OpcodeFilter = word.parse().unwrap_or_else(|error| panic!("{word}: {error}"));
    let chosen = infos().filter(|info| filter.matches(&packet(info.opcode), &[]));
    chosen.map(|info| info.name).collect()
}

fn with(choose: impl Fn(&OpcodeInfo) -> bool) -> BTreeSet<&'static str> {
    infos().filter(|info| choose(info)).map(|info| info.name).collect()
}

#[test]
fn the_full_name_of_an_opcode_chooses_it_in_any_spelling() {
    for info in infos() {
        for word in [info.name.to_owned(), info.name.to_lowercase(), info.name.replace('_', "-")] {
            let chosen = chosen(&word);
            assert!(chosen.contains(info.name), "{word}: {chosen:?}");
            let longer = |name: &&str| {
                name.strip_prefix(info.name).is_some_and(|rest| rest.starts_with('_'))
            };
            assert!(
                chosen.iter().all(|name| *name == info.name || longer(name)),
                "{word}: {chosen:?}"
            );
        }
        for number in [info.opcode.0.to_string(), format!("{:#04x}", info.opcode.0)] {
            assert_eq!(chosen(&number), BTreeSet::from([info.name]), "{number}");
        }
    }
}

#[test]
fn a_word_for_an_operation_chooses_it_on_every_service() {
    for (word, operation) in [
        ("send", Operation::Send),
        ("read-request", Operation::ReadRequest),
        ("read-req", Operation::ReadRequest),
        ("cas", Operation::CompareSwap),
        ("compare-swap", Operation::CompareSwap),
        ("faa", Operation::FetchAdd),
        ("fetch-add", Operation::FetchAdd),
        ("flush", Operation::Flush),
        ("atomic-write", Operation::AtomicWrite),
    ] {
        let expected = with(|info| info.operation == operation);
        assert_eq!(chosen(word), expected, "{word}");
        assert!(!expected.is_empty());
    }
}

#[test]
fn the_name_of_a_service_chooses_all_that_it_has() {
    for (word, service) in [("ud", Service::Ud), ("uc", Service::Uc)] {
        assert_eq!(chosen(word), with(|info| info.service == service), "{word}");
    }
    assert_eq!(chosen("cnp").len(), 1);
}

#[test]
fn acknowledgements_are_told_apart_by_their_syndrome() {
    let answer = |syndrome| Packet {
        aeth: Some(Aeth { syndrome, msn: 0 }),
        ..packet(Opcode::RC_ACKNOWLEDGE)
    };
    let words = |packet: &Packet| {
        let matches =
            |word: &&&str| word.parse::<OpcodeFilter>().expect("a word").matches(packet, &[]);
        ["ack", "nak", "rnr", "rnr-nak"].iter().filter(matches).copied().collect::<Vec<_>>()
    };
    assert_eq!(words(&answer(Syndrome::ack(31))), ["ack"]);
    assert_eq!(words(&answer(Syndrome::rnr(3))), ["rnr", "rnr-nak"]);
    for code in [NakCode::PsnSequence, NakCode::InvalidRequest, NakCode::RemoteAccess] {
        assert_eq!(words(&answer(Syndrome::nak(code))), ["nak"], "{code:?}");
    }
    assert_eq!(words(&packet(Opcode::RC_ACKNOWLEDGE)), [""; 0], "its syndrome was cut off");
    let data = Packet {
        aeth: Some(Aeth { syndrome: Syndrome::ack(1), msn: 0 }),
        ..packet(Opcode::RC_READ_RESPONSE_ONLY)
    };
    assert_eq!(words(&data), [""; 0], "a response that carries data");
}

#[test]
fn messages_of_connection_management_are_chosen_by_their_attribute() {
    let names = [
        ("req", 0x10u16),
        ("mra", 0x11),
        ("rej", 0x12),
        ("rep", 0x13),
        ("rtu", 0x14),
        ("dreq", 0x15),
        ("drep", 0x16),
        ("sidr-req", 0x17),
        ("sidr-rep", 0x18),
        ("lap", 0x19),
        ("apr", 0x1a),
    ];
    let management = Packet {
        bth: Bth::new(Opcode::UD_SEND_ONLY, Qpn::GSI, Psn::new(1)),
        ..packet(Opcode::UD_SEND_ONLY)
    };
    let mad = |class: u8, attribute: u16| {
        let mut mad = vec![0; 256];
        mad[1] = class;
        mad[16..18].copy_from_slice(&attribute.to_be_bytes());
        mad
    };
    for (word, attribute) in names {
        for word in [word.to_owned(), format!("cm-{word}"), word.to_uppercase()] {
            let filter: OpcodeFilter = word.parse().expect("a word");
            for (_, other) in names {
                let matches = filter.matches(&management, &mad(7, other));
                assert_eq!(matches, other == attribute, "{word} and {other:#x}");
            }
            assert!(!filter.matches(&management, &mad(4, attribute)), "another class");
            assert!(!filter.matches(&management, &mad(7, attribute)[..17]), "cut");
            assert!(
                !filter.matches(&packet(Opcode::UD_SEND_ONLY), &mad(7, attribute)),
                "another QP"
            );
        }
    }
    let all: OpcodeFilter = "cm".parse().expect("a word");
    assert!(all.matches(&management, &[]) && !all.matches(&packet(Opcode::UD_SEND_ONLY), &[]));
}

#[test]
fn what_names_nothing_is_repeated_with_what_could_be_written() {
    for word in [
        "",
        "sen",
        "send-",
        "-send",
        "rc-",
        "write only",
        "256",
        "0x100",
        "-1",
        "+5",
        "req-req",
        "läuft",
    ] {
        let error = word.parse::<OpcodeFilter>().expect_err(word).to_string();
        assert!(error.starts_with(&format!("`{word}` names no opcode")), "{error}");
        assert!(error.contains("rc-write-last") && error.contains("0x0a"), "{error}");
    }
    let psns = "5..x".parse::<PsnRange>().expect_err("no range").to_string();
    assert!(psns.starts_with("`5..x` is no range of PSNs") && psns.contains("0xffffff"), "{psns}");
    let frames = "9..5".parse::<FrameRange>().expect_err("backwards").to_string();
    assert!(frames.starts_with("`9..5` is no range of frames"), "{frames}");
    let qpn = parse_qpn("0x1000000").expect_err("25 bits").to_string();
    assert!(qpn.starts_with("`0x1000000` is no queue pair number"), "{qpn}");
}

#[test]
fn a_filter_knows_what_it_needs_to_know() {
    assert!(Filter::default().is_empty() && !Filter::default().needs_whole_capture());
    let by_host = Filter::default().with_host([10, 0, 0, 1].into());
    assert!(!by_host.is_empty() && !by_host.needs_whole_capture());
    let by_qpn = Filter::default().with_qpn(Qpn::new(5));
    assert!(by_qpn.needs_whole_capture() && by_qpn.qpns() == [Qpn::new(5)]);
    let errors = Filter::default().with_only_errors();
    assert!(errors.only_errors() && errors.needs_whole_capture() && !by_qpn.only_errors());
}

proptest! {
    /// One criterion after the other, by hand.
    #[test]
    fn a_packet_is_chosen_if_every_criterion_has_a_value_that_fits(
        qpns in prop::collection::vec(0x10u32..0x14, 0..3),
        hosts in prop::collection::vec(1u8..5, 0..3),
        psns in prop::collection::vec((0xf8u32..0x108, 0u32..16), 0..3),
        frames in prop::collection::vec((0u64..10, 0u64..10), 0..3),
        words in prop::collection::vec(prop::sample::select(vec!["send", "write", "ack"]), 0..3),
        learned in prop::option::of(0x10u32..0x14),
        sender in prop::option::of(0x10u32..0x14),
        errors: bool,
        is_error: bool,
    ) {
        let deth = sender.map(|qpn| Deth { qkey: 0, src_qpn: Qpn::new(qpn) });
        let packet = Packet { deth, ..packet(Opcode::RC_SEND_ONLY) };
        let mut filter = Filter::default();
        for qpn in &qpns {
            filter = filter.with_qpn(Qpn::new(*qpn));
        }
        for host in &hosts {
            filter = filter.with_host(IpAddr::from([10, 0, 0, *host]));
        }
        for (first, more) in &psns {
            filter = filter.with_psns(PsnRange::new(Psn::new(*first), Psn::new(first + more)));
        }
        for (first, more) in &frames {
            filter = filter.with_frames(FrameRange::new(*first, first + more));
        }
        for word in &words {
            filter = filter.with_opcode(word.parse().expect("a word"));
        }
        if errors {
            filter = filter.with_only_errors();
        }
        let source = sender.or(learned);
        let expected = (qpns.is_empty() || qpns.iter().any(|qpn| *qpn == 0x11 || Some(*qpn) == source))
            && (hosts.is_empty() || hosts.iter().any(|host| matches!(host, 1 | 2)))
            && (psns.is_empty() || psns.iter().any(|(first, more)| (*first..=first + more).contains(&0x100)))
            && (frames.is_empty() || frames.iter().any(|(first, more)| (*first..=first + more).contains(&7)))
            && (words.is_empty() || words.contains(&"send"))
            && (!errors || is_error);
        let learned = Learned { source_qpn: learned.map(Qpn::new), is_error };
        prop_assert_eq!(filter.matches(&packet, &[], learned), expected);
    }
}
