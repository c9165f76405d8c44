//! Messages that no sound kernel sends.

use proptest::prelude::*;

use super::*;

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn message(kind: u16, sequence: u32, length: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    let mut header = NetlinkBuffer::new(&mut bytes[..]);
    header.set_length(length);
    header.set_message_type(kind);
    header.set_sequence_number(sequence);
    bytes.extend(body);
    bytes
}

#[test]
fn of_attributes_that_are_cut_off_the_whole_ones_are_read() {
    let parts = [attribute(1, &[1; 5]), attribute(2, &[]), attribute(3, &[3; 8])];
    let whole = parts.concat();
    let ends = [4 + 5, 12 + 4, 16 + 12];
    for length in 0..=whole.len() {
        let expected = ends.iter().filter(|&&end| end <= length).count();
        let kinds: Vec<u16> = attributes(&whole[..length]).map(|(kind, _)| kind).collect();
        assert_eq!(kinds, (1..=expected as u16).collect::<Vec<_>>(), "{length} bytes");
    }
    assert_eq!(find(&whole, 2), Some(&[][..]), "an attribute may be empty");
    assert_eq!(find(&whole, 3), Some(&[3; 8][..]));
}

#[test]
fn a_length_that_cannot_be_ends_the_list() {
    for length in [0u16, 1, 3, 13, 4096, u16::MAX] {
        let mut bytes = [attribute(1, &[7; 4]), attribute(2, &[8; 8])].concat();
        bytes[8..10].copy_from_slice(&length.to_ne_bytes());
        assert_eq!(find(&bytes, 1), Some(&[7; 4][..]), "length {length}");
        assert_eq!(find(&bytes, 2), None, "length {length}");
    }
}

#[test]
fn of_two_attributes_of_a_kind_the_first_counts() {
    let bytes = [attribute(9, b"a"), attribute(4, b"first"), attribute(4, b"second")].concat();
    assert_eq!(find(&bytes, 4), Some(&b"first"[..]));
    assert_eq!(find(&[], 4), None);
}

#[test]
fn a_nested_attribute_is_found_with_its_flag_or_without() {
    let inner = attribute(2, b"inner");
    for flag in [0, netlink_packet_core::NLA_F_NESTED] {
        let outer = attribute(6 | flag, &inner);
        assert_eq!(find(&outer, 6).and_then(|inner| find(inner, 2)), Some(&b"inner"[..]));
    }
}

#[test]
fn an_answer_is_as_long_as_it_says_or_as_what_arrived() {
    let body = [5; 8];
    for (length, expected) in [(16, &body[..0]), (20, &body[..4]), (24, &body), (u32::MAX, &body)] {
        assert_eq!(answer(&message(26, 3, length, &body), 3), Some(Ok(expected)), "{length}");
    }
    for length in [0, 1, 15] {
        assert_eq!(answer(&message(26, 3, length, &body), 3), None, "shorter than its header");
    }
}

#[test]
fn what_is_shorter_than_a_header_or_of_another_question_is_no_answer() {
    let whole = message(26, 3, 24, &[5; 8]);
    for length in 0..HEADER {
        assert_eq!(answer(&whole[..length], 3), None);
        assert_eq!(answer(&whole[..length], 0), None);
    }
    assert_eq!(answer(&whole, 2), None);
}

#[test]
fn an_error_without_its_number_is_no_answer_and_one_that_cannot_be_is_told_as_such() {
    for length in 0..4 {
        assert_eq!(answer(&message(NLMSG_ERROR, 3, 36, &[0xff; 4][..length]), 3), None);
    }
    for (code, expected) in [
        (-1, Errno::PERM),
        (-libc::ENOENT, Errno::NOENT),
        (-4095, Errno::from_raw_os_error(4095)),
        (-4096, Errno::PROTO),
        (i32::MIN, Errno::PROTO),
        (0, Errno::PROTO),
        (1, Errno::PROTO),
        (i32::MAX, Errno::PROTO),
    ] {
        let bytes = message(NLMSG_ERROR, 3, 36, &code.to_ne_bytes());
        assert_eq!(answer(&bytes, 3), Some(Err(expected)), "{code}");
    }
}

#[test]
fn an_answer_to_an_earlier_question_is_skipped() {
    let mut socket = NetlinkSocket::open(None, 4096).expect("netlink");
    // Questions whose answers nobody reads.
    let header = crate::netlink::message::FixedPart::of_link(1);
    for sequence in 100..100 + MAX_SKIPPED as u32 - 1 {
        let mut bytes = [0; REQUEST];
        let none = &[] as &[netlink_packet_core::DefaultNla];
        let length = write(&mut bytes, (libc::RTM_GETLINK, NLM_F_REQUEST, sequence), &header, none);
        rustix::net::send(&socket.socket, &bytes[..length], SendFlags::empty()).expect("sent");
    }
    let none = &[] as &[netlink_packet_core::DefaultNla];
    let found = socket.ask(libc::RTM_GETLINK, &header, none).expect("the right answer");
    assert_eq!(found[4..8], 1u32.to_ne_bytes(), "lo");
}

proptest! {
    #[test]
    fn values_lie_behind_each_other_inside_of_the_bytes(
        parts in prop::collection::vec((1u16..0x1000, prop::collection::vec(any::<u8>(), 0..9)), 0..9),
        noise in prop::collection::vec(any::<u8>(), 0..16),
        flip in any::<prop::sample::Index>(),
    ) {
        let mut bytes: Vec<u8> =
            parts.iter().flat_map(|(kind, value)| attribute(*kind, value)).collect();
        let read: Vec<_> = attributes(&bytes).map(|(kind, value)| (kind, value.to_vec())).collect();
        prop_assert_eq!(read, parts);
        bytes.extend(noise);
        if !bytes.is_empty() {
            let at = flip.index(bytes.len());
            bytes[at] = !bytes[at];
        }
        let mut end = bytes.as_ptr() as usize;
        for (_, value) in attributes(&bytes) {
            prop_assert!(value.as_ptr() as usize >= end + 4);
            end = value.as_ptr() as usize + value.len();
        }
        prop_assert!(end <= bytes.as_ptr() as usize + bytes.len());
    }
}
