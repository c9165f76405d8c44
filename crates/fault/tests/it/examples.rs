//! The ten rules of docs/faults.md, and what each does to a stream of packets.

use uroce_fault::{Direction, Plan, Verdict};
use uroce_wire::Opcode;

use crate::packets::{
    LOCAL, LOCAL_QP, REMOTE, REMOTE_QP, TestPacket, Wire, ack, cm, data, ms, send, send_back,
};

const PAGE: &str = include_str!("../../../../docs/faults.md");

/// The rule in row `number` of the table on the page.
fn rule(number: usize) -> &'static str {
    let start = format!("| {number} | `");
    let row = PAGE.lines().find_map(|line| line.strip_prefix(&start)).expect("a row");
    row.split('`').next().expect("a rule")
}

fn wire(number: usize) -> Wire {
    Wire::new(rule(number))
}

fn read_response(psn: u32, opcode: Opcode) -> TestPacket {
    let header = opcode.info().expect("known").header_len - 12;
    TestPacket::new(Direction::Rx, opcode, LOCAL_QP, psn, &vec![0; header + 64])
}

#[test]
fn one_and_two_lose_the_fifth_packet_so_many_times() {
    for (number, lost) in [(1, 1), (2, 3)] {
        let mut wire = wire(number);
        for psn in 100..106 {
            wire.give(&send(psn));
        }
        assert_eq!(wire.psns(), [100, 101, 102, 103, 105]);
        let verdicts = (0..4).map(|_| wire.give(&send(104)));
        let dropped = verdicts.filter(|verdict| *verdict == Verdict::Dropped).count();
        assert_eq!(dropped, lost - 1, "rule {number}");
    }
}

#[test]
fn three_loses_acks_and_nothing_else() {
    let run = |seed| {
        let mut wire = Wire::with_seed(rule(3), seed);
        for psn in 0..2000 {
            wire.give(&ack(psn));
            wire.give(&send_back(psn));
        }
        wire.out.into_iter().map(|out| (out.packet.opcode(), out.packet.psn())).collect::<Vec<_>>()
    };
    let out = run(1);
    let acks = out.iter().filter(|(opcode, _)| *opcode == Opcode::RC_ACKNOWLEDGE).count();
    assert_eq!(out.len() - acks, 2000);
    assert!((1850..1950).contains(&acks), "{acks}");
    assert_eq!(out, run(2));
}

#[test]
fn four_loses_each_tenth_middle_of_read_responses() {
    let mut wire = wire(4);
    wire.give(&read_response(0, Opcode::RC_READ_RESPONSE_FIRST));
    for psn in 1..300 {
        wire.give(&read_response(psn, Opcode::RC_READ_RESPONSE_MIDDLE));
    }
    wire.give(&read_response(300, Opcode::RC_READ_RESPONSE_LAST));
    let psns = wire.psns();
    let lost = (0..=300).filter(|psn| !psns.contains(psn));
    assert_eq!(lost.collect::<Vec<_>>(), (1..=20).map(|n| n * 10).collect::<Vec<_>>());
}

#[test]
fn five_brings_the_last_packet_behind_three_others() {
    let mut wire = wire(5);
    for psn in 0..6 {
        let opcode = if psn == 1 { Opcode::RC_WRITE_LAST } else { Opcode::RC_WRITE_MIDDLE };
        wire.give(&data(opcode, psn));
    }
    assert_eq!(wire.finish().psns(), [0, 2, 3, 4, 1, 5]);
}

#[test]
fn six_has_bursts_for_three_seconds() {
    let mut wire = wire(6);
    let mut lost = Vec::new();
    for time in 0..7000u32 {
        wire.now = ms(time.into());
        if wire.give(&send(time)) == Verdict::Dropped {
            lost.push(time);
        }
    }
    assert!(lost.iter().all(|time| (2000..5000).contains(time)));
    assert!((30..250).contains(&lost.len()), "{}", lost.len());
    let in_bursts = lost.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
    assert!(in_bursts * 3 > lost.len(), "{in_bursts} of {}", lost.len());
}

#[test]
fn seven_damages_the_third_send() {
    let mut wire = wire(7);
    for psn in 0..5 {
        wire.give(&send(psn));
    }
    let right = wire.out.iter().map(|out| out.packet.icrc_is_right());
    assert_eq!(right.collect::<Vec<_>>(), [true, true, false, true, true]);
    assert_ne!(wire.out[2].packet.bytes[12 + 17], 0xaa);
}

#[test]
fn eight_answers_five_times_that_the_receiver_is_not_ready() {
    let mut wire = wire(8);
    wire.injector.learn_peer((LOCAL.into(), LOCAL_QP), (REMOTE.into(), REMOTE_QP));
    for _ in 0..6 {
        wire.give(&send_back(4));
    }
    let answers = &wire.out[..5];
    assert!(answers.iter().all(|out| out.packet.syndrome() == 0x20 | 12 && out.packet.psn() == 4));
    assert!(answers.iter().all(|out| out.packet.meta.direction == Direction::Tx));
    assert_eq!(wire.out[5].packet, send_back(4));
}

#[test]
fn nine_marks_a_fifth_of_the_writes() {
    let mut wire = wire(9);
    for psn in 0..2000 {
        wire.give(&data(Opcode::RC_WRITE_MIDDLE, psn));
        wire.give(&send(psn));
    }
    let marked = wire.out.iter().filter(|out| out.packet.meta.traffic_class == 3);
    let opcodes = marked.map(|out| out.packet.opcode()).collect::<Vec<_>>();
    assert!((320..480).contains(&opcodes.len()), "{}", opcodes.len());
    assert!(opcodes.iter().all(|opcode| *opcode == Opcode::RC_WRITE_MIDDLE));
}

#[test]
fn ten_loses_the_rtu_and_then_delays_the_first_send() {
    let mut wire = wire(10);
    assert_eq!(wire.give(&send(1)), Verdict::Pass);
    assert_eq!(wire.give(&cm(0x14, &[])), Verdict::Dropped);
    assert_eq!(wire.give(&send(2)), Verdict::Taken);
    assert_eq!(wire.give(&cm(0x14, &[])), Verdict::Pass);
    assert_eq!(wire.give(&send(3)), Verdict::Pass);
    wire.finish();
    let late = wire.out.last().expect("released");
    assert_eq!(late.packet, send(2));
    assert!((ms(150)..=ms(250)).contains(&late.at), "{:?}", late.at);
}

/// The code block of a language that begins with `start`.
fn block(start: &str) -> &'static str {
    let rest = PAGE.split_once(start).expect("a block").1;
    rest.split_once("```").expect("an end").0
}

#[test]
fn the_rest_of_the_page_is_true_as_well() {
    assert_eq!(Plan::from_toml(block("```toml\n")).expect("good TOML").len(), 2);
    let mut shorthands = 0;
    for row in PAGE.lines().filter(|line| line.ends_with(" also` |")) {
        let texts = row.split('`').skip(1).step_by(2).collect::<Vec<_>>();
        let (rule, texts) = texts.split_last().expect("a rule");
        let shorthand = texts.last().expect("a shorthand");
        assert_eq!(&shorthand.parse::<Plan>().expect("good").to_string(), rule);
        shorthands += 1;
    }
    assert_eq!(shorthands, 9);
}
