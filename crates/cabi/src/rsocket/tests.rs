//! Sockets, called as C programs call them.

mod mapping;
mod slow_link;

use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::ptr::null_mut;

use libc::{c_int, c_void, iovec, pollfd, sockaddr_storage, socklen_t};
use uroce_ibverbs::object::zeroed;
use uroce_rdmacm::sockaddr;
use uroce_verbs_abi::{RDMA_IOMAPSIZE, SOL_RDMA};

use super::address::{rgetpeername, rgetsockname};
use super::connect::{raccept, rbind, rclose, rconnect, rlisten, rshutdown, rsocket};
use super::iomap::{riomap, riounmap, riowrite};
use super::options::{rfcntl, rgetsockopt, rsetsockopt};
use super::poll::{rpoll, rselect};
use super::receive::{rreadv, rrecv, rrecvfrom, rrecvmsg};
use super::send::{rsend, rsendto, rwritev};

const IN: i16 = libc::POLLIN;
const OUT: i16 = libc::POLLOUT;
/// Longer than any event takes.
const LONG_MS: c_int = 20_000;

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn new() -> c_int {
    let fd = rsocket(libc::AF_INET, libc::SOCK_STREAM, 0);
    assert!(fd >= 0, "errno {}", errno());
    fd
}

fn address(text: &str) -> sockaddr_storage {
    sockaddr::write(text.parse().expect("an address"))
}

const V4: socklen_t = size_of::<libc::sockaddr_in>() as socklen_t;

fn bind(fd: c_int, text: &str) {
    let mut at = address(text);
    // SAFETY: an address.
    assert_eq!(unsafe { rbind(fd, (&raw mut at).cast(), V4) }, 0, "errno {}", errno());
}

fn connect(fd: c_int, to: SocketAddr) -> c_int {
    let mut to = sockaddr::write(to);
    // SAFETY: an address.
    unsafe { rconnect(fd, (&raw mut to).cast(), V4) }
}

fn name(fd: c_int) -> SocketAddr {
    // SAFETY: integers.
    let (mut storage, mut length): (sockaddr_storage, _) = (unsafe { zeroed() }, V4);
    // SAFETY: room for an address.
    unsafe {
        assert_eq!(rgetsockname(fd, (&raw mut storage).cast(), &raw mut length), 0);
        sockaddr::read((&raw const storage).cast()).expect("an address")
    }
}

/// A listener, and where it listens.
fn listener(text: &str) -> (c_int, SocketAddr) {
    let fd = new();
    bind(fd, text);
    assert_eq!(rlisten(fd, 4), 0, "errno {}", errno());
    (fd, name(fd))
}

fn accept(fd: c_int) -> c_int {
    // SAFETY: null is allowed.
    unsafe { raccept(fd, null_mut(), null_mut()) }
}

/// Two ends that are connected.
fn pair(ours: &str, theirs: &str, set: impl Fn(c_int)) -> (c_int, c_int) {
    let (listener, at) = listener(theirs);
    set(listener);
    let caller = new();
    set(caller);
    bind(caller, ours);
    // Who calls waits until the call is accepted.
    let calling = std::thread::spawn(move || (connect(caller, at), errno()));
    let called = accept(listener);
    assert!(called >= 0, "errno {}", errno());
    assert_eq!(calling.join().expect("no panic").0, 0);
    assert_eq!(rclose(listener), 0);
    (caller, called)
}

fn close(both: (c_int, c_int)) {
    let other = std::thread::spawn(move || rclose(both.1));
    assert_eq!((rclose(both.0), other.join().expect("no panic")), (0, 0));
}

fn send(fd: c_int, data: &[u8], flags: c_int) -> isize {
    // SAFETY: a slice.
    unsafe { rsend(fd, data.as_ptr().cast(), data.len(), flags) }
}

fn receive(fd: c_int, out: &mut [u8], flags: c_int) -> isize {
    // SAFETY: a slice.
    unsafe { rrecv(fd, out.as_mut_ptr().cast(), out.len(), flags) }
}

fn poll(fd: c_int, events: i16, timeout: c_int) -> i16 {
    let mut one = pollfd { fd, events, revents: 0 };
    // SAFETY: one entry.
    let found = unsafe { rpoll(&raw mut one, 1, timeout) };
    assert_eq!(found, c_int::from(one.revents != 0));
    one.revents
}

#[test]
fn bytes_travel_both_ways_and_the_end_is_seen() {
    let both = pair("127.48.93.1:0", "127.48.93.2:0", |_| {});
    assert_eq!(send(both.0, b"", 0), 0);
    assert_eq!(send(both.0, b"x", 0), 1);
    let mut out = [0; 8];
    assert_eq!(receive(both.1, &mut [], 0), 0);
    assert_eq!((receive(both.1, &mut out, libc::MSG_PEEK), out[0]), (1, b'x'));
    assert_eq!((receive(both.1, &mut out, 0), out[0]), (1, b'x'));
    assert_eq!((receive(both.1, &mut out, libc::MSG_DONTWAIT), errno()), (-1, libc::EAGAIN));
    assert_eq!(send(both.1, b"hello", 0), 5);
    assert_eq!((receive(both.0, &mut out[..5], libc::MSG_WAITALL), &out[..5]), (5, &b"hello"[..]));
    assert_eq!(rshutdown(both.0, libc::SHUT_WR), 0);
    assert_eq!((send(both.0, b"x", 0), errno()), (-1, libc::EPIPE));
    assert_eq!(receive(both.1, &mut out, 0), 0, "the end of what comes");
    assert_eq!(send(both.1, b"still", 0), 5, "the other way is open");
    assert_eq!(receive(both.0, &mut out, 0), 5);
    close(both);
}

#[test]
fn more_than_the_buffers_hold_arrives_in_order() {
    let small = |fd| {
        let size: c_int = 4096;
        let value = (&raw const size).cast();
        for name in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
            // SAFETY: an int.
            assert_eq!(unsafe { rsetsockopt(fd, libc::SOL_SOCKET, name, value, 4) }, 0);
        }
    };
    let both = pair("127.48.93.3:0", "127.48.93.4:0", small);
    let data: Vec<u8> = (0..300_001_u32).map(|n| (n % 251) as u8).collect();
    let whole = data.clone();
    let sender = std::thread::spawn(move || send(both.0, &data, 0));
    let mut got = vec![0; whole.len()];
    assert_eq!(receive(both.1, &mut got, libc::MSG_WAITALL), whole.len() as isize);
    assert_eq!(sender.join().expect("no panic"), whole.len() as isize);
    assert!(got == whole);
    close(both);
}

#[test]
fn pieces_are_sent_and_received_in_turn() {
    let both = pair("127.48.93.5:0", "127.48.93.6:0", |_| {});
    let piece = |data: &mut [u8]| iovec {
        iov_base: data.as_mut_ptr().cast::<c_void>(),
        iov_len: data.len(),
    };
    let (mut ab, mut c) = (*b"ab", *b"c");
    let (mut first, mut second) = ([0; 1], [0; 4]);
    let out = [piece(&mut ab), piece(&mut []), piece(&mut c)];
    let parts = [piece(&mut first), piece(&mut second)];
    // SAFETY: as many pieces as are counted.
    unsafe {
        assert_eq!(rwritev(both.0, out.as_ptr(), 3), 3);
        while poll(both.1, IN, LONG_MS) & IN == 0 {}
        let mut got = rreadv(both.1, parts.as_ptr(), 2);
        while got < 3 {
            got += rrecv(both.1, second.as_mut_ptr().add(got as usize - 1).cast(), 4, 0);
        }
        assert_eq!((got, first, &second[..2]), (3, *b"a", &b"bc"[..]));
        assert_eq!((rwritev(both.0, out.as_ptr(), -1), errno()), (-1, libc::EINVAL));
        assert_eq!((rwritev(both.0, std::ptr::null(), 1), errno()), (-1, libc::EFAULT));
    }
    close(both);
}

#[test]
fn pieces_of_one_call_are_not_torn_by_another_thread() {
    const RECORDS: usize = 2_000;
    let both = pair("127.48.93.35:0", "127.48.93.36:0", |_| {});
    let write = |mark: u8| {
        let half = [mark; 4];
        let pieces = [(); 2].map(|()| iovec { iov_base: half.as_ptr() as *mut c_void, iov_len: 4 });
        for _ in 0..RECORDS {
            // SAFETY: two slices.
            assert_eq!(unsafe { rwritev(both.0, pieces.as_ptr(), 2) }, 8);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| write(1));
        scope.spawn(|| write(2));
        let mut record = [0; 8];
        for _ in 0..2 * RECORDS {
            assert_eq!(receive(both.1, &mut record, libc::MSG_WAITALL), 8);
            assert!(record.iter().all(|byte| *byte == record[0]), "torn: {record:?}");
        }
    });
    close(both);
}

#[test]
fn calls_do_not_wait_if_the_program_says_so() {
    let (listener, at) = listener("127.48.93.7:0");
    let nonblocking = libc::O_NONBLOCK.into();
    assert_eq!(rfcntl(listener, libc::F_SETFL, nonblocking), 0);
    assert_eq!((accept(listener), errno()), (-1, libc::EAGAIN));
    let caller = rsocket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0);
    assert_eq!(rfcntl(caller, libc::F_GETFL, 0) & libc::O_NONBLOCK, libc::O_NONBLOCK);
    bind(caller, "127.48.93.8:0");
    assert_eq!((connect(caller, at), errno()), (-1, libc::EINPROGRESS));
    assert_eq!((connect(caller, at), errno()), (-1, libc::EALREADY));
    assert_eq!(poll(listener, IN, LONG_MS), IN);
    let called = accept(listener);
    assert!(called >= 0);
    assert_eq!(poll(caller, IN | OUT, LONG_MS), OUT);
    assert_eq!((connect(caller, at), errno()), (-1, libc::EISCONN));
    assert_eq!(poll(caller, IN, 10), 0, "nothing has come");
    let mut sent = 0;
    while send(caller, &[7; 5000], 0) > 0 {
        sent += 1;
    }
    assert!(sent > 0 && errno() == libc::EAGAIN, "until there is no room");
    assert_eq!((poll(called, OUT, LONG_MS), poll(called, IN, LONG_MS)), (OUT, IN));
    assert_eq!(rclose(listener), 0);
    close((caller, called));
}

#[test]
fn other_descriptors_are_polled_beside_sockets() {
    let both = pair("127.48.93.9:0", "127.48.93.10:0", |_| {});
    let mut pipe = [0; 2];
    // SAFETY: two descriptors, and a byte.
    unsafe {
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        let mut two = [both.0, pipe[0]].map(|fd| pollfd { fd, events: IN, revents: 0 });
        assert_eq!(rpoll(two.as_mut_ptr(), 2, 0), 0);
        assert_eq!(libc::write(pipe[1], b"x".as_ptr().cast(), 1), 1);
        assert_eq!(rpoll(two.as_mut_ptr(), 2, LONG_MS), 1);
        assert_eq!((two[0].revents, two[1].revents), (0, IN));
        let mut set = zeroed();
        libc::FD_SET(both.1, &raw mut set);
        libc::FD_SET(pipe[0], &raw mut set);
        let count = both.1.max(pipe[0]) + 1;
        assert_eq!(rselect(count, null_mut(), &raw mut set, null_mut(), null_mut()), 1);
        assert!(libc::FD_ISSET(both.1, &raw const set) && !libc::FD_ISSET(pipe[0], &raw const set));
        assert_eq!((rpoll(null_mut(), 1, 0), errno()), (-1, libc::EFAULT));
        assert_eq!(rpoll(null_mut(), 0, 1), 0);
        assert_eq!(pipe.map(|fd| libc::close(fd)), [0, 0]);
    }
    close(both);
}

#[test]
fn a_mapped_buffer_is_written_to() {
    let mapping = |fd| {
        let number: c_int = 2;
        let value = (&raw const number).cast();
        // SAFETY: an int.
        assert_eq!(unsafe { rsetsockopt(fd, SOL_RDMA, RDMA_IOMAPSIZE, value, 4) }, 0);
    };
    let both = pair("127.48.93.11:0", "127.48.93.12:0", mapping);
    let mut buffer = vec![0_u8; 100];
    let start: *mut c_void = buffer.as_mut_ptr().cast();
    // SAFETY: a buffer that lives until it is unmapped.
    unsafe {
        assert_eq!(
            (riowrite(both.0, b"x".as_ptr().cast(), 1, 0, 0) as isize, errno()),
            (-1, libc::EINVAL)
        );
        assert_eq!(
            (riomap(both.1, null_mut(), 1, libc::PROT_WRITE, 0, -1), errno()),
            (-1, libc::EINVAL)
        );
        assert_eq!(
            (riomap(both.1, start, 0, libc::PROT_WRITE, 0, -1), errno()),
            (-1, libc::EINVAL)
        );
        assert_eq!(riomap(both.1, start, 100, libc::PROT_WRITE, 0, 1000), 1000);
        assert_eq!(
            (riomap(both.1, start, 10, libc::PROT_WRITE, 0, 1090), errno()),
            (-1, libc::EINVAL),
            "taken"
        );
        assert_eq!(send(both.1, b"go", 0), 2);
        assert_eq!(receive(both.0, &mut [0; 2], libc::MSG_WAITALL), 2);
        assert_eq!(riowrite(both.0, b"hello".as_ptr().cast(), 5, 1010, 0), 5);
        assert_eq!(riowrite(both.0, b"hello".as_ptr().cast(), 5, 1096, 0), 4, "to the end");
        assert_eq!(send(both.0, b"!", 0), 1);
        assert_eq!(receive(both.1, &mut [0], 0), 1);
        let seen = start.cast::<u8>().add(10).cast::<[u8; 5]>().read_volatile();
        assert_eq!(&seen, b"hello");
        assert_eq!((riounmap(both.1, start, 99), errno()), (-1, libc::EINVAL));
        assert_eq!(riounmap(both.1, start, 100), 0);
    }
    close(both);
}

#[test]
fn a_wait_for_all_ends_where_reading_was_shut_down_before_all_was_read() {
    let both = pair("127.48.93.27:0", "127.48.93.28:0", |_| {});
    assert_eq!((send(both.0, b"unread", 0), poll(both.1, IN, LONG_MS)), (6, IN));
    assert_eq!(rshutdown(both.1, libc::SHUT_RD), 0);
    assert_eq!(receive(both.1, &mut [0; 8], libc::MSG_WAITALL), 0);
    close(both);
}

#[test]
fn poll_knows_all_names_of_what_it_tells() {
    let both = pair("127.48.93.29:0", "127.48.93.30:0", |_| {});
    let all = IN | OUT | libc::POLLRDNORM | libc::POLLWRNORM | libc::POLLRDHUP;
    assert_eq!(poll(both.1, all, LONG_MS), OUT | libc::POLLWRNORM);
    assert_eq!(send(both.0, b"x", 0), 1);
    assert_eq!(poll(both.1, libc::POLLRDNORM, LONG_MS), libc::POLLRDNORM);
    assert_eq!(rshutdown(both.0, libc::SHUT_WR), 0);
    assert_eq!(poll(both.1, libc::POLLRDHUP, LONG_MS), libc::POLLRDHUP, "the peer's half is over");
    assert_eq!(poll(both.1, all, 0), all);
    close(both);
}

#[test]
fn a_datagram_socket_that_is_connected_has_a_port() {
    let (one, two) = (rsocket(libc::AF_INET, libc::SOCK_DGRAM, 0), datagrams("127.48.93.37:0"));
    assert_eq!((connect(one, name(two)), name(one).port() > 0), (0, true));
    assert_eq!((rclose(one), rclose(two)), (0, 0));
}

#[test]
fn select_waits_for_what_its_sets_ask_for() {
    let (reader, writer) = std::io::pipe().expect("two descriptors");
    drop(writer);
    let mut time = libc::timeval { tv_sec: 0, tv_usec: 200_000 };
    let begin = std::time::Instant::now();
    // SAFETY: a set of integers, and a descriptor of this test.
    unsafe {
        let (fd, mut set) = (reader.as_raw_fd(), zeroed());
        libc::FD_SET(fd, &raw mut set);
        let sets = (null_mut(), null_mut(), &raw mut set);
        assert_eq!(rselect(fd + 1, sets.0, sets.1, sets.2, &raw mut time), 0);
        assert!(!libc::FD_ISSET(fd, &raw const set));
    }
    assert!(begin.elapsed() >= std::time::Duration::from_millis(200), "it came back early");
}

#[test]
fn datagrams_reach_another_program_that_has_the_address_of_the_first() {
    let (one, two) = (datagrams("127.48.93.33:0"), datagrams("127.48.93.34:0"));
    let (at, mut out) = (name(two), [0; 8]);
    let mut exchange = |two| {
        assert_eq!(send_to(one, b"ping", at), 4);
        assert_eq!((poll(two, IN, LONG_MS), receive_from(two, &mut out).0), (IN, 4));
    };
    exchange(two);
    // The answer, which has the number of the queue pair, is taken by any call.
    assert_eq!(receive(one, &mut [0; 8], libc::MSG_DONTWAIT), -1);
    exchange(two);
    assert_eq!(rclose(two), 0);
    let two = datagrams(&at.to_string());
    let came = (0..100).any(|_| send_to(one, b"ping", at) == 4 && poll(two, IN, 100) == IN);
    assert!(came, "100 datagrams in 10 s were lost");
    assert_eq!((rclose(one), rclose(two)), (0, 0));
}

#[test]
fn a_datagram_that_is_cut_off_says_so() {
    let (one, two) = (datagrams("127.48.93.31:0"), datagrams("127.48.93.32:0"));
    let mut out = [0_u8; 4];
    for (length, flags) in [(10, libc::MSG_TRUNC), (4, 0)] {
        assert_eq!(send_to(one, &vec![7; length], name(two)), length as isize);
        let mut piece = iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
        // SAFETY: integers and null pointers.
        let mut message: libc::msghdr = unsafe { zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut piece, 1);
        // SAFETY: a header with one piece.
        assert_eq!(unsafe { rrecvmsg(two, &raw mut message, 0) }, 4);
        assert_eq!(message.msg_flags, flags, "{length} bytes");
    }
    assert_eq!((rclose(one), rclose(two)), (0, 0));
}

#[test]
fn nobody_listens() {
    let caller = new();
    bind(caller, "127.48.93.17:0");
    let (other, mut at) = listener("127.48.93.18:0");
    at.set_port(at.port() ^ 1);
    assert_eq!((connect(caller, at), errno()), (-1, libc::ECONNREFUSED));
    // SAFETY: integers; room for an address.
    unsafe {
        let (mut storage, mut length): (sockaddr_storage, _) = (zeroed(), V4);
        let found = rgetpeername(caller, (&raw mut storage).cast(), &raw mut length);
        assert_eq!((found, errno()), (-1, libc::ENOTCONN));
    }
    assert_eq!((rclose(caller), rclose(other)), (0, 0));
}

#[test]
fn what_is_no_socket_and_what_is_not_connected_is_refused() {
    let refused = [
        (libc::AF_UNIX, libc::SOCK_STREAM, 0, libc::EAFNOSUPPORT),
        (libc::AF_INET, libc::SOCK_RAW, 0, libc::ESOCKTNOSUPPORT),
        (libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_UDP, libc::EPROTONOSUPPORT),
        (libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_TCP, libc::EPROTONOSUPPORT),
    ];
    for (domain, kind, protocol, why) in refused {
        assert_eq!((rsocket(domain, kind, protocol), errno()), (-1, why));
    }
    let fd = new();
    let mut bytes = [0; 4];
    assert_eq!((send(fd, b"x", 0), errno()), (-1, libc::ENOTCONN));
    assert_eq!((receive(fd, &mut bytes, 0), errno()), (-1, libc::ENOTCONN));
    assert_eq!((rshutdown(fd, libc::SHUT_RDWR), errno()), (-1, libc::ENOTCONN));
    assert_eq!((rshutdown(fd, 77), errno()), (-1, libc::EINVAL));
    assert_eq!((accept(fd), errno()), (-1, libc::EINVAL));
    // SAFETY: null and wrong lengths are checked.
    unsafe {
        assert_eq!((rbind(fd, std::ptr::null(), V4), errno()), (-1, libc::EINVAL));
        let mut at = address("127.48.93.19:0");
        assert_eq!((rbind(fd, (&raw mut at).cast(), 3), errno()), (-1, libc::EINVAL));
        assert_eq!((rgetpeername(fd, null_mut(), null_mut()), errno()), (-1, libc::ENOTCONN));
        assert_eq!((rgetsockname(fd, null_mut(), null_mut()), errno()), (-1, libc::EINVAL));
        assert_eq!(
            (rsetsockopt(fd, 1, libc::SO_SNDBUF, std::ptr::null(), 4), errno()),
            (-1, libc::EFAULT)
        );
        assert_eq!(
            (rgetsockopt(fd, 1, libc::SO_SNDBUF, null_mut(), null_mut()), errno()),
            (-1, libc::EFAULT)
        );
        assert_eq!((rsend(fd, std::ptr::null(), 4, 0), errno()), (-1, libc::EFAULT));
        assert_eq!((rrecvmsg(fd, null_mut(), 0), errno()), (-1, libc::EFAULT));
        assert_eq!(
            (rsend(fd, b"x".as_ptr().cast(), 1, libc::MSG_OOB), errno()),
            (-1, libc::EOPNOTSUPP)
        );
    }
    assert_eq!(rclose(fd), 0);
    assert_eq!((rclose(fd), errno()), (-1, libc::EBADF));
    assert_eq!((send(fd, b"x", 0), errno()), (-1, libc::EBADF));
    assert_eq!((rfcntl(fd, libc::F_GETFL, 0), errno()), (-1, libc::EBADF));
    assert_eq!((rlisten(-1, 1), errno()), (-1, libc::EBADF));
}

#[test]
fn options_and_names() {
    let both = pair("127.48.93.20:0", "127.48.93.21:0", |_| {});
    let get = |level, name| {
        let (mut value, mut length): (c_int, socklen_t) = (-1, 4);
        // SAFETY: an int.
        let done =
            unsafe { rgetsockopt(both.0, level, name, (&raw mut value).cast(), &raw mut length) };
        (done, value)
    };
    assert_eq!(get(libc::SOL_SOCKET, libc::SO_ERROR), (0, 0));
    assert_eq!(get(libc::SOL_SOCKET, libc::SO_TYPE), (0, libc::SOCK_STREAM));
    assert!(get(libc::IPPROTO_TCP, libc::TCP_MAXSEG).1 >= 256);
    assert_eq!(get(libc::SOL_SOCKET, 9999).0, -1);
    let (mut cut, mut length): (u16, socklen_t) = (u16::MAX, 1);
    let (at, size) = ((&raw mut cut).cast(), &raw mut length);
    // SAFETY: room for more than one byte.
    let done = unsafe { rgetsockopt(both.0, libc::SOL_SOCKET, libc::SO_TYPE, at, size) };
    let type_byte = (libc::SOCK_STREAM as u8).to_ne_bytes()[0];
    assert_eq!((done, length, cut.to_ne_bytes()), (0, 1, [type_byte, 0xff]));
    assert_eq!(name(both.0).ip().to_string(), "127.48.93.20");
    assert_eq!(send(both.1, b"from", 0), 4);
    // SAFETY: room for an address; integers.
    unsafe {
        let (mut from, mut length): (sockaddr_storage, _) = (zeroed(), V4);
        let mut out = [0; 4];
        let (to, at) = (out.as_mut_ptr().cast(), (&raw mut from).cast());
        assert_eq!(rrecvfrom(both.0, to, 4, 0, at, &raw mut length), 4);
        assert_eq!(sockaddr::read(at), Ok(name(both.1)));
        let elsewhere = rsendto(both.0, to, 4, 0, at, length);
        assert_eq!((elsewhere, errno()), (-1, libc::EISCONN));
    }
    close(both);
}

fn datagrams(at: &str) -> c_int {
    let fd = rsocket(libc::AF_INET, libc::SOCK_DGRAM, 0);
    assert!(fd >= 0, "errno {}", errno());
    bind(fd, at);
    fd
}

fn send_to(fd: c_int, data: &[u8], to: SocketAddr) -> isize {
    let to = sockaddr::write(to);
    // SAFETY: a slice and an address.
    unsafe { rsendto(fd, data.as_ptr().cast(), data.len(), 0, (&raw const to).cast(), V4) }
}

/// A datagram, and who sent it.
fn receive_from(fd: c_int, out: &mut [u8]) -> (isize, SocketAddr) {
    // SAFETY: integers; room for an address.
    unsafe {
        let (mut from, mut length): (sockaddr_storage, _) = (zeroed(), V4);
        let (data, at) = (out.as_mut_ptr().cast(), (&raw mut from).cast());
        let got = rrecvfrom(fd, data, out.len(), 0, at, &raw mut length);
        (got, sockaddr::read(at).expect("an address"))
    }
}

#[test]
fn datagrams_travel_both_ways() {
    let (one, two) = (datagrams("127.48.93.22:0"), datagrams("127.48.93.23:0"));
    let mut out = [0; 64];
    // The first round goes by UDP, the others from queue pair to queue pair.
    for round in 0..4_u8 {
        assert_eq!(send_to(one, &[round; 3], name(two)), 3);
        assert_eq!(receive_from(two, &mut out), (3, name(one)));
        assert_eq!(out[..3], [round; 3]);
        assert_eq!(send_to(two, &[], name(one)), 0);
        assert_eq!(receive_from(one, &mut out), (0, name(two)));
    }
    assert_eq!(send_to(one, &[1; 10], name(two)), 10);
    assert_eq!(poll(two, IN | OUT, LONG_MS) & OUT, OUT);
    assert_eq!(
        (receive_from(two, &mut out[..4]).0, receive(two, &mut out, libc::MSG_DONTWAIT)),
        (4, -1)
    );
    assert_eq!((send_to(one, &[0; 65_000], name(two)), errno()), (-1, libc::EMSGSIZE));
    assert_eq!((send(one, b"x", 0), errno()), (-1, libc::EDESTADDRREQ));
    assert_eq!((connect(one, name(two)), send(one, b"x", 0)), (0, 1));
    assert_eq!(receive_from(two, &mut out), (1, name(one)));
    assert_eq!((rlisten(one, 1), errno()), (-1, libc::EOPNOTSUPP));
    assert_eq!((rclose(one), rclose(two)), (0, 0));
}

#[test]
fn strangers_on_udp_and_on_the_queue_pair_are_ignored() {
    let (one, two) = (datagrams("127.48.93.24:0"), datagrams("127.48.93.25:0"));
    let stranger = std::net::UdpSocket::bind("127.48.93.26:0").expect("a socket");
    for bytes in [&b""[..], b"hello", &[0x55; 12], &[0x55; 65_000]] {
        stranger.send_to(bytes, name(two)).expect("loopback takes it");
    }
    assert_eq!(send_to(one, b"after", name(two)), 5);
    let mut out = [0; 64];
    assert_eq!(receive_from(two, &mut out), (5, name(one)));
    assert_eq!((rclose(one), rclose(two)), (0, 0));
}
