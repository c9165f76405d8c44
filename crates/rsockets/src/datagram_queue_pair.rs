//! A queue pair for the datagrams of a socket, on one device.

use std::net::IpAddr;
use std::sync::Arc;

use uroce_device::cm::PortSpace;
use uroce_device::memory::Access;
use uroce_device::transport::{AddressVector, UdDestination, Wc};
use uroce_device::wire::Qpn;
use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_rdmacm::OwnedId;
use uroce_verbs_abi::RDMA_UDP_QKEY;

use crate::deadline::Asleep;
use crate::queue_pair::QueuePair;
use crate::registered::Registered;

/// Bytes that the device leaves before a datagram (the place of the GRH).
const GRH: usize = 40;
/// Datagrams that may wait to be sent.
const SENDS: usize = 64;
/// Completions that are taken at once.
const BATCH: usize = 16;

/// A queue pair with places for what comes and what goes.
#[derive(Debug)]
pub(crate) struct DatagramQueuePair {
    // The queue pair goes before the memory that it uses.
    queue_pair: QueuePair,
    memory: Registered,
    pub address: IpAddr,
    /// Most bytes of a datagram, with its header.
    pub most: usize,
    receives: usize,
    /// Places that nothing waits in to be sent.
    free: Vec<usize>,
    /// Completions may be left that no event tells of any more.
    has_more: bool,
}

/// A datagram that came: the sender's queue pair and address, and its bytes.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub qpn: u32,
    pub ip: Option<IpAddr>,
    pub bytes: Vec<u8>,
}

impl DatagramQueuePair {
    pub fn new(address: IpAddr, receives: u16) -> Result<DatagramQueuePair, Errno> {
        let id = Arc::new(OwnedId::new(PortSpace::Udp)?);
        id.bind_to_device(address)?;
        let queue_pair = QueuePair::new(&id, true, SENDS as u32, u32::from(receives))?;
        let (most, receives) = (queue_pair.segment(), usize::from(receives));
        let bytes = (SENDS + receives) * (GRH + most);
        let memory = Registered::new(&id.open_device()?, id.pd()?, bytes, Access::LOCAL_WRITE)?;
        let free = (receives..receives + SENDS).collect();
        let has_more = false;
        let port =
            DatagramQueuePair { queue_pair, memory, address, most, receives, free, has_more };
        (0..receives).try_for_each(|place| port.post(place))?;
        Ok(port)
    }

    pub fn qpn(&self) -> u32 {
        self.queue_pair.qpn().get()
    }

    fn place(&self) -> usize {
        GRH + self.most
    }

    fn post(&self, place: usize) -> Result<(), Errno> {
        let sge = self.memory.sge(place * self.place(), self.place());
        self.queue_pair.post_receive(place as u64, sge)
    }

    /// Sends a datagram with its header; false: there is no place now.
    ///
    /// # Errors
    /// What the device says.
    pub fn send(&mut self, parts: [&[u8]; 2], to: IpAddr, qpn: u32) -> Result<bool, Errno> {
        let Some(place) = self.free.pop() else { return Ok(false) };
        let (at, length) = (place * self.place(), parts[0].len() + parts[1].len());
        let region = &self.memory.region;
        region.write(at, parts[0]).map_err(|_| INVALID)?;
        region.write(at + parts[0].len(), parts[1]).map_err(|_| INVALID)?;
        let av = AddressVector::new(self.address, to);
        let to = UdDestination { av, qpn: Qpn::new(qpn), qkey: RDMA_UDP_QKEY };
        let posted = self.queue_pair.send_to(to, self.memory.sge(at, length), place as u64);
        if posted.is_err() {
            self.free.push(place);
        }
        posted.map(|()| true)
    }

    /// Whether a datagram can be sent now.
    pub fn has_place(&self) -> bool {
        !self.free.is_empty()
    }

    /// Everything was sent.
    pub fn is_idle(&self) -> bool {
        self.free.len() == SENDS
    }

    /// Takes what has come; with many senders not all of it, since each receive is posted again at once.
    pub fn take(&mut self, mut arrived: impl FnMut(Arrival)) {
        let mut done = [Wc::default(); BATCH];
        for _ in 0..self.receives.div_ceil(BATCH) {
            let count = self.queue_pair.poll(&mut done);
            for wc in &done[..count] {
                self.completed(wc, &mut arrived);
            }
            self.has_more = count == BATCH;
            if !self.has_more {
                return;
            }
        }
    }

    fn completed(&mut self, wc: &Wc, arrived: &mut impl FnMut(Arrival)) {
        let place = QueuePair::place_of(wc);
        if !QueuePair::is_receive(wc) {
            self.free.push(place);
            return;
        }
        let length = (wc.byte_len as usize).saturating_sub(GRH).min(self.most);
        if wc.is_ok() && place < self.receives {
            let mut bytes = vec![0; length];
            let read = self.memory.region.read(place * self.place() + GRH, &mut bytes);
            if read.is_ok() {
                arrived(Arrival { qpn: wc.src_qpn, ip: wc.src_ip, bytes });
            }
            // A queue pair that takes none any more gets no datagrams.
            let _ = self.post(place);
        }
    }

    pub fn arm(&mut self, asleep: &Asleep<'_>) -> bool {
        self.queue_pair.arm(asleep) || self.has_more
    }

    pub fn fd(&self) -> libc::c_int {
        self.queue_pair.fd()
    }
}
