//! Packets that arrived as one frame.

use uroce_datapath::{FollowingSegments, IpId, RxPacket};
use uroce_wire::{Flow, verify};

/// Packets of one flow that came in one frame, one payload behind the other: as their sender sent them (GSO), or joined
/// on the way (GRO).
#[derive(Debug, Clone, Copy)]
pub struct Segments<'a> {
    /// The fields of the first, and the payloads of all.
    all: RxPacket<'a>,
    /// Bytes of each payload but the last.
    size: usize,
}

impl<'a> Segments<'a> {
    /// Payloads of `size` bytes each, but the last, which may be shorter. `size` is at least 1.
    #[inline]
    #[must_use]
    pub fn new(all: RxPacket<'a>, size: usize) -> Self {
        Self { all, size: size.max(1) }
    }

    /// A frame that is one packet.
    #[inline]
    #[must_use]
    pub fn single(packet: RxPacket<'a>) -> Self {
        Self { all: packet, size: usize::MAX }
    }

    /// Whether there is a packet with that index. A frame with an empty payload is one packet.
    #[inline]
    #[must_use]
    pub fn has(&self, index: usize) -> bool {
        self.rest(index).is_some()
    }

    /// The payload from packet `index` on.
    #[inline]
    fn rest(&self, index: usize) -> Option<&'a [u8]> {
        let from = index.checked_mul(self.size)?;
        self.all.payload.get(from..).filter(|rest| index == 0 || !rest.is_empty())
    }

    /// Packet `index`, with an identification that grows by `step` from packet to packet.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize, step: u16) -> Option<RxPacket<'a>> {
        let rest = self.rest(index)?;
        let ip_id = match self.all.ip_id {
            IpId::Known(id) => IpId::Known(id.wrapping_add((index as u16).wrapping_mul(step))),
            other => other,
        };
        let payload = rest.get(..self.size).unwrap_or(rest);
        Some(RxPacket { ip_id, payload, ..self.all })
    }

    /// Up to `most` packets behind packet `index` that are as long, with identifications that grow by `step`.
    #[inline]
    #[must_use]
    pub fn following(&self, index: usize, most: usize, step: u16) -> Option<FollowingSegments<'a>> {
        let from = index.checked_add(1)?.checked_mul(self.size)?;
        let behind = self.all.payload.get(from..).filter(|behind| behind.len() >= self.size)?;
        FollowingSegments::new(behind, self.size, most, step)
    }

    /// By how much the identification grows: 1 where a sender's super-packet stayed whole, and 0 or 1
    /// where the kernel joined packets, which it does with both. The ICRC of the second packet tells.
    #[must_use]
    pub fn id_step(&self) -> u16 {
        match (self.all.ip_id, self.get(1, 1)) {
            (IpId::Known(first), Some(RxPacket { ip_id: IpId::Known(next), payload, .. })) => {
                let flow = flow(&self.all);
                let constant = !verify(&flow, next, payload) && verify(&flow, first, payload);
                u16::from(!constant)
            }
            _ => 1,
        }
    }
}

/// What the ICRC covers of the addresses of a packet.
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
mod cut;
#[cfg(test)]
mod tests {
    use uroce_wire::icrc;

    use super::*;

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

    /// Three packets of 40 bytes with right ICRCs, the last one shorter.
    fn sealed(first: u16, step: u16) -> Vec<u8> {
        let flow = Flow {
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
            src_port: 0xC000,
            dst_port: 4791,
        };
        let one = |index: u16| {
            let mut bytes = vec![index as u8; if index == 2 { 20 } else { 36 }];
            let id = first.wrapping_add(index.wrapping_mul(step));
            bytes.extend(icrc(&flow, id, &bytes).to_le_bytes());
            bytes
        };
        (0..3).flat_map(one).collect()
    }

    #[test]
    fn identifications_count_or_stay_as_the_icrc_says() {
        for (step, ids) in [(1, [0xffff, 0, 1]), (0, [0xffff; 3])] {
            let bytes = sealed(0xffff, step);
            let all = Segments::new(packet(IpId::Known(0xffff), &bytes), 40);
            assert_eq!((all.id_step(), all.has(2), all.has(3)), (step, true, false));
            let packets = (0..4).map_while(|index| all.get(index, step));
            let got: Vec<_> = packets.map(|p| (p.ip_id, p.payload.len())).collect();
            let [a, b, c] = ids.map(IpId::Known);
            assert_eq!(got, [(a, 40), (b, 40), (c, 24)]);
        }
    }

    #[test]
    fn without_a_right_icrc_and_with_ipv6_they_count_as_a_sender_would() {
        assert_eq!(Segments::new(packet(IpId::Known(7), &[1; 80]), 40).id_step(), 1);
        let v6 = Segments::new(packet(IpId::NotPresent, &[1; 80]), 40);
        assert_eq!(v6.get(1, 1).expect("second").ip_id, IpId::NotPresent);
    }

    #[test]
    fn a_frame_that_is_not_segmented_is_one_packet() {
        for payload in [&[][..], &[1; 33]] {
            let one = Segments::new(packet(IpId::Known(7), payload), usize::MAX);
            assert!(one.has(0) && !one.has(1));
            assert_eq!(one.get(0, 1).expect("first").payload, payload);
            assert!(one.get(1, 1).is_none());
        }
    }
}
