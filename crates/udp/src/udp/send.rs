//! Packets on their way to the kernel.

mod refusal;

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use socket2::Socket;
use uroce_datapath::{Burst, DatapathStats, Flush, GsoBatch, Recipient, Route};
use uroce_host::address::{self, NAME, Name};
use uroce_host::interface::scoped;

use self::refusal::{Problem, Verdict, is_of_offload};
use super::connected::{ConnectedSockets, MIN_BYTES};
use super::source_ports::SourcePorts;
use crate::sys::udp::{
    CONTROL, Control, MAX_BATCH, Message, encode_control, encode_segment, send_many,
};

/// Takes messages for one source port; returns how many it took from the front.
pub(crate) type Kernel<'k> =
    dyn FnMut(u16, &mut dyn Iterator<Item = Message<'_>>) -> io::Result<usize> + 'k;

/// Address and control messages of a batch, encoded for the kernel.
#[derive(Debug, Clone, Copy)]
struct Encoded {
    name: Name,
    name_len: usize,
    control: Control,
    /// Bytes of what every packet needs.
    plain_len: usize,
    /// Length of the control messages with UDP_SEGMENT.
    segmented_len: usize,
}

impl Encoded {
    fn new(batch: &GsoBatch, scope: u32) -> Self {
        let (mut name, mut control) = ([0; NAME], [0; CONTROL]);
        let name_len = address::encode(&scoped(batch.route.dst, scope), &mut name);
        let plain_len = encode_control(&batch.route, &mut control);
        let segmented_len = match u16::try_from(batch.size) {
            Ok(size) if batch.packets > 1 => encode_segment(&mut control, plain_len, size),
            _ => plain_len,
        };
        Self { name, name_len, control, plain_len, segmented_len }
    }

    /// For a connected socket, which has all but the size of the packets. That is written also for a single one: the socket
    /// may have been told another.
    fn connected(batch: &GsoBatch) -> Self {
        let mut control = [0; CONTROL];
        let size = u16::try_from(batch.size).unwrap_or(u16::MAX);
        let segmented_len = encode_segment(&mut control, 0, size);
        Self { name: [0; NAME], name_len: 0, control, plain_len: segmented_len, segmented_len }
    }

    fn message<'a>(&'a self, control_len: usize, payload: &'a [u8]) -> Message<'a> {
        Message {
            name: &self.name[..self.name_len],
            control: &self.control[..control_len],
            payload,
        }
    }
}

/// Whether the kernel copies a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Copying {
    /// It does.
    Copied,
    /// It need not: all packets of the batch may be sent in place.
    MayBeInPlace,
    /// The batch was sent in place.
    InPlace,
}

/// How a batch leaves.
#[derive(Debug, Clone, Copy)]
struct Passage {
    copying: Copying,
    /// Index of the connected socket that it was numbered for.
    connected: Option<usize>,
}

/// Packets that were committed and not yet taken by the kernel.
#[derive(Debug)]
pub(crate) struct Sender {
    burst: Burst,
    /// One for each batch of the burst.
    passages: Vec<Passage>,
    /// Packets that are committed next and may be sent in place.
    in_place: usize,
    /// IPv4 identification of the first packet of the last batch.
    first_id: u16,
    /// Batches to the destination of the packet that is committed next are lost.
    distrusts: bool,
    connected: ConnectedSockets,
    /// Who gets the packets in the ring of the burst.
    ring_recipient: Option<Recipient>,
    /// Something of the burst was sent in place.
    is_referenced: bool,
    /// Index of the first batch that the kernel has not taken.
    at: usize,
    /// One for each batch of the burst.
    encoded: Vec<Encoded>,
    scope: u32,
    pub(crate) problem: Option<Problem>,
}

impl Sender {
    pub(crate) fn new(burst: Burst, scope: u32) -> Self {
        Self {
            passages: Vec::with_capacity(burst.capacity()),
            encoded: Vec::with_capacity(burst.capacity()),
            burst,
            in_place: 0,
            first_id: 0,
            distrusts: false,
            connected: ConnectedSockets::new(),
            ring_recipient: None,
            is_referenced: false,
            at: 0,
            scope,
            problem: None,
        }
    }

    /// See [`Burst::space`].
    #[inline]
    pub(crate) fn space(&mut self) -> Option<&mut [u8]> {
        self.burst.space()
    }

    /// See [`Burst::room`].
    pub(crate) fn room(&self) -> usize {
        self.burst.room()
    }

    /// See [`Burst::break_batch`].
    pub(crate) fn break_batch(&mut self) {
        self.burst.break_batch();
    }

    /// Batches to the destination of the packet that is committed next are lost.
    pub(super) fn distrust(&mut self) {
        self.distrusts = true;
    }

    /// All that is committed from now on goes to this recipient, or to anybody.
    pub(super) fn commit_only_to(&mut self, recipient: Option<Recipient>) {
        if recipient.is_some() && recipient != self.ring_recipient {
            // The one before may still read what was sent to it, out of this memory.
            if self.ring_recipient.is_none() || self.burst.renew_ring() {
                self.ring_recipient = recipient;
            }
        }
        let in_ring = recipient.is_some() && recipient == self.ring_recipient;
        // Behind what has left in place nothing else may move the ring on: that part of the burst waits for the kernel.
        self.burst.use_ring(in_ring && !self.is_referenced);
    }

    /// The next `packets` packets may be sent in place.
    pub(super) fn allow_in_place(&mut self, packets: usize) {
        self.in_place = packets;
    }

    /// Appends the packet in [`Burst::space`], sealed for the identification that it will have: the
    /// kernel numbers the packets of one send on, from 0 where the socket is not connected (docs/wire.md).
    pub(crate) fn commit(
        &mut self,
        route: &Route,
        len: usize,
        seal: &mut dyn FnMut(u16, &mut [u8]),
    ) {
        let in_place = self.in_place > 0;
        self.in_place = self.in_place.saturating_sub(1);
        debug_assert!(
            !self.burst.uses_ring()
                || self.ring_recipient.is_some_and(|sole| sole.address == route.dst.ip()),
            "the ring has packets for one recipient alone"
        );
        let (place, packet) = self.burst.commit(route, len);
        if std::mem::take(&mut self.distrusts) {
            self.connected.distrust(route);
        }
        if place == 0 {
            let (connected, first_id) = self.connected.begin_batch(route).unzip();
            self.first_id = first_id.unwrap_or(0);
            let copying = if in_place { Copying::MayBeInPlace } else { Copying::Copied };
            self.passages.push(Passage { copying, connected });
        } else if !in_place && let Some(passage) = self.passages.last_mut() {
            passage.copying = Copying::Copied;
        }
        let id = self.first_id.wrapping_add(place as u16);
        seal(if route.dst.is_ipv4() { id } else { 0 }, packet);
    }

    /// Sends as much as the kernel takes. What it does not take stays, in order.
    pub(super) fn flush(
        &mut self,
        source_ports: &SourcePorts,
        fallback: &Socket,
        stats: &mut DatapathStats,
    ) -> io::Result<Flush> {
        let flush = self.flush_to(stats, &mut |port, messages| {
            let socket = source_ports.socket(port).unwrap_or_else(|| fallback.as_fd());
            send_many(socket, messages)
        })?;
        if self.burst.is_empty() {
            self.connected.update(source_ports, self.scope);
        }
        Ok(flush)
    }

    /// [`flush`](Self::flush) with `kernel` in place of the system call.
    pub(crate) fn flush_to(
        &mut self,
        stats: &mut DatapathStats,
        kernel: &mut Kernel<'_>,
    ) -> io::Result<Flush> {
        self.encode_all();
        self.keep_ring_long();
        let mut flush = Flush::default();
        let mut second_try = false;
        while !flush.blocked
            && let Some(batch) = self.burst.batches().get(self.at)
        {
            let port = batch.route.src.port();
            stats.syscalls += 1;
            match self.offer(port, kernel) {
                // The kernel does not do so; a loop without end would be the price of relying on it.
                Ok(0) => flush.blocked = true,
                Ok(taken) => {
                    flush.sent += self.pass(taken, stats);
                    second_try = false;
                }
                Err(error) => {
                    let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                    match self.refused(errno, second_try, &mut flush, stats)? {
                        Next::Batch => second_try = false,
                        Next::SecondTry => second_try = true,
                        Next::SameTry => {}
                        Next::HeadAlone => self.part(errno, &mut flush, stats, kernel),
                    }
                }
            }
        }
        if !flush.blocked {
            self.clear();
        }
        Ok(flush)
    }

    /// Forgets what was sent. What was sent in place stays unchanged.
    fn clear(&mut self) {
        match std::mem::take(&mut self.is_referenced) {
            true => self.burst.clear_behind(),
            false => self.burst.clear(),
        }
        self.passages.clear();
        self.at = 0;
    }

    /// Handles the refusal of the first batch.
    fn refused(
        &mut self,
        errno: Errno,
        second_try: bool,
        flush: &mut Flush,
        stats: &mut DatapathStats,
    ) -> io::Result<Next> {
        let connected = self.passages[self.at].connected;
        match self.verdict(errno) {
            Verdict::Wait => {
                flush.blocked = true;
                stats.blocked += 1;
            }
            Verdict::Again => return Ok(Next::SameTry),
            Verdict::Soft if !second_try => {
                stats.soft_errors += 1;
                if let Some(index) = connected
                    && Verdict::of(errno) != Verdict::Soft
                {
                    // Or it was this batch, counted and refused, and passes now.
                    self.connected.leave(index);
                }
                return Ok(Next::SecondTry);
            }
            Verdict::Soft | Verdict::Drop
                if connected.is_none() && self.is_several() && is_of_offload(errno) =>
            {
                return Ok(Next::HeadAlone);
            }
            Verdict::Soft | Verdict::Drop => {
                if let Some(index) = connected {
                    self.connected.fail(index, errno);
                }
                flush.dropped += self.give_up(errno, stats);
            }
            Verdict::Broken => return Err(errno.into()),
        }
        Ok(Next::Batch)
    }

    /// What to do after the first batch was refused by the socket that it is for.
    fn verdict(&self, errno: Errno) -> Verdict {
        match self.passages[self.at].connected {
            None => Verdict::of(errno),
            Some(index) if self.connected.has_failed(index) => Verdict::Drop,
            Some(_) => Verdict::of_connected(errno),
        }
    }

    fn is_several(&self) -> bool {
        self.burst.batches().get(self.at).is_some_and(|batch| batch.packets > 1)
    }

    /// Finds out whether the kernel refused a batch because of GSO: then the kernel takes the first
    /// packet alone. The other packets carry an IPv4 identification that they would not get alone,
    /// so they are lost, and packets are sent singly from now on.
    fn part(
        &mut self,
        errno: Errno,
        flush: &mut Flush,
        stats: &mut DatapathStats,
        kernel: &mut Kernel<'_>,
    ) {
        let Some(head) = self.burst.batches().get(self.at).map(GsoBatch::head) else {
            return;
        };
        let encoded = &self.encoded[self.at];
        let message = encoded.message(encoded.plain_len, self.burst.batch_bytes(&head));
        stats.syscalls += 1;
        match kernel(head.route.src.port(), &mut std::iter::once(message)) {
            Ok(_) => {
                flush.sent += 1;
                stats.tx_packets += 1;
                stats.tx_bytes += head.bytes() as u64;
                flush.dropped += self.give_up(errno, stats) - 1;
                stats.tx_dropped -= 1;
                self.problem = Some(Problem::Offload(errno));
                self.burst.disable_gso();
                tracing::warn!(%errno, "the kernel does not segment here: packets leave singly");
            }
            Err(error) => {
                let errno = Errno::from_io_error(&error).unwrap_or(errno);
                flush.dropped += self.give_up(errno, stats);
            }
        }
    }

    /// Encodes addresses and control messages of all batches.
    fn encode_all(&mut self) {
        self.encoded.clear();
        let batches = self.burst.batches().iter().zip(&self.passages);
        self.encoded.extend(batches.map(|(batch, passage)| match passage.connected {
            Some(_) => Encoded::connected(batch),
            None => Encoded::new(batch, self.scope),
        }));
    }

    /// Offers the batches from `at` on that have the same source port, or the one at `at` to its connected socket; returns the
    /// number that were taken.
    fn offer(&mut self, port: u16, kernel: &mut Kernel<'_>) -> io::Result<usize> {
        if let Some(index) = self.passages[self.at].connected {
            return self.offer_connected(index).map(|()| 1);
        }
        let batches = self.burst.batches()[self.at..].iter().zip(&self.passages[self.at..]);
        let of_port = batches.zip(&self.encoded[self.at..]).take_while(|((batch, passage), _)| {
            passage.connected.is_none() && batch.route.src.port() == port
        });
        let mut messages = of_port.map(|((batch, _), encoded)| {
            encoded.message(encoded.segmented_len, self.burst.batch_bytes(batch))
        });
        kernel(port, &mut messages.by_ref().take(MAX_BATCH))
    }

    /// Offers the batch at `at` to connected socket `index`.
    ///
    /// One at a time: of several in one call only the first may be refused without being taken for sent, and counted.
    fn offer_connected(&mut self, index: usize) -> io::Result<()> {
        let batch = &self.burst.batches()[self.at];
        let payload = self.burst.batch_bytes(batch);
        let passage = &mut self.passages[self.at];
        let wanted = passage.copying == Copying::MayBeInPlace && can_leave_in_place(batch);
        let encoded = &self.encoded[self.at];
        let control = &encoded.control[..encoded.segmented_len];
        let in_place = self.connected.send(index, batch, wanted, (control, payload))?;
        passage.copying = if in_place { Copying::InPlace } else { Copying::Copied };
        self.is_referenced |= in_place;
        Ok(())
    }

    /// Nothing leaves in place where most of the ring is copied: it would go round too soon.
    fn keep_ring_long(&mut self) {
        if self.burst.ring_bytes() == 0 {
            return;
        }
        let batches = self.burst.batches().iter().zip(&self.passages);
        let in_place = batches.filter(|(batch, passage)| match passage.copying {
            Copying::Copied => false,
            Copying::MayBeInPlace => passage.connected.is_some() && can_leave_in_place(batch),
            Copying::InPlace => true,
        });
        let bytes: usize = in_place.map(|(batch, _)| batch.bytes()).sum();
        if 4 * bytes < 3 * self.burst.ring_bytes() {
            let waits = |passage: &&mut Passage| {
                passage.connected.is_some() && passage.copying == Copying::MayBeInPlace
            };
            let waiting = self.passages.iter_mut().filter(waits);
            waiting.for_each(|passage| passage.copying = Copying::Copied);
        }
    }

    /// Moves behind `count` batches that were sent; returns their packets.
    fn pass(&mut self, count: usize, stats: &mut DatapathStats) -> usize {
        let mut packets = 0;
        let batches = self.burst.batches().iter().zip(&self.passages);
        for (batch, passage) in batches.skip(self.at).take(count) {
            packets += batch.packets;
            stats.tx_bytes += batch.bytes() as u64;
            match passage.copying {
                Copying::InPlace => {
                    stats.tx_in_place += batch.packets as u64;
                    // vmsplice and splice.
                    stats.syscalls += 1;
                }
                // On a connected socket it would have been one of the others by now.
                Copying::MayBeInPlace if batch.bytes() >= MIN_BYTES => {
                    self.connected.note_candidate(&batch.route);
                }
                _ => {}
            }
        }
        stats.tx_packets += packets as u64;
        self.at += count;
        packets
    }

    /// Moves behind one batch that cannot be sent, and records why; returns its packets.
    fn give_up(&mut self, errno: Errno, stats: &mut DatapathStats) -> usize {
        let Some(batch) = self.burst.batches().get(self.at) else {
            return 0;
        };
        self.at += 1;
        stats.tx_dropped += batch.packets as u64;
        let dst = batch.route.dst.ip();
        self.problem = Some(Problem::Refused { dst, len: batch.size, errno });
        batch.packets
    }
}

/// Whether the kernel may take the batch out of the burst, and it is worth two system calls.
fn can_leave_in_place(batch: &GsoBatch) -> bool {
    batch.is_in_ring() && batch.bytes() >= MIN_BYTES
}

/// What follows a refusal.
enum Next {
    /// Go on: the refused batch is dealt with.
    Batch,
    /// Offer the batch again, a last time.
    SecondTry,
    /// Offer the batch again.
    SameTry,
    /// Find out whether its first packet passes alone.
    HeadAlone,
}

#[cfg(test)]
mod tests;
