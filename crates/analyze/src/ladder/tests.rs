use proptest::prelude::*;
use uroce_wire::{NakCode, Reth, Syndrome};

use super::*;
use crate::sample::{answer, packet};
use crate::track::{Tracker, TrackerConfig};
use crate::{Packet, Timestamp};

/// Packets one microsecond apart, with frame numbers.
fn numbered(packets: impl IntoIterator<Item = Packet>) -> Vec<Packet> {
    spaced(Duration::from_micros(1), packets)
}

fn spaced(pause: Duration, packets: impl IntoIterator<Item = Packet>) -> Vec<Packet> {
    let numbers = 1..;
    let place = |(packet, frame): (Packet, u64)| Packet {
        frame,
        time: Timestamp::from_nanos(frame * pause.as_nanos() as u64),
        ..packet
    };
    packets.into_iter().zip(numbers).map(place).collect()
}

fn draw(packets: &[Packet], config: LadderConfig) -> Ladder {
    let mut builder = LadderBuilder::new(config);
    packets.iter().for_each(|packet| builder.handle_packet(packet, Mark::default()));
    builder.finish().expect("there are packets")
}

/// What the tracker says about packets that follow each other too slowly to be copies that the network made.
fn ladder(packets: impl IntoIterator<Item = Packet>) -> Ladder {
    let mut tracker = Tracker::new(TrackerConfig::default());
    let mut builder = LadderBuilder::new(LadderConfig::default());
    for packet in spaced(Duration::from_micros(10), packets) {
        let annotation = tracker.handle_packet(&packet, &[]);
        builder.handle_packet(&packet, Mark { misses: annotation.misses(), ..Mark::default() });
    }
    builder.finish().expect("there are packets")
}

fn arrows(ladder: &Ladder) -> Vec<&Arrow> {
    let mut arrows = Vec::new();
    for row in &ladder.rows {
        if let Row::Arrow(arrow) = row {
            arrows.push(arrow);
        }
    }
    arrows
}

fn request(psn: u32) -> Packet {
    packet(Opcode::RC_SEND_ONLY, 0x12, psn)
}

fn write(length: u32) -> Vec<Packet> {
    let opcode = |psn| match psn {
        0 => Opcode::RC_WRITE_FIRST,
        psn if psn == length - 1 => Opcode::RC_WRITE_LAST,
        _ => Opcode::RC_WRITE_MIDDLE,
    };
    let part = |psn| Packet { payload_len: 1024, ..packet(opcode(psn), 0x12, 0xff_fff0 + psn) };
    (0..length).map(part).collect()
}

#[test]
fn no_packets_no_ladder() {
    assert_eq!(LadderBuilder::new(LadderConfig::default()).finish(), None);
}

#[test]
fn the_first_sender_is_on_the_left() {
    let ladder = ladder([request(0), answer(0x11, 0, Syndrome::ack(1))]);
    let directions: Vec<_> = arrows(&ladder).iter().map(|arrow| arrow.to_right).collect();
    assert_eq!(directions, [true, false]);
    assert_eq!(ladder.ends.map(|end| end.qpn.map(Qpn::get)), [Some(0x11), Some(0x12)]);
    assert_eq!(ladder.ends[0].address.to_string(), "10.0.0.1");
}

#[test]
fn other_queue_pairs_are_counted_and_not_drawn() {
    let other = packet(Opcode::RC_SEND_ONLY, 0x99, 0);
    let ladder = ladder([request(0), other, answer(0x11, 0, Syndrome::ack(1))]);
    assert_eq!((arrows(&ladder).len(), ladder.elsewhere), (2, 1));
}

#[test]
fn two_queue_pairs_of_one_address_have_two_lines() {
    let home = request(0).destination;
    let here = |packet: Packet| Packet { source: home, destination: home, ..packet };
    let ladder = ladder([here(request(0)), here(answer(0x11, 0, Syndrome::ack(1)))]);
    let directions: Vec<_> = arrows(&ladder).iter().map(|arrow| arrow.to_right).collect();
    assert_eq!(directions, [true, false]);
}

#[test]
fn connection_management_is_drawn_between_the_same_lines() {
    let management = packet(Opcode::UD_SEND_ONLY, 1, 0);
    let ladder = ladder([management, request(5), answer(0x11, 5, Syndrome::ack(1))]);
    assert_eq!(arrows(&ladder).len(), 3);
    assert_eq!(arrows(&ladder)[0].kind, ArrowKind::Other);
    assert_eq!(ladder.ends.map(|end| end.qpn.map(Qpn::get)), [Some(0x11), Some(0x12)]);
}

#[test]
fn labels_say_what_a_packet_is() {
    let reth = Reth { va: 0, rkey: 0, length: 4096 };
    let read = Packet { reth: Some(reth), ..packet(Opcode::RC_READ_REQUEST, 0x12, 7) };
    let ladder = ladder([
        Packet { payload_len: 12, ..request(5) },
        read,
        packet(Opcode::CNP, 0x12, 0),
        answer(0x11, 5, Syndrome::rnr(14)),
        answer(0x11, 5, Syndrome::nak(NakCode::RemoteAccess)),
        answer(0x11, 5, Syndrome(0x7e)),
        packet(Opcode(0xc5), 0x12, 0),
    ]);
    let labels: Vec<_> = arrows(&ladder).iter().map(|arrow| arrow.label.as_str()).collect();
    assert_eq!(labels[..3], ["SEND Only 0x5 12 B", "READ request 0x7 of 4096 B", "CNP"]);
    assert_eq!(labels[3], "RNR NAK, wait 1.28 ms 0x5 msn 0");
    assert_eq!(labels[4], "NAK: remote access error 0x5 msn 0");
    assert_eq!(labels[5..], ["NAK: reserved code 30 0x5 msn 0", "opcode 0xc5 0x0"]);
}

#[test]
fn r15_relative_numbers_go_over_the_wrap() {
    let config = LadderConfig { psns: PsnStyle::Relative, ..LadderConfig::default() };
    let packets = [request(0xff_ffff), request(0), answer(0x11, 0, Syndrome::ack(1))];
    let ladder = draw(&numbered(packets), config);
    let labels: Vec<_> = arrows(&ladder).iter().map(|arrow| arrow.label.as_str()).collect();
    assert_eq!(labels, ["SEND Only 0", "SEND Only 1", "ACK 1 msn 0"]);
}

#[test]
fn both_requesters_count_from_their_own_first() {
    let config = LadderConfig { psns: PsnStyle::Relative, ..LadderConfig::default() };
    let back = Packet {
        source: request(0).destination,
        destination: request(0).source,
        ..packet(Opcode::RC_SEND_ONLY, 0x11, 900)
    };
    let ladder = draw(&numbered([request(5), back]), config);
    let labels: Vec<_> = arrows(&ladder).iter().map(|arrow| arrow.label.as_str()).collect();
    assert_eq!(labels, ["SEND Only 0", "SEND Only 0"]);
}

#[test]
fn middle_packets_are_folded() {
    let ladder = ladder(write(256));
    let [Row::Arrow(_), Row::Arrow(first), Row::Fold(fold), Row::Arrow(last)] = &ladder.rows[..]
    else {
        panic!("{:?}", ladder.rows)
    };
    assert_eq!((first.frame, last.frame), (2, 256));
    assert_eq!((fold.count, fold.frames), (253, (3, 255)));
    assert_eq!(fold.label, "WRITE Middle 1024 B");
    assert_eq!(fold.psns, ("0xfffff2".to_owned(), "0xee".to_owned()));
}

#[test]
fn few_packets_are_not_folded() {
    assert!(ladder(write(5)).rows.iter().all(|row| matches!(row, Row::Arrow(_))));
    assert!(ladder(write(6)).rows.iter().any(|row| matches!(row, Row::Fold(_))));
}

#[test]
fn whoever_does_not_want_folds_gets_none() {
    let config = LadderConfig { folds: false, ..LadderConfig::default() };
    assert_eq!(draw(&numbered(write(256)), config).rows.len(), 256);
}

#[test]
fn a_message_of_connection_management_is_called_by_its_name() {
    let mut builder = LadderBuilder::new(LadderConfig::default());
    let request = packet(Opcode::UD_SEND_ONLY, 1, 0);
    builder.handle_packet(&request, Mark { message: Some("REQ"), ..Mark::default() });
    let ladder = builder.finish().expect("there is a packet");
    assert_eq!(arrows(&ladder)[0].label, "CM REQ to QP 1");
}

#[test]
fn packets_with_the_same_notes_are_folded_whatever_is_said_aside() {
    let mut builder = LadderBuilder::new(LadderConfig::default());
    for packet in numbered(write(20)) {
        let notes = vec!["sent again".to_owned()];
        let aside = Some(format!("first in frame {}", packet.frame + 100));
        builder.handle_packet(&packet, Mark { notes, aside, ..Mark::default() });
    }
    let ladder = builder.finish().expect("there are packets");
    assert_eq!(arrows(&ladder)[1].notes, ["sent again", "first in frame 102"]);
    assert_eq!(ladder.rows.len(), 4);
}

#[test]
fn a_gap_ends_a_fold() {
    let mut packets = write(30);
    packets.remove(15);
    let ladder = ladder(packets);
    let folds = ladder.rows.iter().filter(|row| matches!(row, Row::Fold(_)));
    assert_eq!(folds.count(), 2);
}

#[test]
fn a_time_without_packets_is_a_row() {
    let mut packets = numbered([request(0), request(1)]);
    packets[1].time = Timestamp::from_nanos(5_001_000);
    let ladder = draw(&packets, LadderConfig::default());
    assert_eq!(ladder.rows[1], Row::Pause(Duration::from_millis(5)));
}

#[test]
fn a_clock_that_goes_back_is_no_pause() {
    let mut packets = numbered([request(0), request(1)]);
    packets[1].time = Timestamp::default();
    let ladder = draw(&packets, LadderConfig::default());
    assert_eq!(arrows(&ladder)[1].time, Duration::ZERO);
    assert_eq!(ladder.rows.len(), 2);
}

#[test]
fn r53_a_nak_tells_which_packet_is_missing() {
    let nak = answer(0x11, 1, Syndrome::nak(NakCode::PsnSequence));
    let ladder = ladder([request(0), request(1), request(2), nak]);
    let lost: Vec<_> = arrows(&ladder).iter().map(|arrow| arrow.is_lost).collect();
    assert_eq!(lost, [false, true, false, false]);
    assert_eq!(arrows(&ladder)[1].notes, ["missing at the receiver: NAK in frame 4"]);
}

#[test]
fn a_second_nak_is_for_the_second_sending() {
    let nak = answer(0x11, 1, Syndrome::nak(NakCode::PsnSequence));
    let ladder = ladder([request(1), request(2), nak, request(1), request(2), nak, nak]);
    let lost: Vec<_> = arrows(&ladder).iter().map(|arrow| arrow.is_lost).collect();
    assert_eq!(lost, [true, false, false, true, false, false, false]);
    assert!(arrows(&ladder)[6].notes.is_empty());
}

#[test]
fn a_missing_packet_that_was_not_captured_marks_no_arrow() {
    let nak = answer(0x11, 1, Syndrome::nak(NakCode::PsnSequence));
    let ladder = ladder([request(0), request(2), nak]);
    assert!(arrows(&ladder).iter().all(|arrow| !arrow.is_lost));
}

/// A responder that keeps nothing behind a gap misses the copy that the round lacks, and not the first one.
#[test]
fn a_copy_that_the_round_of_repetition_lacks_marks_no_arrow() {
    let nak = |psn| answer(0x11, psn, Syndrome::nak(NakCode::PsnSequence));
    let before = [0, 1, 2, 4, 5, 6].map(request);
    let round = [3, 5, 6].map(request);
    let packets = before.into_iter().chain([nak(3)]).chain(round).chain([nak(4)]);
    let ladder = ladder(packets.chain([4, 5, 6].map(request)));
    assert!(arrows(&ladder).iter().all(|arrow| !arrow.is_lost));
}

fn lost_frames(ladder: &Ladder) -> Vec<u64> {
    arrows(ladder).into_iter().filter(|arrow| arrow.is_lost).map(|arrow| arrow.frame).collect()
}

#[test]
fn a_selective_repair_skips_nothing() {
    let nak = |psn| answer(0x11, psn, Syndrome::nak(NakCode::PsnSequence));
    let sent = (0..10).map(request).chain([nak(2), request(2), request(9), nak(4)]);
    let ladder = ladder(sent);
    assert_eq!(lost_frames(&ladder), [3, 5]);
}

#[test]
fn a_copy_of_a_nak_behind_the_retransmission_marks_no_other_arrow() {
    let nak = answer(0x11, 1, Syndrome::nak(NakCode::PsnSequence));
    let lost = |first: &[u32]| {
        let first = first.iter().copied().map(request);
        let ladder = ladder(first.chain([nak, request(1), nak, request(2), request(3)]));
        lost_frames(&ladder)
    };
    assert_eq!(lost(&[0, 2, 3]), [0; 0]);
    assert_eq!(lost(&[0, 1, 2, 3]), [2]);
}

#[test]
fn packets_beyond_the_limit_are_counted() {
    let config = LadderConfig { most_packets: 3, ..LadderConfig::default() };
    let ladder = draw(&numbered((0..10).map(request)), config);
    assert_eq!((arrows(&ladder).len(), ladder.left_out), (3, 7));
}

fn with_loss() -> Ladder {
    let mut builder = LadderBuilder::new(LadderConfig::default());
    let mut packets =
        numbered(write(40).into_iter().chain([
            answer(0x11, 5, Syndrome::ack(1)),
            Packet { payload_len: 9, ..request(0x30) },
        ]));
    packets[41].time = Timestamp::from_nanos(67_000_000);
    for packet in &packets {
        let is_last = packet.frame == 42;
        let notes = ["retransmission: local ACK timeout", "after 66.9 ms of silence"];
        let notes = if is_last { notes.map(String::from).to_vec() } else { Vec::new() };
        let mark = Mark { is_retransmission: is_last, is_lost: is_last, notes, ..Mark::default() };
        builder.handle_packet(packet, mark);
    }
    builder.finish().expect("there are packets")
}

#[test]
fn the_text_of_a_ladder() {
    let style = TextStyle { width: 110, has_colour: false };
    let expected = "                 10.0.0.1                       10.0.0.2
                 QP 0x000011                 QP 0x000012
frame    time/s  |                                     |
    1  0.000000  |-- WRITE First 0xfffff0 1024 B ----->|
    2  0.000001  |-- WRITE Middle 0xfffff1 1024 B ---->|
  ...  0.000038  |   ... 37 more WRITE Middle 1024 B   |  PSN 0xfffff2..0x16, frames 3..39
   40  0.000039  |-- WRITE Last 0x17 1024 B ---------->|
   41  0.000040  |<------------------- ACK 0x5 msn 0 --|
                 :           ... 67.0 ms ...           :
   42  0.066999  |-- SEND Only 0x30 9 B -----------X   |  retransmission: local ACK timeout; after 66.9 ms of
                 |                                     |  silence
";
    assert_eq!(with_loss().to_text(style), expected);
}

#[test]
fn a_narrow_terminal_is_respected() {
    for width in [60, 80, 132] {
        let text = with_loss().to_text(TextStyle { width, has_colour: false });
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(width.max(74)), "{width}: {text}");
    }
}

#[test]
fn colour_only_if_asked_for() {
    let plain = with_loss().to_text(TextStyle::default());
    let painted = with_loss().to_text(TextStyle { has_colour: true, ..TextStyle::default() });
    assert!(!plain.contains('\x1b') && painted.contains("\x1b[31m"));
}

/// A note that wants to be more than text.
const HOSTILE: &str = "</text><script>alert(\"1\")</script>&amp;\x1b[2J\u{0}'\u{ffff}";

#[test]
fn strangers_text_stays_text() {
    let mut builder = LadderBuilder::new(LadderConfig::default());
    let mark = Mark { notes: vec![HOSTILE.to_owned()], ..Mark::default() };
    builder.handle_packet(&request(0), mark);
    let ladder = builder.finish().expect("a packet");
    let (text, svg) = (ladder.to_text(TextStyle::default()), ladder.to_svg());
    assert!(!text.contains('\x1b') && !svg.contains('\x1b') && !svg.contains('\u{0}'));
    assert!(!svg.contains("<script") && svg.contains("&lt;script&gt;"));
    assert_well_formed(&svg);
}

/// Every element that begins ends, in order; every `<` and `&` is one of XML's own.
fn assert_well_formed(xml: &str) {
    let mut open = Vec::new();
    for part in xml.split('<').skip(1) {
        let (tag, text) = part.split_once('>').expect("a tag ends");
        assert!(!text.contains('>'), "{part}");
        let entities = text.split('&').skip(1);
        for entity in entities {
            let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
            assert!(known.iter().any(|name| entity.starts_with(name)), "{part}");
        }
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if tag.ends_with('/') => {}
            None => open.push(tag.split(' ').next().unwrap_or(tag)),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_drawing_needs_nothing_else() {
    let svg = with_loss().to_svg();
    assert_well_formed(&svg);
    assert!(svg.contains("prefers-color-scheme") && svg.contains("37 more WRITE Middle"));
    assert!(!svg.contains("href") && !svg.contains("url(") && !svg.contains("<script"));
    assert_eq!(svg.matches("http").count(), 1, "the name space of SVG");
}

#[test]
fn a_drawing_is_not_as_wide_as_a_long_comment() {
    let mut builder = LadderBuilder::new(LadderConfig::default());
    let notes = vec!["x".repeat(60_000), "sent again".to_owned()];
    builder.handle_packet(&request(0), Mark { notes, ..Mark::default() });
    let svg = builder.finish().expect("there is a packet").to_svg();
    let (_, width) = svg.split_once("width=\"").expect("it has a width");
    let width = width.split('"').next().and_then(|width| width.parse::<u32>().ok());
    assert!(width.expect("a number") < 2500, "{width:?}");
    assert!(svg.contains("xxx~; sent again"), "the rest is there");
}

proptest! {
    #[test]
    fn any_packets_can_be_drawn(
        packets in prop::collection::vec((any::<u8>(), 0u32..4, 0u32..4, any::<u8>(), any::<u64>()), 0..60),
        note: String,
        width in 0usize..200,
    ) {
        let mut builder = LadderBuilder::new(LadderConfig { most_packets: 40, ..LadderConfig::default() });
        for (opcode, qpn, psn, syndrome, time) in packets {
            let opcode = Opcode(opcode);
            let base = if opcode.0.is_multiple_of(2) { packet(opcode, qpn, psn) } else {
                Packet { bth: packet(opcode, qpn, psn).bth, ..answer(qpn, psn, Syndrome(syndrome)) }
            };
            let packet = Packet { time: Timestamp::from_nanos(time), ..base };
            let mark = Mark { notes: vec![note.clone()], is_lost: time % 3 == 0, ..Mark::default() };
            builder.handle_packet(&packet, mark);
        }
        if let Some(ladder) = builder.finish() {
            let _ = ladder.to_text(TextStyle { width, has_colour: true });
            assert_well_formed(&ladder.to_svg());
        }
    }
}
