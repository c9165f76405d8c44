//! Captures that are written come back as they were.

use std::io;

use proptest::prelude::*;
use uroce_analyze::{CaptureReader, CaptureWriter, Direction, Frame, LinkType, Timestamp};

/// What a frame is made of: interface, link type, time, direction, bytes cut off, data, comment.
type Made = (u32, LinkType, u64, Option<Direction>, u32, Vec<u8>, String);

fn made() -> impl Strategy<Value = Made> {
    let link_type = prop::sample::select(vec![
        LinkType::Ethernet,
        LinkType::RawIp,
        LinkType::Null,
        LinkType::Loop,
        LinkType::LinuxSll,
        LinkType::LinuxSll2,
        LinkType::Infiniband,
        LinkType::Erf,
    ]);
    let direction =
        prop::sample::select(vec![None, Some(Direction::Inbound), Some(Direction::Outbound)]);
    let data = prop::collection::vec(any::<u8>(), 0..120);
    (0u32..4, link_type, any::<u64>(), direction, 0u32..100, data, "[a-zäö ;]{0,12}")
}

fn frame<'a>(made: &'a Made, number: u64) -> Frame<'a> {
    let (interface, link_type, time, direction, cut, data, comment) = made;
    Frame {
        number,
        interface: *interface,
        time: Timestamp::from_nanos(*time),
        link_type: *link_type,
        direction: *direction,
        original_len: data.len() as u32 + cut,
        data,
        comment,
    }
}

proptest! {
    #[test]
    fn a_frame_comes_back_with_all_that_is_known_of_it(
        frames in prop::collection::vec(made(), 0..20), more in "[a-z]{0,8}",
    ) {
        let mut writer = CaptureWriter::new(vec![]).expect("a vector takes everything");
        for (number, made) in (1..).zip(&frames) {
            writer.write_frame(&frame(made, number), &[&more]).expect("room");
        }
        let bytes = writer.finish().expect("room");
        let mut reader = CaptureReader::new(&bytes[..]).expect("a capture");
        for (number, made) in (1..).zip(&frames) {
            let wanted = frame(made, number);
            let found = reader.next_frame().expect("whole").expect("a frame");
            prop_assert_eq!((found.number, found.time), (number, wanted.time));
            prop_assert_eq!((found.link_type, found.direction), (wanted.link_type, wanted.direction));
            prop_assert_eq!((found.original_len, found.data), (wanted.original_len, wanted.data));
            let comments = [wanted.comment, &more].into_iter().filter(|text| !text.is_empty());
            prop_assert_eq!(found.comment, comments.collect::<Vec<_>>().join("; "));
        }
        prop_assert!(reader.next_frame().expect("whole").is_none());
    }

    #[test]
    fn frames_of_one_interface_stay_together_and_those_of_others_apart(
        frames in prop::collection::vec(made(), 1..20),
    ) {
        let mut writer = CaptureWriter::new(vec![]).expect("a vector takes everything");
        for (number, made) in (1..).zip(&frames) {
            writer.write_frame(&frame(made, number), &[]).expect("room");
        }
        let bytes = writer.finish().expect("room");
        let mut reader = CaptureReader::new(&bytes[..]).expect("a capture");
        let mut numbers = vec![];
        while let Some(found) = reader.next_frame().expect("whole") {
            numbers.push(found.interface);
        }
        for (one, first) in frames.iter().zip(&numbers) {
            for (other, second) in frames.iter().zip(&numbers) {
                prop_assert_eq!((one.0, one.1) == (other.0, other.1), first == second);
            }
        }
    }
}

/// Takes so many bytes, and then nothing more.
struct Full(usize);

impl io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_the_sink_says_is_told() {
    assert!(CaptureWriter::new(Full(0)).is_err());
    let made = (0, LinkType::Ethernet, 0, None, 0, vec![1; 60], String::new());
    let mut writer = CaptureWriter::new(Full(100)).expect("room for the section");
    let error = writer.write_frame(&frame(&made, 1), &[]).expect_err("no room for the frame");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn more_interfaces_than_a_file_can_have_share_the_last_one() {
    let mut writer = CaptureWriter::new(vec![]).expect("a vector takes everything");
    for interface in 0..5000 {
        let made = (interface, LinkType::Ethernet, 0, None, 0, vec![1], String::new());
        writer.write_frame(&frame(&made, 1), &[]).expect("room");
    }
    let bytes = writer.finish().expect("room");
    let mut reader = CaptureReader::new(&bytes[..]).expect("a capture");
    let mut last = 0;
    let mut count = 0;
    while let Some(found) = reader.next_frame().expect("whole") {
        assert!(found.interface == last || found.interface == last + 1);
        last = found.interface;
        count += 1;
    }
    assert_eq!((count, last), (5000, 4095));
}
