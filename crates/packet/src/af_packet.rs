//! AF_PACKET sockets: whole frames past the kernel's UDP and IP, for processes with CAP_NET_RAW.

mod arp_queue;
mod error;
mod filter;
mod head;
mod problem;
mod receive;
mod rx_filters;
mod skb_allocation;
mod transmit;
mod tx_socket;
mod vnet;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU8;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use libc::c_int;
use socket2::{Domain, Socket, Type};
use uroce_datapath::{
    Burst, Caps, Datapath, DatapathStats, Flush, GsoLimit, IcrcCaps, IcrcRx, IcrcTx, Route,
    RxPacket,
};
use uroce_host::fork::keep_from_children;
use uroce_host::{BindError, Buffer, enlarge, option};
use uroce_link::{
    FrameReader, Interface, Neighbours, PortSocket, Router, StackTraffic, interface_of,
};

pub use self::error::PacketError;
use self::receive::Receiver;
use self::rx_filters::RxFilters;
use self::transmit::Transmitter;
use self::tx_socket::TxSocket;
use crate::sys::packet::MAX_FRAMES;

/// RoCEv2 source ports have their two top bits set.
const FIRST_PORT: u16 = 0xC000;

/// Limits of a GSO batch. The kernel segments a frame at once that has one byte more than 64 KiB,
/// Ethernet header included.
const BATCH_OF_SEGMENTS: GsoLimit = GsoLimit { packets: 128, bytes: 65_535 - 14 - 4 - 40 - 8 };

/// How to open a [`PacketDatapath`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PacketConfig {
    /// A unicast address of this host, and the RoCE port (4791; 0 lets the kernel choose one).
    pub local: SocketAddr,
    /// Receive buffer to ask for, in bytes.
    pub recv_buffer: usize,
    /// Send buffer to ask for, in bytes.
    pub send_buffer: usize,
    /// Packets between two flushes.
    pub tx_batch: usize,
    /// Frames in one receiving system call, 1 to 64; each takes 64 KiB of memory.
    pub rx_batch: usize,
    /// Sends GSO batches as super-packets. Without it every packet is a frame of its own: slow, for
    /// tests.
    pub offload: bool,
}

impl PacketConfig {
    /// Buffers of 8 MiB, 128 packets between flushes, 16 frames in a system call, super-packets.
    #[must_use]
    pub fn new(local: SocketAddr) -> Self {
        let buffer = 8 * 1024 * 1024;
        let (recv_buffer, send_buffer) = (buffer, buffer);
        Self { local, recv_buffer, send_buffer, tx_batch: 128, rx_batch: 16, offload: true }
    }
}

/// RoCEv2 over AF_PACKET sockets.
///
/// A GSO batch leaves as one super-packet and arrives as one. The whole IP header is visible, so
/// all 32 bits of the ICRC of every packet are checked. Frames bypass the host's firewall, both
/// ways. Other hosts receive multicast packets, other programs of this host do not.
#[derive(Debug)]
pub struct PacketDatapath {
    local: SocketAddr,
    caps: Caps,
    transmitter: Transmitter,
    receiver: Receiver,
    rx_filters: Arc<RxFilters>,
    stats: DatapathStats,
}

impl PacketDatapath {
    /// Opens the sockets.
    ///
    /// # Errors
    ///
    /// [`PacketError`], which says what to do about it.
    pub fn open(config: &PacketConfig) -> Result<Self, PacketError> {
        let mut opened = Self::open_several(config, NonZeroU8::MIN)?;
        Ok(opened.remove(0))
    }

    /// Opens sockets for as many engines of this process, each with its own. The kernel gives each the packets of
    /// one slot, counted from 1, and the first one what names none of these slots, or a group: see
    /// [`ChannelDatapath`](uroce_datapath::ChannelDatapath). Of packets that arrive as one, the first decides.
    ///
    /// # Errors
    ///
    /// [`PacketError`], which says what to do about it.
    pub fn open_several(
        config: &PacketConfig,
        engines: NonZeroU8,
    ) -> Result<Vec<Self>, PacketError> {
        let asked = config.local;
        uroce_host::check_local(&asked)?;
        let failed = |what| move |error| PacketError::explain(what, asked, error);
        // First of all, so that a missing right is the first thing to be said.
        let pair = |_| Ok((packet_socket()?, Arc::new(packet_socket()?)));
        let pairs = (0..engines.get()).map(pair).collect::<io::Result<Vec<_>>>();
        let (tx_sockets, rx_sockets): (Vec<_>, Vec<_>) =
            pairs.map_err(failed("opening a packet socket"))?.into_iter().unzip();
        let home = interface_of(asked.ip()).map_err(failed("finding the interface"))?;
        if !home.ethernet && !home.loopback {
            return Err(PacketError::NotEthernet(asked));
        }
        let (port_socket, port) = PortSocket::open(asked, home.index, StackTraffic::Copies)
            .map_err(|error| BindError::explain(error.what, asked, error.source))?;
        let local = SocketAddr::new(asked.ip(), port);
        let rx_filters = RxFilters::open(local, home.index, port_socket, &rx_sockets);
        let rx_filters = Arc::new(rx_filters.map_err(failed("binding a packet socket"))?);
        let each = tx_sockets.into_iter().zip(rx_sockets);
        let open = |sockets| {
            let reader = match engines {
                NonZeroU8::MIN => FrameReader::new(local),
                _ => FrameReader::of_several(local),
            };
            Self::new(config, (local, home), sockets, reader, Arc::clone(&rx_filters))
                .map_err(failed("opening a netlink socket"))
        };
        each.map(open).collect()
    }

    /// The datapath of one engine.
    fn new(
        config: &PacketConfig,
        (local, home): (SocketAddr, Interface),
        (tx_socket, socket): (Socket, Arc<Socket>),
        reader: FrameReader,
        rx_filters: Arc<RxFilters>,
    ) -> io::Result<Self> {
        let recv_buffer = enlarge(&socket, Buffer::Receive, config.recv_buffer);
        let send_buffer = enlarge(&tx_socket, Buffer::Send, config.send_buffer);
        let neighbours = Neighbours::open(local.ip(), home)?;
        let tx_socket = TxSocket::new(tx_socket, Router::new(neighbours, None));
        let burst = Burst::new(config.tx_batch, BATCH_OF_SEGMENTS);
        let headers = vnet::VNET + 14 + if local.is_ipv4() { 28 } else { 48 };
        let rx_batch = config.rx_batch.clamp(1, MAX_FRAMES);
        Ok(Self {
            local,
            caps: caps(home.mtu, config.tx_batch, rx_batch, config.offload),
            transmitter: Transmitter::new(tx_socket, burst, config.offload),
            receiver: Receiver::new(socket, reader, rx_batch, headers),
            rx_filters,
            stats: DatapathStats { recv_buffer, send_buffer, ..DatapathStats::default() },
        })
    }
}

impl Datapath for PacketDatapath {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn local(&self) -> SocketAddr {
        self.local
    }

    fn source_port(&mut self, wanted: u16) -> u16 {
        FIRST_PORT | wanted
    }

    #[inline]
    fn tx_space(&mut self) -> Option<&mut [u8]> {
        self.transmitter.burst.space()
    }

    fn tx_packets(&self) -> usize {
        self.transmitter.burst.room()
    }

    fn tx_commit(&mut self, route: &Route, len: usize, seal: &mut dyn FnMut(u16, &mut [u8])) {
        let (id, packet) = self.transmitter.commit(route, len);
        seal(id, packet);
    }

    fn tx_break(&mut self) {
        self.transmitter.burst.break_batch();
    }

    fn flush(&mut self) -> io::Result<Flush> {
        self.transmitter.flush(&mut self.stats)
    }

    fn recv(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> io::Result<usize> {
        self.transmitter.tend(&mut self.stats)?;
        self.receiver.recv(limit, &mut self.stats, sink)
    }

    /// Also `true` while packets wait for the hardware address of a new peer, at most 100 ms: the
    /// arrival of the address would not wake the caller.
    fn arm(&mut self) -> bool {
        self.receiver.has_more() || self.transmitter.is_waiting()
    }

    fn waiter(&self) -> io::Result<OwnedFd> {
        let waiter = self.receiver.waiter()?;
        // It is the socket once more.
        keep_from_children(&waiter);
        Ok(waiter)
    }

    fn join(&mut self, group: IpAddr) -> io::Result<()> {
        self.rx_filters.join(group)?;
        self.receiver.reader.groups.insert(group);
        Ok(())
    }

    fn leave(&mut self, group: IpAddr) -> io::Result<()> {
        self.receiver.reader.groups.remove(&group);
        self.rx_filters.leave(group)
    }

    fn last_problem(&self) -> Option<String> {
        self.transmitter.problem.map(|problem| problem.to_string())
    }

    fn stats(&self) -> DatapathStats {
        let rx_dropped = self.stats.rx_dropped + self.receiver.overflows();
        DatapathStats { rx_dropped, ..self.stats }
    }
}

/// A packet socket with virtio-net headers that receives nothing yet.
///
/// Without PACKET_QDISC_BYPASS: with it the kernel drops every super-packet that the link does not cut
/// by itself.
fn packet_socket() -> io::Result<Socket> {
    let kind = Type::RAW.cloexec().nonblocking();
    let socket = Socket::new(Domain::PACKET, kind, None)?;
    keep_from_children(&socket);
    option::set(&socket, libc::SOL_PACKET, PACKET_VNET_HDR, 1)?;
    Ok(socket)
}

/// linux/if_packet.h.
const PACKET_VNET_HDR: c_int = 15;

fn caps(mtu: usize, tx_batch: usize, rx_batch: usize, offload: bool) -> Caps {
    Caps {
        name: "packet",
        mtu,
        tx_batch,
        rx_batch,
        icrc: IcrcCaps { rx: IcrcRx::Verify, tx: IcrcTx::Seal },
        segments: if offload { BATCH_OF_SEGMENTS.packets } else { 1 },
        in_place: 0,
        zero_copy: false,
        headers_visible: true,
        needs: "CAP_NET_RAW; UDP port 4791 must be free on the chosen address",
    }
}
