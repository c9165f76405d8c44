//! The headers of one packet, from BTH to payload.

use std::ops::Range;

use uroce_wire::{AtomicAckEth, Bth, Header, HeaderSet, ICRC_LEN, Ieth, ImmDt, OpcodeInfo, XrcEth};

use super::Malformed;
use super::locate::Carried;
use crate::{Frame, IcrcStatus, Packet};

/// Where one packet stands, and what is known about it besides its headers.
#[derive(Debug, Clone)]
pub(super) struct PacketPlace {
    /// BTH to ICRC in the frame; the end may lie behind the bytes that were captured.
    pub(super) transport: Range<usize>,
    /// Number of the packet in a batch.
    pub(super) segment: u16,
    /// Length of its frame on the wire.
    pub(super) wire_len: u32,
    pub(super) icrc: IcrcStatus,
}

/// A packet, and the places of its payload and of all its bytes, as far as they were captured.
#[derive(Debug, Clone)]
pub(crate) struct Walked {
    pub(crate) packet: Packet,
    pub(crate) payload: Range<usize>,
    pub(crate) captured: Range<usize>,
}

/// Reads header after header; one that is cut off is `None`, and so are all behind it.
struct Cursor<'a> {
    rest: &'a [u8],
    headers: HeaderSet,
}

impl Cursor<'_> {
    #[inline]
    fn take<H: Header>(&mut self, flag: HeaderSet) -> Option<H> {
        if !self.headers.contains(flag) {
            return None;
        }
        let header = H::read(self.rest);
        self.rest = self.rest.get(H::LEN..).unwrap_or(&[]);
        header
    }
}

/// Reads the packet at `place` of `frame`.
///
/// # Errors
/// Why it is none.
#[inline]
pub(super) fn parse(
    frame: &Frame<'_>,
    carried: &Carried,
    place: &PacketPlace,
) -> Result<Walked, Malformed> {
    let Range { start, end } = place.transport;
    let captured = start.min(frame.data.len())..end.min(frame.data.len());
    let (bytes, got) = (&frame.data[captured.clone()], end - start);
    let need = Bth::LEN + ICRC_LEN;
    if got < need {
        return Err(Malformed::TooShort { got, need });
    }
    let bth = Bth::read(bytes).ok_or(Malformed::Cut)?;
    let info = bth.opcode.info();
    let payload = payload(&bth, info, got)?;
    let mut packet = bare(frame, carried, place, bth);
    packet.payload_len = payload.len() as u32;
    packet.is_cut = captured.len() < got;
    if let Some(info) = info {
        read_extensions(&mut packet, info, &bytes[Bth::LEN..]);
    }
    let limit = |at: usize| captured.end.min(start + at);
    Ok(Walked { packet, payload: limit(payload.start)..limit(payload.end), captured })
}

/// Where the payload is in a packet of `got` bytes.
#[inline]
fn payload(
    bth: &Bth,
    info: Option<&'static OpcodeInfo>,
    got: usize,
) -> Result<Range<usize>, Malformed> {
    let header_len = info.map_or(Bth::LEN, |info| info.header_len);
    let tail = usize::from(bth.pad) + ICRC_LEN;
    if got < header_len + tail {
        let (name, need) = (info.map_or("BTH", |info| info.name), header_len + tail);
        return Err(Malformed::HeadersDoNotFit { name, got, need });
    }
    Ok(header_len..got - tail)
}

#[inline]
fn bare(frame: &Frame<'_>, carried: &Carried, place: &PacketPlace, bth: Bth) -> Packet {
    Packet {
        frame: frame.number,
        segment: place.segment,
        time: frame.time,
        direction: carried.direction,
        encapsulation: carried.encapsulation,
        source: carried.source,
        destination: carried.destination,
        traffic_class: carried.traffic_class,
        hop_limit: carried.hop_limit,
        ip_id: carried.ip_id.filter(|_| place.segment == 0),
        wire_len: place.wire_len,
        icrc: place.icrc,
        ..Packet::new(bth)
    }
}

/// The order is that of the wire, for every combination that the opcode table has.
#[inline]
fn read_extensions(packet: &mut Packet, info: &OpcodeInfo, behind_bth: &[u8]) {
    if info.headers.is_empty() {
        return;
    }
    let mut cursor = Cursor { rest: behind_bth, headers: info.headers };
    packet.xrc_srqn = cursor.take::<XrcEth>(HeaderSet::XRCETH).map(|header| header.srqn);
    packet.deth = cursor.take(HeaderSet::DETH);
    packet.feth = cursor.take(HeaderSet::FETH);
    packet.reth = cursor.take(HeaderSet::RETH);
    packet.atomic_eth = cursor.take(HeaderSet::ATOMIC_ETH);
    packet.aeth = cursor.take(HeaderSet::AETH);
    let atomic_ack = cursor.take::<AtomicAckEth>(HeaderSet::ATOMIC_ACK_ETH);
    packet.atomic_ack = atomic_ack.map(|header| header.original);
    packet.immediate = cursor.take::<ImmDt>(HeaderSet::IMMDT).map(|header| header.0);
    packet.invalidate_rkey = cursor.take::<Ieth>(HeaderSet::IETH).map(|header| header.0);
}
