//! UDP sockets with segmentation and reassembly by the kernel, which takes long batches out of our memory without a copy.

use std::io::ErrorKind;
use std::net::{self, SocketAddr};
use std::ops::Range;
use std::os::fd::AsFd;

use libc::{SOL_UDP, UDP_GRO, UDP_SEGMENT};
use uroce_host::{Buffer, enlarge, option};
use uroce_testbed::error::{Context, Error, Result};
use uroce_udp::SplicePipe;

use super::wire::BareSocket;
use crate::link::{Link, LinkEnd};

/// Where both ends are.
const PORT: u16 = 5301;
/// Bytes for what has arrived and was not taken yet.
const BUFFER: usize = 4 << 20;
/// Bytes of batches that stay unchanged behind the one that is built: more than are on their way.
const RING: usize = 1 << 20;
/// Bytes of a page of memory.
const PAGE: usize = 4096;
/// Shorter batches are copied.
const SPLICED: usize = 16 * 1024;
/// The longest datagram, or several that the kernel has joined.
const LONGEST: usize = 1 << 16;

/// One end.
#[derive(Debug)]
pub struct UdpSocket {
    socket: net::UdpSocket,
    pipe: SplicePipe,
    segment: usize,
    ring: Vec<u8>,
    /// Where the batch is, which begins with a page.
    batch: Range<usize>,
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
        let pipe = SplicePipe::new().context(|| "no pipe")?;
        let (ring, received) = (vec![0; RING + LONGEST + PAGE], vec![0; LONGEST]);
        Ok(Self { socket: socket.into(), pipe, segment, ring, batch: 0..0, received })
    }

    fn room(&mut self, bytes: usize) -> Result<&mut [u8]> {
        let page = self.ring.as_ptr().align_offset(PAGE);
        let behind = page + self.batch.end.saturating_sub(page).next_multiple_of(PAGE);
        let start = if behind + bytes > self.ring.len() { page } else { behind };
        self.batch = start..start + bytes;
        self.ring.get_mut(self.batch.clone()).ok_or_else(|| Error::new("too long for a datagram"))
    }

    fn send(&mut self) -> Result<bool> {
        let batch = &self.ring[self.batch.clone()];
        let sent = match batch.len() >= SPLICED {
            true => self.pipe.send(self.socket.as_fd(), batch),
            false => self.socket.send(batch).map(drop),
        };
        match sent {
            Ok(()) => Ok(true),
            Err(error) if is_passing(error.kind()) => {
                // It holds what was not sent.
                self.pipe = SplicePipe::new().context(|| "no pipe")?;
                Ok(false)
            }
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
