//! What a queue pair needs from its device while it works.

use std::net::IpAddr;

use uroce_memory::MemTable;

use crate::counters::Counters;
use crate::cq::CqTable;
use crate::event::EventQueue;
use crate::reorder_buffer::ReorderBuffers;
use crate::srq::SrqTable;

/// The device's tables, lent to a queue pair for one call.
#[derive(Debug)]
pub struct Context<'a> {
    /// Protection domains, regions and windows.
    pub mem: &'a mut MemTable,
    /// Completion queues.
    pub cqs: &'a mut CqTable,
    /// Shared receive queues.
    pub srqs: &'a mut SrqTable,
    /// Asynchronous events.
    pub events: &'a mut EventQueue,
    /// Buffers for requests that came behind a gap.
    pub reorder_buffers: &'a mut ReorderBuffers,
    /// Counters.
    pub counters: &'a mut Counters,
}

/// How a packet arrived: what the IP header said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// ToS or traffic class.
    pub traffic_class: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// IPv4 identification, 0 where unknown.
    pub ip_id: u16,
    /// UDP length, header included.
    pub udp_len: u16,
}

impl Arrival {
    /// A router on the way has marked it: it met congestion (ECN CE).
    #[inline]
    pub(crate) fn is_congestion_marked(&self) -> bool {
        self.traffic_class & 3 == 3
    }
}

/// Where a packet goes, and the header fields that the sender chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Path {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// UDP source port; the destination port is the device's.
    pub src_port: u16,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// ToS or traffic class.
    pub traffic_class: u8,
}

/// A packet that `poll_transmit` has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// Its length, with the 4 bytes of the ICRC at the end, which the caller fills.
    pub len: usize,
    /// Where it goes.
    pub path: Path,
    /// What its queue pair has to say behind it.
    pub step: Step,
}

/// How long a train may be.
#[derive(Debug, Clone, Copy)]
pub struct TrainLimits {
    /// Packets behind the first.
    pub most: usize,
    /// A request begins while fewer bytes are in flight.
    pub allowance: u64,
    /// The CRCs of payloads are of use.
    pub crcs: bool,
}

/// What [`QueuePair::poll_train`](crate::QueuePair::poll_train) has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Train {
    /// Packets behind the first.
    pub packets: usize,
    /// Where the ICRC belongs each of them has the [register](uroce_wire::crc_register) of its payload, as
    /// [`FlowIcrc::icrc_around`](uroce_wire::FlowIcrc::icrc_around) takes it: it was worked out while the payload was copied.
    pub crcs: bool,
}

/// How a packet stands to the one that its queue pair sends next. Packets of one size travel cheaply
/// behind each other, also of several queue pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A request begins that goes on in shorter packets: a WRITE with its RETH.
    Leads,
    /// A request ends.
    Ends,
    /// Anything else.
    Within,
}
