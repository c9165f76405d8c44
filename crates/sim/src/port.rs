//! The datapath of a simulated NIC: two queues of packets.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uroce_datapath::{
    Caps, Datapath, DatapathStats, Flush, IcrcCaps, IcrcRx, IcrcTx, IpId, PACKET_ROOM, Route,
    RxPacket,
};

use crate::buffers::PacketBuffers;
use crate::engine_plan::EnginePlan;
use crate::sim_packet::{ArrivedPacket, SimPacket};

/// What a NIC has done.
#[derive(Debug)]
pub(crate) enum PortEvent {
    Sent(SimPacket),
    /// One of several engines has taken in a packet, which another one may have handed over.
    TookIn(ArrivedPacket),
}

/// What has arrived for each engine.
#[derive(Debug)]
struct ArrivalQueues {
    queues: Vec<VecDeque<SimPacket>>,
    /// `None`: there is one engine.
    plan: Option<EnginePlan>,
}

#[derive(Debug, Default)]
struct Log {
    events: VecDeque<PortEvent>,
    /// Packets that have arrived, and that none of several engines has taken in.
    outstanding: VecDeque<ArrivedPacket>,
}

#[derive(Debug)]
struct Port {
    arrivals: Mutex<ArrivalQueues>,
    log: Mutex<Log>,
}

/// The network's end of the [`SimDatapath`]s of a NIC.
#[derive(Debug, Clone)]
pub(crate) struct PortHandle(Arc<Port>);

impl PortHandle {
    /// The port of a NIC with one engine, or with several.
    pub(crate) fn new(plan: Option<EnginePlan>) -> PortHandle {
        let queues = vec![VecDeque::new(); plan.map_or(1, |plan| plan.engines)];
        let arrivals = Mutex::new(ArrivalQueues { queues, plan });
        PortHandle(Arc::new(Port { arrivals, log: Mutex::default() }))
    }

    fn arrivals(&self) -> MutexGuard<'_, ArrivalQueues> {
        self.0.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many engines its NIC has.
    pub(crate) fn engines(&self) -> usize {
        self.arrivals().queues.len()
    }

    /// Hands a packet to an engine of the NIC.
    pub(crate) fn deliver(&self, packet: SimPacket) {
        let mut arrivals = self.arrivals();
        let engine = arrivals.plan.map_or(0, |plan| plan.engine_for(&packet));
        arrivals.queues[engine].push_back(packet);
    }

    /// As [`deliver`](Self::deliver). There will be a [`PortEvent`] when an engine takes the packet in.
    pub(crate) fn deliver_noted(&self, arrival: ArrivedPacket) {
        self.deliver(arrival.packet.clone());
        self.log().outstanding.push_back(arrival);
    }

    /// Engines have taken packets in.
    pub(crate) fn note_taken(&self, packets: impl Iterator<Item = Vec<u8>>) {
        let mut log = self.log();
        for bytes in packets {
            let is_it = |arrival: &ArrivedPacket| arrival.packet.bytes == bytes;
            // One that several engines get is taken in once.
            let Some(place) = log.outstanding.iter().position(is_it) else { continue };
            let taken = log.outstanding.remove(place);
            log.events.extend(taken.map(PortEvent::TookIn));
        }
    }

    /// Moves what the NIC has done into `events`, which is empty. Returns how many packets it has not taken yet.
    pub(crate) fn take_events(&self, events: &mut VecDeque<PortEvent>) -> usize {
        std::mem::swap(&mut self.log().events, events);
        self.arrivals().queues.iter().map(VecDeque::len).sum()
    }

    /// The oldest packet that the NIC, which has one engine, has not taken.
    pub(crate) fn take_arrived(&self) -> Option<SimPacket> {
        self.arrivals().queues[0].pop_front()
    }

    /// Forgets what is on its way to the NIC or from it.
    pub(crate) fn clear(&self) {
        self.arrivals().queues.iter_mut().for_each(VecDeque::clear);
        *self.log() = Log::default();
    }

    /// True if the NIC has done something that was not taken yet.
    pub(crate) fn has_acted(&self) -> bool {
        !self.log().events.is_empty()
    }
}

/// The datapath of an engine. It keeps what is sent until the simulation takes it.
pub(crate) struct SimDatapath {
    local: SocketAddr,
    caps: Caps,
    port: PortHandle,
    engine: usize,
    buffers: PacketBuffers,
    space: Vec<u8>,
    committed: usize,
    /// Whether what arrives together is handed over as one buffer, as what leaves may be, and that buffer.
    has_gso: bool,
    joined: Vec<u8>,
    stats: DatapathStats,
}

impl SimDatapath {
    pub(crate) fn new(
        local: SocketAddr,
        mtu: usize,
        (port, engine): (PortHandle, usize),
        buffers: PacketBuffers,
        has_gso: bool,
    ) -> SimDatapath {
        let caps = Caps {
            name: "simulation",
            mtu,
            tx_batch: 64,
            rx_batch: 64,
            icrc: IcrcCaps { rx: IcrcRx::Verify, tx: IcrcTx::Seal },
            segments: if has_gso { 64 } else { 1 },
            in_place: 0,
            zero_copy: false,
            headers_visible: true,
            needs: "nothing: the network is simulated",
        };
        SimDatapath {
            local,
            caps,
            port,
            engine,
            buffers,
            space: vec![0; PACKET_ROOM],
            committed: 0,
            has_gso,
            joined: Vec::new(),
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
        self.port.log().events.push_back(PortEvent::Sent(SimPacket { route: *route, bytes }));
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
        let mut arrivals = self.port.arrivals();
        let queue = &mut arrivals.queues[self.engine];
        while count < limit {
            let Some(first) = queue.pop_front() else { break };
            let size = first.bytes.len();
            self.joined.clear();
            let mut packets = 1;
            let is_alike = |next: &SimPacket| next.route == first.route && next.bytes.len() == size;
            while self.has_gso && count + packets < limit && queue.front().is_some_and(is_alike) {
                let Some(next) = queue.pop_front() else { break };
                if packets == 1 {
                    self.joined.extend_from_slice(&first.bytes);
                }
                self.joined.extend_from_slice(&next.bytes);
                self.buffers.give_back(next.bytes);
                packets += 1;
            }
            let payload = if packets == 1 { &first.bytes[..] } else { &self.joined[..] };
            let buffer = RxPacket {
                src: first.route.src,
                dst: first.route.dst,
                traffic_class: first.route.traffic_class,
                hop_limit: first.route.hop_limit.max(1),
                ip_id: if first.route.dst.is_ipv4() { IpId::Known(0) } else { IpId::NotPresent },
                icrc_checked: false,
                following: None,
                fate: None,
                payload,
            };
            count += buffer.hand_over(size, &mut 0, packets, &mut self.stats, sink);
            self.buffers.give_back(first.bytes);
        }
        Ok(count)
    }

    /// Nobody waits for packets: what several engines wait for is asked of each of them all the same.
    fn waiter(&self) -> io::Result<OwnedFd> {
        io::pipe().map(|(reader, _)| reader.into())
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
