//! UDP sockets with segmentation and reassembly by the kernel.

use std::io::ErrorKind;
use std::net::{self, SocketAddr};

use libc::{SOL_UDP, UDP_GRO, UDP_SEGMENT};
use uroce_host::{Buffer, enlarge, option};
use uroce_testbed::error::{Context, Result};

use super::wire::BareSocket;
use crate::link::{Link, LinkEnd};

/// Where both ends are.
const PORT: u16 = 5301;
/// Bytes for what has arrived and was not taken yet.
const BUFFER: usize = 4 << 20;
/// The longest datagram, or several that the kernel has joined.
const LONGEST: usize = 1 << 16;

/// One end.
#[derive(Debug)]
pub struct UdpSocket {
    socket: net::UdpSocket,
    segment: usize,
    train: Vec<u8>,
    received: Vec<u8>,
}

impl BareSocket for UdpSocket {
    fn open(_: &Link, end: LinkEnd, segment: usize) -> Result<Self> {
        let at = |end: LinkEnd| SocketAddr::new(end.address(), PORT);
        let socket = net::UdpSocket::bind(at(end)).context(|| "no UDP socket")?;
        socket.connect(at(end.other())).context(|| "no way to the other end")?;
        socket.set_nonblocking(true).context(|| "no O_NONBLOCK")?;
        option::set(&socket, SOL_UDP, UDP_SEGMENT, segment as i32).context(|| "no UDP_SEGMENT")?;
        option::set(&socket, SOL_UDP, UDP_GRO, 1).context(|| "no UDP_GRO")?;
        let socket = socket2::Socket::from(socket);
        enlarge(&socket, Buffer::Receive, BUFFER);
        enlarge(&socket, Buffer::Send, BUFFER);
        let (train, received) = (Vec::new(), vec![0; LONGEST]);
        Ok(Self { socket: socket.into(), segment, train, received })
    }

    fn room(&mut self, bytes: usize) -> Result<&mut [u8]> {
        self.train.resize(bytes, 0);
        Ok(&mut self.train)
    }

    fn send(&mut self) -> Result<bool> {
        match self.socket.send(&self.train) {
            Ok(_) => Ok(true),
            Err(error) if is_passing(error.kind()) => Ok(false),
            Err(error) => Err(error).context(|| "cannot send"),
        }
    }

    fn receive(&mut self, sink: &mut dyn FnMut(&[u8])) -> Result<()> {
        match self.socket.recv(&mut self.received) {
            Ok(count) => self.received[..count].chunks(self.segment).for_each(sink),
            Err(error) if is_passing(error.kind()) => {}
            Err(error) => return Err(error).context(|| "cannot receive"),
        }
        Ok(())
    }
}

/// No room, nothing there, or a message of ICMP from a time when the other end was not there yet.
fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::ConnectionRefused)
}
