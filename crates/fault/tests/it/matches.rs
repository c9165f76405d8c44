//! Each key that says which packets, and each option that says which of them.

use uroce_fault::Verdict;
use uroce_wire::{Opcode, Syndrome};

use crate::packets::{
    TestPacket, Wire, ack, acknowledge, cm, data, ms, send, send_back, write_only,
};

/// True if the rule is about the packet, which is the first one.
fn is_about(matches: &str, packet: &TestPacket) -> bool {
    Wire::new(&format!("{matches} -> drop")).give(packet) == Verdict::Dropped
}

fn check(packet: &TestPacket, yes: &[&str], no: &[&str]) {
    for matches in yes {
        assert!(is_about(matches, packet), "{matches}");
    }
    for matches in no {
        assert!(!is_about(matches, packet), "{matches}");
    }
}

#[test]
fn direction() {
    check(&send(1), &["tx", "any", "op=send"], &["rx"]);
    check(&send_back(1), &["rx", "any"], &["tx"]);
}

#[test]
fn operations_of_data_packets() {
    let names = ["op=send", "op=send-only", "op=rc-send-only", "op=request", "op=4", "op=0x04"];
    check(&send(1), &names, &["op=write", "op=send-first", "op=uc-send-only", "op=cm", "op=5"]);
    check(&send(1), &["op=write|send", "op=SEND_ONLY"], &["op=write|ack"]);
    // Names that another one includes.
    check(&send(1), &["op=send|send-only", "op=request|send", "op=send-only|send"], &[]);
    let read = data(Opcode::RC_READ_REQUEST, 1);
    check(&read, &["op=read", "op=read-request"], &["op=read-resp", "op=response"]);
    let response = data(Opcode::XRC_READ_RESPONSE_LAST, 1);
    check(&response, &["op=read-resp", "op=read-resp-last", "op=response"], &["op=read", "op=ack"]);
    check(&data(Opcode::RC_FETCH_ADD, 1), &["op=atomic", "op=fetch-add"], &["op=compare-swap"]);
    check(&data(Opcode::RC_ATOMIC_ACKNOWLEDGE, 1), &["op=atomic-ack"], &["op=ack", "op=atomic"]);
    check(&data(Opcode::RC_ATOMIC_WRITE, 1), &["op=atomic-write"], &["op=write"]);
    check(&data(Opcode::CNP, 0), &["op=cnp"], &["op=request", "op=response"]);
    check(&write_only(1), &["op=write"], &["op=send"]);
}

#[test]
fn acknowledgements_by_their_syndrome() {
    check(&ack(1), &["op=ack", "op=acknowledge", "op=response"], &["op=nak", "op=rnr"]);
    let rnr = acknowledge(1, Syndrome::rnr(5), 1);
    check(&rnr, &["op=rnr", "syndrome=0x25", "op=ack|rnr"], &["op=ack", "op=nak", "syndrome=5"]);
    let nak = acknowledge(1, Syndrome(0x62), 1);
    check(&nak, &["op=nak", "syndrome=0x60..0x64"], &["op=ack", "op=rnr"]);
}

#[test]
fn messages_of_connection_management() {
    let all =
        ["req", "mra", "rej", "rep", "rtu", "dreq", "drep", "sidr-req", "sidr-rep", "lap", "apr"];
    for (index, name) in all.iter().enumerate() {
        let packet = cm(0x10 + index as u16, &[]);
        let others = all.iter().filter(|other| *other != name);
        let others = others.map(|other| format!("op={other}")).collect::<Vec<_>>();
        let others = others.iter().map(String::as_str).collect::<Vec<_>>();
        check(&packet, &[&format!("op={name}"), "op=cm", "op=0x64"], &others);
        // Names of data operations leave connection management alone.
        check(&packet, &["any"], &["op=send", "op=request", "op=send-only"]);
    }
    check(&cm(0x1b, &[]), &["any"], &["op=apr"]);
}

#[test]
fn parts_of_messages() {
    check(&send(1), &["part=only"], &["part=first", "part=last", "part=middle"]);
    check(&data(Opcode::RC_WRITE_MIDDLE, 1), &["part=middle"], &["part=only"]);
    check(&data(Opcode::RC_SEND_LAST_IMM, 1), &["part=last"], &["part=first"]);
}

#[test]
fn queue_pairs_by_number_and_by_order() {
    check(&send(1), &["qp=0x22", "qp=0"], &["qp=0x11", "qp=1", "qp=34"]);
    let mut wire = Wire::new("tx qp=1 -> drop");
    let other = TestPacket::new(send(1).meta.direction, Opcode::RC_SEND_ONLY, 0x99, 50, &[]);
    // Neither connection management nor the other direction is counted.
    for packet in [cm(0x10, &[]), send_back(7), send(1), other.clone(), send(2), other] {
        wire.give(&packet);
    }
    assert_eq!(wire.psns(), [0, 7, 1, 2]);
}

#[test]
fn sequence_numbers() {
    check(&send(0x123), &["psn=0x123", "psn=0x100..0x200", "psn=+0"], &["psn=0x122", "psn=+1"]);
    let through = |rules: &str| {
        let mut wire = Wire::new(rules);
        (0..6).for_each(|step| {
            wire.give(&send((0xff_fffe + step) & 0xff_ffff));
        });
        wire.psns()
    };
    assert_eq!(through("tx psn=+2..+4 -> drop"), [0xff_fffe, 0xff_ffff, 3]);
    assert_eq!(through("tx psn=+4.. -> drop"), [0xff_fffe, 0xff_ffff, 0, 1]);
    assert_eq!(through("tx psn=%3 -> drop"), [0xff_fffe, 0xff_ffff, 1, 2]);
}

#[test]
fn how_often_a_sequence_number_was_seen() {
    let mut wire = Wire::new("tx psn=+1 iter=1..2 -> drop");
    for psn in [5, 6, 7, 6, 7, 6, 7] {
        wire.give(&send(psn));
    }
    assert_eq!(wire.psns(), [5, 7, 7, 6, 7]);
}

#[test]
fn requests_and_responses_have_sequence_numbers_of_their_own() {
    let mut wire = Wire::new("rx psn=+0 -> drop");
    for packet in [send_back(100), ack(7), ack(8), send_back(101)] {
        wire.give(&packet);
    }
    assert_eq!(wire.psns(), [8, 101]);
}

#[test]
fn messages_by_number() {
    let mut wire = Wire::new("tx msg=2 -> drop");
    let opcodes = [
        Opcode::RC_SEND_ONLY,
        Opcode::RC_WRITE_FIRST,
        Opcode::RC_WRITE_MIDDLE,
        Opcode::RC_WRITE_LAST,
        Opcode::RC_SEND_ONLY,
    ];
    for round in 0..2 {
        for (psn, opcode) in opcodes.into_iter().enumerate().skip(round) {
            wire.give(&data(opcode, psn as u32));
        }
    }
    // A retransmitted packet belongs to the message that it belonged to before.
    assert_eq!(wire.psns(), [0, 4, 4]);
}

#[test]
fn packets_by_number() {
    assert_eq!(Wire::psns_through("tx pkt=2..3 -> drop", 5), [0, 3, 4]);
}

#[test]
fn length_of_the_payload() {
    check(
        &send(1),
        &["len=64", "len>63", "len>=64", "len<65", "len<=64", "len=60..70"],
        &["len>64"],
    );
    check(&ack(1), &["len=0"], &["len>0"]);
    let mut padded = send(1);
    padded.bytes[1] |= 0x30;
    check(&padded, &["len=61"], &["len=64"]);
}

#[test]
fn addresses() {
    let yes = ["ip=192.0.2.1", "ip=192.0.2.2", "src=192.0.2.1", "dst=192.0.2.2", "ip=192.0.2.0/24"];
    let no =
        ["ip=192.0.2.3", "src=192.0.2.2", "dst=192.0.2.1", "ip=2001:db8::/32", "src=10.0.0.0/8"];
    check(&send(1), &yes, &no);
    check(&send(1), &["ip=0.0.0.0/0"], &["ip=::/0"]);
}

#[test]
fn congestion_field() {
    check(&send(1), &["ecn=ect0"], &["ecn=ce", "ecn=ect1", "ecn=not-ect"]);
}

#[test]
fn bytes_that_are_no_packet_match_only_what_asks_nothing_of_them() {
    let mut short = send(1);
    short.bytes.truncate(5);
    check(&short, &["any", "tx", "len=0", "src=192.0.2.1"], &["op=0", "psn=0", "qp=0", "pkt=1"]);
}

#[test]
fn count_skip_and_every() {
    assert_eq!(Wire::psns_through("any -> drop count=2", 4), [2, 3]);
    assert_eq!(Wire::psns_through("any -> drop skip=2", 4), [0, 1]);
    assert_eq!(Wire::psns_through("any -> drop every=3", 7), [0, 1, 3, 4, 6]);
    assert_eq!(Wire::psns_through("any -> drop skip=1 every=2 count=1", 6), [0, 1, 3, 4, 5]);
}

#[test]
fn black_hole_from_and_until() {
    let mut wire = Wire::new("any -> drop from=2ms until=4ms");
    for time in 0..6 {
        wire.now = ms(time);
        wire.give(&send(time as u32));
    }
    assert_eq!(wire.psns(), [0, 1, 4, 5]);
}

#[test]
fn a_rule_that_is_named_by_then_begins_when_the_other_is_done() {
    let rules = "a: psn=1 -> drop count=2 then=b; b: any -> drop count=1";
    let mut wire = Wire::new(rules);
    for psn in [0, 1, 2, 1, 3, 4] {
        wire.give(&send(psn));
    }
    assert_eq!(wire.psns(), [0, 2, 4]);
}

#[test]
fn the_first_rule_that_takes_a_packet_wins() {
    let mut wire = Wire::new("psn=1 -> dup; any -> drop");
    wire.give(&send(1));
    wire.give(&send(2));
    assert_eq!(wire.psns(), [1, 1]);
    let matched = wire.injector.report().map(|rule| rule.matched).collect::<Vec<_>>();
    assert_eq!(matched, [1, 1]);
}

#[test]
fn also_lets_later_rules_act_on_the_packet() {
    let mut wire = Wire::new("a: any -> ce also; b: any -> delay=1ms also; c: psn=1 -> dup");
    wire.give(&send(1));
    wire.finish();
    assert_eq!(wire.psns(), [1, 1]);
    assert_eq!((wire.out[0].at, wire.out[0].packet.meta.traffic_class), (ms(1), 3));
    assert_eq!(
        wire.out[0].faults,
        "fault: marked \"congestion experienced\" by rule \"a\"; delayed by 1ms by rule \"b\"; \
         duplicated by rule \"c\""
    );
}

#[test]
fn quiet_rules_are_only_counted() {
    let mut wire = Wire::new("any -> drop quiet");
    wire.give(&send(1));
    assert_eq!((wire.comments[0].as_str(), wire.injector.poll_event()), ("", None));
    assert_eq!(wire.injector.report().next().expect("a rule").applied, 1);
}

#[test]
fn events_say_what_was_done_to_which_packet() {
    let mut wire = Wire::new("lost: any -> drop");
    wire.now = ms(3);
    wire.give(&send(9));
    let event = wire.injector.poll_event().expect("an event");
    assert_eq!(
        (event.time, event.opcode, event.dest_qp, event.psn),
        (ms(3), Some(4), Some(0x22), Some(9))
    );
    assert_eq!((event.to_string().as_str(), wire.injector.rule_name(&event)), ("dropped", "lost"));
}
