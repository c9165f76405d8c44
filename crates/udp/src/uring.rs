//! UDP sockets by io_uring: messages arrive without a system call for each batch.

mod error;
mod receive;

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::{fmt, io};

use socket2::Socket;
use uroce_datapath::{Caps, Datapath, DatapathStats, Flush, Route, RxPacket, check_group};
use uroce_host::BindError;

pub use self::error::UringError;
use self::receive::Receiver;
use crate::sys::uring::SendRing;
use crate::udp::send::Sender;
use crate::udp::source_ports::SourcePorts;
use crate::udp::{self, UdpConfig};

/// RoCEv2 over UDP sockets that are used by io_uring (Linux 6.0).
///
/// The kernel copies messages into buffers of ours as they arrive, and [`recv`](Datapath::recv) finds
/// them without a system call; a batch of sends is one system call. On the wire there is no
/// difference to [`UdpDatapath`](crate::UdpDatapath).
///
/// The kernel does its part of the work in the thread that opened the datapath, or that last found
/// the buffers full, and interrupts its system calls for it: poll(2) and read(2) go on by
/// themselves, but epoll_wait(2) may return EINTR without a signal. When that thread ends, the next
/// one that receives takes its place.
pub struct UringDatapath {
    local: SocketAddr,
    caps: Caps,
    source_ports: SourcePorts,
    sender: Sender,
    receiver: Receiver,
    ring: SendRing,
    stats: DatapathStats,
}

impl UringDatapath {
    /// Opens the rings and the receive socket.
    ///
    /// # Errors
    ///
    /// [`UringError`], which says what to do about it.
    pub fn bind(config: &UdpConfig) -> Result<Self, UringError> {
        let ring = SendRing::new().map_err(UringError::explain)?;
        let opened = udp::open(config)?;
        let arrivals = Receiver::ring(opened.merged).map_err(UringError::explain)?;
        let (local, own, link) = (opened.local, opened.own, opened.link);
        let (batch, segments, stats) = (opened.batch, opened.segments, opened.stats);
        let receiver = Receiver::new(opened, arrivals, config.recv_buffer)
            .map_err(|error| BindError::explain("arming a receive", local, error))?;
        Ok(Self {
            local,
            caps: Caps {
                name: "uring",
                needs: "Linux 6.0 with io_uring allowed; UDP port 4791 must be free, or shared by this \
                        user, on the address",
                ..udp::caps(link.mtu, batch, segments)
            },
            source_ports: SourcePorts::new(own, link, config, config.offload),
            sender: Sender::new(udp::burst(segments), link.index),
            receiver,
            ring,
            stats,
        })
    }

    pub(crate) fn receive_socket(&self) -> &Socket {
        self.receiver.socket()
    }
}

impl fmt::Debug for UringDatapath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UringDatapath").field("local", &self.local).finish_non_exhaustive()
    }
}

impl Datapath for UringDatapath {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn local(&self) -> SocketAddr {
        self.local
    }

    fn source_port(&mut self, wanted: u16) -> u16 {
        self.source_ports.port(wanted).unwrap_or(self.local.port())
    }

    #[inline]
    fn tx_space(&mut self) -> Option<&mut [u8]> {
        self.sender.space()
    }

    fn tx_packets(&self) -> usize {
        self.sender.room()
    }

    fn tx_commit(&mut self, route: &Route, len: usize, seal: &mut dyn FnMut(u16, &mut [u8])) {
        self.sender.commit(route, len, seal);
    }

    fn tx_break(&mut self) {
        self.sender.break_batch();
    }

    fn flush(&mut self) -> io::Result<Flush> {
        let Self { sender, source_ports, receiver, ring, stats, .. } = self;
        sender.flush_to(stats, &mut |port, messages| {
            let socket = source_ports.socket(port).unwrap_or_else(|| receiver.socket().as_fd());
            ring.send(socket, messages)
        })
    }

    fn recv(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> io::Result<usize> {
        self.receiver.recv(limit, &mut self.stats, sink)
    }

    fn arm(&mut self) -> bool {
        self.receiver.has_more()
    }

    fn waiter(&self) -> io::Result<OwnedFd> {
        self.receiver.waiter()
    }

    fn join(&mut self, group: IpAddr) -> io::Result<()> {
        check_group(&self.local, &group)?;
        self.receiver.join(group)
    }

    fn leave(&mut self, group: IpAddr) -> io::Result<()> {
        self.receiver.leave(group)
    }

    fn last_problem(&self) -> Option<String> {
        self.sender.problem.map(|problem| problem.to_string())
    }

    fn stats(&self) -> DatapathStats {
        let rx_dropped = self.stats.rx_dropped + self.receiver.overflows();
        DatapathStats { rx_dropped, ..self.stats }
    }
}
