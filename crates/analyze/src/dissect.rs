//! Frames taken apart into InfiniBand packets.

mod batch;
mod icrc;
mod iwarp;
mod layers;
mod link;
mod locate;
mod malformed;
mod network;
mod parse;

use batch::Batch;
use icrc::Covered;
pub use iwarp::Iwarp;
pub(crate) use layers::{LinkLayer, link_layer};
use locate::{Carried, Headers, Located};
pub use malformed::Malformed;
pub(crate) use parse::Walked;
use parse::{PacketPlace, parse};
use uroce_wire::ROCE_PORT;

use crate::{Frame, IcrcStatus, NotChecked, Packet};

/// What a dissector has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DissectorConfig {
    /// UDP destination port of RoCEv2: 4791, unless something on the way changed it.
    pub port: u16,
}

impl Default for DissectorConfig {
    fn default() -> Self {
        Self { port: ROCE_PORT }
    }
}

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// RoCE, or native InfiniBand.
    Roce {
        /// Packets in it; more than one where segmentation offload left a batch as one frame.
        packets: u16,
    },
    /// RoCE, but not what a packet can be.
    RoceMalformed(Malformed),
    /// iWARP, which is only named.
    Iwarp(Iwarp),
    /// Something else.
    Other,
}

/// Where the packets of a frame go: the packet, its payload, and its bytes from BTH to ICRC; the
/// bytes as far as they were captured.
pub type PacketSink<'s, 'f> = dyn FnMut(&Packet, &'f [u8], &'f [u8]) + 's;

/// Takes frames apart. It is lenient: what was captured is used, and what is missing is said.
///
/// ```
/// use uroce_analyze::{CaptureReader, Dissector, DissectorConfig};
///
/// let capture = include_bytes!("../../../pcaps/rc-send.pcap");
/// let mut reader = CaptureReader::new(&capture[..])?;
/// let mut dissector = Dissector::new(DissectorConfig::default());
/// let mut right = 0;
/// while let Some(frame) = reader.next_frame()? {
///     dissector.dissect(&frame, &mut |packet, _, _| right += u32::from(packet.icrc.is_good()));
/// }
/// assert!(right > 10);
/// # Ok::<(), uroce_analyze::CaptureError>(())
/// ```
#[derive(Debug)]
pub struct Dissector {
    config: DissectorConfig,
    /// Size of the packets of the last batch; the next one mostly has the same.
    segment: Option<usize>,
}

impl Dissector {
    /// A dissector that has seen nothing yet.
    pub const fn new(config: DissectorConfig) -> Self {
        Self { config, segment: None }
    }

    /// Calls `sink` for each packet of `frame`.
    #[inline]
    pub fn dissect<'f>(&mut self, frame: &Frame<'f>, sink: &mut PacketSink<'_, 'f>) -> FrameKind {
        let data = frame.data;
        self.walk(frame, &mut |walked| {
            sink(&walked.packet, &data[walked.payload], &data[walked.captured])
        })
    }

    #[inline]
    fn walk(&mut self, frame: &Frame<'_>, sink: &mut impl FnMut(Walked)) -> FrameKind {
        match Located::of(frame, &self.config) {
            Located::Packet(carried) => self.packets(frame, &carried, sink),
            Located::Malformed(malformed) => FrameKind::RoceMalformed(malformed),
            Located::Tcp(place) => {
                let captured = frame.data.get(place.start..place.end.min(frame.data.len()));
                let iwarp = Iwarp::of(captured.unwrap_or(&[]), place.len());
                iwarp.map_or(FrameKind::Other, FrameKind::Iwarp)
            }
            Located::Other => FrameKind::Other,
        }
    }

    #[inline]
    fn packets(
        &mut self,
        frame: &Frame<'_>,
        carried: &Carried,
        sink: &mut impl FnMut(Walked),
    ) -> FrameKind {
        let is_cut = carried.end > frame.data.len();
        let transport = frame.data.get(carried.start..carried.end.min(frame.data.len()));
        let transport = transport.unwrap_or(&[]);
        let covered = Covered::of(&carried.headers, frame.data);
        if !is_cut && covered.is_right(transport) {
            return single(frame, carried, IcrcStatus::Right, sink);
        }
        if let (Headers::Udp(_), Covered::Udp(headers)) = (&carried.headers, covered)
            && let Some(batch) = Batch::of(headers, transport, self.segment)
        {
            self.segment = Some(batch.segment());
            return several(frame, carried, &batch, sink);
        }
        let icrc = match is_cut {
            true => IcrcStatus::NotChecked(not_checked(carried)),
            false => covered.judge(transport),
        };
        single(frame, carried, icrc, sink)
    }
}

/// Why the ICRC of a frame that is cut cannot be checked.
const fn not_checked(carried: &Carried) -> NotChecked {
    if carried.end - carried.start > batch::LONGEST {
        NotChecked::Offloaded
    } else {
        NotChecked::Cut
    }
}

#[inline]
fn single(
    frame: &Frame<'_>,
    carried: &Carried,
    icrc: IcrcStatus,
    sink: &mut impl FnMut(Walked),
) -> FrameKind {
    let transport = carried.start..carried.end;
    let place = PacketPlace { transport, segment: 0, wire_len: frame.original_len, icrc };
    match give(frame, carried, &place, sink) {
        Ok(()) => FrameKind::Roce { packets: 1 },
        Err(malformed) => FrameKind::RoceMalformed(malformed),
    }
}

/// Gives the packets of a batch, as far as their BTH was captured.
fn several(
    frame: &Frame<'_>,
    carried: &Carried,
    batch: &Batch,
    sink: &mut impl FnMut(Walked),
) -> FrameKind {
    let mut packets = 0;
    for (index, part) in batch.places(carried.end - carried.start).enumerate() {
        let transport = carried.start + part.start..carried.start + part.end;
        let icrc = match frame.data.get(transport.clone()) {
            Some(bytes) => batch.headers(index, part.len()).covered().judge(bytes),
            None => IcrcStatus::NotChecked(NotChecked::Cut),
        };
        let wire_len = (carried.start + part.len()) as u32;
        let place = PacketPlace { transport, segment: packets, wire_len, icrc };
        match give(frame, carried, &place, sink) {
            Ok(()) => packets = packets.saturating_add(1),
            Err(malformed) if packets == 0 => return FrameKind::RoceMalformed(malformed),
            Err(_) => break,
        }
    }
    FrameKind::Roce { packets }
}

#[inline]
fn give(
    frame: &Frame<'_>,
    carried: &Carried,
    place: &PacketPlace,
    sink: &mut impl FnMut(Walked),
) -> Result<(), Malformed> {
    sink(parse(frame, carried, place)?);
    Ok(())
}

/// Calls `sink` for each packet of `frame`, with the places of its bytes.
pub(crate) fn walk(
    frame: &Frame<'_>,
    config: &DissectorConfig,
    sink: &mut impl FnMut(Walked),
) -> FrameKind {
    Dissector::new(*config).walk(frame, sink)
}
