//! Datagrams of dumps, sound and malformed.

use proptest::prelude::*;

use super::*;

const KIND: u16 = libc::RTM_NEWLINK;
const SEQUENCE: u32 = 7;

fn message(kind: u16, sequence: u32, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    let mut header = NetlinkBuffer::new(&mut bytes[..]);
    header.set_length((HEADER + body.len()) as u32);
    header.set_message_type(kind);
    header.set_flags(flags);
    header.set_sequence_number(sequence);
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn entry(body: &[u8]) -> Vec<u8> {
    message(KIND, SEQUENCE, 0, body)
}

fn done(code: i32) -> Vec<u8> {
    message(NLMSG_DONE, SEQUENCE, 0, &code.to_ne_bytes())
}

fn new_dump() -> Dump<Vec<u8>> {
    Dump { kind: KIND, sequence: SEQUENCE, entries: vec![], changed: false }
}

/// What one datagram gives.
fn take(datagram: &[u8]) -> (Result<DumpEnd, Errno>, Dump<Vec<u8>>) {
    let mut dump = new_dump();
    (dump.take(datagram, |body| Some(body.to_vec())), dump)
}

#[test]
fn entries_are_those_of_the_table_that_was_asked_for() {
    let other_table = message(libc::RTM_NEWADDR, SEQUENCE, 0, b"address");
    let other_question = message(KIND, SEQUENCE - 1, NLM_F_DUMP_INTR, b"earlier");
    let datagram = [entry(b"first"), other_table, other_question, entry(b""), entry(b"last")];
    let (end, dump) = take(&datagram.concat());
    assert_eq!(end, Ok(DumpEnd::More));
    assert_eq!(dump.entries, [&b"first"[..], b"", b"last"]);
    assert!(!dump.changed);
}

#[test]
fn the_end_is_a_message_of_its_own_and_may_be_an_error() {
    let ends = |code| take(&[entry(b"1"), done(code), entry(b"behind")].concat());
    let (end, dump) = ends(0);
    assert_eq!((end, dump.entries.len()), (Ok(DumpEnd::Done), 1));
    assert_eq!(ends(-libc::ENOMEM).0, Err(Errno::NOMEM));
    assert_eq!(ends(i32::MIN).0, Err(Errno::PROTO));
    let bare = message(NLMSG_DONE, SEQUENCE, 0, &[]);
    assert_eq!(take(&bare).0, Ok(DumpEnd::Done), "of an older kernel");
    let earlier = message(NLMSG_DONE, SEQUENCE - 1, 0, &[0; 4]);
    assert_eq!(take(&earlier).0, Ok(DumpEnd::More));
}

#[test]
fn an_error_of_the_kernel_is_told() {
    let error = |body: &[u8]| take(&message(NLMSG_ERROR, SEQUENCE, 0, body)).0;
    assert_eq!(error(&(-libc::EPERM).to_ne_bytes()), Err(Errno::PERM));
    assert_eq!(error(&[]), Err(Errno::PROTO));
    assert_eq!(error(&[0; 4]), Err(Errno::PROTO), "there is nothing to acknowledge");
}

#[test]
fn a_table_that_changed_meanwhile_is_marked() {
    let changed = message(KIND, SEQUENCE, NLM_F_DUMP_INTR, b"1");
    assert!(take(&[entry(b"0"), changed].concat()).1.changed);
    let at_its_end = message(NLMSG_DONE, SEQUENCE, NLM_F_DUMP_INTR, &[0; 4]);
    assert!(take(&[entry(b"0"), at_its_end].concat()).1.changed);
}

#[test]
fn of_a_datagram_that_is_cut_off_the_whole_messages_are_read() {
    let whole = [entry(&[1; 8]), entry(&[2; 5]), done(0)].concat();
    for length in 0..whole.len() {
        let (end, dump) = take(&whole[..length]);
        let expected = [24, 45].iter().filter(|&&end| end <= length).count();
        assert_eq!((end, dump.entries.len()), (Ok(DumpEnd::More), expected), "{length} bytes");
    }
    assert_eq!(take(&whole).0, Ok(DumpEnd::Done));
}

#[test]
fn a_length_that_cannot_be_ends_the_datagram() {
    for length in [0, 1, 15, 100, u32::MAX - 3, u32::MAX] {
        let mut datagram = [entry(b"1234"), entry(b"5678"), done(0)].concat();
        datagram[20..24].copy_from_slice(&length.to_ne_bytes());
        let (end, dump) = take(&datagram);
        assert_eq!((end, dump.entries.len()), (Ok(DumpEnd::More), 1), "length {length}");
    }
}

proptest! {
    #[test]
    fn any_datagram_is_read_without_panic(
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..24), 0..6),
        kind in prop::sample::select(vec![KIND, NLMSG_DONE, NLMSG_ERROR, 0, 99]),
        noise in prop::collection::vec(any::<u8>(), 0..40),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut bytes: Vec<u8> = bodies.iter().flat_map(|body| message(kind, SEQUENCE, 0, body)).collect();
        bytes.extend(noise);
        for (at, value) in flips {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
        }
        let (_, dump) = take(&bytes);
        prop_assert!(dump.entries.iter().map(|entry| HEADER + entry.len()).sum::<usize>() <= bytes.len());
    }
}

#[test]
fn a_table_is_read_to_its_end_and_the_next_question_has_its_own_answer() {
    let mut socket = NetlinkSocket::open(None, 64 * 1024).expect("netlink");
    let all = super::super::message::FixedPart::of_link(0);
    let none = &[] as &[super::super::message::BorrowedAttribute<'_>];
    for _ in 0..3 {
        let links = socket.dump(libc::RTM_GETLINK, (&all, none), |body| word(body, 4));
        assert!(links.expect("a table").contains(&1), "lo");
    }
    let refused = socket.dump(libc::RTM_GETLINK + 4000, (&all, none), |_| Some(()));
    assert_eq!(refused, Err(Errno::OPNOTSUPP));
    assert!(
        socket.ask(libc::RTM_GETLINK, &super::super::message::FixedPart::of_link(1), none).is_ok()
    );
}
