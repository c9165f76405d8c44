//! Each block of a capture, byte by byte as the format has it.

use std::time::Duration;

use uroce_datapath::{Direction, PcapBlocks, PcapRecord, PcapStatistics};

/// A block with its length on both ends.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes(), &length, body, &length].concat()
}

/// An option, filled up to whole words.
fn option(number: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [number.to_le_bytes(), (value.len() as u16).to_le_bytes()].concat();
    bytes.extend(value);
    while !bytes.len().is_multiple_of(4) {
        bytes.push(0);
    }
    bytes
}

const END: [u8; 4] = [0; 4];

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn made(make: impl FnOnce(&mut PcapBlocks)) -> Vec<u8> {
    let mut blocks = PcapBlocks::default();
    make(&mut blocks);
    blocks.bytes().to_vec()
}

fn record<'a>(data: &'a [u8], comments: &'a [&'a str]) -> PcapRecord<'a> {
    let time = Duration::from_nanos(0x0102_0304_0506_0708);
    let direction = Direction::Inbound;
    PcapRecord { interface: 3, time, original_len: 77, direction, data, lost: 0, comments }
}

#[test]
fn a_section_tells_byte_order_version_and_program() {
    let application = format!("uroce {}", env!("CARGO_PKG_VERSION"));
    let body = [
        &[0x4d, 0x3c, 0x2b, 0x1a][..],
        &[1, 0, 0, 0],
        &[0xff; 8],
        &option(4, application.as_bytes()),
        &END,
    ];
    assert_eq!(made(PcapBlocks::section), block(0x0a0d_0d0a, &body.concat()));
}

#[test]
fn an_interface_tells_link_type_snap_length_name_and_resolution() {
    for (name, link_type, snap_len) in [("eth0", 1, 96u32), ("wg", 101, 0), ("", 1, u32::MAX)] {
        let body = [
            &[link_type as u8, 0, 0, 0][..],
            &snap_len.to_le_bytes(),
            &option(2, name.as_bytes()),
            &option(9, &[9]),
            &END,
        ];
        let interface = made(|blocks| blocks.interface(name, link_type, snap_len));
        assert_eq!(interface, block(1, &body.concat()), "{name}");
    }
}

#[test]
fn a_packet_tells_interface_time_lengths_direction_and_comments() {
    for data in [&[][..], &[2], &[2, 3, 4], &[2, 3, 4, 5]] {
        let mut padded = data.to_vec();
        padded.resize(data.len().next_multiple_of(4), 0);
        let body = [
            words(&[3, 0x0102_0304, 0x0506_0708, data.len() as u32, 77]),
            padded,
            option(2, &[0b0101, 0, 0, 0]),
            option(1, b"one"),
            option(1, "zw\u{f6}lf".as_bytes()),
            END.to_vec(),
        ];
        let packet = made(|blocks| blocks.packet(&record(data, &["one", "zw\u{f6}lf"])));
        assert_eq!(packet, block(6, &body.concat()), "{data:?}");
    }
}

#[test]
fn direction_and_kind_of_address_are_in_the_flags() {
    for (direction, first, expected) in [
        (Direction::Inbound, 2, 0b0101),
        (Direction::Outbound, 2, 0b0110),
        (Direction::Inbound, 0x33, 0b1001),
        (Direction::Outbound, 0xff, 0b1010),
    ] {
        let data = [first, 0, 0, 0];
        let packet = made(|blocks| {
            blocks.packet(&PcapRecord { direction, ..record(&data, &[]) });
        });
        let flags = 8 + 20 + 4;
        assert_eq!(packet[flags..flags + 8], [2, 0, 4, 0, expected, 0, 0, 0], "{direction:?}");
    }
}

#[test]
fn statistics_tell_what_came_and_what_was_lost() {
    let time = Duration::from_secs(1);
    let body = [
        words(&[9, 0, 1_000_000_000]),
        option(4, &70u64.to_le_bytes()),
        option(5, &u64::MAX.to_le_bytes()),
        option(1, b"two links"),
        END.to_vec(),
    ];
    let (received, dropped, comments) = (70, u64::MAX, &["two links"][..]);
    let statistics = PcapStatistics { interface: 9, time, received, dropped, comments };
    let statistics = made(|blocks| blocks.statistics(&statistics));
    assert_eq!(statistics, block(5, &body.concat()));
}

#[test]
fn a_time_that_has_no_number_is_the_last_one_that_has() {
    let packet = made(|blocks| {
        blocks.packet(&PcapRecord { time: Duration::MAX, ..record(&[], &[]) });
    });
    assert_eq!(packet[12..20], [0xff; 8]);
}

#[test]
fn a_text_that_is_too_long_is_cut_between_characters() {
    // Two bytes each: the limit is in the middle of one.
    let long = "\u{f6}".repeat(40_000);
    let comment = |packet: &[u8]| {
        let start = 8 + 20 + 8;
        let length = usize::from(u16::from_le_bytes([packet[start + 2], packet[start + 3]]));
        String::from_utf8(packet[start + 4..start + 4 + length].to_vec()).expect("whole characters")
    };
    let packet = made(|blocks| blocks.packet(&record(&[], &[&long])));
    assert_eq!(comment(&packet), "\u{f6}".repeat(32_767));
    let most = "x".repeat(usize::from(u16::MAX));
    let packet = made(|blocks| blocks.packet(&record(&[], &[&most])));
    assert_eq!(comment(&packet), most);
}

#[test]
fn blocks_that_were_made_before_are_added_as_they_are() {
    let whole = made(|blocks| {
        blocks.section();
        blocks.interface("a", 1, 0);
    });
    let mut blocks = PcapBlocks::with_capacity(1);
    blocks.extend(&whole);
    blocks.statistics(&PcapStatistics::default());
    let expected = made(|blocks| blocks.statistics(&PcapStatistics::default()));
    assert_eq!(blocks.bytes(), [whole, expected].concat());
    blocks.clear();
    assert!(blocks.bytes().is_empty());
}
