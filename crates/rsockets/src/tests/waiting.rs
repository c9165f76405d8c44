//! poll(2) on sockets of ours and other descriptors together.

use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use libc::{MSG_DONTWAIT, POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, c_int, pollfd};
use uroce_ibverbs::descriptor;

use super::{LONG_MS, at, end, handle, new, pair};
use crate::{Deadline, close, poll};

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

#[test]
fn a_call_of_another_thread_leaves_the_event_to_who_sleeps() {
    let both = pair("127.48.98.10:0", "127.48.98.11:0");
    assert_eq!(poll(&mut [one(both.1, POLLOUT)], &Deadline::of_poll(LONG_MS)), Ok(1));
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
