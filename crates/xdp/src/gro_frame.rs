//! Packets that arrive as one frame.
//!
//! On virtual links a sender's burst can stay together: one IP and one UDP header, then the packets one
//! behind the other, all of one size but the last. The kernel knows that size and an XDP program
//! does not, so it is found by what stands in the packets: behind a right ICRC the next BTH begins.

use uroce_datapath::RxPacket;
use uroce_link::Segments;
use uroce_wire::{Flow, FlowIcrc, Opcode, verify};

/// Bytes of a BTH and of the shortest packet.
const BTH: usize = 12;
const SHORTEST: usize = BTH + 4;

/// Bytes of the longest packet that can begin a joined frame.
const LONGEST: usize = 4096 + 64;

/// Places that are tried with an ICRC before a frame is taken for one packet.
const MAX_TRIES: usize = 16;

/// Packets in one frame; the kernel joins no more.
pub(crate) const MAX_PACKETS: usize = 128;

/// The packets of a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroFrame<'a> {
    segments: Segments<'a>,
    /// By how much the identification grows from packet to packet.
    step: u16,
}

impl<'a> GroFrame<'a> {
    /// A frame that is known to be one packet.
    #[inline]
    pub(crate) fn single(packet: RxPacket<'a>) -> Self {
        Self { segments: Segments::single(packet), step: 0 }
    }

    /// A frame that may be several packets. With a right ICRC at its end it is one. `icrc` remembers
    /// what such frames have in common.
    pub(crate) fn of(packet: RxPacket<'a>, icrc: &mut FlowIcrc) -> Self {
        let payload = packet.payload;
        if payload.len() < 2 * SHORTEST {
            return Self::single(packet);
        }
        if icrc.verify(&flow(&packet), packet.ip_id.known_or_zero(), payload) {
            return Self::single(RxPacket { icrc_checked: true, ..packet });
        }
        let Some(segment) = segment(&packet) else {
            return Self::single(packet);
        };
        let segments = Segments::new(packet, segment);
        Self { segments, step: segments.id_step() }
    }

    /// Packet `index`.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<RxPacket<'a>> {
        if index < MAX_PACKETS { self.segments.get(index, self.step) } else { None }
    }
}

/// Bytes of the first packet, when another one follows it.
fn segment(packet: &RxPacket<'_>) -> Option<usize> {
    let payload = packet.payload;
    let last = LONGEST.min(payload.len() - SHORTEST);
    let places = (SHORTEST..=last).step_by(4).filter(|&at| may_begin(payload, at));
    places.take(MAX_TRIES).find(|&at| is_right(packet, &payload[..at]))
}

/// Whether a packet of the same partition could begin at `at`.
#[inline]
fn may_begin(payload: &[u8], at: usize) -> bool {
    payload[at + 2..at + 4] == payload[2..4] && Opcode(payload[at]).info().is_some()
}

/// Whether `bytes` end with the right ICRC, with the addresses of `packet`.
fn is_right(packet: &RxPacket<'_>, bytes: &[u8]) -> bool {
    verify(&flow(packet), packet.ip_id.known_or_zero(), bytes)
}

#[inline]
fn flow(packet: &RxPacket<'_>) -> Flow {
    Flow {
        src: packet.src.ip(),
        dst: packet.dst.ip(),
        src_port: packet.src.port(),
        dst_port: packet.dst.port(),
    }
}

#[cfg(test)]
mod tests {
    use uroce_datapath::IpId;
    use uroce_wire::icrc;

    use super::*;

    const FIRST: u16 = 0xfffe;

    fn packet(ip_id: IpId, payload: &[u8]) -> RxPacket<'_> {
        let (src, dst) = (([10, 0, 0, 1], 0xC000).into(), ([10, 0, 0, 2], 4791).into());
        RxPacket {
            src,
            dst,
            traffic_class: 0,
            hop_limit: 64,
            ip_id,
            icrc_checked: false,
            following: None,
            fate: None,
            payload,
        }
    }

    /// A packet of so many bytes with a right ICRC.
    fn sealed(id: u16, psn: u8, len: usize) -> Vec<u8> {
        let mut bytes = vec![psn; len - 4];
        bytes[..BTH].copy_from_slice(&[4, 0x40, 0xff, 0xff, 0, 0, 0, 0x12, 0, 0, 0, psn]);
        let flow = Flow {
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
            src_port: 0xC000,
            dst_port: 4791,
        };
        bytes.extend(icrc(&flow, id, &bytes).to_le_bytes());
        bytes
    }

    /// Packets of `len` bytes and a last one of `last`, one behind the other.
    fn frame(packets: u16, len: usize, last: usize, step: u16) -> Vec<u8> {
        let id = |index: u16| FIRST.wrapping_add(index.wrapping_mul(step));
        let size = |index| if index + 1 == packets { last } else { len };
        (0..packets).flat_map(|index| sealed(id(index), index as u8, size(index))).collect()
    }

    fn packets(bytes: &[u8]) -> Vec<(IpId, Vec<u8>)> {
        split(bytes).map(|packet| (packet.ip_id, packet.payload.to_vec())).collect()
    }

    fn split(bytes: &[u8]) -> impl Iterator<Item = RxPacket<'_>> {
        let frame = GroFrame::of(packet(IpId::Known(FIRST), bytes), &mut FlowIcrc::default());
        (0..).map_while(move |index| frame.get(index))
    }

    /// Of each packet, whether its ICRC is said to be right.
    fn checked(bytes: &[u8]) -> Vec<bool> {
        split(bytes).map(|packet| packet.icrc_checked).collect()
    }

    #[test]
    fn one_packet_stays_one() {
        for len in [16, 20, 32, 64, 1084, 4156] {
            let bytes = sealed(FIRST, 1, len);
            assert_eq!(packets(&bytes), [(IpId::Known(FIRST), bytes)]);
        }
        assert_eq!(packets(&[]), [(IpId::Known(FIRST), vec![])]);
    }

    #[test]
    fn a_joined_frame_is_taken_apart_with_the_identifications_of_its_packets() {
        for step in [0, 1] {
            for (count, len, last) in [(2, 16, 16), (60, 1084, 1084), (3, 108, 20), (15, 4156, 64)]
            {
                let bytes = frame(count, len, last, step);
                let got = packets(&bytes);
                assert_eq!(got.len(), usize::from(count), "{len}");
                for (index, (id, payload)) in (0..).zip(got) {
                    let right = FIRST.wrapping_add(index * step);
                    assert_eq!(id, IpId::Known(right), "{len} {index}");
                    assert_eq!(payload, sealed(right, index as u8, payload.len()), "{len} {index}");
                }
            }
        }
    }

    #[test]
    fn a_damaged_packet_stays_one_for_the_device_to_count() {
        let mut bytes = sealed(FIRST, 1, 1084);
        assert_eq!(checked(&bytes), [true]);
        bytes[500] ^= 1;
        assert_eq!(checked(&bytes), [false]);
    }

    #[test]
    fn only_a_packet_whose_icrc_was_found_right_is_said_to_be_checked() {
        assert_eq!(checked(&sealed(FIRST, 1, 16)), [false], "too short for two, and not looked at");
        let mut bytes = frame(3, 108, 108, 1);
        bytes[250] ^= 1;
        assert_eq!(checked(&bytes), [false; 3], "the last one could be damaged, too");
    }

    #[test]
    fn a_payload_full_of_packets_costs_only_so_many_tries() {
        let mut bytes = sealed(FIRST, 1, 4156);
        for place in bytes[BTH..].chunks_exact_mut(4) {
            place.copy_from_slice(&[4, 0, 0xff, 0xff]);
        }
        let places = (SHORTEST..4140).step_by(4).filter(|&at| may_begin(&bytes, at)).count();
        assert!(places > 100 * 4 && packets(&bytes).len() == 1);
    }

    #[test]
    fn no_frame_is_more_packets_than_the_kernel_joins() {
        let bytes = frame(200, 16, 16, 1);
        assert_eq!(packets(&bytes).len(), MAX_PACKETS);
    }
}
