//! Frames on their way to the kernel.

use std::io;
use std::time::Instant;

use rustix::io::Errno;
use uroce_datapath::{Burst, Cursor, DatapathStats, Flush, Route};

use super::arp_queue::{ArpQueue, Decision};
use super::head::{Cut, Head};
use super::problem::{Problem, Verdict, Why};
use super::skb_allocation::SkbAllocation;
use super::tx_socket::{Obstacle, Outcome, TxSocket};
use crate::sys::packet::{MAX_FRAMES, OutFrame};

/// A frame of the burst that is about to be sent.
#[derive(Debug, Clone, Copy)]
struct Piece {
    /// Its first packet.
    at: Cursor,
    /// More than one: a super-packet.
    packets: usize,
    /// UDP payload bytes.
    bytes: usize,
    interface: u32,
}

impl Piece {
    /// Its packets in the burst.
    fn payload<'b>(&self, burst: &'b Burst) -> &'b [u8] {
        let mut at = self.at;
        match (self.packets, burst.batches().get(at.batch)) {
            (2.., Some(batch)) => burst.batch_bytes(batch),
            _ => burst.next(&mut at).map_or(&[], |(_, packet)| packet),
        }
    }
}

/// Packets that were committed and not yet taken by the kernel.
///
/// Each packet gets the next IPv4 identification, so that they count up by one within a GSO batch:
/// as the kernel or a NIC numbers the segments of a super-packet.
#[derive(Debug)]
pub(super) struct Transmitter {
    tx_socket: TxSocket,
    pub(super) burst: Burst,
    /// The first packet that the kernel has not taken.
    at: Cursor,
    /// Its identification.
    at_id: u16,
    /// That of the next packet to be committed.
    next_id: u16,
    heads: Box<[Head]>,
    pieces: Vec<Piece>,
    arp_queue: ArpQueue,
    /// The kernel takes super-packets.
    offload: bool,
    skb_allocation: SkbAllocation,
    pub(super) problem: Option<Problem>,
}

impl Transmitter {
    pub(super) fn new(tx_socket: TxSocket, mut burst: Burst, offload: bool) -> Self {
        burst.touch();
        Self {
            tx_socket,
            burst,
            at: Cursor::default(),
            at_id: 0,
            next_id: 0,
            heads: vec![Head::EMPTY; MAX_FRAMES].into_boxed_slice(),
            pieces: Vec::with_capacity(MAX_FRAMES),
            arp_queue: ArpQueue::new(),
            offload,
            skb_allocation: SkbAllocation::default(),
            problem: None,
        }
    }

    /// Makes the first `len` bytes of the burst's space a packet; returns its identification.
    #[inline]
    pub(super) fn commit(&mut self, route: &Route, len: usize) -> (u16, &mut [u8]) {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let (_, packet) = self.burst.commit(route, len);
        (if route.dst.is_ipv4() { id } else { 0 }, packet)
    }

    /// Whether packets wait for a hardware address.
    pub(super) fn is_waiting(&self) -> bool {
        !self.arp_queue.is_empty()
    }

    /// Sends as much as the kernel takes. What it does not take stays, in order.
    pub(super) fn flush(&mut self, stats: &mut DatapathStats) -> io::Result<Flush> {
        let mut flush = Flush::default();
        if self.burst.is_empty() && self.arp_queue.is_empty() {
            return Ok(flush);
        }
        let now = Instant::now();
        self.unpark(now, &mut flush, stats)?;
        while !flush.blocked && self.at.batch < self.burst.batches().len() {
            let obstacle = self.prepare(now);
            if !self.pieces.is_empty() {
                self.send(&mut flush, stats)?;
            } else if let Some(obstacle) = obstacle {
                self.set_aside(obstacle, now, &mut flush, stats);
            }
        }
        if !flush.blocked {
            self.burst.clear();
            self.at = Cursor::default();
        }
        Ok(flush)
    }

    /// Sends what has waited for a hardware address, if it is there now.
    pub(super) fn tend(&mut self, stats: &mut DatapathStats) -> io::Result<()> {
        if self.arp_queue.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        if self.arp_queue.is_due(now) {
            self.unpark(now, &mut Flush::default(), stats)?;
        }
        Ok(())
    }

    /// Writes the heads of the next frames; stops at a batch that cannot be sent.
    fn prepare(&mut self, now: Instant) -> Option<Obstacle> {
        self.pieces.clear();
        let (mut at, mut id) = (self.at, self.at_id);
        for head in &mut self.heads {
            let batch = self.burst.batches().get(at.batch)?;
            let rest = batch.without(at.packet);
            let first = rest.bytes().min(rest.size);
            let out = match self.tx_socket.way(&batch.route, first, now) {
                Ok(out) => out,
                Err(obstacle) => return Some(obstacle),
            };
            let whole = self.offload && at.packet == 0 && batch.packets > 1;
            let (packets, bytes) = if whole { (rest.packets, rest.bytes()) } else { (1, first) };
            let skb_allocation = &mut self.skb_allocation;
            let cut =
                whole.then(|| Cut { segment: batch.size, in_block: skb_allocation.of_next(bytes) });
            head.fill(&out.headers, id, bytes, cut);
            let interface = out.hop.interface;
            self.pieces.push(Piece { at, packets, bytes, interface });
            id = id.wrapping_add(packets as u16);
            self.burst.skip(&mut at, packets);
        }
        None
    }

    /// Offers the prepared frames to the kernel.
    fn send(&mut self, flush: &mut Flush, stats: &mut DatapathStats) -> io::Result<()> {
        stats.syscalls += 1;
        let burst = &self.burst;
        let frames = self.pieces.iter().zip(&self.heads).map(|(piece, head)| OutFrame {
            interface: piece.interface,
            ether_type: head.ether_type(),
            head: head.bytes(),
            payload: piece.payload(burst),
        });
        match self.tx_socket.send(frames) {
            // The kernel does not do so; a loop without end would be the price of relying on it.
            Ok(0) => flush.blocked = true,
            Ok(taken) => self.pass(taken, flush, stats),
            Err(error) => self.refused(&error, flush, stats)?,
        }
        Ok(())
    }

    /// Moves behind the first `taken` frames.
    fn pass(&mut self, taken: usize, flush: &mut Flush, stats: &mut DatapathStats) {
        for piece in &self.pieces[..taken] {
            stats.tx_packets += piece.packets as u64;
            stats.tx_bytes += piece.bytes as u64;
            flush.sent += piece.packets;
            self.at_id = self.at_id.wrapping_add(piece.packets as u16);
            self.burst.skip(&mut self.at, piece.packets);
        }
    }

    /// Deals with the refusal of the first frame.
    fn refused(
        &mut self,
        error: &io::Error,
        flush: &mut Flush,
        stats: &mut DatapathStats,
    ) -> io::Result<()> {
        let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
        let (packets, bytes) =
            self.pieces.first().map_or((1, 0), |piece| (piece.packets, piece.bytes));
        match Verdict::of(errno, packets > 1) {
            Verdict::Wait
                if errno == Errno::NOBUFS && self.skb_allocation.handle_no_room(bytes) => {}
            Verdict::Wait => {
                flush.blocked = true;
                stats.blocked += 1;
            }
            Verdict::Again => {}
            Verdict::Cut => {
                tracing::warn!(%errno, "the kernel takes no super-packets: packets leave one by one");
                self.offload = false;
            }
            Verdict::Drop => self.give_up(packets, Why::Refused(errno), flush, stats),
            Verdict::Broken => return Err(errno.into()),
        }
        Ok(())
    }

    /// Queues (for the hardware address of the next hop) or drops what is left of the first batch;
    /// of packets that are too long only the first, as the last packet of the batch may be short
    /// enough.
    fn set_aside(
        &mut self,
        obstacle: Obstacle,
        now: Instant,
        flush: &mut Flush,
        stats: &mut DatapathStats,
    ) {
        let Some(batch) = self.burst.batches().get(self.at.batch) else {
            return;
        };
        let rest = batch.without(self.at.packet);
        let (parked, why) = match obstacle {
            Obstacle::Pending => {
                (self.arp_queue.put(&self.burst, &rest, self.at_id, now), Why::Unresolved)
            }
            Obstacle::Never(why @ Why::TooLong { .. }) => {
                return self.give_up(1, why, flush, stats);
            }
            Obstacle::Never(why) => (0, why),
        };
        self.at_id = self.at_id.wrapping_add(parked as u16);
        self.burst.skip(&mut self.at, parked);
        if parked < rest.packets {
            self.give_up(rest.packets - parked, why, flush, stats);
        }
    }

    /// Drops the next `packets` packets, all of one batch.
    fn give_up(&mut self, packets: usize, why: Why, flush: &mut Flush, stats: &mut DatapathStats) {
        if let Some(batch) = self.burst.batches().get(self.at.batch) {
            self.problem = Some(Problem { dst: batch.route.dst.ip(), why });
        }
        stats.tx_dropped += packets as u64;
        flush.dropped += packets;
        self.at_id = self.at_id.wrapping_add(packets as u16);
        self.burst.skip(&mut self.at, packets);
    }

    /// Sends or drops the packets that wait for a hardware address, but for those whose address is
    /// still unknown and whose time is not over.
    fn unpark(
        &mut self,
        now: Instant,
        flush: &mut Flush,
        stats: &mut DatapathStats,
    ) -> io::Result<()> {
        if self.arp_queue.is_empty() {
            return Ok(());
        }
        let Self { tx_socket, arp_queue, problem, .. } = self;
        let (overdue, mut broken) = (arp_queue.is_overdue(now), None);
        arp_queue.drain(|route, id, packet| {
            if flush.blocked || broken.is_some() {
                return Decision::Wait;
            }
            stats.syscalls += 1;
            let why = match tx_socket.send_one(route, id, packet, now) {
                Outcome::Sent => {
                    stats.tx_packets += 1;
                    stats.tx_bytes += packet.len() as u64;
                    flush.sent += 1;
                    return Decision::Gone;
                }
                Outcome::Full => {
                    flush.blocked = true;
                    stats.blocked += 1;
                    return Decision::Wait;
                }
                Outcome::Broken(errno) => {
                    broken = Some(errno);
                    return Decision::Wait;
                }
                Outcome::Stopped(Obstacle::Pending) if !overdue => return Decision::Wait,
                Outcome::Stopped(Obstacle::Pending) => Why::Unresolved,
                Outcome::Stopped(Obstacle::Never(why)) => why,
            };
            *problem = Some(Problem { dst: route.dst.ip(), why });
            stats.tx_dropped += 1;
            flush.dropped += 1;
            Decision::Gone
        });
        broken.map_or(Ok(()), |errno| Err(errno.into()))
    }
}
