//! What holds for all packets and all rules.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use uroce_fault::{Origin, Plan, Verdict};
use uroce_wire::Opcode;

use crate::packets;
use crate::packets::{TestPacket, Wire, ack, cm, data, send, send_back, write_only};

const MATCHES: [&str; 22] = [
    "op=send",
    "op=ack|nak",
    "op=cm",
    "op=0x0e",
    "part=middle",
    "qp=0",
    "qp=0x11",
    "psn=0x5",
    "psn=0x1..0x9",
    "psn=+2",
    "psn=+1..+4",
    "psn=%3",
    "iter=2..",
    "msg=2",
    "pkt=1..5",
    "len=10..",
    "ip=192.0.2.0/24",
    "src=192.0.2.1",
    "dst=2001:db8::1",
    "ecn=ect0",
    "syndrome=31",
    "op=response",
];
const ACTIONS: [&str; 20] = [
    "pass",
    "dup",
    "dup=3",
    "delay=10ms",
    "delay=1ms~2ms",
    "hold=1",
    "hold=2/5ms",
    "rate=1mbit/1000",
    "ce",
    "corrupt=any",
    "corrupt=payload@3.2",
    "corrupt=icrc",
    "truncate=20",
    "set:psn=0x5",
    "set:msn=-1",
    "keep-icrc",
    "fix-icrc",
    "answer:ack",
    "answer:cnp",
    "set:opcode=0x11",
];
const OPTIONS: [&str; 10] = [
    "p=0.5",
    "skip=1",
    "every=2",
    "count=3",
    "from=1ms",
    "until=1s",
    "seed=9",
    "also",
    "quiet",
    "ge=0.1,0.5,1,0",
];

/// The text of one rule, as `Display` writes it or not.
fn rule() -> impl Strategy<Value = String> {
    let key = |text: &&str| text.split(['=', '>']).next().unwrap_or("").to_owned();
    let matches = subsequence(MATCHES.to_vec(), 0..4).prop_map(move |mut matches| {
        let mut seen = Vec::new();
        matches.retain(|text| {
            !seen.contains(&key(text)) && {
                seen.push(key(text));
                true
            }
        });
        matches.join(" ")
    });
    let actions = prop_oneof![
        Just("drop".to_owned()),
        Just("mute=2ms".to_owned()),
        subsequence(ACTIONS.to_vec(), 1..4).prop_map(|actions| actions.join(", ")),
    ];
    let options = subsequence(OPTIONS.to_vec(), 0..3).prop_map(|mut options| {
        if options.contains(&"p=0.5") {
            options.retain(|option| !option.starts_with("ge"));
        }
        options.join(" ")
    });
    (select(vec!["tx", "rx", "any"]), matches, actions, options).prop_map(
        |(direction, matches, actions, options)| {
            format!("{direction} {matches} -> {actions} {options}")
        },
    )
}

fn rules() -> impl Strategy<Value = String> {
    prop::collection::vec(rule(), 1..5).prop_map(|rules| rules.join("; "))
}

/// Good packets, good ones with a few changed bytes, and any bytes.
fn packet() -> impl Strategy<Value = TestPacket> {
    let opcode = (0..=u8::MAX).prop_filter("known", |byte| Opcode(*byte).info().is_some());
    let good = prop_oneof![
        (0u32..20).prop_map(send),
        (0u32..20).prop_map(send_back),
        (0u32..20).prop_map(ack),
        (0u32..20).prop_map(write_only),
        (0x10u16..0x1c).prop_map(|attribute| cm(attribute, &[1; 40])),
        (opcode, 0u32..20).prop_map(|(opcode, psn)| data(Opcode(opcode), psn)),
    ];
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let damaged = (good, changes, 0usize..40).prop_map(|(mut packet, changes, cut)| {
        for (at, value) in &changes {
            *at.get_mut(&mut packet.bytes[..]) = *value;
        }
        let length = packet.bytes.len().saturating_sub(if changes.len() > 2 { cut } else { 0 });
        packet.bytes.truncate(length);
        packet
    });
    let noise = prop::collection::vec(any::<u8>(), 0..120)
        .prop_map(|bytes| TestPacket { meta: send(0).meta, bytes });
    prop_oneof![4 => damaged, 1 => noise]
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}") {
        let _ = text.parse::<Plan>();
        let _ = Plan::from_toml(&text);
    }

    #[test]
    fn texts_that_are_nearly_rules_are_read_or_refused(
        text in rules(),
        at: prop::sample::Index,
        insert in "[-a-z0-9=:;,.~/|%+> \n#\"\\[]{0,4}",
    ) {
        let at = at.index(text.len());
        let changed = format!("{}{insert}{}", &text[..at], &text[at + 1..]);
        if let Err(error) = changed.parse::<Plan>() {
            prop_assert!(error.line >= 1 && error.column >= 1 && !error.expected.is_empty());
        }
        let _ = Plan::from_toml(&format!("[[fault]]\ndo = \"{changed}\""));
    }

    #[test]
    fn a_plan_that_is_written_and_read_is_the_same(text in rules()) {
        let plan = text.parse::<Plan>().map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        let written = plan.to_string();
        let again = written.parse::<Plan>().map_err(|error| TestCaseError::fail(format!("{written}: {error}")))?;
        prop_assert_eq!(&plan, &again);
        prop_assert_eq!(written, again.to_string());
    }

    #[test]
    fn times_and_probabilities_survive_being_written(ns in 0u64..86_400_000_000_000, p in 0.0f64..=1.0) {
        let text = format!("any -> delay={ns}ns p={p}");
        let plan: Plan = text.parse().expect("good");
        prop_assert_eq!(plan.to_string().parse::<Plan>().expect("good"), plan);
    }

    /// Each packet passes, is dropped, or is released once; each copy and answer is released too.
    #[test]
    fn no_packet_is_lost_or_made_by_accident(
        text in rules(),
        packets in prop::collection::vec((packet(), 0u64..4), 0..60),
        seed: u64,
    ) {
        let mut wire = Wire::with_seed(&text, seed);
        let mut verdicts: HashMap<&str, u64> = HashMap::new();
        for (packet, wait) in &packets {
            wire.now += packets::ms(*wait);
            let name = match wire.give(packet) {
                Verdict::Pass => "pass",
                Verdict::Taken => "taken",
                Verdict::Dropped => "dropped",
            };
            *verdicts.entry(name).or_default() += 1;
        }
        wire.finish();
        let count = |name| verdicts.get(name).copied().unwrap_or(0);
        let counters = wire.injector.counters();
        prop_assert_eq!(counters.seen, packets.len() as u64);
        prop_assert_eq!(counters.passed, count("pass"));
        prop_assert_eq!(counters.dropped, count("dropped"));
        prop_assert_eq!(counters.released, count("taken"));
        let originals = wire.out.iter().filter(|out| out.origin == Origin::Packet).count() as u64;
        prop_assert_eq!(originals, count("pass") + count("taken"));
        prop_assert_eq!(wire.out.len() as u64 - originals, counters.added);
        prop_assert_eq!((wire.injector.waiting(), counters.added_lost), ((0, 0), 0));
    }

    /// Times do not go back, and what does not say that it is damaged is not.
    #[test]
    fn packets_come_out_in_order_of_time_and_whole(
        text in rules(),
        psns in prop::collection::vec(0u32..8, 0..40),
    ) {
        let mut wire = Wire::new(&text);
        for psn in psns {
            wire.give(&send(psn));
        }
        wire.finish();
        prop_assert!(wire.out.is_sorted_by_key(|out| out.at));
        for out in &wire.out {
            // A packet may say that it was damaged and be right: two faults turned the same bit, or a field got the value
            // that it had.
            prop_assert!(out.is_damaged || out.packet.icrc_is_right(), "{:?}", out);
        }
    }
}
