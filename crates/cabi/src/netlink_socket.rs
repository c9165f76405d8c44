//! Sockets of RDMA netlink: what a program sends from one to the kernel is answered here.
//!
//! The socket is one of NETLINK_USERSOCK, between processes, which the kernel has everywhere and for everybody. So everything but
//! sending is that of any netlink socket: binding, its port number, receiving, poll(2), what a child gets. A request is answered within the
//! call that sends it, as by the kernel: the answers are in the queue of the socket when the call returns.
//!
//! The socket is connected to itself. From then on the kernel takes messages for it from nobody else.
//!
//! As those of [`interpose`](crate::interpose), these functions get the names of what they stand before in `cargo xtask dist`.

use std::io::{Error, ErrorKind};
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::thread;
use std::time::{Duration, Instant};

use libc::{c_int, c_uint, c_void, iovec, msghdr, size_t, sockaddr_nl, socklen_t, ssize_t};
use uroce_ibverbs::rdma_netlink;
use uroce_ibverbs::return_value::value;

use crate::interpose::next;

/// `NETLINK_RDMA`.
const RDMA: c_int = 20;
/// Bytes of one call that are read; a request is far shorter.
const LONGEST: usize = 64 << 10;
/// How long a program is waited for that does not read its answers.
const READER_TIMEOUT: Duration = Duration::from_secs(10);
/// How often it is looked whether it has read some.
const LOOK: Duration = Duration::from_millis(1);

#[unsafe(no_mangle)]
unsafe extern "C" fn uroce_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    type Function = unsafe extern "C" fn(c_int, c_int, c_int) -> c_int;
    let asks_rdma = domain == libc::AF_NETLINK && protocol == RDMA;
    let protocol = if asks_rdma { libc::NETLINK_USERSOCK } else { protocol };
    // SAFETY: three numbers, as the program gave them.
    unsafe { next::<Function>(c"socket", &NEXT)(domain, kind, protocol) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn uroce_sendto(
    socket: c_int,
    bytes: *const c_void,
    length: size_t,
    flags: c_int,
    to: *const c_void,
    to_length: socklen_t,
) -> ssize_t {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    type Function = unsafe extern "C" fn(
        c_int,
        *const c_void,
        size_t,
        c_int,
        *const c_void,
        socklen_t,
    ) -> ssize_t;
    // SAFETY: the arguments are those that the program gave to the C library.
    unsafe {
        if is_for_us(socket, to, to_length) {
            let part = iovec { iov_base: bytes.cast_mut(), iov_len: length };
            return value(-1, || answer(socket, &gathered(&[part])));
        }
        next::<Function>(c"sendto", &NEXT)(socket, bytes, length, flags, to, to_length)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn uroce_sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    type Function = unsafe extern "C" fn(c_int, *const msghdr, c_int) -> ssize_t;
    // SAFETY: a message as sendmsg(2) asks for, by the contract with C; null is left to the C library.
    unsafe {
        if let Some(sent) = message.as_ref()
            && is_for_us(socket, sent.msg_name, sent.msg_namelen)
            && !sent.msg_iov.is_null()
        {
            let parts = std::slice::from_raw_parts(sent.msg_iov, sent.msg_iovlen);
            return value(-1, || answer(socket, &gathered(parts)));
        }
        next::<Function>(c"sendmsg", &NEXT)(socket, message, flags)
    }
}

/// Whether this goes to the kernel, from a socket that [`uroce_socket`] made: nobody else sends to the kernel from a socket between
/// processes, where it takes nothing.
///
/// # Safety
/// `to` is null, or an address of that length.
unsafe fn is_for_us(socket: c_int, to: *const c_void, length: socklen_t) -> bool {
    if to.is_null() || (length as usize) < size_of::<sockaddr_nl>() {
        return false;
    }
    // SAFETY: not null and long enough; any bytes are an address. It may be unaligned.
    let to = unsafe { to.cast::<sockaddr_nl>().read_unaligned() };
    c_int::from(to.nl_family) == libc::AF_NETLINK
        && to.nl_pid == 0
        && to.nl_groups == 0
        && option(socket, libc::SO_PROTOCOL) == Some(libc::NETLINK_USERSOCK)
}

/// A number that the kernel knows about a socket.
fn option(socket: c_int, name: c_int) -> Option<c_int> {
    let (mut number, mut length) = (0_i32, size_of::<c_int>() as socklen_t);
    // SAFETY: room for a number, and its length.
    let done = unsafe {
        let out = (&raw mut number).cast();
        libc::getsockopt(socket, libc::SOL_SOCKET, name, out, &raw mut length)
    };
    (done == 0).then_some(number)
}

/// The bytes of all parts, up to [`LONGEST`].
///
/// # Safety
/// Each part is null, or has its length.
unsafe fn gathered(parts: &[iovec]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts.iter().filter(|part| !part.iov_base.is_null()) {
        let length = part.iov_len.min(LONGEST - bytes.len());
        // SAFETY: the caller's promise.
        bytes.extend(unsafe { std::slice::from_raw_parts(part.iov_base.cast::<u8>(), length) });
    }
    bytes
}

/// Puts the answers into the queue of the socket. As sendmsg(2): how many bytes were taken, or -1 with errno.
fn answer(socket: c_int, sent: &[u8]) -> ssize_t {
    let Ok(own) = connected(socket) else { return -1 };
    let answers = rdma_netlink::answer(sent, own.nl_pid);
    let mut left = answers.into_iter();
    while let Some(answer) = left.next() {
        if let Err(error) = put(socket, &own, &answer) {
            if error.kind() != ErrorKind::WouldBlock {
                return -1;
            }
            let rest = std::iter::once(answer).chain(left).collect();
            return put_later(socket, own, rest).map_or(-1, |()| sent.len().cast_signed());
        }
    }
    sent.len().cast_signed()
}

/// The socket's own address. It is connected to that: then nobody else can send to it.
fn connected(socket: c_int) -> Result<sockaddr_nl, ()> {
    let mut own = MaybeUninit::<sockaddr_nl>::zeroed();
    let mut length = size_of::<sockaddr_nl>() as socklen_t;
    // SAFETY: room for an address, which is zero until the kernel fills it; a socket without one gets one by the first call.
    unsafe {
        let mut nobody: sockaddr_nl = zeroed();
        nobody.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        let found = libc::getsockname(socket, own.as_mut_ptr().cast(), &raw mut length) == 0;
        if found && own.assume_init().nl_pid == 0 {
            libc::bind(socket, (&raw const nobody).cast(), length);
            libc::getsockname(socket, own.as_mut_ptr().cast(), &raw mut length);
        }
        let mut own = own.assume_init();
        own.nl_groups = 0;
        let done = found && libc::connect(socket, (&raw const own).cast(), length) == 0;
        if done { Ok(own) } else { Err(()) }
    }
}

/// Sends to the socket from itself, without waiting for room.
fn put(socket: c_int, own: &sockaddr_nl, bytes: &[u8]) -> Result<(), Error> {
    let flags: c_uint = (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL).cast_unsigned();
    // SAFETY: a system call with bytes, an address and their lengths. Not the C library's function, for which ours stands.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_sendto,
            socket,
            bytes.as_ptr(),
            bytes.len(),
            flags,
            std::ptr::from_ref(own),
            size_of::<sockaddr_nl>(),
        )
    };
    if sent < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

/// More than the queue has room for: a thread goes on while the program reads.
fn put_later(socket: c_int, own: sockaddr_nl, rest: Vec<Vec<u8>>) -> Result<(), ()> {
    // SAFETY: the program's descriptor, open during this call.
    let copy: OwnedFd =
        unsafe { BorrowedFd::borrow_raw(socket) }.try_clone_to_owned().map_err(drop)?;
    let go_on = move || {
        for answer in rest {
            let end = Instant::now() + READER_TIMEOUT;
            while let Err(error) = put(copy.as_raw_fd(), &own, &answer) {
                if error.kind() != ErrorKind::WouldBlock || Instant::now() > end {
                    return;
                }
                thread::sleep(LOOK);
            }
        }
    };
    uroce_device::host::Thread::spawn("uroce-netlink", go_on).map(drop).map_err(drop)
}

#[cfg(test)]
mod tests {
    use std::os::fd::FromRawFd;

    use super::*;

    /// RDMA_NLDEV_CMD_GET of all devices (NLM_F_REQUEST | NLM_F_DUMP), with sequence number 7.
    const ALL_DEVICES: [u16; 8] = [16, 0, 5 << 10 | 1, 0x301, 7, 0, 0, 0];
    /// NLMSG_DONE.
    const DONE: u16 = 3;

    fn bytes_of(words: [u16; 8]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn rdma_socket() -> OwnedFd {
        // SAFETY: numbers; the descriptor is this test's own.
        unsafe { OwnedFd::from_raw_fd(uroce_socket(libc::AF_NETLINK, libc::SOCK_RAW, RDMA)) }
    }

    fn kernel() -> sockaddr_nl {
        // SAFETY: numbers.
        let mut kernel: sockaddr_nl = unsafe { zeroed() };
        kernel.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        kernel
    }

    fn ask(socket: &OwnedFd, to: &sockaddr_nl, bytes: &[u8]) -> ssize_t {
        let (fd, at) = (socket.as_raw_fd(), std::ptr::from_ref(to).cast());
        let length = size_of::<sockaddr_nl>() as socklen_t;
        // SAFETY: bytes and an address with their lengths.
        unsafe { uroce_sendto(fd, bytes.as_ptr().cast(), bytes.len(), 0, at, length) }
    }

    /// The messages' types in what is there now.
    fn answers(socket: &OwnedFd) -> Vec<u16> {
        let (mut kinds, mut room) = (Vec::new(), [0_u8; 4096]);
        loop {
            let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
            // SAFETY: room for as many bytes as are said.
            let got = unsafe { libc::recv(fd, room.as_mut_ptr().cast(), room.len(), flags) };
            let Ok(got) = usize::try_from(got) else { return kinds };
            let mut rest = &room[..got];
            while let Some((length, kind)) = rest.get(..6).map(|head| {
                let length = u32::from_ne_bytes(head[..4].try_into().expect("four bytes"));
                (length as usize, u16::from_ne_bytes(head[4..].try_into().expect("two")))
            }) {
                kinds.push(kind);
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }

    #[test]
    fn v150_a_request_to_the_kernel_is_answered_when_the_call_returns() {
        let (socket, request) = (rdma_socket(), bytes_of(ALL_DEVICES));
        assert_eq!(ask(&socket, &kernel(), &request), 16);
        let kinds = answers(&socket);
        assert_eq!(kinds.last(), Some(&DONE));
        assert_eq!(kinds.len(), uroce_ibverbs::settings::devices().len() + 1);
        // By the other call, whose parts are put together.
        let (mut to, (head, tail)) = (kernel(), request.split_at(5));
        let part = |bytes: &[u8]| iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut parts = [part(head), part(tail)];
        // SAFETY: null pointers and numbers; then an address and two parts that live.
        unsafe {
            let mut message: msghdr = zeroed();
            message.msg_name = (&raw mut to).cast();
            message.msg_namelen = size_of::<sockaddr_nl>() as socklen_t;
            (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr(), 2);
            assert_eq!(uroce_sendmsg(socket.as_raw_fd(), &raw const message, 0), 16);
        }
        assert_eq!(answers(&socket), kinds);
    }

    #[test]
    fn v150_answers_wait_for_a_reader_whose_queue_is_full() {
        const REQUESTS: usize = 16;
        let (socket, room) = (rdma_socket(), 1_i32);
        let length = size_of::<c_int>() as socklen_t;
        // SAFETY: a number and its length. The kernel takes the least that it allows.
        let set = unsafe {
            let at = (&raw const room).cast();
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, at, length)
        };
        assert_eq!(set, 0);
        let requests = bytes_of(ALL_DEVICES).repeat(REQUESTS);
        assert_eq!(ask(&socket, &kernel(), &requests), requests.len().cast_signed());
        let (mut kinds, end) = (answers(&socket), Instant::now() + READER_TIMEOUT);
        let each = uroce_ibverbs::settings::devices().len() + 1;
        assert!(kinds.len() < REQUESTS * each, "the queue had no room for all");
        while kinds.len() < REQUESTS * each && Instant::now() < end {
            thread::sleep(LOOK);
            kinds.extend(answers(&socket));
        }
        assert_eq!(kinds.len(), REQUESTS * each);
        assert!(kinds.chunks(each).all(|dump| dump.last() == Some(&DONE)), "in order: {kinds:?}");
    }

    #[test]
    fn v150_a_reader_with_little_room_gets_a_beginning_and_goes_on() {
        let (socket, request) = (rdma_socket(), bytes_of(ALL_DEVICES));
        ask(&socket, &kernel(), &request);
        let (mut room, fd) = ([0xee_u8; 24], socket.as_raw_fd());
        let flags = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
        // SAFETY: room for 20 bytes, and four that must stay.
        let whole = unsafe { libc::recv(fd, room.as_mut_ptr().cast(), 20, flags) };
        assert!(whole > 20, "as long as it was: {whole}");
        assert_eq!(room[20..], [0xee; 4]);
        answers(&socket);
        ask(&socket, &kernel(), &request);
        assert_eq!(answers(&socket).last(), Some(&DONE), "the next request is answered whole");
    }

    #[test]
    fn v150_what_is_no_request_is_taken_and_not_answered() {
        let (socket, to) = (rdma_socket(), kernel());
        for length in [0, 1, 15, LONGEST, LONGEST + 1, 2 * LONGEST] {
            let taken = ask(&socket, &to, &vec![0; length]);
            assert_eq!(taken, length.min(LONGEST).cast_signed(), "{length}");
        }
        let (fd, address) = (socket.as_raw_fd(), std::ptr::from_ref(&to).cast());
        let length = size_of::<sockaddr_nl>() as socklen_t;
        // SAFETY: null is no bytes, whatever length is said.
        let taken = unsafe { uroce_sendto(fd, std::ptr::null(), 16, 0, address, length) };
        assert_eq!((taken, answers(&socket)), (0, vec![]));
    }

    #[test]
    fn v150_nobody_else_can_answer() {
        let (socket, other) = (rdma_socket(), rdma_socket());
        ask(&socket, &kernel(), &bytes_of(ALL_DEVICES));
        answers(&socket);
        let own = connected(socket.as_raw_fd()).expect("it is bound");
        assert!(ask(&other, &own, &[1; 16]) < 0, "the kernel refuses it");
        assert_eq!(answers(&socket), []);
    }

    #[test]
    fn v150_other_sockets_are_left_alone() {
        // SAFETY: numbers; the descriptor is this test's own.
        let route = unsafe {
            let route = uroce_socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE);
            OwnedFd::from_raw_fd(route)
        };
        assert_eq!(option(route.as_raw_fd(), libc::SO_PROTOCOL), Some(libc::NETLINK_ROUTE));
        let (to, length) = (kernel(), size_of::<sockaddr_nl>() as socklen_t);
        // SAFETY: an address and its length, null, and no socket.
        unsafe {
            let at = std::ptr::from_ref(&to).cast();
            assert!(!is_for_us(route.as_raw_fd(), at, length));
            assert!(!is_for_us(route.as_raw_fd(), at, 2) && !is_for_us(-1, at, length));
            assert!(!is_for_us(route.as_raw_fd(), std::ptr::null(), length));
        }
    }
}
