//! Ladders draw each packet once, whatever comes; numbers and strange texts as people read them.

use std::time::Duration;

use proptest::prelude::*;
use uroce_analyze::quantity::{bit_rate, bytes, count, duration, percent};
use uroce_analyze::{
    Ladder, LadderBuilder, LadderConfig, Mark, Packet, PsnStyle, Row, TextStyle, Timestamp,
    printable,
};
use uroce_wire::{Bth, Opcode, Psn, Qpn};

/// Opcode, PSN, way, time since the packet before in microseconds, lost, a note.
type Step = (u8, u32, bool, u64, bool, bool);

fn step() -> impl Strategy<Value = Step> {
    let opcode = prop::sample::select(vec![
        0x06u8, 0x07, 0x07, 0x07, 0x07, 0x08, 0x0e, 0x0e, 0x11, 0x81, 0xc5,
    ]);
    (
        opcode,
        0u32..4,
        any::<bool>(),
        prop::sample::select(vec![1u64, 1, 1, 5_000]),
        prop::bool::weighted(0.1),
        any::<bool>(),
    )
}

/// Packets of two ends, most of which follow each other by PSN.
fn packets(steps: &[Step]) -> Vec<(Packet, Mark)> {
    let (mut time, mut psn) = (0, 0xff_fffc_u32);
    let mut made = Vec::new();
    for (index, (opcode, jump, to_right, wait, is_lost, has_note)) in steps.iter().enumerate() {
        time += wait * 1_000;
        psn = psn.wrapping_add(if *jump == 0 { 3 } else { 1 });
        let ends = ["10.0.0.1:50000", "10.0.0.2:50000"].map(|end| end.parse().expect("an address"));
        let (from, to) = if *to_right { (0, 1) } else { (1, 0) };
        let bth = Bth::new(Opcode(*opcode), Qpn::new([0x11, 0x22][to]), Psn::new(psn));
        let packet = Packet {
            frame: index as u64 + 1,
            time: Timestamp::from_nanos(time),
            source: ends[from],
            destination: ends[to],
            payload_len: 1024,
            ..Packet::new(bth)
        };
        let notes = if *has_note { vec!["sent again".to_owned()] } else { Vec::new() };
        made.push((packet, Mark { is_lost: *is_lost, notes, ..Mark::default() }));
    }
    made
}

fn draw(steps: &[Step], config: LadderConfig) -> Option<Ladder> {
    let mut builder = LadderBuilder::new(config);
    packets(steps).into_iter().for_each(|(packet, mark)| builder.handle_packet(&packet, mark));
    builder.finish()
}

/// Packets that the rows of a ladder stand for.
fn drawn(ladder: &Ladder) -> u64 {
    let of = |row: &Row| match row {
        Row::Arrow(_) => 1,
        Row::Fold(fold) => fold.count,
        Row::Pause(_) => 0,
    };
    ladder.rows.iter().map(of).sum()
}

proptest! {
    #[test]
    fn each_packet_is_drawn_folded_or_counted_once(
        steps in prop::collection::vec(step(), 1..60), folds: bool, most_packets in 1usize..80,
    ) {
        let config = LadderConfig { folds, most_packets, ..LadderConfig::default() };
        let ladder = draw(&steps, config).expect("there are packets");
        prop_assert_eq!(drawn(&ladder) + ladder.left_out + ladder.elsewhere, steps.len() as u64);
        prop_assert!(drawn(&ladder) <= most_packets as u64);
        let pauses = ladder.rows.iter().filter(|row| matches!(row, Row::Pause(_)));
        prop_assert!(pauses.clone().all(|row| matches!(row, Row::Pause(time) if *time >= config.pause)));
        let is_fold = |row: &Row| matches!(row, Row::Fold(_));
        prop_assert!(folds || !ladder.rows.iter().any(is_fold));
        // A fold has an arrow above it, which it goes on from.
        for pair in ladder.rows.windows(2).filter(|pair| is_fold(&pair[1])) {
            let (Row::Arrow(arrow), Row::Fold(fold)) = (&pair[0], &pair[1]) else {
                return Err(TestCaseError::fail("no arrow above a fold"));
            };
            prop_assert!(fold.count >= 3 && fold.to_right == arrow.to_right);
            prop_assert_eq!(fold.frames, (arrow.frame + 1, arrow.frame + fold.count));
        }
    }

    /// One line for each row at least, and two renderers that take anything.
    #[test]
    fn a_ladder_of_any_packets_is_written(
        steps in prop::collection::vec(step(), 1..40), width in 0usize..200, has_colour: bool, relative: bool,
    ) {
        let psns = if relative { PsnStyle::Relative } else { PsnStyle::Absolute };
        let ladder = draw(&steps, LadderConfig { psns, ..LadderConfig::default() }).expect("there are packets");
        let text = ladder.to_text(TextStyle { width, has_colour });
        prop_assert!(text.lines().count() >= ladder.rows.len() + 3, "the head has three lines");
        let has_escape = text.contains('\u{1b}');
        prop_assert!(has_colour || !has_escape);
        prop_assert!(text.lines().all(|line| line.trim_end() == line));
        let svg = ladder.to_svg();
        prop_assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    }
}

#[test]
fn without_packets_there_is_no_ladder() {
    assert_eq!(draw(&[], LadderConfig::default()), None);
}

#[test]
fn times_change_their_unit_and_digits_at_the_edges() {
    let cases = [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1.00 us"),
        (9_994, "9.99 us"),
        (9_996, "10.0 us"),
        (99_940, "99.9 us"),
        (99_960, "100 us"),
        (999_000, "999 us"),
        (1_000_000, "1.00 ms"),
        (1_000_000_000, "1.00 s"),
        (3_600_000_000_000, "3600 s"),
    ];
    for (nanoseconds, text) in cases {
        assert_eq!(duration(Duration::from_nanos(nanoseconds)), text, "{nanoseconds}");
    }
}

#[test]
fn sizes_rates_and_parts_at_the_edges() {
    let sizes = [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1 << 20, "1.00 MiB"),
        (u64::MAX, "16.0 EiB"),
    ];
    for (size, text) in sizes {
        assert_eq!(bytes(size), text);
    }
    let rates = [
        (0, "0.00 b/s"),
        (1, "8.00 b/s"),
        (125, "1.00 kb/s"),
        (125_000, "1.00 Mb/s"),
        (12_500_000, "100 Mb/s"),
    ];
    for (size, text) in rates {
        assert_eq!(bit_rate(size, Duration::from_secs(1)).as_deref(), Some(text));
    }
    let parts = [
        (0, 7, "0 %"),
        (1, 20_000, "<0.01 %"),
        (1, 10_000, "0.01 %"),
        (1, 11, "9.09 %"),
        (1, 10, "10.0 %"),
        (7, 7, "100.0 %"),
    ];
    for (part, whole, text) in parts {
        assert_eq!(percent(part, whole).as_deref(), Some(text), "{part} of {whole}");
    }
    assert_eq!(
        (count(0, "frame"), count(1, "frame")),
        ("0 frames".to_owned(), "1 frame".to_owned())
    );
}

#[test]
fn texts_of_strangers_command_no_terminal() {
    for letter in (0u32..0x20)
        .chain(0x7f..0xa0)
        .chain(0x202a..=0x202e)
        .chain(0x2066..=0x2069)
        .chain([0xfffe, 0xffff])
    {
        let letter = char::from_u32(letter).expect("a letter");
        assert_eq!(printable(&format!("a{letter}b")), "a\u{fffd}b", "{letter:?}");
    }
    for text in ["", "plain", "äöü", "日本語", "<&>\"'"] {
        assert_eq!(printable(text), text);
    }
}
