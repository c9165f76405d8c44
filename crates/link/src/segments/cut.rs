//! A frame that is cut beside its packets one at a time.

use proptest::prelude::*;

use super::*;

fn packet(ip_id: IpId, payload: &[u8]) -> RxPacket<'_> {
    RxPacket {
        src: ([10, 0, 0, 1], 0xC000).into(),
        dst: ([10, 0, 0, 2], 4791).into(),
        traffic_class: 3,
        hop_limit: 64,
        ip_id,
        icrc_checked: false,
        following: None,
        fate: None,
        payload,
    }
}

proptest! {
    #[test]
    fn the_packets_of_a_frame_are_what_was_joined(
        payloads in prop::collection::vec(any::<u8>(), 1..40),
        size in 1usize..50,
        last in 1usize..50,
        first in any::<u16>(),
        step in 0u16..2,
    ) {
        let last = last.min(size);
        let (tail, before) = payloads.split_last().expect("one at least");
        let mut sent: Vec<Vec<u8>> = before.iter().map(|&byte| vec![byte; size]).collect();
        sent.push(vec![*tail; last]);
        let bytes = sent.concat();
        let all = Segments::new(packet(IpId::Known(first), &bytes), size);
        let got: Vec<_> = (0..100).map_while(|index| all.get(index, step)).collect();
        prop_assert_eq!(got.len(), sent.len());
        for (index, (got, sent)) in got.iter().zip(&sent).enumerate() {
            prop_assert_eq!(got.payload, &sent[..]);
            let id = first.wrapping_add(index as u16 * step);
            prop_assert_eq!(got.ip_id, IpId::Known(id));
            prop_assert_eq!((got.traffic_class, got.hop_limit), (3, 64));
            prop_assert!(all.has(index));
        }
        prop_assert!(!all.has(sent.len()) && !all.has(usize::MAX));
    }
}

#[test]
fn a_segment_of_no_bytes_counts_as_one_of_one() {
    let all = Segments::new(packet(IpId::NotPresent, b"abc"), 0);
    let got: Vec<_> = (0..9).map_while(|index| all.get(index, 1)).map(|p| p.payload).collect();
    assert_eq!(got, [b"a", b"b", b"c"]);
}

#[test]
fn a_single_packet_has_no_second_whatever_its_length() {
    for payload in [&[][..], &[1; 9000]] {
        let one = Segments::single(packet(IpId::Known(1), payload));
        assert!(one.has(0) && !one.has(1) && one.id_step() == 1);
    }
}
