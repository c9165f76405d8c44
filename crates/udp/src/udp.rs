//! UDP sockets of the kernel: works everywhere, without any privilege.

pub(crate) mod connected;
pub(crate) mod receive;
pub(crate) mod send;
pub(crate) mod socket;
pub(crate) mod source_ports;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use socket2::Socket;
use uroce_datapath::{
    Burst, Caps, Datapath, DatapathStats, Flush, GsoLimit, IcrcCaps, IcrcRx, IcrcTx, Recipient,
    Route, RxPacket, check_group,
};
use uroce_host::interface::{Link, scoped};
use uroce_host::{BindError, Buffer, check_local, enlarge};
use uroce_wire::{TRAIN_BYTES, TRAIN_PACKETS};

use self::receive::Receiver;
use self::send::Sender;
use self::source_ports::SourcePorts;
use crate::sys::splice::PAGES;
use crate::sys::udp::{MAX_BATCH, check_receiving};

/// How to open a [`UdpDatapath`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UdpConfig {
    /// A unicast address of this host, and the RoCE port (4791; 0 lets the kernel choose one).
    pub local: SocketAddr,
    /// How many UDP source ports to use, each with a socket of its own; 1 to 256.
    pub source_ports: usize,
    /// Receive buffer to ask for, in bytes.
    pub recv_buffer: usize,
    /// Send buffer to ask for on each source port, in bytes.
    pub send_buffer: usize,
    /// Messages in one system call, 1 to 16.
    pub batch: usize,
    /// Packets of one size pass through the kernel as one (UDP_SEGMENT, UDP_GRO) where it can do
    /// so. Costs the UDP checksum 0 of RoCEv2 hardware: the kernel insists on a real one.
    pub offload: bool,
    /// Packets may leave out of the buffer in which they are written, without a copy (vmsplice and splice, Linux 6.5), where
    /// their sender [allows it](Datapath::tx_in_place) and `offload` is on.
    pub in_place: bool,
    /// Other sockets of this user may have the same port (SO_REUSEPORT):
    /// [`SlotDatapath`](crate::SlotDatapath) sees to it that each gets its packets.
    pub shared: bool,
}

impl UdpConfig {
    /// 8 source ports, buffers of 4 MiB, 16 messages in a system call, offload, in place.
    #[must_use]
    pub fn new(local: SocketAddr) -> Self {
        let buffer = 4 * 1024 * 1024;
        Self {
            local,
            source_ports: 8,
            recv_buffer: buffer,
            send_buffer: buffer,
            batch: MAX_BATCH,
            offload: true,
            in_place: true,
            shared: false,
        }
    }
}

/// RoCEv2 over ordinary UDP sockets.
///
/// One socket receives on the RoCE port; one socket for each source port sends, and one more for each of a few routes with
/// bulk data. A sent IPv4 packet carries as identification its place in its GSO batch, 0 if it is alone, and on such a route
/// that plus the number that the kernel gives the batch; of received ones the identification is hidden.
#[derive(Debug)]
pub struct UdpDatapath {
    local: SocketAddr,
    caps: Caps,
    source_ports: SourcePorts,
    sender: Sender,
    receiver: Receiver,
    stats: DatapathStats,
}

impl UdpDatapath {
    /// Opens the receive socket.
    ///
    /// # Errors
    ///
    /// [`BindError`], which says what to do about it.
    pub fn bind(config: &UdpConfig) -> Result<Self, BindError> {
        let Opened { socket, local, own, link, batch, segments, merged, stats } = open(config)?;
        check_receiving(socket.as_fd())
            .map_err(|error| BindError::explain("receiving packets", local, error))?;
        let receiver = Receiver::new(own, link, socket, batch, config.recv_buffer, merged)
            .map_err(|error| BindError::explain("opening an epoll descriptor", local, error))?;
        let (burst, in_place) = match segments && config.in_place {
            true => (burst(true).with_ring(RING_BYTES, PAGES), IN_PLACE_BYTES as u64),
            false => (burst(segments), 0),
        };
        Ok(Self {
            local,
            caps: Caps { in_place, ..caps(link.mtu, batch, segments) },
            source_ports: SourcePorts::new(own, link, config, config.offload),
            sender: Sender::new(burst, link.index),
            receiver,
            stats,
        })
    }

    pub(crate) fn receive_socket(&self) -> &Socket {
        &self.receiver.socket
    }
}

/// A receive socket, and what the kernel granted it.
pub(crate) struct Opened {
    pub(crate) socket: Socket,
    /// Our address and RoCE port.
    pub(crate) local: SocketAddr,
    /// The same with its scope.
    pub(crate) own: SocketAddr,
    pub(crate) link: Link,
    /// Messages in one system call.
    pub(crate) batch: usize,
    /// The kernel segments GSO batches (UDP_SEGMENT).
    pub(crate) segments: bool,
    /// Packets of a GSO batch arrive as one (UDP_GRO).
    pub(crate) merged: bool,
    /// With the sizes of the buffers.
    pub(crate) stats: DatapathStats,
}

/// Opens and binds the receive socket of a datapath that uses the kernel's UDP.
pub(crate) fn open(config: &UdpConfig) -> Result<Opened, BindError> {
    check_local(&config.local)?;
    let failed = |what| move |error| BindError::explain(what, config.local, error);
    let socket =
        socket::open(&config.local, config.offload).map_err(failed("opening a UDP socket"))?;
    let link = Link::of(config.local.ip(), &socket);
    let wanted = scoped(config.local, link.index);
    if config.shared {
        socket.set_reuse_port(true).map_err(failed("sharing a UDP port"))?;
    }
    socket.bind(&wanted.into()).map_err(failed("binding a UDP socket"))?;
    socket::show_headers(&socket, &wanted).map_err(failed("asking for packet headers"))?;
    socket::aim_multicast(&socket, &wanted, link);
    let recv_buffer = enlarge(&socket, Buffer::Receive, config.recv_buffer);
    let send_buffer = enlarge(&socket, Buffer::Send, config.send_buffer);
    let segments = config.offload && socket::can_segment(&socket);
    let merged = config.offload && socket::merge_received(&socket);
    let bound = socket.local_addr().map_err(failed("reading the bound port"))?;
    let mut local = config.local;
    local.set_port(bound.as_socket().map_or(local.port(), |bound| bound.port()));
    Ok(Opened {
        socket,
        local,
        own: scoped(local, link.index),
        link,
        batch: config.batch.clamp(1, MAX_BATCH),
        segments,
        merged,
        stats: DatapathStats { recv_buffer, send_buffer, ..DatapathStats::default() },
    })
}

impl Datapath for UdpDatapath {
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

    fn tx_distrust(&mut self) {
        self.sender.distrust();
    }

    fn tx_only_to(&mut self, recipient: Option<Recipient>) {
        if self.caps.in_place > 0 {
            self.sender.commit_only_to(recipient);
        }
    }

    fn tx_in_place(&mut self, packets: usize) {
        if self.caps.in_place > 0 {
            self.sender.allow_in_place(packets);
        }
    }

    fn flush(&mut self) -> io::Result<Flush> {
        self.sender.flush(&self.source_ports, &self.receiver.socket, &mut self.stats)
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

/// Packets between two flushes where each is sent on its own.
const SINGLES: usize = 64;

/// Bytes of packets that are built before they are sent; what is more would leave the cache.
const BURST_BYTES: usize = 192 * 1024;

/// Bytes of packets that are sent in place before others take their place: what fits into the cache of a processor.
const RING_BYTES: usize = 1024 * 1024;

/// Most unacknowledged bytes of them. A burst is built before it is sent, and each begins with a page.
const IN_PLACE_BYTES: usize = (RING_BYTES - BURST_BYTES) / 2;

pub(crate) fn burst(segments: bool) -> Burst {
    if !segments {
        return Burst::new(SINGLES, GsoLimit { packets: 1, ..GsoLimit::NONE });
    }
    let limit = GsoLimit { packets: TRAIN_PACKETS, bytes: TRAIN_BYTES };
    Burst::with_room(8 * TRAIN_PACKETS, BURST_BYTES, limit)
}

pub(crate) fn caps(mtu: usize, batch: usize, segments: bool) -> Caps {
    Caps {
        name: "udp",
        mtu,
        tx_batch: if segments { 8 * TRAIN_PACKETS } else { SINGLES },
        rx_batch: batch,
        icrc: IcrcCaps { rx: IcrcRx::Solve16, tx: IcrcTx::Seal },
        segments: if segments { TRAIN_PACKETS } else { 1 },
        in_place: 0,
        zero_copy: false,
        headers_visible: false,
        needs: "no privilege; UDP port 4791 must be free, or shared by this user, on the chosen address",
    }
}
