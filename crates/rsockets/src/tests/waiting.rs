//! poll(2) on sockets of ours and other descriptors together.

use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use libc::{MSG_DONTWAIT, POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, c_int, pollfd};
use uroce_ibverbs::descriptor;
use uroce_ibverbs::errno::Errno;

use super::{LONG_MS, at, end, handle, new, pair};
use crate::datagram_header::Introduction;
use crate::{Deadline, Handle, close, poll};

fn one(fd: c_int, events: i16) -> pollfd {
    // Of an earlier call: poll overwrites it.
    pollfd { fd, events, revents: -1 }
}

fn look(fds: &mut [pollfd]) -> usize {
    poll(fds, &Deadline::of_poll(0)).expect("no signal")
}

fn pipe() -> (PipeReader, PipeWriter) {
    std::io::pipe().expect("two descriptors")
}

#[test]
fn nothing_to_wait_for_is_only_the_time() {
    assert_eq!(look(&mut []), 0);
    assert_eq!(poll(&mut [], &Deadline::after(Duration::from_millis(1))), Ok(0));
}

#[test]
fn each_descriptor_is_told_of_by_itself() {
    let both = pair("127.48.98.1:0", "127.48.98.2:0");
    let (mut reader, mut writer) = pipe();
    // The end that was called may not have heard yet that the connection stands.
    assert_eq!(poll(&mut [one(both.1, POLLOUT)], &Deadline::of_poll(LONG_MS)), Ok(1));
    let mut set = [
        one(both.0, POLLIN),
        one(reader.as_raw_fd(), POLLIN),
        one(both.1, POLLIN | POLLOUT),
        one(writer.as_raw_fd(), POLLOUT),
        one(both.0, POLLOUT),
    ];
    assert_eq!(look(&mut set), 3);
    assert_eq!(set.map(|one| one.revents), [0, 0, POLLOUT, POLLOUT, POLLOUT]);
    writer.write_all(b"x").expect("there is room");
    assert_eq!(handle(both.1).send(b"y", 0, None), Ok(1));
    assert_eq!(poll(&mut set[..1], &Deadline::of_poll(LONG_MS)), Ok(1));
    assert_eq!(look(&mut set), 5);
    assert_eq!(set.map(|one| one.revents), [POLLIN, POLLIN, POLLOUT, POLLOUT, POLLOUT]);
    reader.read_exact(&mut [0]).expect("it was written");
    assert_eq!(handle(both.0).receive(&mut [0], 0).map(|(count, _)| count), Ok(1));
    assert_eq!(look(&mut set), 3, "both were read");
    end(both);
}

#[test]
fn one_pipe_twice_with_other_events_has_two_answers() {
    let (reader, mut writer) = pipe();
    writer.write_all(b"x").expect("there is room");
    let fd = reader.as_raw_fd();
    let mut set = [one(fd, 0), one(fd, POLLIN), one(fd, POLLOUT)];
    assert_eq!(look(&mut set), 1);
    assert_eq!(set.map(|one| one.revents), [0, POLLIN, 0]);
    drop(writer);
    assert_eq!(look(&mut set), 3, "nobody writes any more");
    assert_eq!(set.map(|one| one.revents), [POLLHUP, POLLIN | POLLHUP, POLLHUP]);
}

#[test]
fn negative_descriptors_are_passed_over_and_closed_ones_named() {
    let socket = new(libc::SOCK_STREAM);
    assert_eq!(close(socket), Ok(()));
    let mut set = [one(-1, POLLIN), one(c_int::MIN, POLLOUT), one(c_int::MAX, POLLIN)];
    assert_eq!(look(&mut set), 1);
    assert_eq!(set.map(|one| one.revents), [0, 0, POLLNVAL]);
}

#[test]
fn sockets_without_a_connection_hang_up() {
    let (idle, listener) = (new(libc::SOCK_STREAM), new(libc::SOCK_STREAM));
    handle(listener).bind(at("127.48.98.3:0")).expect("a free port");
    handle(listener).listen(1).expect("it is bound");
    let mut set = [one(idle, POLLIN), one(idle, POLLIN | POLLOUT), one(listener, POLLIN | POLLOUT)];
    assert_eq!(look(&mut set), 2);
    assert_eq!(set.map(|one| one.revents), [POLLHUP, POLLHUP | POLLOUT, 0], "as TCP has it");
    assert_eq!((close(idle), close(listener)), (Ok(()), Ok(())));
}

#[test]
fn events_that_nobody_asked_for_are_errors_only() {
    let both = pair("127.48.98.4:0", "127.48.98.5:0");
    assert_eq!(handle(both.0).send(b"x", 0, None), Ok(1));
    assert_eq!(poll(&mut [one(both.1, POLLIN)], &Deadline::of_poll(LONG_MS)), Ok(1));
    let mut set = [one(both.1, 0), one(both.1, libc::POLLPRI), one(both.0, 0)];
    assert_eq!(look(&mut set), 0);
    handle(both.0).stream().expect("a stream").state().id.disconnect();
    assert_eq!(handle(both.1).receive(&mut [0], 0).map(|(count, _)| count), Ok(1));
    assert_eq!(poll(&mut set[..1], &Deadline::of_poll(LONG_MS)), Ok(1));
    assert_eq!(set[0].revents, POLLERR | POLLHUP);
    end(both);
}

#[test]
fn a_sleeper_is_woken_by_whichever_comes_first() {
    let both = pair("127.48.98.6:0", "127.48.98.7:0");
    let (reader, mut writer) = pipe();
    let read = reader.as_raw_fd();
    let sleep = move || {
        let mut set = [one(both.1, POLLIN), one(read, POLLIN)];
        let ready = poll(&mut set, &Deadline::never());
        (ready, set.map(|one| one.revents))
    };
    let sleeper = std::thread::spawn(sleep);
    writer.write_all(b"x").expect("there is room");
    assert_eq!(sleeper.join().expect("no panic"), (Ok(1), [0, POLLIN]));
    drop(writer);
    drop(reader);
    let (reader, _writer) = pipe();
    let read = reader.as_raw_fd();
    let sleeper = std::thread::spawn(move || {
        let mut set = [one(both.1, POLLIN), one(read, POLLIN)];
        let ready = poll(&mut set, &Deadline::never());
        (ready, set.map(|one| one.revents))
    });
    assert_eq!(handle(both.0).send(b"x", 0, None), Ok(1));
    assert_eq!(sleeper.join().expect("no panic"), (Ok(1), [POLLIN, 0]));
    end(both);
}

#[test]
fn several_threads_sleep_on_one_socket() {
    let both = pair("127.48.98.8:0", "127.48.98.9:0");
    let sleepers = [(); 3].map(|()| {
        std::thread::spawn(move || {
            let mut set = [one(both.1, POLLIN)];
            poll(&mut set, &Deadline::of_poll(LONG_MS)).map(|ready| (ready, set[0].revents))
        })
    });
    assert_eq!(handle(both.0).send(b"x", 0, None), Ok(1));
    for sleeper in sleepers {
        assert_eq!(sleeper.join().expect("no panic"), Ok((1, POLLIN)));
    }
    end(both);
}

/// Two ends that are connected, and have taken what both have said then.
fn settled_pair(ours: &str, theirs: &str) -> (c_int, c_int) {
    let both = pair(ours, theirs);
    assert_eq!(poll(&mut [one(both.1, POLLOUT)], &Deadline::of_poll(LONG_MS)), Ok(1));
    let is_settled = |fd| handle(fd).stream().expect("a stream").state().is_settled();
    while !(is_settled(both.0) && is_settled(both.1)) {}
    assert_eq!(look(&mut [one(both.0, POLLIN), one(both.1, POLLIN)]), 0);
    both
}

#[test]
fn a_call_of_another_thread_leaves_the_event_to_who_sleeps() {
    let both = settled_pair("127.48.98.10:0", "127.48.98.11:0");
    let socket = handle(both.1);
    let any = socket.any();
    let completions = *any.fds().last().expect("that of the completion channel");
    let readable = |timeout| {
        descriptor::poll(&mut [one(completions, POLLIN)], timeout).expect("no signal") > 0
    };
    let sleeper = any.waiters().enter();
    let asleep = sleeper.falls_asleep(sleeper.sleep_limit());
    while any.arm(&asleep) {}
    assert_eq!(handle(both.0).send(b"x", 0, None), Ok(1));
    assert!(readable(LONG_MS), "it is woken");
    assert_eq!(socket.receive(&mut [0], MSG_DONTWAIT).map(|(count, _)| count), Ok(1));
    assert!(readable(0), "another call comes before it runs");
    let other = any.waiters().enter();
    let falls_asleep = other.falls_asleep(other.sleep_limit());
    let _armed = any.arm(&falls_asleep);
    assert!(readable(0), "another one falls asleep before it runs");
    drop(asleep);
    assert!(any.arm(&falls_asleep), "it runs: the event is not needed any more");
    end(both);
}

/// One thread sleeps for a socket, and a call of another one handles what it waits for before it runs: it is woken.
fn assert_woken(socket: &Handle, call: impl FnOnce()) {
    let any = socket.any();
    let sleeper = any.waiters().enter();
    let asleep = sleeper.falls_asleep(Duration::from_secs(20));
    while any.arm(&asleep) {}
    call();
    let begin = Instant::now();
    asleep.sleep(&any.fds(), &Deadline::never()).expect("no signal");
    assert!(begin.elapsed() < Duration::from_secs(10), "it slept on");
}

#[test]
fn a_datagram_by_udp_that_another_call_takes_wakes_who_sleeps() {
    let (from, two) = (new(libc::SOCK_DGRAM), new(libc::SOCK_DGRAM));
    handle(from).bind(at("127.48.98.12:0")).expect("a free port");
    handle(two).bind(at("127.48.98.13:0")).expect("a free port");
    assert_woken(&handle(two), || {
        let to = handle(two).local();
        assert_eq!(handle(from).send(b"first", 0, to), Ok(5));
        while look(&mut [one(two, POLLIN)]) == 0 {}
    });
    assert_eq!(handle(two).receive(&mut [0; 8], MSG_DONTWAIT).map(|(count, _)| count), Ok(5));
    assert_eq!((close(from), close(two)), (Ok(()), Ok(())));
}

#[test]
fn a_request_that_another_call_takes_wakes_who_sleeps() {
    let (listener, caller) = (new(libc::SOCK_STREAM), new(libc::SOCK_STREAM | libc::SOCK_NONBLOCK));
    handle(listener).bind(at("127.48.98.14:0")).expect("a free port");
    handle(listener).listen(1).expect("it is bound");
    handle(caller).bind(at("127.48.98.15:0")).expect("a free port");
    let to = handle(listener).local().expect("it listens");
    assert_woken(&handle(listener), || {
        assert_eq!(handle(caller).connect(to), Err(Errno(libc::EINPROGRESS)));
        while look(&mut [one(listener, POLLIN)]) == 0 {}
    });
    let accepted = handle(listener).accept().expect("the request").into_fd();
    assert_eq!(poll(&mut [one(caller, POLLOUT)], &Deadline::of_poll(LONG_MS)), Ok(1));
    assert_eq!(close(listener), Ok(()));
    end((caller, accepted));
}

#[test]
fn a_queue_pair_that_another_call_makes_is_slept_on() {
    let (socket, peer) = (new(libc::SOCK_DGRAM), at("127.48.98.19:9"));
    handle(socket).bind(at("127.48.98.18:0")).expect("a free port");
    assert_woken(&handle(socket), || assert_eq!(handle(socket).connect(peer), Ok(())));
    assert_eq!(close(socket), Ok(()));
}

#[test]
fn a_half_that_another_call_shuts_down_wakes_who_sleeps() {
    let both = settled_pair("127.48.98.20:0", "127.48.98.21:0");
    assert_woken(&handle(both.0), || {
        assert_eq!(handle(both.0).shutdown(libc::SHUT_RD), Ok(()));
    });
    end(both);
}

#[test]
fn a_socket_that_another_call_closes_wakes_who_sleeps() {
    for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
        let fd = new(kind);
        assert_woken(&handle(fd), || assert_eq!(close(fd), Ok(())));
    }
}

#[test]
fn a_thread_that_polls_wakes_another_one_that_waits() {
    let two = new(libc::SOCK_DGRAM);
    handle(two).bind(at("127.48.98.17:0")).expect("a free port");
    let to = handle(two).local().expect("it is bound");
    let peer = UdpSocket::bind("127.48.98.16:0").expect("a free port");
    let introduction = Introduction { is_data: true, qpn: 17, to: to.ip() };
    let mut slept = Duration::ZERO;
    for _ in 0..20 {
        let sleeper = std::thread::spawn(move || {
            poll(&mut [one(two, POLLIN)], &Deadline::never()).expect("no signal");
            Instant::now()
        });
        std::thread::sleep(Duration::from_millis(5));
        let bytes = [&introduction.encode()[..], b"x"].concat();
        peer.send_to(&bytes, to).expect("loopback takes it");
        while look(&mut [one(two, POLLIN)]) == 0 {}
        let there = Instant::now();
        slept += sleeper.join().expect("no panic").saturating_duration_since(there);
        assert_eq!(handle(two).receive(&mut [0], MSG_DONTWAIT).map(|(count, _)| count), Ok(1));
    }
    assert!(slept < Duration::from_secs(4), "{slept:?} in 20 waits");
    assert_eq!(close(two), Ok(()));
}
