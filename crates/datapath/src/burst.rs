//! Outgoing packets, collected until the next flush.

use std::ops::Range;

use memmap2::MmapMut;

use crate::route::Route;

/// Bytes that a burst offers for each packet: a 4096-byte payload with every header RoCEv2 can put
/// around it.
pub const PACKET_ROOM: usize = 4096 + 128;

/// Bytes of a page of memory, as the kernel takes them out of a ring ([`Burst::with_ring`]).
pub const PAGE: usize = 4096;

/// Bytes of its page in front of the first packet: one cache line. Regions mostly begin with a page, and a processor cannot tell
/// at once whether it loads what it has just stored at the same place of another page: with bursts that began with a page, too,
/// copies from and to regions took half as long again (WRITEs of 64 KiB in one process made 16 GiB/s instead of 23).
const IN_PAGE: usize = 64;

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
    /// It is in the ring of its burst.
    in_ring: bool,
}

impl GsoBatch {
    /// Bytes of all packets of the GSO batch together.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it is in the ring of its burst ([`Burst::with_ring`]).
    #[must_use]
    pub fn is_in_ring(&self) -> bool {
        self.in_ring
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

    /// Whether a packet of `len` bytes for `route`, in the ring or not, may be appended to the batch.
    fn takes(&self, route: &Route, (len, in_ring): (usize, bool), limit: &GsoLimit) -> bool {
        let full_so_far = self.bytes == self.packets * self.size;
        full_so_far
            && self.in_ring == in_ring
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
}

impl GsoLimit {
    /// Batches as long as the burst.
    pub const NONE: Self = Self { packets: usize::MAX, bytes: usize::MAX };
}

/// A position between two packets of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    /// Index of the next packet's GSO batch.
    pub batch: usize,
    /// Index of the next packet within its GSO batch.
    pub packet: usize,
}

/// Memory for packets, one behind the other.
#[derive(Debug)]
struct Area {
    buffer: MmapMut,
    /// Where the first packet begins.
    first: usize,
    /// Where the last one ends.
    end: usize,
    /// Bytes for the packets of one burst.
    room: usize,
    /// Most pages of [`PAGE`] bytes in which the packets of one batch lie.
    pages: usize,
}

impl Area {
    fn new(room: usize, ring: usize, pages: usize) -> Self {
        let bytes = IN_PAGE + room + ring;
        let buffer = MmapMut::map_anon(bytes).expect("memory for the packets of a burst");
        Self::within(buffer, room, pages)
    }

    /// Without packets, in this memory.
    fn within(buffer: MmapMut, room: usize, pages: usize) -> Self {
        Self { buffer, first: IN_PAGE, end: IN_PAGE, room, pages }
    }

    /// Most bytes of a batch that begins behind the last packet.
    fn most_batch_bytes(&self) -> usize {
        self.pages.saturating_mul(PAGE).saturating_sub(self.end % PAGE)
    }

    fn bytes(&self) -> usize {
        self.end - self.first
    }
}

/// Packets behind each other, in the order in which they were committed.
///
/// There may be two places for them: a plain one, and a ring ([`Burst::with_ring`]) out of which the kernel may read packets
/// later than they were sent. Both are mapped memory that nothing else of the process uses before or after: what the kernel
/// reads too late is never other data of the process. Everything is allocated by [`Burst::new`], but for a ring that is [renewed](Burst::renew_ring).
#[derive(Debug)]
pub struct Burst {
    /// Where packets are committed now.
    area: Area,
    /// The plain place while packets are committed to the ring, or else the ring, if there is one.
    other: Option<Area>,
    /// `area` is the ring.
    in_ring: bool,
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
    ///
    /// # Panics
    ///
    /// When the system has no memory left for it.
    #[must_use]
    pub fn with_room(capacity: usize, room: usize, limit: GsoLimit) -> Self {
        Self {
            area: Area::new(room, 0, usize::MAX),
            other: None,
            in_ring: false,
            batches: Vec::with_capacity(capacity),
            packets: 0,
            capacity,
            limit,
            break_before_next: false,
        }
    }

    /// The same with a ring, too: another place with `room` for packets, which [`clear_behind`](Self::clear_behind) moves on by
    /// what stands there, until it has gone round through `ring` bytes and `room` more. A batch there lies in at most `pages`
    /// pages of [`PAGE`] bytes.
    #[must_use]
    pub fn with_ring(mut self, ring: usize, pages: usize) -> Self {
        self.other = Some(Area::new(self.area.room, ring, pages));
        self
    }

    /// Packets are committed to the ring from now on, or to the plain place. Without effect where there is no ring.
    #[inline]
    pub fn use_ring(&mut self, yes: bool) {
        if self.in_ring != yes
            && let Some(other) = &mut self.other
        {
            std::mem::swap(&mut self.area, other);
            self.in_ring = yes;
        }
    }

    /// Packets are committed to the ring.
    pub fn uses_ring(&self) -> bool {
        self.in_ring
    }

    /// Gives the ring new memory, so that nothing that is written from now on is seen by who still reads what was sent. False if a
    /// packet stands there, there is no ring, or no memory is left.
    pub fn renew_ring(&mut self) -> bool {
        let Some(ring) = self.ring_mut().filter(|ring| ring.bytes() == 0) else { return false };
        let Ok(buffer) = MmapMut::map_anon(ring.buffer.len()) else { return false };
        *ring = Area::within(buffer, ring.room, ring.pages);
        true
    }

    /// Bytes of the packets in the ring.
    #[must_use]
    pub fn ring_bytes(&self) -> usize {
        if self.in_ring { self.area.bytes() } else { self.other.as_ref().map_or(0, Area::bytes) }
    }

    fn ring_mut(&mut self) -> Option<&mut Area> {
        if self.in_ring { Some(&mut self.area) } else { self.other.as_mut() }
    }

    /// Forgets all packets.
    pub fn clear(&mut self) {
        for area in std::iter::once(&mut self.area).chain(&mut self.other) {
            area.end = area.first;
        }
        self.batches.clear();
        self.packets = 0;
    }

    /// Forgets all packets, and leaves the bytes of those in the ring as they are: the next ones stand there behind them, in
    /// pages of their own, or at the beginning.
    pub fn clear_behind(&mut self) {
        if let Some(ring) = self.ring_mut().filter(|ring| ring.bytes() > 0) {
            ring.first = ring.end.next_multiple_of(PAGE) + IN_PAGE;
            if ring.first + ring.room > ring.buffer.len() {
                ring.first = IN_PAGE;
            }
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
        let Area { buffer, first, end, room, .. } = &mut self.area;
        buffer.get_mut(*end..*first + *room).filter(|space| space.len() >= PACKET_ROOM)
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
        let index = self.extend_last(route, len);
        let start = self.area.end;
        self.area.end += len;
        self.packets += 1;
        (index, &mut self.area.buffer[start..start + len])
    }

    /// Appends the packet to the last GSO batch or starts a new one.
    fn extend_last(&mut self, route: &Route, len: usize) -> usize {
        let (limit, in_ring) = (self.limit, self.in_ring);
        let break_before_next = std::mem::take(&mut self.break_before_next);
        match self.batches.last_mut() {
            Some(batch) if !break_before_next && batch.takes(route, (len, in_ring), &limit) => {
                batch.packets += 1;
                batch.bytes += len;
                batch.packets - 1
            }
            _ => {
                let most = limit.bytes.min(self.area.most_batch_bytes());
                let (size, start) = (len, self.area.end);
                let batch =
                    GsoBatch { route: *route, size, packets: 1, start, bytes: len, most, in_ring };
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
            let packet = &other.buffer_of(batch)[batch.packet(index)];
            if !self.fits(1, packet.len()) {
                return index;
            }
            let start = self.area.end;
            self.area.buffer[start..start + packet.len()].copy_from_slice(packet);
            self.commit(&batch.route, packet.len());
        }
        batch.packets
    }

    /// Whether `packets` more packets with `bytes` bytes together fit.
    #[must_use]
    pub fn fits(&self, packets: usize, bytes: usize) -> bool {
        self.packets + packets <= self.capacity && self.area.bytes() + bytes <= self.area.room
    }

    /// The packet at `cursor`, which moves behind it.
    #[inline]
    pub fn next(&self, cursor: &mut Cursor) -> Option<(&Route, &[u8])> {
        let batch = self.batches.get(cursor.batch)?;
        let packet = &self.buffer_of(batch)[batch.packet(cursor.packet)];
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
        self.area.buffer.fill(0xff);
    }

    /// The GSO batches, oldest first.
    #[must_use]
    pub fn batches(&self) -> &[GsoBatch] {
        &self.batches
    }

    /// The bytes of `batch`, its packets one behind the other.
    #[must_use]
    pub fn batch_bytes(&self, batch: &GsoBatch) -> &[u8] {
        &self.buffer_of(batch)[batch.start..batch.start + batch.bytes]
    }

    /// The memory in which `batch` is.
    fn buffer_of(&self, batch: &GsoBatch) -> &[u8] {
        match &self.other {
            Some(other) if batch.in_ring != self.in_ring => &other.buffer,
            _ => &self.area.buffer,
        }
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
        self.area.bytes() + self.other.as_ref().map_or(0, Area::bytes)
    }

    /// True if the burst holds no packet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }
}

#[cfg(test)]
mod tests;
