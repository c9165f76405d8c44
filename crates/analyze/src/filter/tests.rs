use proptest::prelude::*;
use uroce_wire::{Deth, NakCode, Opcode, Syndrome};

use super::*;
use crate::sample::{self, packet};

fn answer(syndrome: Syndrome) -> Packet {
    sample::answer(2, 0, syndrome)
}

/// Packets of every defined opcode that `word` chooses, by name.
fn named(word: &str) -> Vec<&'static str> {
    let filter: OpcodeFilter = word.parse().expect(word);
    let infos = (0..=u8::MAX).filter_map(|byte| Opcode(byte).info());
    let chosen = infos.filter(|info| filter.matches(&packet(info.opcode, 2, 0), &[]));
    chosen.map(|info| info.name).collect()
}

fn word_matches(word: &str, packet: &Packet, payload: &[u8]) -> bool {
    word.parse::<OpcodeFilter>().expect(word).matches(packet, payload)
}

fn mad(class: u8, attribute: u16) -> Vec<u8> {
    let mut mad = vec![0; 256];
    mad[1] = class;
    mad[16..18].copy_from_slice(&attribute.to_be_bytes());
    mad
}

#[test]
fn the_empty_filter_chooses_everything() {
    let filter = Filter::default();
    assert!(filter.is_empty());
    assert!(filter.matches(&packet(Opcode(0xff), 1, 2), &[], Learned::default()));
}

#[test]
fn a_queue_pair_is_found_as_receiver_and_as_sender() {
    let filter = Filter::default().with_qpn(Qpn::new(7));
    let to = packet(Opcode::RC_SEND_ONLY, 7, 0);
    let from = packet(Opcode::RC_SEND_ONLY, 8, 0);
    let learned = Learned { source_qpn: Some(Qpn::new(7)), is_error: false };
    assert!(filter.matches(&to, &[], Learned::default()));
    assert!(filter.matches(&from, &[], learned));
    assert!(!filter.matches(&from, &[], Learned::default()));
}

#[test]
fn a_datagram_names_its_sender() {
    let filter = Filter::default().with_qpn(Qpn::new(7));
    let deth = Deth { qkey: 0, src_qpn: Qpn::new(7) };
    let datagram = Packet { deth: Some(deth), ..packet(Opcode::UD_SEND_ONLY, 8, 0) };
    assert!(filter.matches(&datagram, &[], Learned::default()));
}

#[test]
fn one_value_of_each_criterion_must_fit() {
    let host = |text: &str| text.parse::<IpAddr>().expect("an address");
    let packet = packet(Opcode::RC_SEND_ONLY, 7, 5);
    let chosen = |filter: &Filter| filter.matches(&packet, &[], Learned::default());
    let filter = Filter::default().with_host(host("10.0.0.9")).with_host(host("10.0.0.2"));
    assert!(chosen(&filter) && !filter.is_empty());
    let filter = filter.with_opcode("send".parse().expect("a name"));
    assert!(chosen(&filter));
    assert!(chosen(&filter.clone().with_psns("5..6".parse().expect("a range"))));
    assert!(!chosen(&filter.with_psns("6..7".parse().expect("a range"))));
    assert!(!chosen(&Filter::default().with_host(host("10.0.0.3"))));
    assert!(chosen(&Filter::default().with_frames(FrameRange::new(1, 2))));
    assert!(!chosen(&Filter::default().with_frames(FrameRange::new(2, 2))));
}

#[test]
fn only_signs_of_trouble() {
    let filter = Filter::default().with_only_errors();
    let trouble = Learned { source_qpn: None, is_error: true };
    assert!(filter.matches(&answer(Syndrome::ack(0)), &[], trouble));
    assert!(!filter.matches(&answer(Syndrome::ack(0)), &[], Learned::default()));
}

#[test]
fn names_of_the_opcode_table() {
    assert_eq!(named("rc-send-first"), ["RC_SEND_FIRST"]);
    assert_eq!(named("UC_SEND_FIRST"), ["UC_SEND_FIRST"]);
    assert_eq!(named("send-first"), ["RC_SEND_FIRST", "UC_SEND_FIRST", "XRC_SEND_FIRST"]);
    assert_eq!(named("cnp"), ["CNP"]);
    assert_eq!(named("0x81"), ["CNP"]);
    assert_eq!(named("17"), ["RC_ACKNOWLEDGE"]);
    assert_eq!(named("ud"), ["UD_SEND_ONLY", "UD_SEND_ONLY_IMM"]);
}

#[test]
fn a_beginning_names_all_that_begin_so() {
    assert_eq!(named("rc-write-last"), ["RC_WRITE_LAST", "RC_WRITE_LAST_IMM"]);
    assert_eq!(named("write").len(), 3 * 6);
    assert!(named("write").iter().all(|name| !name.contains("ATOMIC")));
    assert_eq!(named("read").len(), 2 * 5);
    assert_eq!(named("atomic").len(), 2 * 4);
}

#[test]
fn short_words_for_long_names() {
    assert_eq!(named("read-resp"), named("read-response"));
    assert_eq!(named("rc-read-resp-last"), ["RC_READ_RESPONSE_LAST"]);
    assert_eq!(named("read-req"), ["RC_READ_REQUEST", "XRC_READ_REQUEST"]);
    assert_eq!(named("cas"), ["RC_COMPARE_SWAP", "XRC_COMPARE_SWAP"]);
    assert_eq!(named("faa"), named("fetch-add"));
}

#[test]
fn r51_acknowledgements_by_their_syndrome() {
    let (ack, rnr) = (answer(Syndrome::ack(5)), answer(Syndrome::rnr(1)));
    let nak = answer(Syndrome::nak(NakCode::RemoteAccess));
    let odd = answer(Syndrome(0x7f));
    let words = |packet: &Packet| ["ack", "nak", "rnr"].map(|word| word_matches(word, packet, &[]));
    assert_eq!(words(&ack), [true, false, false]);
    assert_eq!(words(&nak), [false, true, false]);
    assert_eq!(words(&odd), [false, true, false]);
    assert_eq!(words(&rnr), [false, false, true]);
    assert!(word_matches("acknowledge", &rnr, &[]));
}

#[test]
fn an_acknowledgement_that_is_cut_has_no_syndrome() {
    let cut = packet(Opcode::RC_ACKNOWLEDGE, 2, 0);
    assert!(!word_matches("ack", &cut, &[]) && word_matches("acknowledge", &cut, &[]));
}

#[test]
fn messages_of_connection_management() {
    let to_gsi = packet(Opcode::UD_SEND_ONLY, 1, 0);
    assert!(word_matches("cm", &to_gsi, &[]));
    assert!(word_matches("req", &to_gsi, &mad(7, 0x10)));
    assert!(word_matches("CM_DREP", &to_gsi, &mad(7, 0x16)));
    assert!(!word_matches("rep", &to_gsi, &mad(7, 0x10)));
    assert!(!word_matches("req", &to_gsi, &mad(4, 0x10)), "another class");
    assert!(!word_matches("req", &to_gsi, &mad(7, 0x10)[..17]), "cut");
    let elsewhere = packet(Opcode::UD_SEND_ONLY, 9, 0);
    assert!(!word_matches("req", &elsewhere, &mad(7, 0x10)));
}

#[test]
fn what_names_no_opcode_is_said() {
    for word in ["", "first", "sen", "write-", "-", "256", "0x100", "rc-", "atomic-", "öcode"] {
        let error = word.parse::<OpcodeFilter>().expect_err(word);
        assert!(error.to_string().contains("send-first"), "{error}");
    }
}

#[test]
fn its_debug_form_names_the_opcodes() {
    let filter: OpcodeFilter = "nak".parse().expect("a name");
    assert!(format!("{filter:?}").contains("Nak"));
}

proptest! {
    #[test]
    fn any_text_and_any_payload_are_taken(text: String, opcode: u8, payload: Vec<u8>) {
        let word = text.parse::<OpcodeFilter>();
        let packet = packet(Opcode(opcode), 1, 0);
        let _ = word.map(|word| word.matches(&packet, &payload));
        let _ = word_matches("req", &packet, &payload);
    }
}
