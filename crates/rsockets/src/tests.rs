//! Sockets by their Rust functions, with peers that do what the protocol does not allow.

use std::net::SocketAddr;

use libc::{MSG_DONTWAIT, c_int, pollfd};
use uroce_ibverbs::errno::{Errno, INVALID, NOT_SUPPORTED};

use crate::protocol::Message;
use crate::{Deadline, Handle, close, poll, socket};

fn new(kind: c_int) -> c_int {
    socket(libc::AF_INET, kind, 0).expect("a descriptor")
}

fn handle(fd: c_int) -> Handle {
    Handle::get(fd).expect("a socket")
}

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// Two ends that are connected.
fn pair(ours: &str, theirs: &str) -> (c_int, c_int) {
    let (listener, caller) = (new(libc::SOCK_STREAM), new(libc::SOCK_STREAM));
    handle(listener).bind(at(theirs)).expect("a free port");
    handle(listener).listen(4).expect("it is bound");
    handle(caller).bind(at(ours)).expect("a free port");
    let to = handle(listener).local().expect("it listens");
    let connects = std::thread::spawn(move || handle(caller).connect(to));
    let accepted = handle(listener).accept().expect("a request").into_fd();
    assert_eq!(connects.join().expect("no panic"), Ok(()));
    assert_eq!(close(listener), Ok(()));
    (caller, accepted)
}

fn end(both: (c_int, c_int)) {
    let closes = std::thread::spawn(move || close(both.0));
    assert_eq!(close(both.1), Ok(()));
    assert_eq!(closes.join().expect("no panic"), Ok(()));
}

fn events(fd: c_int) -> i16 {
    let mut set = [pollfd { fd, events: libc::POLLIN, revents: 0 }];
    poll(&mut set, &Deadline::of_poll(0)).expect("no signal");
    set[0].revents
}

#[test]
fn a_peer_that_breaks_the_protocol_is_reset() {
    let both = pair("127.48.93.13:0", "127.48.93.14:0");
    {
        let bad = handle(both.0);
        let mut state = bad.stream().expect("a stream").state();
        let stream = state.stream.as_mut().expect("it is connected");
        stream.say(Message::Data(999)).expect("the queue pair takes it");
    }
    let reset = Errno(libc::ECONNRESET);
    assert_eq!(handle(both.1).receive(&mut [0; 4], 0), Err(reset));
    assert_eq!(handle(both.1).send(b"x", 0, None), Err(reset));
    assert_ne!(events(both.1) & libc::POLLERR, 0);
    end(both);
}

#[test]
fn a_peer_that_vanishes_is_noticed() {
    let both = pair("127.48.93.15:0", "127.48.93.16:0");
    handle(both.0).stream().expect("a stream").state().id.disconnect();
    assert_eq!(handle(both.1).receive(&mut [0; 4], 0), Err(Errno(libc::ECONNRESET)));
    end(both);
}

#[test]
fn a_piece_that_is_wrong_ends_a_call_after_those_before_it() {
    let both = pair("127.48.93.31:0", "127.48.93.32:0");
    let fault = Errno(libc::EFAULT);
    let pieces = [Ok(&b"one"[..]), Ok(&b"two"[..]), Err(fault), Ok(&b"three"[..])];
    assert_eq!(handle(both.0).send_pieces(pieces.into_iter(), 0, None), Ok(6));
    assert_eq!(handle(both.0).send_pieces([Err(fault)].into_iter(), 0, None), Err(fault));
    let (mut first, mut second) = ([0; 4], [0; 2]);
    let room = [Ok(&mut first[..]), Ok(&mut second[..])];
    let (got, from) = handle(both.1).receive_pieces(room.into_iter(), 0).expect("it was sent");
    assert_eq!((got, from), (6, handle(both.0).local()));
    assert_eq!((&first, &second), (b"onet", b"wo"));
    let none = handle(both.1).receive(&mut [0], MSG_DONTWAIT);
    assert_eq!(none, Err(Errno(libc::EAGAIN)));
    end(both);
}

#[test]
fn what_a_socket_cannot_do_in_its_state_is_refused() {
    let (stream, datagram) = (new(libc::SOCK_STREAM), new(libc::SOCK_DGRAM));
    let not_connected = Errno(libc::ENOTCONN);
    assert_eq!(handle(stream).send(b"x", 0, None), Err(not_connected));
    assert_eq!(handle(stream).receive(&mut [0], 0), Err(not_connected));
    assert_eq!(handle(stream).shutdown(libc::SHUT_RDWR), Err(not_connected));
    assert_eq!(handle(stream).shutdown(77), Err(INVALID));
    assert_eq!(handle(stream).accept().err(), Some(INVALID), "it does not listen");
    assert_eq!(handle(stream).send(b"x", libc::MSG_OOB, None), Err(NOT_SUPPORTED));
    assert_eq!(handle(stream).unmap(0, 1), Err(INVALID), "nothing is mapped");
    assert_eq!(handle(datagram).shutdown(libc::SHUT_RD), Err(NOT_SUPPORTED));
    assert_eq!(handle(datagram).listen(1), Err(NOT_SUPPORTED));
    assert_eq!(handle(datagram).send(b"x", 0, None), Err(Errno(libc::EDESTADDRREQ)));
    handle(stream).bind(at("127.48.93.33:0")).expect("a free port");
    handle(stream).listen(1).expect("it is bound");
    assert_eq!(handle(stream).listen(1), Ok(()), "it listens already");
    assert_eq!(handle(stream).bind(at("127.48.93.34:0")), Err(INVALID));
    assert_eq!(handle(stream).connect(at("127.48.93.34:9")), Err(INVALID));
    assert_eq!((close(stream), close(datagram)), (Ok(()), Ok(())));
    assert_eq!(close(stream), Err(Errno(libc::EBADF)));
    assert_eq!(Handle::get(stream).err(), Some(Errno(libc::EBADF)));
}

#[test]
fn sockets_of_other_kinds_are_refused() {
    for (domain, kind, protocol, errno) in [
        (libc::AF_UNIX, libc::SOCK_STREAM, 0, libc::EAFNOSUPPORT),
        (libc::AF_INET, libc::SOCK_RAW, 0, libc::ESOCKTNOSUPPORT),
        (libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_UDP, libc::EPROTONOSUPPORT),
        (libc::AF_INET6, libc::SOCK_DGRAM, libc::IPPROTO_TCP, libc::EPROTONOSUPPORT),
    ] {
        assert_eq!(socket(domain, kind, protocol), Err(Errno(errno)), "{domain} {kind} {protocol}");
    }
}

#[test]
fn a_flag_of_the_type_makes_a_socket_that_does_not_wait() {
    let fd = new(libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
    let flags = || handle(fd).fcntl(libc::F_GETFL, 0);
    assert_eq!(flags(), Ok(libc::O_RDWR | libc::O_NONBLOCK));
    assert_eq!(handle(fd).fcntl(libc::F_SETFL, 0), Ok(0));
    assert_eq!(flags(), Ok(libc::O_RDWR));
    assert_eq!(handle(fd).fcntl(libc::F_GETFD, 0), Err(NOT_SUPPORTED));
    assert_eq!(handle(fd).linger(), None);
    handle(fd).set_linger(Some(3));
    assert_eq!(handle(fd).linger(), Some(3));
    assert_eq!(close(fd), Ok(()));
}
