//! The datapath of a simulated NIC: two queues of packets.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use uroce_datapath::{
    Caps, Datapath, DatapathStats, Flush, IcrcCaps, IcrcRx, IcrcTx, IpId, PACKET_ROOM, Route,
    RxPacket,
};

use crate::buffers::PacketBuffers;

/// A UDP payload with its addresses.
#[derive(Debug, Clone)]
pub(crate) struct SimPacket {
    pub(crate) route: Route,
    /// BTH to ICRC.
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug, Default)]
struct Queues {
    arrived: VecDeque<SimPacket>,
    sent: VecDeque<SimPacket>,
}

/// The network's end of a [`SimDatapath`].
#[derive(Debug, Clone, Default)]
pub(crate) struct PortHandle(Arc<Mutex<Queues>>);

impl PortHandle {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Hands a packet to the NIC.
    pub(crate) fn deliver(&self, packet: SimPacket) {
        self.lock().arrived.push_back(packet);
    }

    /// Moves what the NIC has sent into `sent`, which is empty. Returns how many packets it has not taken yet.
    pub(crate) fn take_sent(&self, sent: &mut VecDeque<SimPacket>) -> usize {
        let mut queues = self.lock();
        std::mem::swap(&mut queues.sent, sent);
        queues.arrived.len()
    }

    /// The oldest packet that the NIC has not taken.
    pub(crate) fn take_arrived(&self) -> Option<SimPacket> {
        self.lock().arrived.pop_front()
    }

    /// Forgets what is on its way to the NIC or from it.
    pub(crate) fn clear(&self) {
        let mut queues = self.lock();
        queues.arrived.clear();
        queues.sent.clear();
    }

    /// True if the NIC has sent a packet that was not taken yet.
    pub(crate) fn has_sent(&self) -> bool {
        !self.lock().sent.is_empty()
    }
}

/// A datapath that keeps what is sent until the simulation takes it.
pub(crate) struct SimDatapath {
    local: SocketAddr,
    caps: Caps,
    port: PortHandle,
    buffers: PacketBuffers,
    space: Vec<u8>,
    committed: usize,
    stats: DatapathStats,
}

impl SimDatapath {
    pub(crate) fn new(
        local: SocketAddr,
        mtu: usize,
        port: PortHandle,
        buffers: PacketBuffers,
    ) -> SimDatapath {
        let caps = Caps {
            name: "simulation",
            mtu,
            tx_batch: 64,
            rx_batch: 64,
            icrc: IcrcCaps { rx: IcrcRx::Verify, tx: IcrcTx::Seal },
            segments: 1,
            zero_copy: false,
            headers_visible: true,
            needs: "nothing: the network is simulated",
        };
        SimDatapath {
            local,
            caps,
            port,
            buffers,
            space: vec![0; PACKET_ROOM],
            committed: 0,
            stats: DatapathStats::default(),
        }
    }
}

impl Datapath for SimDatapath {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn local(&self) -> SocketAddr {
        self.local
    }

    fn source_port(&mut self, wanted: u16) -> u16 {
        wanted
    }

    fn tx_space(&mut self) -> Option<&mut [u8]> {
        (self.committed < self.caps.tx_batch).then_some(&mut self.space[..])
    }

    fn tx_commit(&mut self, route: &Route, len: usize, seal: &mut dyn FnMut(u16, &mut [u8])) {
        let packet = &mut self.space[..len];
        seal(0, packet);
        let bytes = self.buffers.copy_of(packet);
        self.port.lock().sent.push_back(SimPacket { route: *route, bytes });
        self.committed += 1;
        self.stats.tx_packets += 1;
        self.stats.tx_bytes += len as u64;
    }

    fn flush(&mut self) -> io::Result<Flush> {
        let sent = std::mem::take(&mut self.committed);
        Ok(Flush { sent, dropped: 0, blocked: false })
    }

    fn recv(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> io::Result<usize> {
        let mut count = 0;
        // Nobody else wants the lock: a simulation has one thread.
        let mut queues = self.port.lock();
        while count < limit {
            let Some(packet) = queues.arrived.pop_front() else { break };
            count += 1;
            self.stats.rx_packets += 1;
            self.stats.rx_bytes += packet.bytes.len() as u64;
            sink(RxPacket {
                src: packet.route.src,
                dst: packet.route.dst,
                traffic_class: packet.route.traffic_class,
                hop_limit: packet.route.hop_limit.max(1),
                ip_id: if packet.route.dst.is_ipv4() { IpId::Known(0) } else { IpId::NotPresent },
                icrc_checked: false,
                following: None,
                fate: None,
                payload: &packet.bytes,
            });
            self.buffers.give_back(packet.bytes);
        }
        Ok(count)
    }

    fn waiter(&self) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn join(&mut self, _group: IpAddr) -> io::Result<()> {
        Ok(())
    }

    fn leave(&mut self, _group: IpAddr) -> io::Result<()> {
        Ok(())
    }

    fn stats(&self) -> DatapathStats {
        self.stats
    }
}
