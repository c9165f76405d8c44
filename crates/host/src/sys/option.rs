//! Socket options that have no safe wrapper.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libc::c_int;

/// Sets an integer socket option.
pub fn set(socket: impl AsFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    let length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is borrowed for the call, and the kernel reads `length` bytes of
    // `value`, which lives on this stack.
    let result = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an integer socket option.
pub fn get(socket: impl AsFd, level: c_int, name: c_int) -> io::Result<c_int> {
    read(socket, level, name).map(c_int::from_ne_bytes)
}

/// A number for the network namespace of the socket, which no other one on this host has (SO_NETNS_COOKIE, Linux 5.14).
pub fn network_namespace(socket: impl AsFd) -> io::Result<u64> {
    read(socket, libc::SOL_SOCKET, SO_NETNS_COOKIE).map(u64::from_ne_bytes)
}

/// asm-generic/socket.h
const SO_NETNS_COOKIE: c_int = 71;

/// Other processes can send no descriptors to this unix socket any more, nor to what it accepts from now on: to close one may take as
/// long as its sender likes, and the kernel does so where it is received or dropped. False: they still can (before Linux 6.16).
pub fn refuse_descriptors(socket: impl AsFd) -> bool {
    set(socket, libc::SOL_SOCKET, SO_PASSRIGHTS, 0).is_ok()
}

/// asm-generic/socket.h
const SO_PASSRIGHTS: c_int = 83;

/// True if this unix socket has sent something that its peer has not read yet (SIOCOUTQ).
pub fn is_unread(socket: impl AsFd) -> bool {
    let mut bytes: c_int = 0;
    // SAFETY: the descriptor is borrowed for the call, and the kernel writes an int, which lives on this stack.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    result == 0 && bytes > 0
}

/// Messages that this socket had no room for, since it was opened (SO_MEMINFO, Linux 4.12); 0 where that is not told.
pub fn overflows(socket: impl AsFd) -> u64 {
    let counters = read::<{ MEMINFO * 4 }>(socket, libc::SOL_SOCKET, libc::SO_MEMINFO);
    let drops = counters.ok().and_then(|all| all[MEMINFO_DROPS * 4..].first_chunk().copied());
    drops.map_or(0, |drops| u32::from_ne_bytes(drops).into())
}

/// Numbers that SO_MEMINFO gives, and the place of the one we want (linux/sock_diag.h).
const MEMINFO: usize = 9;
const MEMINFO_DROPS: usize = 8;

/// Reads a socket option of up to `N` bytes; those that the kernel does not write are 0.
fn read<const N: usize>(socket: impl AsFd, level: c_int, name: c_int) -> io::Result<[u8; N]> {
    let fd = socket.as_fd().as_raw_fd();
    let (mut value, mut length) = ([0; N], N as libc::socklen_t);
    let to = value.as_mut_ptr().cast();
    // SAFETY: the descriptor is borrowed for the call, and the kernel writes up to `length` bytes to
    // `value`, which is that long and lives on this stack.
    let result = unsafe { libc::getsockopt(fd, level, name, to, &raw mut length) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn what_a_unix_socket_has_sent_is_unread_until_it_is_read() {
        use std::io::{Read, Write};
        let (mut one, mut other) = std::os::unix::net::UnixStream::pair().expect("sockets");
        assert!(!is_unread(&one));
        one.write_all(b"abc").expect("sent");
        assert!(is_unread(&one) && !is_unread(&other));
        other.read_exact(&mut [0; 3]).expect("it came");
        assert!(!is_unread(&one));
    }

    #[test]
    fn what_is_set_is_read_and_an_unknown_option_is_an_error() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        set(&socket, libc::IPPROTO_IP, libc::IP_TTL, 9).expect("an option");
        assert_eq!(get(&socket, libc::IPPROTO_IP, libc::IP_TTL).expect("an option"), 9);
        assert!(set(&socket, libc::IPPROTO_IP, -1, 0).is_err());
        assert!(get(&socket, libc::IPPROTO_IP, -1).is_err());
    }
}
