//! The sizes of socket buffers.

use libc::c_int;
use socket2::Socket;

use crate::sys::option;

/// Asks for a large buffer, past the system's limit where that is permitted; returns what was
/// granted (the kernel reserves twice that, for its own bookkeeping).
pub fn enlarge(socket: &Socket, buffer: Buffer, bytes: usize) -> usize {
    let wanted = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    let (force, plain) = match buffer {
        Buffer::Receive => (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        Buffer::Send => (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    };
    let forced = option::set(socket, libc::SOL_SOCKET, force, wanted);
    if let Err(error) = forced.or_else(|_| option::set(socket, libc::SOL_SOCKET, plain, wanted)) {
        tracing::debug!(wanted, %error, "socket buffer stays as it is");
    }
    let granted = match buffer {
        Buffer::Receive => socket.recv_buffer_size(),
        Buffer::Send => socket.send_buffer_size(),
    };
    granted.unwrap_or(0) / 2
}

/// The two buffers of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// For what arrives.
    Receive,
    /// For what is sent.
    Send,
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Type};

    use super::*;

    #[test]
    fn what_was_granted_is_told_without_the_share_of_the_kernel() {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
        for buffer in [Buffer::Receive, Buffer::Send] {
            let small = enlarge(&socket, buffer, 16 << 10);
            assert_eq!(small, 16 << 10);
            assert!(enlarge(&socket, buffer, 64 << 10) > small, "{buffer:?}");
        }
    }
}
