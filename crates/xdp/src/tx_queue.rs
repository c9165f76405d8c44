//! The transmit queue: from the caller's payload to frames in the transmit ring.

use std::collections::VecDeque;
use std::time::Instant;

use uroce_datapath::{PACKET_ROOM, Route};
use uroce_link::{MAX_HEADERS, Outbound, Router, Way};

use crate::problem::Problem;
use crate::queue::Queue;
use crate::umem::Slot;

/// Where the payload begins in its slot: behind the longest headers, on a cache line.
pub(crate) const PAYLOAD_AT: usize = 128;

const _: () = assert!(MAX_HEADERS <= PAYLOAD_AT);

/// A packet that waits for the hardware address of its next hop.
#[derive(Debug)]
struct Unresolved {
    route: Route,
    slot: Slot,
    len: usize,
}

/// Counts of packets and bytes that were queued, or dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    pub(crate) sent: usize,
    pub(crate) bytes: u64,
    pub(crate) dropped: usize,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct TxQueue {
    pub(crate) router: Router,
    /// Interfaces by which packets may leave: that of our address, and that of the socket.
    interfaces: [u32; 2],
    /// The slot that the caller writes to.
    open: Option<Slot>,
    parked: VecDeque<Unresolved>,
    most_parked: usize,
    tally: Tally,
    /// The time, read once between two flushes.
    now: Option<Instant>,
    pub(crate) problem: Option<Problem>,
}

impl TxQueue {
    /// An outbox that parks at most so many packets.
    pub(crate) fn new(router: Router, interfaces: [u32; 2], most_parked: usize) -> Self {
        Self {
            router,
            interfaces,
            open: None,
            parked: VecDeque::with_capacity(most_parked),
            most_parked,
            tally: Tally::default(),
            now: None,
            problem: None,
        }
    }

    /// Room for a payload; `None` when every slot is on its way.
    #[inline]
    pub(crate) fn space<'q>(&mut self, queue: &'q mut Queue) -> Option<&'q mut [u8]> {
        if self.open.is_none() {
            self.open = queue.slot();
        }
        let slot = self.open.as_ref()?;
        Some(&mut queue.space(slot)[PAYLOAD_AT..PAYLOAD_AT + PACKET_ROOM])
    }

    /// The first `len` bytes of the last [`space`](Self::space).
    ///
    /// # Panics
    ///
    /// When there was none, or it was shorter.
    #[inline]
    pub(crate) fn payload<'q>(&mut self, queue: &'q mut Queue, len: usize) -> &'q mut [u8] {
        assert!(len <= PACKET_ROOM, "commit of more than tx_space");
        let slot = self.open.as_ref().expect("commit follows tx_space");
        &mut queue.space(slot)[PAYLOAD_AT..PAYLOAD_AT + len]
    }

    /// Sends the first `len` bytes of the last [`space`](Self::space) along `route`.
    #[inline]
    pub(crate) fn send(&mut self, queue: &mut Queue, route: &Route, len: usize) {
        let slot = self.open.take().expect("commit follows tx_space");
        let packet = Unresolved { route: *route, slot, len };
        if self.parked.iter().any(|parked| parked.route.dst.ip() == route.dst.ip()) {
            self.park(queue, packet);
        } else {
            self.dispatch(queue, packet);
        }
    }

    /// Discards the last [`space`](Self::space), whose packet was sent another way, or dropped.
    pub(crate) fn discard(&mut self, queue: &mut Queue) {
        if let Some(slot) = self.open.take() {
            queue.discard(slot);
        }
    }

    /// Counts a packet of so many bytes that went another way.
    pub(crate) fn count(&mut self, sent: bool, bytes: usize) {
        if sent {
            self.tally.sent += 1;
            self.tally.bytes += bytes as u64;
        } else {
            self.tally.dropped += 1;
        }
    }

    /// Whether packets wait until the hardware address of their next hop is known.
    #[inline]
    pub(crate) fn has_parked(&self) -> bool {
        !self.parked.is_empty()
    }

    /// Tries the parked packets again, in order. Returns what happened since the last call.
    pub(crate) fn settle(&mut self, queue: &mut Queue) -> Tally {
        self.now = None;
        for _ in 0..self.parked.len() {
            if let Some(packet) = self.parked.pop_front() {
                self.dispatch(queue, packet);
            }
        }
        self.now = None;
        std::mem::take(&mut self.tally)
    }

    fn dispatch(&mut self, queue: &mut Queue, packet: Unresolved) {
        let now = *self.now.get_or_insert_with(Instant::now);
        let dst = packet.route.dst.ip();
        let problem = match self.router.find(&packet.route, now) {
            Way::Pending => return self.park(queue, packet),
            Way::None(reason) => Problem::NoWay { dst, reason },
            Way::Out(out) => match frame(out, &self.interfaces, &packet, queue) {
                Ok(from) => {
                    let (len, frame) = (packet.len, from..PAYLOAD_AT + packet.len);
                    queue.send(packet.slot, frame);
                    return self.count(true, len);
                }
                Err(problem) => problem,
            },
        };
        self.drop_packet(queue, packet, problem);
    }

    fn park(&mut self, queue: &mut Queue, packet: Unresolved) {
        if self.parked.len() < self.most_parked {
            self.parked.push_back(packet);
        } else {
            let dst = packet.route.dst.ip();
            self.drop_packet(queue, packet, Problem::Waiting { dst });
        }
    }

    fn drop_packet(&mut self, queue: &mut Queue, packet: Unresolved, problem: Problem) {
        queue.discard(packet.slot);
        self.problem = Some(problem);
        self.count(false, packet.len);
    }
}

/// Writes the headers before the payload; returns where the frame begins in its slot.
#[inline]
fn frame(
    out: &Outbound,
    interfaces: &[u32; 2],
    packet: &Unresolved,
    queue: &mut Queue,
) -> Result<usize, Problem> {
    let dst = packet.route.dst.ip();
    if !interfaces.contains(&out.hop.interface) {
        return Err(Problem::Elsewhere { dst });
    }
    let bytes = packet.route.header_bytes() + packet.len;
    let too_long = Problem::TooLong { dst, bytes, mtu: out.hop.mtu };
    if bytes > out.hop.mtu {
        return Err(too_long);
    }
    let from = PAYLOAD_AT - out.headers.len();
    let room = &mut queue.space(&packet.slot)[from..PAYLOAD_AT];
    out.headers.write(0, packet.len, room).map(|_| from).ok_or(too_long)
}
