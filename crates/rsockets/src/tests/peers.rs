//! Streams whose peer says what the protocol does not allow, or only just allows.

use libc::{MSG_DONTWAIT, POLLERR, POLLHUP, POLLIN, POLLOUT, c_int};
use uroce_device::cm::PortSpace;
use uroce_device::transport::WcStatus;
use uroce_ibverbs::errno::Errno;
use uroce_rdmacm::{ConnectionEvent, OwnedId};
use uroce_verbs_abi::{RDMA_IOMAPSIZE, RDMA_RQSIZE, SOL_RDMA};

use super::raw_peer::{ENTRIES, RESET, RawPeer, event};
use super::{AGAIN, LONG_MS, at, events, handle, new, wait_for};
use crate::close;
use crate::protocol::{Iomap, Message, PrivateData, Remote};

/// The smallest receive buffer; a peer is given half of it at a time.
const BUFFER: c_int = 4_096;
const HALF: usize = BUFFER as usize / 2;
/// The smallest receive queue.
const QUEUE: u16 = 16;

fn listener(text: &str) -> c_int {
    let fd = new(libc::SOCK_STREAM);
    let socket = handle(fd);
    for (level, name, value) in [
        (libc::SOL_SOCKET, libc::SO_RCVBUF, BUFFER),
        (SOL_RDMA, RDMA_RQSIZE, QUEUE.into()),
        (SOL_RDMA, RDMA_IOMAPSIZE, 2),
    ] {
        assert_eq!(socket.set_option(level, name, value), Ok(()));
    }
    // A peer that is silent ends no connection in these tests.
    socket.set_linger(Some(0));
    socket.bind(at(text)).expect("a free port");
    socket.listen(8).expect("it is bound");
    fd
}

/// Lets a peer and a socket talk, and ends both.
fn with(host: &str, change: impl Fn(&mut PrivateData), test: impl FnOnce(&mut RawPeer, c_int)) {
    let listener = listener(&format!("127.48.94.{host}:0"));
    let (mut peer, socket) = RawPeer::connected(&format!("127.48.95.{host}:0"), listener, change);
    handle(socket).set_linger(Some(0));
    test(&mut peer, socket);
    drop(peer);
    assert_eq!((close(socket), close(listener)), (Ok(()), Ok(())));
}

fn receive(fd: c_int, out: &mut [u8]) -> Result<usize, Errno> {
    handle(fd).receive(out, MSG_DONTWAIT).map(|(count, _)| count)
}

fn send(fd: c_int, bytes: &[u8]) -> Result<usize, Errno> {
    handle(fd).send(bytes, MSG_DONTWAIT, None)
}

/// The connection is over, in both directions, and poll(2) says so.
fn assert_reset(fd: c_int, why: &str) {
    assert_ne!(wait_for(fd, POLLIN, LONG_MS) & POLLERR, 0, "{why}");
    assert_eq!(receive(fd, &mut [0; 4]), Err(RESET), "{why}");
    assert_eq!(send(fd, b"x"), Err(RESET), "{why}");
    assert_eq!(events(fd), POLLIN | POLLERR | POLLHUP, "{why}");
    assert_eq!(handle(fd).shutdown(libc::SHUT_WR), Ok(()), "{why}");
}

#[test]
fn private_data_that_cannot_be_is_rejected_and_the_next_call_is_taken() {
    let listener = listener("127.48.94.1:0");
    handle(listener).fcntl(libc::F_SETFL, libc::O_NONBLOCK.into()).expect("a flag");
    let to = handle(listener).local().expect("it listens");
    type Change = fn(&mut Vec<u8>);
    let wrong: [(&str, Change); 6] = [
        ("none at all", Vec::clear),
        ("version 0", |data| data[0] = 0),
        ("version 2", |data| data[0] = 2),
        ("no entry in the table", |data| data[20..24].fill(0)),
        ("a table behind the last address", |data| data[8..16].fill(0xff)),
        ("a buffer behind the last address", |data| data[24..32].fill(0xff)),
    ];
    for (why, change) in wrong {
        let peer = RawPeer::towards("127.48.95.1:0", to);
        let mut hello = peer.hello().encode().to_vec();
        change(&mut hello);
        peer.id.connect(&hello).expect("it has a way");
        assert_ne!(wait_for(listener, POLLIN, LONG_MS), 0, "{why}");
        assert_eq!(handle(listener).accept().err(), Some(AGAIN), "{why}");
        let ended = event(&peer.id);
        assert!(matches!(ended, ConnectionEvent::Failed(Errno(libc::ECONNREFUSED))), "{why}");
    }
    handle(listener).fcntl(libc::F_SETFL, 0).expect("a flag");
    let (peer, socket) = RawPeer::connected("127.48.95.1:0", listener, |_| {});
    assert_eq!(send(socket, b"good"), Ok(4));
    drop(peer);
    assert_eq!((close(socket), close(listener)), (Ok(()), Ok(())));
}

/// A listener without a socket, and a socket that calls it and does not wait.
fn calling(ours: &str, theirs: &str) -> (OwnedId, c_int) {
    let id = OwnedId::new(PortSpace::Tcp).expect("an id");
    id.bind(at(theirs)).expect("a free port");
    id.listen(4).expect("it is bound");
    let caller = new(libc::SOCK_STREAM | libc::SOCK_NONBLOCK);
    handle(caller).bind(at(ours)).expect("a free port");
    let to = id.local().expect("it is bound");
    assert_eq!(handle(caller).connect(to), Err(Errno(libc::EINPROGRESS)));
    (id, caller)
}

#[test]
fn a_call_whose_answer_cannot_be_fails_and_says_why_once() {
    let error = |fd| handle(fd).option(libc::SOL_SOCKET, libc::SO_ERROR);
    let (listener, caller) = calling("127.48.94.2:0", "127.48.95.2:0");
    assert_eq!(receive(caller, &mut [0]), Err(AGAIN), "no connection yet");
    assert_eq!(send(caller, b"x"), Err(AGAIN));
    assert_eq!(events(caller), 0, "it waits");
    let peer = RawPeer::answering(&listener, |peer| {
        let mut answer = peer.hello().encode().to_vec();
        answer[0] = 9;
        answer
    });
    assert_eq!(wait_for(caller, POLLOUT, LONG_MS), POLLOUT | POLLERR | POLLHUP);
    assert_eq!((error(caller), error(caller)), (Ok(RESET.0), Ok(0)));
    assert_eq!((send(caller, b"x"), receive(caller, &mut [0])), (Err(RESET), Err(RESET)));
    assert_eq!(handle(caller).connect(at("127.48.95.2:9")), Err(RESET), "it has failed");
    drop(peer);
    assert_eq!(close(caller), Ok(()));
}

#[test]
fn a_call_that_is_rejected_fails_with_econnrefused() {
    let (listener, caller) = calling("127.48.94.3:0", "127.48.95.3:0");
    let ConnectionEvent::Request(request) = event(&listener) else { panic!("no request") };
    let hello = PrivateData::decode(&request.private_data()).expect("it may be");
    assert_eq!((hello.credits, hello.iomaps, hello.data.length), (384, 0, 1 << 16));
    drop(request);
    assert_ne!(wait_for(caller, POLLOUT, LONG_MS) & POLLERR, 0);
    let refused = Errno(libc::ECONNREFUSED);
    assert_eq!(send(caller, b"x"), Err(refused));
    assert_eq!(handle(caller).option(libc::SOL_SOCKET, libc::SO_ERROR), Ok(refused.0));
    assert_eq!(close(caller), Ok(()));
}

#[test]
fn messages_of_unknown_types_reset() {
    let unknown = [1 << 29, 2 << 29, 3 << 29 | 5, 5 << 29, 7 << 29 | 3, u32::MAX];
    for (index, imm) in unknown.into_iter().enumerate() {
        with(
            &format!("{}", 10 + index),
            |_| {},
            |peer, socket| {
                peer.say(imm);
                assert_reset(socket, &format!("{imm:#x}"));
            },
        );
    }
}

#[test]
fn a_message_says_how_many_bytes_came_with_it() {
    for (host, said) in [("20", 3), ("21", 5), ("22", 0), ("23", (1 << 29) - 1)] {
        with(
            host,
            |_| {},
            |peer, socket| {
                let imm = Message::Data(said).encode();
                assert_eq!(peer.write(peer.theirs.data, 0, b"four", Some(imm)), WcStatus::Success);
                assert_reset(socket, &format!("{said} of 4 bytes"));
            },
        );
    }
}

#[test]
fn a_message_of_no_bytes_is_no_end() {
    with(
        "24",
        |_| {},
        |peer, socket| {
            peer.send(0, b"");
            assert_ne!(wait_for(socket, POLLIN, LONG_MS), 0);
            assert_eq!(receive(socket, &mut [0; 4]), Err(AGAIN), "0 would be the end");
            peer.send(0, b"data");
            let mut out = [0; 8];
            assert_ne!(wait_for(socket, POLLIN, LONG_MS), 0);
            assert_eq!((receive(socket, &mut out), &out[..4]), (Ok(4), &b"data"[..]));
        },
    );
}

#[test]
fn a_peer_may_fill_the_half_that_it_knows_and_not_a_byte_more() {
    with(
        "25",
        |_| {},
        |peer, socket| {
            peer.send(0, &[7; HALF - 1]);
            peer.send(HALF as u64 - 1, &[8]);
            let mut out = [0; HALF];
            let got = handle(socket).receive(&mut out, libc::MSG_WAITALL).map(|(count, _)| count);
            assert_eq!((got, out[HALF - 2], out[HALF - 1]), (Ok(HALF), 7, 8));
        },
    );
    with(
        "26",
        |_| {},
        |peer, socket| {
            peer.send(0, &[7; HALF]);
            // The other half was granted with the first call that made progress; a third was not.
            assert_ne!(wait_for(socket, POLLIN, LONG_MS), 0);
            peer.send(HALF as u64, &[8; HALF]);
            peer.send(0, &[9]);
            let mut out = [0; 2 * HALF];
            assert_ne!(wait_for(socket, POLLIN, LONG_MS), 0);
            let got = handle(socket).receive(&mut out, libc::MSG_WAITALL).map(|(count, _)| count);
            assert_eq!((got, out[1], out[HALF]), (Ok(2 * HALF), 7, 8), "what was allowed is read");
            assert_reset(socket, "a byte more than allowed");
        },
    );
}

#[test]
fn a_peer_has_as_many_messages_as_credits_and_not_one_more() {
    with(
        "27",
        |_| {},
        |peer, socket| {
            assert_eq!(peer.theirs.credits, QUEUE);
            (0..QUEUE).for_each(|at| peer.send(at.into(), b"x"));
            let mut out = [0; QUEUE as usize];
            assert_eq!(events(socket), POLLIN, "all of them are fine");
            let got = handle(socket).receive(&mut out, libc::MSG_WAITALL).map(|(count, _)| count);
            assert_eq!(got, Ok(out.len()));
        },
    );
    with(
        "28",
        |_| {},
        |peer, socket| {
            (0..=QUEUE).for_each(|at| peer.send(at.into(), b"x"));
            let mut out = [0; QUEUE as usize];
            let got = handle(socket).receive(&mut out, libc::MSG_WAITALL).map(|(count, _)| count);
            assert_eq!(got, Ok(out.len()), "what was allowed is read");
            assert_reset(socket, "one more than credits");
        },
    );
}

#[test]
fn credits_are_at_most_those_that_were_offered() {
    with(
        "29",
        |_| {},
        |peer, socket| {
            peer.say(Message::Credits(16).encode());
            assert_eq!(send(socket, b"one"), Ok(3));
            peer.say(Message::Credits(17).encode());
            assert_eq!(send(socket, b"two"), Ok(3), "one was sent, so 17 may be");
            peer.say(Message::Credits(19).encode());
            assert_reset(socket, "two were sent, and 16 are the most");
        },
    );
    with(
        "30",
        |_| {},
        |peer, socket| {
            peer.say(Message::Credits(u16::MAX).encode());
            assert_reset(socket, "fewer than were sent");
        },
    );
}

#[test]
fn credits_may_be_taken_back() {
    with(
        "31",
        |_| {},
        |peer, socket| {
            peer.say(Message::Credits(1).encode());
            assert_ne!(wait_for(socket, POLLOUT, LONG_MS) & POLLOUT, 0);
            assert_eq!((send(socket, b"a"), send(socket, b"b")), (Ok(1), Err(AGAIN)));
            assert_eq!(peer.heard(), Message::Data(1));
            peer.say(Message::Credits(2).encode());
            assert_eq!(wait_for(socket, POLLOUT, LONG_MS), POLLOUT);
            assert_eq!(send(socket, b"b"), Ok(1));
            assert_eq!(peer.heard(), Message::Data(1));
            assert_eq!(peer.read(&peer.data, 0, 2), b"ab", "behind what was sent before");
        },
    );
}

#[test]
fn bytes_go_to_the_buffers_of_the_peer_in_the_order_of_its_table() {
    with(
        "32",
        |hello| hello.data.length = 10,
        |peer, socket| {
            assert_eq!(send(socket, b"0123456789abcdefghij"), Ok(10), "the first buffer");
            assert_eq!(peer.heard(), Message::Data(10));
            assert_eq!(send(socket, b"abc"), Err(AGAIN), "no other one is known");
            peer.write_entry(1, peer.data.remote(100, 3));
            peer.write_entry(0, peer.data.remote(200, 5));
            assert_eq!(send(socket, b"abcdefghij"), Ok(8));
            assert_eq!((peer.heard(), peer.heard()), (Message::Data(3), Message::Data(5)));
            assert_eq!(peer.read(&peer.data, 100, 4), b"abc\0");
            assert_eq!(peer.read(&peer.data, 200, 6), b"defgh\0");
            assert_eq!(send(socket, b"x"), Err(AGAIN), "an entry counts once");
            peer.write_entry(1, peer.data.remote(300, 1));
            assert_eq!(send(socket, b"xy"), Ok(1));
            assert_eq!(peer.heard(), Message::Data(1));
            assert_eq!(peer.read(&peer.data, 300, 2), b"x\0");
        },
    );
}

#[test]
fn an_entry_that_ends_behind_the_last_address_resets() {
    with(
        "33",
        |hello| hello.data.length = 1,
        |peer, socket| {
            assert_eq!(send(socket, b"x"), Ok(1));
            peer.write_entry(1, Remote { addr: u64::MAX, rkey: 1, length: 2 });
            assert_eq!(send(socket, b"x"), Err(RESET));
        },
    );
    with(
        "34",
        |hello| hello.data.length = 1,
        |peer, socket| {
            assert_eq!(send(socket, b"x"), Ok(1));
            peer.write_entry(1, Remote { addr: u64::MAX, rkey: 1, length: 2 });
            assert_ne!(wait_for(socket, POLLOUT, LONG_MS) & POLLOUT, 0, "a call would not wait");
            assert_reset(socket, "poll has seen it");
        },
    );
}

#[test]
fn memory_that_the_peer_does_not_have_ends_the_connection() {
    with(
        "35",
        |hello| hello.data.rkey ^= 0x5555,
        |_, socket| {
            assert_eq!(send(socket, b"x"), Ok(1), "nothing is known yet");
            assert_reset(socket, "the write was refused");
        },
    );
    with(
        "36",
        |hello| hello.table.rkey ^= 0x5555,
        |_, socket| {
            assert_reset(socket, "the peer cannot be told of room");
        },
    );
}

#[test]
fn room_is_told_of_in_the_entry_that_is_next_and_in_the_peers_byte_order() {
    let big = |hello: &mut PrivateData| hello.big_endian = true;
    with("37", big, |peer, socket| {
        let (start, mut out) = (peer.theirs.data.addr, [0; HALF]);
        let entry = |peer: &RawPeer, index: usize| peer.read(&peer.table, index * 16, 16);
        // The second half is free from the start; each half that is read is given again.
        let ends = [(1, HALF as u64, 16), (2, 0, 17), (0, HALF as u64, 18)];
        for (turn, (index, offset, credits)) in ends.into_iter().enumerate() {
            assert_eq!(events(socket) & POLLERR, 0);
            if turn > 0 {
                assert_eq!(peer.heard(), Message::Credits(credits), "turn {turn}");
            }
            let found = entry(peer, index);
            assert_eq!(found[..8], (start + offset).to_be_bytes(), "turn {turn}");
            assert_eq!(found[8..12], peer.theirs.data.rkey.to_be_bytes());
            assert_eq!(found[12..], (HALF as u32).to_be_bytes());
            let at = if turn == 1 { HALF as u64 } else { 0 };
            peer.send(at, &[turn as u8; HALF]);
            let got = handle(socket).receive(&mut out, libc::MSG_WAITALL);
            assert_eq!((got.map(|(count, _)| count), out[0]), (Ok(HALF), turn as u8));
        }
        assert_eq!(ENTRIES, 3, "all entries were used in turn");
    });
}

#[test]
fn credits_come_back_when_half_of_them_were_used() {
    with(
        "38",
        |_| {},
        |peer, socket| {
            let mut out = [0; 1];
            for message in 0..u64::from(QUEUE / 2) {
                assert!(!peer.has_heard(), "after {message} messages");
                peer.send(message, b"x");
                assert_eq!(handle(socket).receive(&mut out, 0).map(|(count, _)| count), Ok(1));
            }
            assert_eq!(peer.heard(), Message::Credits(QUEUE + QUEUE / 2));
        },
    );
}

#[test]
fn a_peer_that_sends_nothing_more_is_not_told_of_room() {
    with(
        "39",
        |_| {},
        |peer, socket| {
            peer.send(0, &[1; HALF]);
            peer.say(Message::Shutdown.encode());
            let mut out = [0; HALF];
            let got = handle(socket).receive(&mut out, libc::MSG_WAITALL).map(|(count, _)| count);
            assert_eq!((got, receive(socket, &mut out)), (Ok(HALF), Ok(0)));
            assert!(!peer.has_heard(), "it would be of no use");
            assert_eq!(events(socket), POLLIN, "the end can be read");
            assert_eq!(send(socket, b"still"), Ok(5));
            assert_eq!(peer.heard(), Message::Data(5));
        },
    );
}

#[test]
fn what_came_before_the_end_is_read_first() {
    with(
        "40",
        |_| {},
        |peer, socket| {
            peer.send(0, b"last");
            peer.say(Message::Disconnect.encode());
            peer.say(Message::Shutdown.encode());
            let mut out = [0; 8];
            assert_eq!(wait_for(socket, POLLIN, LONG_MS), POLLIN, "no POLLHUP before it was read");
            assert_eq!((receive(socket, &mut out), &out[..4]), (Ok(4), &b"last"[..]));
            assert_eq!((receive(socket, &mut out), receive(socket, &mut out)), (Ok(0), Ok(0)));
            assert_eq!(send(socket, b"x"), Err(RESET), "the peer takes nothing");
            assert_eq!(events(socket), POLLIN | POLLHUP, "a later message does not revive it");
        },
    );
}

#[test]
fn a_connection_that_ends_without_a_word_is_reset_after_what_came() {
    with(
        "41",
        |_| {},
        |peer, socket| {
            peer.send(0, b"last");
            peer.id.disconnect();
            let mut out = [0; 4];
            let got = handle(socket).receive(&mut out, libc::MSG_WAITALL).map(|(count, _)| count);
            assert_eq!((got, &out), (Ok(4), b"last"));
            assert_eq!(handle(socket).receive(&mut out, 0), Err(RESET));
            assert_reset(socket, "no message said that it would end");
        },
    );
}

#[test]
fn words_that_ask_for_nothing_take_no_credit() {
    with(
        "42",
        |_| {},
        |peer, socket| {
            for _ in 0..3 * QUEUE {
                peer.say(Message::Keepalive.encode());
                assert_eq!(events(socket) & !POLLIN, 0);
                peer.say(Message::IomapUpdated(u16::MAX).encode());
                assert_eq!(events(socket) & !POLLIN, 0);
            }
            (0..QUEUE).for_each(|at| peer.send(at.into(), b"x"));
            let mut out = [0; QUEUE as usize];
            let got = handle(socket).receive(&mut out, libc::MSG_WAITALL).map(|(count, _)| count);
            assert_eq!(got, Ok(out.len()));
        },
    );
}

/// Tells the socket of a buffer that the peer has mapped.
fn map(peer: &mut RawPeer, index: u64, iomap: &Iomap) {
    let at = 2 * Remote::LEN as u64 + index * Iomap::LEN as u64;
    let bytes = iomap.entry(cfg!(target_endian = "big"));
    let imm = Message::IomapUpdated(index as u16).encode();
    assert_eq!(peer.write(peer.theirs.table, at, &bytes, Some(imm)), WcStatus::Success);
}

#[test]
fn a_write_goes_to_what_the_peer_has_mapped_there() {
    with(
        "43",
        |_| {},
        |peer, socket| {
            assert_eq!(peer.theirs.iomaps, 2, "as the option says");
            let write =
                |bytes: &[u8], offset| handle(socket).write_mapped(bytes, offset, MSG_DONTWAIT);
            let invalid = Err(Errno(libc::EINVAL));
            assert_eq!(write(b"x", 0), invalid);
            let buffer = peer.data.remote(1_000, 8);
            map(peer, 1, &Iomap { offset: 100, buffer });
            assert_eq!((write(b"ab", 99), write(b"x", 108)), (invalid, invalid), "before, behind");
            assert_eq!((write(b"ab", 100), write(b"yz", 107)), (Ok(2), Ok(1)));
            let beside = peer.data.remote(2_000, 4);
            map(peer, 0, &Iomap { offset: 108, buffer: beside });
            assert_eq!(write(b"Zz", 107), Ok(2), "across two buffers");
            map(peer, 0, &Iomap { offset: 0, buffer: Remote { length: 0, ..beside } });
            assert_eq!(write(b"x", 0), invalid, "it is mapped no more");
            assert_eq!(handle(socket).write_mapped(b"x", i64::MAX, 0), invalid);
            // A message behind the writes: when it is here, they are.
            assert_eq!(send(socket, b"!"), Ok(1));
            while peer.heard() != Message::Data(1) {}
            assert_eq!(peer.read(&peer.data, 999, 10), b"\0ab\0\0\0\0\0Z\0");
            assert_eq!(peer.read(&peer.data, 2_000, 2), b"z\0");
        },
    );
}

#[test]
fn an_entry_without_bytes_tells_the_peer_of_what_was_unmapped() {
    with(
        "45",
        |_| {},
        |peer, socket| {
            let tell = |index, iomap: Option<&Iomap>| {
                let ours = handle(socket);
                let mut state = ours.stream().expect("a stream").state();
                let stream = state.stream.as_mut().expect("it is connected");
                match iomap {
                    Some(iomap) => stream.tell_mapped(index, iomap),
                    None => stream.tell_unmapped(index),
                }
            };
            let entry = |peer: &RawPeer, index: usize| {
                let at = ENTRIES as usize * Remote::LEN + index * Iomap::LEN;
                Iomap::parse(peer.read(&peer.table, at, Iomap::LEN).first_chunk()?)
            };
            let [one, two] = [(100, 8), (108, 4)].map(|(offset, length)| {
                let buffer = Remote { addr: 0x1000 + offset, rkey: 7, length };
                Iomap { offset, buffer }
            });
            assert_eq!((tell(0, Some(&one)), tell(1, Some(&two))), (Ok(true), Ok(true)));
            assert_eq!([peer.heard(), peer.heard()], [0, 1].map(Message::IomapUpdated));
            assert_eq!([0, 1].map(|index| entry(peer, index)), [Some(one), Some(two)]);
            assert_eq!(tell(0, None), Ok(true));
            assert_eq!(peer.heard(), Message::IomapUpdated(0));
            let nothing = Iomap { offset: 0, buffer: Remote::default() };
            assert_eq!([0, 1].map(|index| entry(peer, index)), [Some(nothing), Some(two)]);
        },
    );
}

#[test]
fn mapped_buffers_that_cannot_be_are_not_there() {
    with(
        "44",
        |_| {},
        |peer, socket| {
            let write = |offset| handle(socket).write_mapped(b"x", offset, MSG_DONTWAIT);
            let invalid = Err(Errno(libc::EINVAL));
            let wraps = Remote { addr: u64::MAX - 1, rkey: 1, length: 4 };
            map(peer, 0, &Iomap { offset: 0, buffer: wraps });
            map(peer, 1, &Iomap { offset: u64::MAX - 1, buffer: peer.data.remote(0, 4) });
            assert_eq!((write(0), write(1), write(i64::MAX)), (invalid, invalid, invalid));
            let nobodys = Remote { rkey: !peer.data.remote(0, 4).rkey, ..peer.data.remote(0, 4) };
            map(peer, 0, &Iomap { offset: 0, buffer: nobodys });
            assert_eq!(write(0), Ok(1), "nothing is known yet");
            assert_reset(socket, "the write was refused");
        },
    );
}
