//! How many packets one call hands over, and how many are kept for the next.

use uroce_wire::{Ipv4, UdpPorts, write_ethernet, write_ipv4_udp};

use super::*;

fn rx_queue() -> RxQueue {
    RxQueue::new(FrameReader::new("10.0.0.1:4791".parse().expect("address")), false)
}

fn to_ourselves() -> Route {
    let addr = "10.0.0.1:4791".parse().expect("address");
    Route { src: addr, dst: addr, hop_limit: 64, traffic_class: 0 }
}

/// A frame to that host with 4 bytes behind UDP.
fn frame(host: u8, byte: u8) -> Vec<u8> {
    let mut bytes = vec![byte; 46];
    let (src, dst) = ([10, 0, 0, 9].into(), [10, 0, 0, host].into());
    let ip = Ipv4 { src, dst, id: 1, ttl: 64, tos: 0, df: true };
    write_ethernet(&mut bytes, [2; 6], [4; 6], None, 0x0800).expect("room");
    write_ipv4_udp(&mut bytes[14..], &ip, UdpPorts { src: 50_000, dst: 4791 }, 4).expect("room");
    bytes
}

#[test]
fn no_more_packets_to_ourselves_are_kept_than_there_is_room_for() {
    let mut rx_queue = rx_queue();
    assert!(!rx_queue.has_packet());
    for n in 0..ECHO {
        assert!(rx_queue.echo(&to_ourselves(), &[n as u8; 8]), "{n}");
    }
    assert!(!rx_queue.echo(&to_ourselves(), &[0; 8]), "one too many");
    let (mut stats, mut got) = (DatapathStats::default(), vec![]);
    let mut sink = |packet: RxPacket<'_>| got.push(packet.payload[0]);
    assert_eq!(rx_queue.hand_over(1, &mut stats, &mut sink).count(), 1);
    assert!(rx_queue.echo(&to_ourselves(), &[7; 8]), "room again");
    rx_queue.hand_over(1000, &mut stats, &mut sink);
    let expected: Vec<u8> = (0..ECHO).map(|n| n as u8).chain([7]).collect();
    assert_eq!(got, expected);
    assert_eq!((stats.rx_packets, stats.rx_bytes), (257, 257 * 8));
    assert!(!rx_queue.has_packet());
}

#[test]
fn what_was_kept_comes_before_what_arrives_and_both_count_for_the_limit() {
    let mut rx_queue = rx_queue();
    assert!(rx_queue.echo(&to_ourselves(), b"mine"));
    let (mut stats, mut got) = (DatapathStats::default(), vec![]);
    let mut sink = |packet: RxPacket<'_>| got.push(packet.payload[0]);
    let mut call = rx_queue.hand_over(2, &mut stats, &mut sink);
    assert!(call.wants_more());
    assert!(!call.unload(&frame(1, b'x')), "that was the last one wanted");
    assert_eq!(call.count(), 2);
    assert_eq!(got, [b'm', b'x']);
}

#[test]
fn frames_for_others_use_up_the_limit_too() {
    let mut rx_queue = rx_queue();
    let mut stats = DatapathStats::default();
    let mut sink = |packet: RxPacket<'_>| panic!("{packet:?}");
    let mut call = rx_queue.hand_over(3, &mut stats, &mut sink);
    let wanted: Vec<bool> = (0..3).map(|_| call.unload(&frame(2, 0))).collect();
    assert_eq!((wanted, call.count()), (vec![true, true, false], 0));
    assert_eq!((stats.rx_dropped, stats.rx_packets), (3, 0));
}
