//! The queue of received packets beside one of the standard library.

use std::collections::VecDeque;

use proptest::prelude::*;
use uroce_datapath::{IpId, PacketQueue, RxPacket};

fn packet(number: u16, payload: &[u8]) -> RxPacket<'_> {
    let [high, low] = number.to_be_bytes();
    RxPacket {
        src: ([10, 0, high, low], 0xC000).into(),
        dst: ([10, 0, 0, 1], 4791).into(),
        traffic_class: high,
        hop_limit: low,
        ip_id: IpId::Known(number),
        icrc_checked: number.is_multiple_of(2),
        following: None,
        fate: None,
        payload,
    }
}

/// Number and bytes of a packet whose fields are all of that number.
fn read(packet: &RxPacket<'_>) -> (u16, Vec<u8>) {
    let IpId::Known(number) = packet.ip_id else { panic!("{packet:?}") };
    let expected = self::packet(number, packet.payload);
    assert_eq!((packet.src, packet.dst), (expected.src, expected.dst));
    assert_eq!(packet.traffic_class, expected.traffic_class);
    assert_eq!(packet.hop_limit, expected.hop_limit);
    assert_eq!(packet.icrc_checked, expected.icrc_checked);
    assert!(packet.fate.is_none());
    (number, packet.payload.to_vec())
}

#[test]
fn bytes_are_free_again_only_when_the_queue_is_empty() {
    let mut queue = PacketQueue::new(8, 10);
    assert!(queue.put(&packet(0, &[0; 6])) && queue.put(&packet(1, &[1; 4])));
    assert!(!queue.put(&packet(2, &[2])), "no byte is left");
    assert!(queue.put(&packet(3, &[])), "none is needed");
    assert_eq!(queue.take(2, &mut |_| ()), 2);
    assert!(!queue.put(&packet(4, &[4])), "one packet is still there");
    assert_eq!(queue.take(9, &mut |_| ()), 1);
    assert!(queue.is_empty() && queue.put(&packet(5, &[5; 10])));
}

#[test]
fn a_queue_without_places_takes_nothing() {
    let mut queue = PacketQueue::new(0, 100);
    assert!(!queue.put(&packet(0, &[])) && queue.is_empty());
    assert_eq!(queue.take(1, &mut |_| panic!("nothing is there")), 0);
}

proptest! {
    #[test]
    fn packets_come_out_whole_in_order_and_never_more_than_fit(
        steps in prop::collection::vec((any::<bool>(), 0usize..30), 1..100),
    ) {
        const PACKETS: usize = 6;
        const BYTES: usize = 64;
        let mut queue = PacketQueue::new(PACKETS, BYTES);
        let (mut model, mut used, mut number) = (VecDeque::new(), 0, 0u16);
        for (is_put, n) in steps {
            if is_put {
                let payload = vec![number as u8; n];
                let fits = model.len() < PACKETS && used + n <= BYTES;
                prop_assert_eq!(queue.put(&packet(number, &payload)), fits);
                if fits {
                    used += n;
                    model.push_back((number, payload));
                }
                number += 1;
            } else {
                let limit = n % 4;
                let mut got = vec![];
                let count = queue.take(limit, &mut |packet| got.push(read(&packet)));
                prop_assert_eq!(count, limit.min(model.len()));
                prop_assert_eq!(got, model.drain(..count).collect::<Vec<_>>());
                used = if model.is_empty() { 0 } else { used };
            }
            prop_assert_eq!((queue.len(), queue.is_empty()), (model.len(), model.is_empty()));
        }
    }
}
