//! The order in which bursts reach an endpoint, and small batches themselves: a ring of
//! sequence-numbered slots with several writers and one reader.
//!
//! A cache line that one processor wrote and another reads costs 50 to 200 ns. A small batch
//! therefore travels inside the slot of the ring that announces it: over IPv4, a WRITE of 8 bytes
//! fits into one line with its sequence number and head. A larger burst waits in the burst queue,
//! and its slot only announces it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::burst::{Burst, GsoBatch};
use crate::route::Route;
use crate::sync::{AtomicU64, AtomicUsize, IS_MODEL, Ordering};

/// Slots; a power of two.
pub(super) const SLOTS: usize = if IS_MODEL { 8 } else { 64 };

/// Words of a slot, beside its sequence number.
const WORDS: usize = if IS_MODEL { HEAD_V6 + 1 } else { 31 };

/// Words before the bytes of a batch.
const HEAD_V4: usize = 2;
const HEAD_V6: usize = 6;

/// Marker in place of the length of a batch over IPv4: the slot announces a queued burst.
const BURST_MARKER: u8 = 0;
/// Marker in place of the length: the batch is over IPv6, and its length is in the next word.
const V6: u8 = u8::MAX;

/// One slot of the ring. The slot may be written for number `n` when its sequence number is `n`,
/// and read when it is `n + 1`.
#[derive(Debug)]
#[repr(align(128))]
struct Slot {
    sequence: AtomicUsize,
    words: [AtomicU64; WORDS],
}

/// What the reader has found in the next slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing.
    Nothing,
    /// A batch, which is in the burst now.
    Batch,
    /// The announcement of the oldest queued burst.
    Burst,
}

/// Pads a value to cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct CachePadded<T>(pub(super) T);

/// A ring of slots. The writer that has the number of the next slot writes it; there is one reader.
#[derive(Debug)]
pub(super) struct Ring {
    slots: Box<[Slot]>,
    /// The number that is read next; only the reader writes it.
    head: CachePadded<AtomicUsize>,
}

impl Ring {
    pub(super) fn new() -> Self {
        let slot = |number| Slot {
            sequence: AtomicUsize::new(number),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        Self { slots: (0..SLOTS).map(slot).collect(), head: CachePadded(AtomicUsize::new(0)) }
    }

    fn slot(&self, number: usize) -> &Slot {
        &self.slots[number % SLOTS]
    }

    /// The slot with this number may be written; then so may those before it.
    pub(super) fn is_free(&self, number: usize) -> bool {
        self.slot(number).sequence.load(Ordering::Acquire) == number
    }

    /// Announces one more queued burst.
    pub(super) fn put_burst_marker(&self, number: usize) {
        let slot = self.slot(number);
        slot.words[0].store(u64::from(BURST_MARKER) << 56, Ordering::Relaxed);
        slot.sequence.store(number + 1, Ordering::SeqCst);
    }

    /// Prefetches the slot, which may be written: its writer then does not wait for the cache line,
    /// which the reader had last.
    pub(super) fn prefetch(&self, number: usize) {
        self.slot(number).words[0].store(0, Ordering::Relaxed);
    }

    /// Puts a batch that [fits](fits) into the slot.
    pub(super) fn put_batch(&self, number: usize, batch: &GsoBatch, bytes: &[u8]) {
        let slot = self.slot(number);
        let head = write_head(&slot.words, batch);
        for (word, chunk) in slot.words[head..].iter().zip(bytes.chunks(size_of::<u64>())) {
            let mut padded = [0; size_of::<u64>()];
            padded[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_ne_bytes(padded), Ordering::Relaxed);
        }
        slot.sequence.store(number + 1, Ordering::SeqCst);
    }

    /// Whether the reader would find nothing.
    pub(super) fn is_empty(&self) -> bool {
        let head = self.head.0.load(Ordering::Relaxed);
        self.slot(head).sequence.load(Ordering::SeqCst) != head + 1
    }

    /// Takes the next slot. A batch goes into `burst`, if there is room; else the slot stays.
    pub(super) fn next(&self, burst: &mut Burst) -> Next {
        let head = self.head.0.load(Ordering::Relaxed);
        let slot = self.slot(head);
        if slot.sequence.load(Ordering::Acquire) != head + 1 {
            return Next::Nothing;
        }
        let next = match read_head(&slot.words) {
            None => Next::Burst,
            Some((route, size, bytes, offset)) => {
                if !read_batch(&slot.words[offset..], &route, size, bytes, burst) {
                    return Next::Nothing;
                }
                Next::Batch
            }
        };
        slot.sequence.store(head + SLOTS, Ordering::Release);
        self.head.0.store(head + 1, Ordering::Relaxed);
        next
    }
}

/// Whether the batch fits into a slot.
pub(super) fn fits(batch: &GsoBatch) -> bool {
    let plain = |addr: &SocketAddr| match addr {
        SocketAddr::V4(_) => true,
        SocketAddr::V6(v6) => v6.scope_id() == 0 && v6.flowinfo() == 0,
    };
    let Route { src, dst, .. } = &batch.route;
    let head = if dst.is_ipv4() { HEAD_V4 } else { HEAD_V6 };
    src.is_ipv4() == dst.is_ipv4()
        && plain(src)
        && plain(dst)
        && batch.bytes() > 0
        && batch.bytes() <= (WORDS - head) * size_of::<u64>()
}

/// Returns the index of the word at which the bytes of the batch begin.
fn write_head(words: &[AtomicU64; WORDS], batch: &GsoBatch) -> usize {
    let Route { src, dst, hop_limit, traffic_class } = batch.route;
    let put = |index: usize, value: u64| words[index].store(value, Ordering::Relaxed);
    // What fits into a slot has less than 256 bytes.
    let (size, bytes) = (batch.size as u8, batch.bytes() as u8);
    let [[a, b], [c, d]] = [src.port(), dst.port()].map(u16::to_le_bytes);
    let first = |bytes| u64::from_le_bytes([a, b, c, d, hop_limit, traffic_class, size, bytes]);
    match (src.ip(), dst.ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            put(0, first(bytes));
            put(1, u64::from(src.to_bits()) | u64::from(dst.to_bits()) << 32);
            HEAD_V4
        }
        (src, dst) => {
            put(0, first(V6));
            put(1, bytes.into());
            for (ip, at) in [(src, 2), (dst, 4)] {
                let bits = v6_bits(ip);
                put(at, bits as u64);
                put(at + 1, (bits >> 64) as u64);
            }
            HEAD_V6
        }
    }
}

fn v6_bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Route, bytes of a packet, bytes of the batch, and the index of their first word; `None`: the
/// slot announces a queued burst.
fn read_head(words: &[AtomicU64; WORDS]) -> Option<(Route, usize, usize, usize)> {
    let get = |index: usize| words[index].load(Ordering::Relaxed);
    let [a, b, c, d, hop_limit, traffic_class, size, kind] = get(0).to_le_bytes();
    let (src, dst, bytes, offset): (IpAddr, IpAddr, u8, usize) = match kind {
        BURST_MARKER => return None,
        V6 => {
            let [src, dst] = [2, 4]
                .map(|at| Ipv6Addr::from_bits(u128::from(get(at)) | u128::from(get(at + 1)) << 64));
            (src.into(), dst.into(), get(1) as u8, HEAD_V6)
        }
        bytes => {
            let both = get(1);
            let [src, dst] = [both as u32, (both >> 32) as u32].map(Ipv4Addr::from_bits);
            (src.into(), dst.into(), bytes, HEAD_V4)
        }
    };
    let [src_port, dst_port] = [[a, b], [c, d]].map(u16::from_le_bytes);
    let (src, dst) = (SocketAddr::new(src, src_port), SocketAddr::new(dst, dst_port));
    let route = Route { src, dst, hop_limit, traffic_class };
    Some((route, size.into(), bytes.into(), offset))
}

/// Appends the packets to `burst`; `false` when it has no room.
fn read_batch(
    words: &[AtomicU64],
    route: &Route,
    size: usize,
    bytes: usize,
    burst: &mut Burst,
) -> bool {
    let packets = bytes.div_ceil(size.max(1)).max(1);
    if !burst.fits(packets, crate::burst::PACKET_ROOM) {
        return false;
    }
    let Some(space) = burst.space() else { return false };
    let used = space[..bytes].chunks_mut(size_of::<u64>());
    for (chunk, word) in used.zip(words) {
        let word = word.load(Ordering::Relaxed).to_ne_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    // The bytes lie where the packets will be, one behind the other.
    for index in 0..packets {
        burst.commit(route, size.min(bytes - index * size));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::burst::GsoLimit;

    fn burst() -> Burst {
        Burst::new(64, GsoLimit::NONE)
    }

    fn route(v6: bool) -> Route {
        let [src, dst] =
            if v6 { ["[fd00::1]:5", "[fd00::2]:4791"] } else { ["10.0.0.1:5", "10.0.0.2:4791"] }
                .map(|text| text.parse().expect("an address"));
        Route { src, dst, hop_limit: 7, traffic_class: 0x61 }
    }

    fn filled(route: &Route, sizes: &[usize]) -> Burst {
        let mut burst = burst();
        for (index, &size) in sizes.iter().enumerate() {
            burst.space().expect("room")[..size].fill(index as u8 + 1);
            burst.commit(route, size);
        }
        burst
    }

    fn packets(burst: &Burst) -> Vec<(Route, Vec<u8>)> {
        let mut cursor = crate::burst::Cursor::default();
        let next = || burst.next(&mut cursor).map(|(route, bytes)| (*route, bytes.to_vec()));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_train_comes_out_as_it_went_in_time_and_again() {
        let ring = Ring::new();
        for number in 0..3 * SLOTS {
            let from = filled(&route(number % 2 == 1), &[[44, 20], [61, 61], [1, 1]][number % 3]);
            let batch = from.batches()[0];
            assert!(fits(&batch) && ring.is_free(number) && ring.is_empty());
            ring.put_batch(number, &batch, from.batch_bytes(&batch));
            let mut to = burst();
            assert_eq!(ring.next(&mut to), Next::Batch);
            assert_eq!(packets(&to), packets(&from));
            assert_eq!(ring.next(&mut to), Next::Nothing);
        }
    }

    #[test]
    fn order_is_kept_and_a_full_ring_is_seen() {
        let ring = Ring::new();
        let from = filled(&route(false), &[8]);
        for number in 0..SLOTS {
            assert!(ring.is_free(number));
            match number % 2 {
                0 => ring.put_batch(number, &from.batches()[0], &[number as u8; 8]),
                _ => ring.put_burst_marker(number),
            }
        }
        assert!(!ring.is_free(SLOTS));
        for number in 0..SLOTS {
            let mut to = burst();
            let next = ring.next(&mut to);
            assert_eq!(next, if number % 2 == 0 { Next::Batch } else { Next::Burst });
            assert!(packets(&to).iter().all(|(_, bytes)| bytes[..] == [number as u8; 8]));
        }
        assert!(ring.is_free(2 * SLOTS - 1) && ring.is_empty());
    }

    #[test]
    fn what_has_no_room_in_the_burst_stays() {
        let ring = Ring::new();
        let from = filled(&route(false), &[8]);
        ring.put_batch(0, &from.batches()[0], &[9; 8]);
        let mut full = Burst::new(1, GsoLimit::NONE);
        full.commit(&route(false), 8);
        assert_eq!(ring.next(&mut full), Next::Nothing);
        full.clear();
        assert_eq!(ring.next(&mut full), Next::Batch);
    }

    #[test]
    fn what_is_too_long_or_has_a_scope_does_not_fit() {
        let fits_of = |route: &Route, size| fits(&filled(route, &[size]).batches()[0]);
        assert!(fits_of(&route(false), 232) && !fits_of(&route(false), 233));
        assert!(fits_of(&route(true), 200) && !fits_of(&route(true), 201));
        assert!(!fits_of(&route(false), 0));
        let scoped = Route { src: "[fe80::1%3]:5".parse().expect("scoped"), ..route(true) };
        assert!(!fits_of(&scoped, 8));
    }
}
