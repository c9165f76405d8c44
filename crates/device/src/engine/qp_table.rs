//! The queue pairs of a device by number.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use uroce_cm::CommId;
use uroce_memory::multiplied_crc;
use uroce_transport::{CqId, QpInit, QueuePair, SrqId, XrcdId};
use uroce_wire::{FlowIcrc, Packet, Qpn, Slot};

use super::in_flight::QpCredit;
use super::qpn::QpnAllocator;
use super::rx_icrc::RxIcrc;
use crate::limits::{DOORBELL_BATCH, DOORBELL_BATCH_OF_LISTS};

/// QPNs and CQ numbers are our own, so no peer can choose them to collide. One multiplication
/// spreads their bits to where the table looks.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct NumberHasher(u64);

/// Cheap hash of a number that this device gave out.
pub(crate) type NumberHash = BuildHasherDefault<NumberHasher>;

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.0 = (self.0 ^ u64::from(value)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// A queue pair with what the engine records about it.
#[derive(Debug)]
pub(crate) struct QpEntry {
    pub(crate) qp: QueuePair,
    /// Attributes at creation, for queries.
    pub(crate) init: QpInit,
    /// The queue pair is in the send scheduler.
    pub(crate) ready: bool,
    /// Earliest entry of the queue pair in the timer heap.
    pub(crate) armed: Option<u64>,
    /// The connection that its next packet confirms: instead of an RTU (R113), or because the peer seemed
    /// to have forgotten it (R112).
    pub(crate) awaits_comm_est: Option<CommId>,
    /// The connection that it was last used for: only that one ends its link.
    pub(crate) connection: Option<CommId>,
    /// Its peer was asked for a packet, so that any answer counts.
    pub(crate) is_probed: bool,
    /// Requests posted and held back since the queue pair was last served (doorbell coalescing).
    coalesced: usize,
    ping_pong: PingPong,
    /// Account of the queue pair in the limit on bytes in flight to its destination.
    pub(crate) credit: QpCredit,
    /// ICRC state of received packets.
    pub(crate) rx_icrc: RxIcrc,
    /// ICRC state of sent packets.
    pub(crate) tx_icrc: FlowIcrc,
}

impl QpEntry {
    /// True if the queue pair has something to send. Requests that wait for room at the destination
    /// do not count; retransmissions do not wait.
    pub(crate) fn has_work(&self) -> bool {
        let waits = || self.credit.waits() && !self.qp.wants_repair();
        self.qp.wants_answer() || self.qp.wants_request() && !waits()
    }

    /// The connection that a packet confirms which is about to be taken in: a request does, an answer to what is on its
    /// way, and anything from a peer that was asked for a packet.
    #[inline]
    pub(crate) fn confirmed_by(&self, packet: &Packet<'_>) -> Option<CommId> {
        let id = self.awaits_comm_est?;
        let counts = packet.info.is_request() || self.is_probed || self.qp.awaits_acknowledgement();
        counts.then_some(id)
    }

    /// The last packet of a message of the peer has arrived.
    #[inline]
    pub(crate) fn handle_message_end(&mut self) {
        self.ping_pong.handle_message_end();
    }

    /// Doorbell coalescing: true if the `count` requests that were just posted may wait for more, so
    /// that they leave as one batch. `busy`: earlier ones are unacknowledged.
    #[inline]
    pub(crate) fn coalesces(&mut self, count: usize, busy: bool) -> bool {
        let batch = if count > 1 { DOORBELL_BATCH_OF_LISTS } else { DOORBELL_BATCH };
        let answer = self.ping_pong.handle_post(count);
        self.coalesced = if busy && !answer { self.coalesced + count } else { batch };
        self.coalesced < batch
    }

    /// The queue pair is served: no requests are held back any more.
    #[inline]
    pub(crate) fn end_coalescing(&mut self) {
        self.coalesced = 0;
    }
}

/// Whether the two ends of a queue pair alternate: one message each way, one after the other. The
/// end that responds then has nothing more to post until the next request arrives, so coalescing
/// its doorbells only adds latency.
#[derive(Debug, Clone, Copy, Default)]
struct PingPong {
    /// Requests posted since the last message of the peer.
    posted: usize,
    /// Exactly one request was posted between the last two messages of the peer.
    alternate: bool,
}

impl PingPong {
    /// The last packet of a message of the peer has arrived.
    fn handle_message_end(&mut self) {
        self.alternate = self.posted == 1;
        self.posted = 0;
    }

    /// `count` requests are posted. True if they are the response in request-response traffic.
    fn handle_post(&mut self, count: usize) -> bool {
        let answer = self.alternate && self.posted == 0 && count == 1;
        self.posted = self.posted.saturating_add(count);
        answer
    }
}

/// All queue pairs. Boxed, so that the table stays small and its growth moves no QP.
#[derive(Debug)]
pub(crate) struct QpTable {
    entries: HashMap<u32, Box<QpEntry>, NumberHash>,
    numbers: QpnAllocator,
}

impl QpTable {
    pub(crate) fn new(seed: [u8; 32], slot: Option<Slot>) -> Self {
        QpTable { entries: HashMap::default(), numbers: QpnAllocator::new(seed, slot) }
    }

    /// An unpredictable number that is free; `None` if none was found.
    pub(crate) fn allocate_qpn(&mut self) -> Option<Qpn> {
        let entries = &self.entries;
        self.numbers.allocate(|qpn| entries.contains_key(&qpn.get()))
    }

    pub(crate) fn insert(&mut self, qp: QueuePair, init: QpInit) {
        let entry = QpEntry {
            qp,
            init,
            ready: false,
            armed: None,
            awaits_comm_est: None,
            connection: None,
            is_probed: false,
            rx_icrc: RxIcrc::default(),
            coalesced: 0,
            ping_pong: PingPong::default(),
            credit: QpCredit::default(),
            tx_icrc: FlowIcrc::with_payload_crc(multiplied_crc),
        };
        let old = self.entries.insert(init.qpn.get(), Box::new(entry));
        debug_assert!(old.is_none(), "a QPN was given out twice");
    }

    pub(crate) fn get(&self, qpn: Qpn) -> Option<&QpEntry> {
        self.entries.get(&qpn.get()).map(Box::as_ref)
    }

    pub(crate) fn get_mut(&mut self, qpn: Qpn) -> Option<&mut QpEntry> {
        self.entries.get_mut(&qpn.get()).map(Box::as_mut)
    }

    /// Takes a queue pair out and puts its number into quarantine (A8).
    pub(crate) fn remove(&mut self, qpn: Qpn) -> Option<Box<QpEntry>> {
        let entry = self.entries.remove(&qpn.get())?;
        self.numbers.retire(qpn);
        Some(entry)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &QpEntry> {
        self.entries.values().map(Box::as_ref)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut QpEntry> {
        self.entries.values_mut().map(Box::as_mut)
    }

    /// The numbers of the queue pairs that complete to `cq`.
    pub(crate) fn using_cq(&self, cq: CqId) -> Vec<Qpn> {
        let uses = |entry: &&QpEntry| entry.init.send_cq == cq || entry.init.recv_cq == cq;
        self.iter().filter(uses).map(|entry| entry.init.qpn).collect()
    }

    pub(crate) fn uses_cq(&self, cq: CqId) -> bool {
        self.iter().any(|entry| entry.init.send_cq == cq || entry.init.recv_cq == cq)
    }

    pub(crate) fn uses_srq(&self, srq: SrqId) -> bool {
        self.iter().any(|entry| entry.init.srq == Some(srq))
    }

    pub(crate) fn uses_xrcd(&self, xrcd: XrcdId) -> bool {
        self.iter().any(|entry| entry.init.xrcd == Some(xrcd))
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn one_message_each_way_is_a_conversation() {
        let mut ping_pong = PingPong::default();
        assert!(!ping_pong.handle_post(1), "nothing was heard yet");
        ping_pong.handle_message_end();
        assert!(ping_pong.handle_post(1));
        ping_pong.handle_message_end();
        assert!(ping_pong.handle_post(1));
        assert!(!ping_pong.handle_post(1), "the second is no answer");
        ping_pong.handle_message_end();
        assert!(!ping_pong.handle_post(1), "two went out since the one before");
    }

    #[test]
    fn messages_behind_each_other_are_none() {
        let mut ping_pong = PingPong::default();
        ping_pong.handle_post(1);
        ping_pong.handle_message_end();
        ping_pong.handle_message_end();
        assert!(!ping_pong.handle_post(1));
        ping_pong.handle_message_end();
        assert!(!ping_pong.handle_post(32), "a list is not an answer");
    }

    #[test]
    fn neighbouring_qpns_spread_over_the_whole_hash() {
        let build = BuildHasherDefault::<NumberHasher>::default();
        let mut buckets = [0u32; 64];
        for raw in 0..64_000u32 {
            buckets[(build.hash_one(raw) >> 58) as usize] += 1;
        }
        assert!(buckets.iter().all(|count| (900..1_100).contains(count)), "{buckets:?}");
    }
}
