//! Outgoing packets, collected until the next flush.

use std::ops::Range;

use memmap2::MmapMut;

use crate::route::Route;

/// Bytes that a burst offers for each packet: a 4096-byte payload with every header RoCEv2 can put
/// around it.
pub const PACKET_ROOM: usize = 4096 + 128;

/// Bytes of a page of memory, as the kernel takes them out of a buffer ([`GsoLimit::pages`]).
pub const PAGE: usize = 4096;

/// Consecutive packets with one route and one size; only the last may be shorter.
///
/// A GSO batch can pass through the kernel as one send (UDP segmentation offload).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GsoBatch {
    /// Where all its packets go.
    pub route: Route,
    /// Bytes of each packet but the last.
    pub size: usize,
    /// Packets in the GSO batch, at least 1.
    pub packets: usize,
    /// First byte of the GSO batch in its burst's buffer.
    start: usize,
    /// Bytes of all packets together.
    bytes: usize,
    /// Most bytes of all packets together.
    most: usize,
}

impl GsoBatch {
    /// Bytes of all packets of the GSO batch together.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first packet of the GSO batch alone.
    pub fn head(&self) -> Self {
        Self { packets: 1, bytes: self.size.min(self.bytes), ..*self }
    }

    /// The GSO batch without its first `packets` packets.
    pub fn without(mut self, packets: usize) -> Self {
        let bytes = (packets * self.size).min(self.bytes);
        self.start += bytes;
        self.bytes -= bytes;
        self.packets -= packets;
        self
    }

    /// Place of packet `index` in the burst's buffer.
    fn packet(&self, index: usize) -> Range<usize> {
        let from = self.start + index * self.size;
        from..(from + self.size).min(self.start + self.bytes)
    }

    /// Whether a packet of `len` bytes for `route` may be appended to the batch.
    fn takes(&self, route: &Route, len: usize, limit: &GsoLimit) -> bool {
        let full_so_far = self.bytes == self.packets * self.size;
        full_so_far
            && len <= self.size
            && self.packets < limit.packets
            && self.bytes + len <= self.most
            && self.route == *route
    }
}

/// Limits of a GSO batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GsoLimit {
    /// Most packets in one batch.
    pub packets: usize,
    /// Most bytes in one batch.
    pub bytes: usize,
    /// Most pages of memory of [`PAGE`] bytes in which the packets of one batch lie.
    pub pages: usize,
}

impl GsoLimit {
    /// Batches as long as the burst.
    pub const NONE: Self = Self { packets: usize::MAX, bytes: usize::MAX, pages: usize::MAX };

    /// Most bytes of a batch that begins at `start` of a buffer that begins with a page.
    fn bytes_from(&self, start: usize) -> usize {
        self.bytes.min(self.pages.saturating_mul(PAGE) - start % PAGE)
    }
}

/// A position between two packets of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    /// Index of the next packet's GSO batch.
    pub batch: usize,
    /// Index of the next packet within its GSO batch.
    pub packet: usize,
}

/// One buffer with packets behind each other, in the order in which they were committed.
///
/// The buffer is mapped memory that nothing else of the process uses before or after: the kernel may read packets out of
/// it later than they were sent ([`Burst::with_ring`]), and what it reads must never be other data of the process.
/// Everything is allocated by [`Burst::new`].
#[derive(Debug)]
pub struct Burst {
    buffer: MmapMut,
    /// Where the first packet begins: 0, or a place in the ring.
    first: usize,
    end: usize,
    /// Bytes for the packets.
    room: usize,
    batches: Vec<GsoBatch>,
    packets: usize,
    capacity: usize,
    limit: GsoLimit,
    /// The next packet starts a GSO batch.
    break_before_next: bool,
}

impl Burst {
    /// A burst for up to `capacity` packets of up to [`PACKET_ROOM`] bytes.
    #[must_use]
    pub fn new(capacity: usize, limit: GsoLimit) -> Self {
        let capacity = capacity.max(1);
        Self::with_room(capacity, capacity * PACKET_ROOM, limit)
    }

    /// A burst for up to `capacity` packets of up to `room` bytes together.
    #[must_use]
    pub fn with_room(capacity: usize, room: usize, limit: GsoLimit) -> Self {
        Self::with_ring(capacity, room, 0, limit)
    }

    /// [`with_room`](Self::with_room), and each [`clear_behind`](Self::clear_behind) makes another part of a ring of `ring`
    /// bytes the place of the packets, so that what was sent stays unchanged until `ring` more bytes were sent.
    ///
    /// # Panics
    ///
    /// When the system has no memory left for it.
    #[must_use]
    pub fn with_ring(capacity: usize, room: usize, ring: usize, limit: GsoLimit) -> Self {
        let buffer = MmapMut::map_anon(room + ring).expect("memory for the packets of a burst");
        let batches = Vec::with_capacity(capacity);
        Self {
            buffer,
            first: 0,
            end: 0,
            room,
            batches,
            packets: 0,
            capacity,
            limit,
            break_before_next: false,
        }
    }

    /// Forgets all packets.
    pub fn clear(&mut self) {
        self.end = self.first;
        self.batches.clear();
        self.packets = 0;
    }

    /// Forgets all packets, and leaves their bytes as they are: the next ones stand behind them in the ring, from the next
    /// page on, or at its beginning.
    pub fn clear_behind(&mut self) {
        self.first = self.end.next_multiple_of(PAGE);
        if self.first + self.room > self.buffer.len() {
            self.first = 0;
        }
        self.clear();
    }

    /// All bytes behind the last packet, at least [`PACKET_ROOM`], or `None` when the burst is full. Several packets may be
    /// written there behind each other, up to [`room`](Self::room), before they are committed.
    #[inline]
    pub fn space(&mut self) -> Option<&mut [u8]> {
        if self.packets == self.capacity {
            return None;
        }
        let limit = self.first + self.room;
        self.buffer.get_mut(self.end..limit).filter(|space| space.len() >= PACKET_ROOM)
    }

    /// Packets that may still be committed, as far as their bytes fit.
    pub fn room(&self) -> usize {
        self.capacity - self.packets
    }

    /// Makes the first `len` bytes of [`space`](Self::space) a packet for `route`.
    ///
    /// Returns the index of the packet in its GSO batch, counted from 0, and its bytes.
    ///
    /// # Panics
    ///
    /// When `len` is more than [`space`](Self::space) offered, which is a bug of the caller.
    pub fn commit(&mut self, route: &Route, len: usize) -> (usize, &mut [u8]) {
        assert!(len <= PACKET_ROOM && self.packets < self.capacity, "commit without tx_space");
        let start = self.end;
        self.end += len;
        self.packets += 1;
        let index = self.extend_last(route, start, len);
        (index, &mut self.buffer[start..start + len])
    }

    /// Appends the packet to the last GSO batch or starts a new one.
    fn extend_last(&mut self, route: &Route, start: usize, len: usize) -> usize {
        let limit = self.limit;
        let break_before_next = std::mem::take(&mut self.break_before_next);
        match self.batches.last_mut() {
            Some(batch) if !break_before_next && batch.takes(route, len, &limit) => {
                batch.packets += 1;
                batch.bytes += len;
                batch.packets - 1
            }
            _ => {
                let most = limit.bytes_from(start);
                let batch =
                    GsoBatch { route: *route, size: len, packets: 1, start, bytes: len, most };
                self.batches.push(batch);
                0
            }
        }
    }

    /// The next packet starts a GSO batch, even if it could be appended to the last one.
    pub fn break_batch(&mut self) {
        self.break_before_next = true;
    }

    /// From now on every packet is sent on its own.
    pub fn disable_gso(&mut self) {
        self.limit.packets = 1;
    }

    /// Appends a copy of every packet of `batch` of `other`, as far as there is room; returns the
    /// number of packets that fitted.
    pub fn append(&mut self, other: &Burst, batch: &GsoBatch) -> usize {
        for index in 0..batch.packets {
            let packet = &other.buffer[batch.packet(index)];
            if !self.fits(1, packet.len()) {
                return index;
            }
            let end = self.end + packet.len();
            self.buffer[self.end..end].copy_from_slice(packet);
            self.commit(&batch.route, packet.len());
        }
        batch.packets
    }

    /// Whether `packets` more packets with `bytes` bytes together fit.
    #[must_use]
    pub fn fits(&self, packets: usize, bytes: usize) -> bool {
        self.packets + packets <= self.capacity && self.end + bytes <= self.first + self.room
    }

    /// The packet at `cursor`, which moves behind it.
    #[inline]
    pub fn next(&self, cursor: &mut Cursor) -> Option<(&Route, &[u8])> {
        let batch = self.batches.get(cursor.batch)?;
        let packet = &self.buffer[batch.packet(cursor.packet)];
        cursor.packet += 1;
        if cursor.packet == batch.packets {
            *cursor = Cursor { batch: cursor.batch + 1, packet: 0 };
        }
        Some((&batch.route, packet))
    }

    /// Moves `cursor` behind the next `packets` packets, which are of one GSO batch.
    pub fn skip(&self, cursor: &mut Cursor, packets: usize) {
        cursor.packet += packets;
        if self.batches.get(cursor.batch).is_some_and(|batch| cursor.packet >= batch.packets) {
            *cursor = Cursor { batch: cursor.batch + 1, packet: 0 };
        }
    }

    /// Writes to every page of the buffer, so that no packet has to wait for the kernel to map it
    /// (6 us a page).
    pub fn touch(&mut self) {
        self.buffer.fill(0xff);
    }

    /// The GSO batches, oldest first.
    #[must_use]
    pub fn batches(&self) -> &[GsoBatch] {
        &self.batches
    }

    /// The bytes of `batch`, its packets one behind the other.
    #[must_use]
    pub fn batch_bytes(&self, batch: &GsoBatch) -> &[u8] {
        &self.buffer[batch.start..batch.start + batch.bytes]
    }

    /// Most packets of the burst.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Number of packets.
    #[must_use]
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Bytes of all packets together.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.end - self.first
    }

    /// True if the burst holds no packet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }
}

#[cfg(test)]
mod tests;
