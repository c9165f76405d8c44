//! The transmit sockets: one for each UDP source port.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use socket2::Socket;
use uroce_host::interface::Link;
use uroce_host::{Buffer, enlarge, option};

use super::{UdpConfig, socket};

/// RoCEv2 source ports have their two top bits set.
const FIRST_PORT: u16 = 0xC000;

/// Ports tried when the wanted one is taken.
const ATTEMPTS: u16 = 256;

/// Most transmit sockets of a process.
const MAX_SOURCE_PORTS: usize = 256;

/// The socket of one source port.
#[derive(Debug)]
struct SourcePort {
    socket: Socket,
    /// The wanted port when the socket was opened; differs from `port` when that was taken.
    wanted: u16,
    port: u16,
}

/// The sockets of all source ports, opened on first use.
#[derive(Debug)]
pub(crate) struct SourcePorts {
    local: SocketAddr,
    link: Link,
    send_buffer: usize,
    offload: bool,
    limit: usize,
    list: Vec<SourcePort>,
}

impl SourcePorts {
    pub(crate) fn new(local: SocketAddr, link: Link, config: &UdpConfig, offload: bool) -> Self {
        let limit = config.source_ports.clamp(1, MAX_SOURCE_PORTS);
        let list = Vec::with_capacity(limit);
        Self { local, link, send_buffer: config.send_buffer, offload, limit, list }
    }

    /// The real port for `wanted`: that port or the next free one while new sockets are allowed,
    /// after that one of those there are. `None` when there is none at all.
    pub(crate) fn port(&mut self, wanted: u16) -> Option<u16> {
        let wanted = FIRST_PORT | wanted;
        let known = self.list.iter().find(|known| known.wanted == wanted);
        let known = known.or_else(|| self.list.iter().find(|known| known.port == wanted));
        if let Some(known) = known {
            return Some(known.port);
        }
        if self.list.len() < self.limit {
            match self.open(wanted) {
                Ok(opened) => {
                    let port = opened.port;
                    self.list.push(opened);
                    return Some(port);
                }
                Err(error) => {
                    tracing::warn!(wanted, %error, "no further UDP source port can be opened");
                    // From here on the ports must not change.
                    self.limit = self.list.len();
                }
            }
        }
        let index = usize::from(wanted).checked_rem(self.list.len())?;
        Some(self.list[index].port)
    }

    fn open(&self, wanted: u16) -> io::Result<SourcePort> {
        let socket = self.unbound()?;
        let port = bind_near(&socket, self.local, wanted)?;
        Ok(SourcePort { socket, wanted, port })
    }

    fn unbound(&self) -> io::Result<Socket> {
        let socket = socket::open(&self.local, self.offload)?;
        socket::aim_multicast(&socket, &self.local, self.link);
        enlarge(&socket, Buffer::Send, self.send_buffer);
        // The socket is never read, so packets to it shall not fill memory. The kernel raises 0 to
        // its minimum.
        socket.set_recv_buffer_size(0)?;
        Ok(socket)
    }

    /// A second socket with a source port that is in use here.
    pub(super) fn open_beside(&self, port: u16) -> io::Result<Socket> {
        let first = self.with_port(port).ok_or(Errno::ADDRNOTAVAIL)?;
        let second = self.unbound()?;
        let mut local = self.local;
        local.set_port(port);
        // A port can be bound once more while all its sockets say so. The first one says so only here.
        second.set_reuse_address(true)?;
        first.set_reuse_address(true)?;
        let bound = second.bind(&local.into());
        first.set_reuse_address(false)?;
        bound?;
        // Threads of this process may be in several network namespaces, and the address in more than one.
        match option::network_namespace(first)? == option::network_namespace(&second)? {
            true => Ok(second),
            false => Err(Errno::ADDRNOTAVAIL.into()),
        }
    }

    /// The socket with that source port.
    pub(crate) fn socket(&self, port: u16) -> Option<BorrowedFd<'_>> {
        self.with_port(port).map(AsFd::as_fd)
    }

    fn with_port(&self, port: u16) -> Option<&Socket> {
        self.list.iter().find(|known| known.port == port).map(|known| &known.socket)
    }
}

/// Binds to the first free port from `wanted` on, wrapping round within the RoCEv2 range.
fn bind_near(socket: &Socket, mut local: SocketAddr, wanted: u16) -> io::Result<u16> {
    for step in 0..ATTEMPTS {
        let port = FIRST_PORT | wanted.wrapping_add(step);
        local.set_port(port);
        match socket.bind(&local.into()) {
            Ok(()) => return Ok(port),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::ADDRINUSE) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::ADDRINUSE.into())
}
