//! Streams between two sockets: halves, states, names and limits.

use libc::{MSG_DONTWAIT, MSG_PEEK, MSG_WAITALL, POLLHUP, POLLIN, POLLOUT, c_int};
use uroce_ibverbs::errno::{Errno, INVALID, NOT_SUPPORTED};
use uroce_verbs_abi::{RDMA_IOMAPSIZE, RDMA_RQSIZE, RDMA_SQSIZE, SOL_RDMA};

use super::{AGAIN, LONG_MS, at, end, events, handle, new, pair, pair_with, wait_for};
use crate::{Buffer, Handle, close, socket};

fn send(fd: c_int, bytes: &[u8]) -> Result<usize, Errno> {
    handle(fd).send(bytes, MSG_DONTWAIT, None)
}

fn receive(fd: c_int, out: &mut [u8], flags: c_int) -> Result<usize, Errno> {
    handle(fd).receive(out, flags).map(|(count, _)| count)
}

/// Buffers of this many bytes, on both sides.
fn small(bytes: c_int) -> impl Fn(&Handle) {
    move |socket| {
        for name in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
            socket.set_option(libc::SOL_SOCKET, name, bytes).expect("in range");
        }
    }
}

#[test]
fn shutting_down_to_read_ends_reading_and_nothing_else() {
    let both = pair("127.48.97.1:0", "127.48.97.2:0");
    assert_eq!(send(both.0, b"unread"), Ok(6));
    assert_ne!(wait_for(both.1, POLLIN, LONG_MS), 0);
    assert_eq!(handle(both.1).shutdown(libc::SHUT_RD), Ok(()));
    assert_eq!(receive(both.1, &mut [0; 8], 0), Ok(0), "also what had come");
    assert_eq!(receive(both.1, &mut [0; 8], MSG_PEEK), Ok(0));
    assert_eq!(events(both.1), POLLIN);
    assert_eq!(send(both.1, b"out"), Ok(3));
    assert_eq!(receive(both.0, &mut [0; 3], MSG_WAITALL), Ok(3));
    assert_eq!(send(both.0, b"the peer was not told"), Ok(21));
    end(both);
}

/// To look fills the first piece only: the next one would get the same bytes.
#[test]
fn to_look_into_several_pieces_fills_the_first() {
    let both = pair("127.48.97.41:0", "127.48.97.42:0");
    assert_eq!(send(both.0, b"abcdef"), Ok(6));
    assert_ne!(wait_for(both.1, POLLIN, LONG_MS), 0);
    let (mut one, mut two) = ([0; 2], [0; 4]);
    let pieces = [Ok(&mut one[..]), Ok(&mut two[..])];
    let looked = handle(both.1).receive_pieces(pieces.into_iter(), MSG_PEEK);
    assert_eq!(looked.map(|(count, _)| count), Ok(2));
    assert_eq!((one, two), (*b"ab", [0; 4]));
    let pieces = [Ok(&mut one[..]), Ok(&mut two[..])];
    let got = handle(both.1).receive_pieces(pieces.into_iter(), 0);
    assert_eq!(got.map(|(count, _)| count), Ok(6));
    assert_eq!((one, two), (*b"ab", *b"cdef"));
    end(both);
}

#[test]
fn both_halves_one_after_the_other_are_the_whole() {
    for (first, second) in [(libc::SHUT_RD, libc::SHUT_WR), (libc::SHUT_WR, libc::SHUT_RD)] {
        let both = pair("127.48.97.3:0", "127.48.97.4:0");
        assert_eq!(handle(both.0).shutdown(first), Ok(()));
        assert_eq!(handle(both.0).shutdown(second), Ok(()));
        assert_eq!(send(both.0, b"x"), Err(Errno(libc::EPIPE)));
        assert_eq!(receive(both.0, &mut [0], 0), Ok(0));
        assert_eq!(wait_for(both.0, POLLIN | POLLOUT, 0), POLLIN | POLLOUT | POLLHUP);
        assert_ne!(wait_for(both.1, POLLIN, LONG_MS) & POLLIN, 0);
        assert_eq!(receive(both.1, &mut [0], 0), Ok(0));
        assert_eq!(send(both.1, b"x"), Err(Errno(libc::ECONNRESET)), "nobody takes it");
        end(both);
    }
}

#[test]
fn a_half_is_shut_down_once_and_wrong_halves_never() {
    let both = pair("127.48.97.5:0", "127.48.97.6:0");
    for how in [-1, 3, c_int::MAX] {
        assert_eq!(handle(both.0).shutdown(how), Err(INVALID), "{how}");
    }
    assert_eq!(send(both.0, b"x"), Ok(1), "nothing was shut down");
    for _ in 0..10 {
        assert_eq!(handle(both.0).shutdown(libc::SHUT_WR), Ok(()));
    }
    let mut out = [0; 4];
    assert_eq!(receive(both.1, &mut out, MSG_WAITALL), Ok(1), "the end ends the wait");
    assert_eq!(receive(both.1, &mut out, MSG_WAITALL), Ok(0));
    assert_eq!(handle(both.0).shutdown(libc::SHUT_RDWR), Ok(()));
    assert_eq!(handle(both.0).shutdown(libc::SHUT_RDWR), Ok(()));
    end(both);
}

#[test]
fn when_both_ends_have_written_all_both_read_the_end() {
    let both = pair("127.48.97.7:0", "127.48.97.8:0");
    for fd in [both.0, both.1] {
        assert_eq!(send(fd, b"bye"), Ok(3));
        assert_eq!(handle(fd).shutdown(libc::SHUT_WR), Ok(()));
    }
    for fd in [both.0, both.1] {
        let mut out = [0; 8];
        assert_eq!((receive(fd, &mut out, MSG_WAITALL), &out[..3]), (Ok(3), &b"bye"[..]));
        assert_eq!(receive(fd, &mut out, 0), Ok(0));
        assert_eq!(send(fd, b"x"), Err(Errno(libc::EPIPE)));
    }
    end(both);
}

#[test]
fn a_closed_peer_is_the_end_and_then_a_reset() {
    let both = pair("127.48.97.9:0", "127.48.97.10:0");
    assert_eq!(send(both.0, b"last"), Ok(4));
    let closes = std::thread::spawn(move || close(both.0));
    let mut out = [0; 8];
    assert_eq!(receive(both.1, &mut out, MSG_WAITALL), Ok(4));
    assert_eq!(closes.join().expect("no panic"), Ok(()));
    assert_eq!(receive(both.1, &mut out, 0), Ok(0));
    assert_eq!(send(both.1, b"x"), Err(Errno(libc::ECONNRESET)));
    assert_ne!(events(both.1) & POLLHUP, 0);
    assert_eq!(close(both.1), Ok(()));
}

#[test]
fn a_sender_that_does_not_wait_sends_what_there_is_room_for() {
    let both = pair_with("127.48.97.11:0", "127.48.97.12:0", small(4_096));
    let data: Vec<u8> = (0..10_000_u32).map(|n| (n % 253) as u8).collect();
    let mut sent = send(both.0, &data).expect("there is room for some");
    assert!(sent < data.len(), "the ring has 4096 bytes, the peer half of that");
    let mut got = Vec::new();
    while got.len() < data.len() {
        let mut out = [0; 700];
        assert_ne!(wait_for(both.1, POLLIN, LONG_MS), 0);
        let count = receive(both.1, &mut out, MSG_DONTWAIT).unwrap_or(0);
        got.extend_from_slice(&out[..count]);
        if sent < data.len() && wait_for(both.0, POLLOUT, 0) & POLLOUT != 0 {
            sent += send(both.0, &data[sent..]).expect("poll said so");
        }
        if got.len() == sent && sent < data.len() {
            assert_ne!(wait_for(both.0, POLLOUT, LONG_MS), 0, "it has room again");
        }
    }
    assert!(got == data);
    end(both);
}

#[test]
fn a_large_message_passes_in_both_directions_at_once() {
    let both = pair_with("127.48.97.13:0", "127.48.97.14:0", small(1 << 14));
    let data =
        |salt: u32| -> Vec<u8> { (0..200_000_u32).map(|n| (n * salt % 251) as u8).collect() };
    let run = move |fd: c_int, ours: u32, theirs: u32| {
        let sender = std::thread::spawn(move || handle(fd).send(&data(ours), 0, None));
        let mut got = vec![0; 200_000];
        assert_eq!(receive(fd, &mut got, MSG_WAITALL), Ok(got.len()));
        assert!(got == data(theirs));
        assert_eq!(sender.join().expect("no panic"), Ok(200_000));
    };
    let other = std::thread::spawn(move || run(both.1, 5, 3));
    run(both.0, 3, 5);
    other.join().expect("no panic");
    end(both);
}

#[test]
fn flags_that_are_unknown_are_refused_and_those_that_mean_nothing_taken() {
    let both = pair("127.48.97.15:0", "127.48.97.16:0");
    for flag in [libc::MSG_OOB, libc::MSG_PEEK, libc::MSG_TRUNC, 1 << 30] {
        assert_eq!(handle(both.0).send(b"x", flag, None), Err(NOT_SUPPORTED), "{flag:#x}");
    }
    for flag in [libc::MSG_OOB, libc::MSG_TRUNC, libc::MSG_ERRQUEUE, 1 << 30] {
        assert_eq!(receive(both.1, &mut [0], flag), Err(NOT_SUPPORTED), "{flag:#x}");
    }
    let fine = libc::MSG_NOSIGNAL | libc::MSG_MORE | libc::MSG_WAITALL;
    assert_eq!(handle(both.0).send(b"x", fine, None), Ok(1));
    assert_eq!(receive(both.1, &mut [0], libc::MSG_NOSIGNAL), Ok(1));
    assert_eq!(handle(both.0).send(b"x", 0, handle(both.0).peer()), Err(Errno(libc::EISCONN)));
    assert_eq!((send(both.0, b""), receive(both.1, &mut [], 0)), (Ok(0), Ok(0)), "nothing");
    end(both);
}

#[test]
fn a_connected_socket_does_not_listen_bind_or_connect() {
    let both = pair("127.48.97.17:0", "127.48.97.18:0");
    for fd in [both.0, both.1] {
        assert_eq!(handle(fd).listen(1), Err(INVALID));
        assert_eq!(handle(fd).bind(at("127.48.97.19:0")), Err(INVALID));
        assert_eq!(handle(fd).connect(at("127.48.97.19:9")), Err(Errno(libc::EISCONN)));
        assert_eq!(handle(fd).accept().err(), Some(INVALID));
        assert_eq!(handle(fd).option(libc::SOL_SOCKET, libc::SO_ACCEPTCONN), Ok(0));
    }
    assert_eq!(handle(both.0).peer(), handle(both.1).local());
    assert_eq!(handle(both.1).peer(), handle(both.0).local());
    end(both);
}

#[test]
fn a_listener_does_not_send_receive_or_shut_down() {
    let listener = new(libc::SOCK_STREAM);
    let not_connected = Errno(libc::ENOTCONN);
    assert_eq!(handle(listener).peer(), None);
    handle(listener).bind(at("127.48.97.20:0")).expect("a free port");
    assert_eq!(handle(listener).bind(at("127.48.97.20:0")), Err(INVALID), "it is bound");
    handle(listener).listen(2).expect("it is bound");
    assert_eq!(send(listener, b"x"), Err(not_connected));
    assert_eq!(receive(listener, &mut [0], 0), Err(not_connected));
    assert_eq!(receive(listener, &mut [], 0), Err(not_connected));
    assert_eq!(handle(listener).shutdown(libc::SHUT_RDWR), Err(not_connected));
    assert_eq!(handle(listener).write_mapped(b"x", 0, 0), Err(not_connected));
    let get = |level, name| handle(listener).option(level, name);
    assert_eq!(get(libc::SOL_SOCKET, libc::SO_ACCEPTCONN), Ok(1));
    assert_eq!(get(libc::SOL_SOCKET, libc::SO_TYPE), Ok(libc::SOCK_STREAM));
    assert_eq!(get(libc::IPPROTO_TCP, libc::TCP_MAXSEG), Ok(0), "no connection");
    assert_eq!(close(listener), Ok(()));
}

#[test]
fn a_port_has_one_listener() {
    let (one, two) = (new(libc::SOCK_STREAM), new(libc::SOCK_STREAM));
    handle(one).bind(at("127.48.97.21:0")).expect("a free port");
    handle(one).listen(2).expect("it is bound");
    let taken = handle(one).local().expect("it listens");
    let refused = handle(two).bind(taken).and_then(|()| handle(two).listen(2));
    assert_eq!(refused, Err(Errno(libc::EADDRINUSE)));
    assert_eq!((close(one), close(two)), (Ok(()), Ok(())));
    let three = new(libc::SOCK_STREAM);
    assert_eq!(handle(three).bind(taken), Ok(()), "it is free again");
    assert_eq!(handle(three).listen(2), Ok(()));
    assert_eq!(close(three), Ok(()));
}

#[test]
fn a_socket_of_ipv6_only_leaves_its_port_to_ipv4() {
    let both_bind = |kind| {
        let (v4, v6) = (new(kind), socket(libc::AF_INET6, kind, 0).expect("a descriptor"));
        let only = |value| handle(v6).set_option(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, value);
        assert_eq!(only(1), Ok(()));
        handle(v6).bind(at("[::]:0")).expect("a free port");
        let port = handle(v6).local().expect("it is bound").port();
        let bound = handle(v4).bind(at(&format!("0.0.0.0:{port}")));
        assert_eq!((close(v4), close(v6)), (Ok(()), Ok(())));
        bound.is_ok()
    };
    for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
        // Another test may have the port of one of these on an address of IPv4.
        assert!((0..10).any(|_| both_bind(kind)), "{kind}");
    }
}

#[test]
fn an_accepted_connection_that_gets_no_descriptor_ends() {
    let (listener, caller) = (new(libc::SOCK_STREAM), new(libc::SOCK_STREAM | libc::SOCK_NONBLOCK));
    handle(listener).bind(at("127.48.97.22:0")).expect("a free port");
    handle(listener).listen(2).expect("it is bound");
    handle(caller).bind(at("127.48.97.23:0")).expect("a free port");
    let to = handle(listener).local().expect("it listens");
    assert_eq!(handle(caller).connect(to), Err(Errno(libc::EINPROGRESS)));
    let accepted = handle(listener).accept().expect("a request");
    assert_eq!(accepted.peer(), handle(caller).local());
    drop(accepted);
    assert_ne!(wait_for(caller, POLLIN, LONG_MS), 0);
    assert!(receive(caller, &mut [0], 0).is_err(), "it is over");
    assert_eq!((close(listener), close(caller)), (Ok(()), Ok(())));
}

#[test]
fn a_listener_closed_with_requests_refuses_them() {
    let (listener, caller) = (new(libc::SOCK_STREAM), new(libc::SOCK_STREAM | libc::SOCK_NONBLOCK));
    handle(listener).bind(at("127.48.97.24:0")).expect("a free port");
    handle(listener).listen(2).expect("it is bound");
    handle(caller).bind(at("127.48.97.25:0")).expect("a free port");
    let to = handle(listener).local().expect("it listens");
    assert_eq!(handle(caller).connect(to), Err(Errno(libc::EINPROGRESS)));
    assert_eq!(wait_for(listener, POLLIN, LONG_MS), POLLIN, "the request waits");
    assert_eq!(close(listener), Ok(()));
    assert_ne!(wait_for(caller, POLLOUT, LONG_MS) & libc::POLLERR, 0);
    let error = handle(caller).option(libc::SOL_SOCKET, libc::SO_ERROR);
    assert_eq!(error, Ok(libc::ECONNREFUSED));
    assert_eq!(close(caller), Ok(()));
}

#[test]
fn a_request_that_is_taken_back_does_not_end_its_listener() {
    let listener = new(libc::SOCK_STREAM);
    handle(listener).bind(at("127.48.97.60:0")).expect("a free port");
    handle(listener).listen(2).expect("it is bound");
    let to = handle(listener).local().expect("it listens");
    let call = |from: &str| {
        let caller = new(libc::SOCK_STREAM | libc::SOCK_NONBLOCK);
        handle(caller).bind(at(from)).expect("a free port");
        assert_eq!(handle(caller).connect(to), Err(Errno(libc::EINPROGRESS)));
        caller
    };
    let hasty = call("127.48.97.61:0");
    assert_eq!(wait_for(listener, POLLIN, LONG_MS), POLLIN, "the request waits");
    assert_eq!(close(hasty), Ok(()));
    while events(listener) == POLLIN {
        std::thread::yield_now();
    }
    assert_eq!(events(listener), 0, "nothing waits, and nothing is wrong");
    let caller = call("127.48.97.62:0");
    let accepted = handle(listener).accept().expect("the next request").into_fd();
    assert_eq!(wait_for(caller, POLLOUT, LONG_MS), POLLOUT);
    end((caller, accepted));
    assert_eq!(close(listener), Ok(()));
}

#[test]
fn options_of_a_listener_are_those_of_its_connections() {
    let both = pair_with("127.48.97.26:0", "127.48.97.27:0", |socket| {
        socket.set_option(SOL_RDMA, RDMA_SQSIZE, 20).expect("in range");
        socket.set_option(libc::IPPROTO_TCP, libc::TCP_NODELAY, 1).expect("it is kept");
        socket.set_linger(Some(5));
    });
    for fd in [both.0, both.1] {
        assert_eq!(handle(fd).option(SOL_RDMA, RDMA_SQSIZE), Ok(20));
        assert_eq!(handle(fd).option(libc::IPPROTO_TCP, libc::TCP_NODELAY), Ok(1));
        assert_eq!(handle(fd).linger(), Some(5));
        let segment = handle(fd).option(libc::IPPROTO_TCP, libc::TCP_MAXSEG).expect("connected");
        assert!([256, 512, 1024, 2048, 4096].contains(&segment), "{segment}");
    }
    assert_eq!(handle(both.0).set_option(SOL_RDMA, RDMA_RQSIZE, 16), Ok(()), "for a later one");
    end(both);
}

#[test]
fn a_sender_has_as_many_messages_under_way_as_its_queue() {
    let both = pair_with("127.48.97.28:0", "127.48.97.29:0", |socket| {
        socket.set_option(SOL_RDMA, RDMA_SQSIZE, 16).expect("in range");
    });
    // Each is sent by the device before the next; its place comes back with the completion.
    for message in 0..100 {
        assert_ne!(wait_for(both.0, POLLOUT, LONG_MS) & POLLOUT, 0, "message {message}");
        assert_eq!(send(both.0, b"x"), Ok(1), "message {message}");
    }
    assert_eq!(receive(both.1, &mut [0; 100], MSG_WAITALL), Ok(100));
    end(both);
}

/// A buffer of a program; only its numbers are used here.
fn buffer(length: usize, offset: i64) -> Buffer {
    Buffer { addr: 0x1000, length, writable: true, offset }
}

#[test]
fn what_cannot_be_mapped_is_not_registered() {
    let both = pair_with("127.48.97.30:0", "127.48.97.31:0", |socket| {
        socket.set_option(SOL_RDMA, RDMA_IOMAPSIZE, 1).expect("in range");
    });
    let never =
        |buffer: Buffer| handle(both.0).map(&buffer, |_| unreachable!("it cannot be mapped"));
    assert_eq!(never(buffer(8, -2)), Err(INVALID), "only -1 means anywhere");
    assert_eq!(never(buffer(8, i64::MIN)), Err(INVALID));
    assert_eq!(never(buffer(8, i64::MAX - 7)), Err(INVALID), "it ends behind the last offset");
    assert_eq!(never(buffer(usize::MAX, 8)), Err(INVALID));
    let fails = |buffer: Buffer| handle(both.0).map(&buffer, |_| Err(Errno(libc::EFAULT)));
    assert_eq!(fails(buffer(8, i64::MAX - 8)), Err(Errno(libc::EFAULT)), "the last one that fits");
    assert_eq!(fails(buffer(8, -1)), Err(Errno(libc::EFAULT)));
    assert_eq!(handle(both.0).unmap(0x1000, 8), Err(INVALID), "nothing was mapped");
    end(both);
}

#[test]
fn a_peer_without_a_table_lets_nobody_map_for_it() {
    let both = pair("127.48.97.32:0", "127.48.97.33:0");
    let never = |_: &uroce_rdmacm::OwnedId| unreachable!("there is no entry for it");
    let refused = handle(both.0).map(&buffer(8, -1), never);
    assert_eq!(refused, Err(Errno(libc::ENOMEM)));
    let alone = new(libc::SOCK_STREAM);
    assert_eq!(handle(alone).map(&buffer(8, -1), never), Err(Errno(libc::ENOTCONN)));
    assert_eq!(close(alone), Ok(()));
    end(both);
}

#[test]
fn descriptors_of_other_things_are_no_sockets() {
    let pipe = std::io::pipe().expect("two descriptors");
    let bad = Errno(libc::EBADF);
    for fd in [-1, c_int::MIN, c_int::MAX, std::os::fd::AsRawFd::as_raw_fd(&pipe.0)] {
        assert_eq!((Handle::get(fd).err(), close(fd)), (Some(bad), Err(bad)), "{fd}");
        assert!(Handle::find(fd).is_none());
    }
    let stream = socket(libc::AF_INET6, libc::SOCK_STREAM, libc::IPPROTO_TCP).expect("a socket");
    let held = handle(stream);
    assert_eq!(close(stream), Ok(()));
    assert_eq!(held.receive(&mut [0], 0), Err(bad), "a call that has begun does not go on");
    assert_eq!(held.send(b"x", 0, None), Err(bad));
    assert_eq!(held.accept().err(), Some(bad));
    assert_eq!(close(stream), Err(bad), "the second time");
}

#[test]
fn commands_of_fcntl_that_are_unknown_are_refused() {
    let fd = new(libc::SOCK_STREAM);
    let fcntl = |command, argument| handle(fd).fcntl(command, argument);
    for command in [libc::F_DUPFD, libc::F_SETFD, libc::F_GETLK, -1, c_int::MAX] {
        assert_eq!(fcntl(command, 0), Err(NOT_SUPPORTED), "{command}");
    }
    assert_eq!(fcntl(libc::F_GETFL, -1), Ok(libc::O_RDWR));
    assert_eq!(fcntl(libc::F_SETFL, i64::from(!libc::O_NONBLOCK)), Ok(0));
    assert_eq!(fcntl(libc::F_GETFL, 0), Ok(libc::O_RDWR), "other flags mean nothing");
    assert_eq!(fcntl(libc::F_SETFL, -1), Ok(0));
    assert_eq!(fcntl(libc::F_GETFL, 0), Ok(libc::O_RDWR | libc::O_NONBLOCK));
    assert_eq!(close(fd), Ok(()));
}

#[test]
fn a_call_that_waits_goes_on_when_another_thread_does_not_wait() {
    let both = pair("127.48.97.34:0", "127.48.97.35:0");
    let waits = std::thread::spawn(move || {
        let mut out = [0; 5];
        (receive(both.1, &mut out, MSG_WAITALL), out)
    });
    for _ in 0..50 {
        assert_eq!(events(both.1) & !POLLIN, 0);
        assert_eq!(send(both.0, b""), Ok(0));
    }
    assert_eq!(send(both.0, b"first"), Ok(5));
    assert_eq!(waits.join().expect("no panic"), (Ok(5), *b"first"));
    assert_eq!(receive(both.1, &mut [0], MSG_DONTWAIT), Err(AGAIN));
    end(both);
}
