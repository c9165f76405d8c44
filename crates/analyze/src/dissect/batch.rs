//! Frames that are several packets.
//!
//! Segmentation offload hands a burst to the capture as one frame: one IP and one UDP header, then
//! the packets one behind the other, all of one size but the last. Each has the ICRC that it will
//! have on the wire: with lengths of its own, and with an IPv4 identification that grows by one from
//! packet to packet where a sender's burst stayed whole, and does not always where a receiver joined
//! packets. The size is found by what stands there: behind a right ICRC the next BTH begins.

use std::ops::Range;

use uroce_wire::{Bth, Header, ICRC_LEN, Opcode};

use super::icrc::Covered;
use super::locate::UDP_LEN;

/// Bytes of the shortest packet.
const SHORTEST: usize = Bth::LEN + ICRC_LEN;

/// Bytes of the longest packet, headers and some bytes to spare included.
pub(super) const LONGEST: usize = 4096 + 64;

/// Places that are tried with an ICRC before a frame is taken for one packet.
const MAX_TRIES: usize = 16;

/// Headers of one packet: an IPv6 header, some extension headers and UDP.
const MAX_HEADERS: usize = 128;

/// A frame that is several packets.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    headers: [u8; MAX_HEADERS],
    len: usize,
    /// Bytes of each packet but the last.
    segment: usize,
    /// By how much the identification grows from packet to packet.
    step: u16,
}

impl Batch {
    /// A batch whose headers are `headers`, and whose packets are `transport`, as far as they were
    /// captured; `None` if it is none. `likely` is a size that is tried first.
    pub(super) fn of(headers: &[u8], transport: &[u8], likely: Option<usize>) -> Option<Self> {
        let last = LONGEST.min(transport.len().checked_sub(SHORTEST)?);
        let mut batch = Self { headers: [0; MAX_HEADERS], len: headers.len(), segment: 0, step: 1 };
        batch.headers.get_mut(..headers.len())?.copy_from_slice(headers);
        let places = (SHORTEST..=last).step_by(4).filter(|&at| may_begin(transport, at));
        let likely = likely.filter(|&at| at <= last && may_begin(transport, at));
        let mut tries = likely.into_iter().chain(places.take(MAX_TRIES));
        batch.segment = tries.find(|&at| batch.begins_with(transport, at))?;
        batch.step = batch.find_step(transport);
        Some(batch)
    }

    /// Bytes of each packet but the last.
    pub(super) const fn segment(&self) -> usize {
        self.segment
    }

    /// Places of the packets in `len` bytes of transport.
    pub(super) fn places(&self, len: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let segment = self.segment;
        (0..len).step_by(segment).map(move |from| from..len.min(from + segment))
    }

    /// The headers that packet `index` has on the wire, with `packet_len` bytes of transport.
    pub(super) fn headers(&self, index: usize, packet_len: usize) -> SegmentHeaders {
        let growth = (index as u16).wrapping_mul(self.step);
        self.headers_with(growth, packet_len)
    }

    fn headers_with(&self, growth: u16, packet_len: usize) -> SegmentHeaders {
        let mut bytes = self.headers;
        let udp = self.len.saturating_sub(UDP_LEN);
        let udp_len = (packet_len + UDP_LEN) as u16;
        put(&mut bytes, udp + 4, udp_len);
        if bytes[0] >> 4 == 4 {
            put(&mut bytes, 2, udp_len.wrapping_add(udp as u16));
            let id = u16::from_be_bytes([bytes[4], bytes[5]]).wrapping_add(growth);
            put(&mut bytes, 4, id);
        } else {
            // Extension headers count.
            put(&mut bytes, 4, udp_len.wrapping_add(udp.saturating_sub(40) as u16));
        }
        SegmentHeaders { bytes, len: self.len }
    }

    /// Whether the first `segment` bytes are a packet; or the second ones, if the first were damaged.
    fn begins_with(&self, transport: &[u8], segment: usize) -> bool {
        let second = transport.get(segment..2 * segment);
        self.is_right(0, &transport[..segment])
            || second.is_some_and(|second| self.is_right(1, second))
    }

    fn is_right(&self, growth: u16, packet: &[u8]) -> bool {
        self.headers_with(growth, packet.len()).covered().is_right(packet)
    }

    /// 1 unless the ICRC of the second packet is right with the identification of the first.
    fn find_step(&self, transport: &[u8]) -> u16 {
        let end = transport.len().min(2 * self.segment);
        let second = transport.get(self.segment..end).unwrap_or(&[]);
        u16::from(self.is_right(1, second) || !self.is_right(0, second))
    }
}

/// The headers of one packet of a batch, as they will be on the wire.
#[derive(Debug, Clone)]
pub(super) struct SegmentHeaders {
    bytes: [u8; MAX_HEADERS],
    len: usize,
}

impl SegmentHeaders {
    pub(super) fn covered(&self) -> Covered<'_> {
        Covered::Udp(&self.bytes[..self.len])
    }
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

/// Whether a packet of the same partition could begin at `at`.
#[inline]
fn may_begin(transport: &[u8], at: usize) -> bool {
    transport.get(at + 2..at + 4).is_some_and(|pkey| pkey == &transport[2..4])
        && Opcode(transport[at]).info().is_some()
}
