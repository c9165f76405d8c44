//! Sockets by their Rust functions, with peers that do what the protocol does not allow.

mod datagram_peers;
mod flow_control;
mod formats;
mod peers;
mod raw_peer;
mod streams;
mod waiting;

use std::net::SocketAddr;

use libc::{MSG_DONTWAIT, c_int, pollfd};
use uroce_ibverbs::errno::{Errno, INVALID, NOT_SUPPORTED};
use uroce_verbs_abi::{RDMA_RQSIZE, SOL_RDMA};

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
    pair_with(ours, theirs, |_| {})
}

/// The same with options.
fn pair_with(ours: &str, theirs: &str, set: impl Fn(&Handle)) -> (c_int, c_int) {
    let (listener, caller) = (new(libc::SOCK_STREAM), new(libc::SOCK_STREAM));
    set(&handle(listener));
    set(&handle(caller));
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

/// What poll(2) says now.
fn events(fd: c_int) -> i16 {
    wait_for(fd, libc::POLLIN, 0)
}

fn wait_for(fd: c_int, events: i16, timeout: c_int) -> i16 {
    let mut set = [pollfd { fd, events, revents: 0 }];
    poll(&mut set, &Deadline::of_poll(timeout)).expect("no signal");
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
    let error = || handle(both.1).option(libc::SOL_SOCKET, libc::SO_ERROR);
    assert_eq!((error(), error()), (Ok(reset.0), Ok(0)), "it is told once");
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
    let received = handle(both.1).receive_pieces(room.into_iter(), libc::MSG_WAITALL);
    let (got, from) = received.expect("it was sent");
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

/// Longer than any event takes.
const LONG_MS: c_int = 20_000;
const AGAIN: Errno = Errno(libc::EAGAIN);

#[test]
fn a_sender_has_as_many_messages_as_the_peer_has_given_credits() {
    const CREDITS: c_int = 16;
    let both = pair_with("127.48.93.35:0", "127.48.93.36:0", |socket| {
        socket.set_option(SOL_RDMA, RDMA_RQSIZE, CREDITS).expect("in range");
    });
    let send = || handle(both.0).send(b"x", MSG_DONTWAIT, None);
    for message in 0..CREDITS {
        assert_eq!(send(), Ok(1), "message {message}");
    }
    assert_eq!(send(), Err(AGAIN), "the peer has read nothing");
    let mut out = [0; 64];
    let got = handle(both.1).receive(&mut out[..CREDITS as usize], libc::MSG_WAITALL);
    assert_eq!(got.map(|(count, _)| count), Ok(CREDITS as usize));
    assert_eq!(wait_for(both.0, libc::POLLOUT, LONG_MS) & libc::POLLOUT, libc::POLLOUT);
    assert_eq!(send(), Ok(1), "it has new credits");
    end(both);
}

#[test]
fn an_end_that_writes_nothing_more_still_reads() {
    let both = pair("127.48.93.37:0", "127.48.93.38:0");
    assert_eq!(handle(both.0).shutdown(libc::SHUT_WR), Ok(()));
    assert_eq!(handle(both.0).send(b"x", 0, None), Err(Errno(libc::EPIPE)));
    let mut out = [0; 4];
    assert_eq!(handle(both.1).receive(&mut out, 0).map(|(count, _)| count), Ok(0), "the end");
    assert_eq!(handle(both.1).send(b"back", 0, None), Ok(4));
    assert_eq!(handle(both.0).receive(&mut out, libc::MSG_WAITALL).map(|(count, _)| count), Ok(4));
    assert_eq!(&out, b"back");
    end(both);
}

#[test]
fn what_is_looked_at_stays_and_a_whole_buffer_is_waited_for() {
    let both = pair("127.48.93.39:0", "127.48.93.40:0");
    assert_eq!(handle(both.0).send(b"hello", 0, None), Ok(5));
    let mut out = [0; 10];
    let looked = handle(both.1).receive(&mut out[..3], libc::MSG_PEEK);
    assert_eq!((looked.map(|(count, _)| count), &out[..3]), (Ok(3), &b"hel"[..]));
    let rest = std::thread::spawn(move || handle(both.0).send(b"world", 0, None));
    let whole = handle(both.1).receive(&mut out, libc::MSG_WAITALL);
    assert_eq!((whole.map(|(count, _)| count), &out), (Ok(10), b"helloworld"));
    assert_eq!(rest.join().expect("no panic"), Ok(5));
    end(both);
}

#[test]
fn a_connection_that_is_not_waited_for_is_told_of_by_poll() {
    let (listener, caller) = (new(libc::SOCK_STREAM), new(libc::SOCK_STREAM));
    handle(listener).bind(at("127.48.93.42:0")).expect("a free port");
    assert_eq!(events(caller), libc::POLLHUP, "no connection yet");
    handle(listener).listen(1).expect("it is bound");
    assert_eq!(events(listener), 0, "no request yet");
    let to = handle(listener).local().expect("it listens");
    handle(caller).bind(at("127.48.93.41:0")).expect("a free port");
    handle(caller).fcntl(libc::F_SETFL, libc::O_NONBLOCK.into()).expect("a flag");
    assert_eq!(handle(caller).connect(to), Err(Errno(libc::EINPROGRESS)));
    assert_eq!(handle(caller).connect(to), Err(Errno(libc::EALREADY)));
    assert_eq!(wait_for(listener, libc::POLLIN, LONG_MS), libc::POLLIN);
    let accepted = handle(listener).accept().expect("a request").into_fd();
    assert_eq!(wait_for(caller, libc::POLLOUT, LONG_MS), libc::POLLOUT);
    assert_eq!(handle(caller).connect(to), Err(Errno(libc::EISCONN)));
    assert_eq!(handle(caller).option(libc::SOL_SOCKET, libc::SO_ERROR), Ok(0));
    assert_eq!(handle(caller).peer(), handle(accepted).local());
    assert_eq!(close(listener), Ok(()));
    end((caller, accepted));
}

#[test]
fn messages_that_ask_for_nothing_change_nothing() {
    let both = pair("127.48.93.43:0", "127.48.93.44:0");
    {
        let socket = handle(both.0);
        let mut state = socket.stream().expect("a stream").state();
        let stream = state.stream.as_mut().expect("it is connected");
        stream.say(Message::Keepalive).expect("the queue pair takes it");
    }
    assert_eq!(handle(both.1).receive(&mut [0], MSG_DONTWAIT), Err(AGAIN));
    assert_eq!(handle(both.0).write_mapped(b"x", 0, 0), Err(INVALID), "nothing is mapped");
    assert_eq!(handle(both.0).write_mapped(b"x", -1, 0), Err(INVALID));
    assert_eq!(handle(both.0).send(b"x", 0, None), Ok(1));
    assert_eq!(handle(both.1).receive(&mut [0], 0).map(|(count, _)| count), Ok(1));
    end(both);
}

#[test]
fn a_socket_of_datagrams_with_a_peer_takes_no_others() {
    let bound = |text| {
        let fd = new(libc::SOCK_DGRAM);
        handle(fd).bind(at(text)).expect("a free port");
        (fd, handle(fd).local().expect("it is bound"))
    };
    let [one, two, other] = ["127.48.93.45:0", "127.48.93.46:0", "127.48.93.47:0"].map(bound);
    handle(one.0).connect(two.1).expect("there is a device");
    assert_eq!(handle(one.0).peer(), Some(two.1));
    assert_eq!(handle(other.0).send(b"other", 0, Some(one.1)), Ok(5));
    assert_eq!(handle(two.0).send(b"two", 0, Some(one.1)), Ok(3));
    let mut out = [0; 16];
    assert_eq!(handle(one.0).receive(&mut out, 0), Ok((3, Some(two.1))));
    assert_eq!(handle(one.0).receive(&mut out, MSG_DONTWAIT), Err(AGAIN));
    let long = vec![0; 65_000];
    assert_eq!(handle(one.0).send(&long, 0, None), Err(Errno(libc::EMSGSIZE)));
    for (fd, _) in [one, two, other] {
        assert_eq!(close(fd), Ok(()));
    }
}
