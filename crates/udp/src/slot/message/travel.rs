//! Packets by redirect messages beside packets one at a time.

use proptest::prelude::*;
use uroce_datapath::DatapathStats;

use super::*;

fn slot(number: u8) -> Slot {
    Slot::new(number).expect("a slot")
}

fn packet<'a>(sender: u8, ip_id: IpId, payload: &'a [u8]) -> RxPacket<'a> {
    RxPacket {
        src: ([10, 0, 0, sender], 0xC000).into(),
        dst: ([10, 0, 0, 1], 4791).into(),
        traffic_class: sender,
        hop_limit: 63,
        ip_id,
        icrc_checked: false,
        following: None,
        fate: None,
        payload,
    }
}

/// The packets in a message, with the number of their sender.
fn unpacked(bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let (whole, size) = read(bytes).expect("a message");
    let (mut got, mut stats) = (vec![], DatapathStats::default());
    whole.hand_over(size, &mut 0, usize::MAX, &mut stats, &mut |packet| {
        assert_eq!(packet.src, ([10, 0, 0, packet.traffic_class], 0xC000).into());
        got.push((packet.traffic_class, packet.payload.to_vec()));
    });
    got
}

proptest! {
    #[test]
    fn packets_arrive_at_the_right_process_whole_and_in_order(
        packets in prop::collection::vec((1u8..4, 1u8..3, 1usize..40), 1..60),
    ) {
        let mut message = RedirectMessage::new();
        let (mut sent, mut got) = (vec![], vec![]);
        let mut deliver = |message: &mut RedirectMessage| {
            if let Some((to, bytes, count)) = message.sealed() {
                let packets = unpacked(bytes);
                assert_eq!(packets.len() as u64, count);
                got.extend(packets.into_iter().map(|(from, bytes)| (to.get(), from, bytes)));
            }
            message.clear();
        };
        for (n, (to, from, len)) in packets.into_iter().enumerate() {
            let payload = vec![n as u8; len];
            let rx = packet(from, IpId::Hidden(0), &payload);
            if !message.add(slot(to), &rx) {
                deliver(&mut message);
                prop_assert!(message.add(slot(to), &rx), "an empty message takes any packet");
            }
            sent.push((to, from, payload));
        }
        deliver(&mut message);
        prop_assert_eq!(got, sent);
    }

    #[test]
    fn every_field_travels(
        class: u8, hops: u8, id: u16, port: u16, v6: bool, payload in prop::collection::vec(any::<u8>(), 1..50),
    ) {
        let [src, dst] = if v6 { ["fd00::7", "fd00::1"] } else { ["10.0.0.7", "10.0.0.1"] };
        let address = |text: &str, port| SocketAddr::new(text.parse().expect("address"), port);
        for ip_id in [IpId::Hidden(0), IpId::NotPresent, IpId::Known(id)] {
            let rx = RxPacket {
                src: address(src, port),
                dst: address(dst, 4791),
                traffic_class: class,
                hop_limit: hops,
                ..packet(1, ip_id, &payload)
            };
            let bytes = single(&rx);
            let (read, size) = read(&bytes).expect("a message");
            prop_assert_eq!((read.src, read.dst, read.ip_id), (rx.src, rx.dst, rx.ip_id));
            prop_assert_eq!((read.traffic_class, read.hop_limit), (class, hops));
            prop_assert_eq!((read.payload, size), (&payload[..], payload.len()));
            prop_assert!(!read.icrc_checked && read.fate.is_none());
        }
    }
}

#[test]
fn a_place_among_those_that_came_as_one_does_not_part_messages() {
    let mut message = RedirectMessage::new();
    assert!(message.add(slot(1), &packet(1, IpId::Hidden(0), &[1; 9])));
    assert!(message.add(slot(1), &packet(1, IpId::Hidden(1), &[1; 9])));
    assert!(!message.add(slot(1), &packet(1, IpId::Known(0), &[1; 9])), "another kind");
}

#[test]
fn a_message_that_no_process_of_ours_sends_is_refused() {
    let good = single(&packet(1, IpId::Known(5), &[1; 9]));
    assert!(read(&good).is_some());
    let refused = |change: fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        read(&bytes).is_none()
    };
    assert!(refused(|bytes| bytes.truncate(HEAD)), "no packet");
    assert!(refused(|bytes| bytes.truncate(HEAD - 1)), "no head");
    assert!(refused(|bytes| bytes[SIZE..HEAD].fill(0)), "packets of no bytes");
    assert!(refused(|bytes| bytes[SIZE..HEAD].fill(0xff)), "longer than any packet");
    assert!(refused(|bytes| bytes[ID_KIND] = 3), "an unknown kind of identification");
    assert!(refused(|bytes| bytes[ID_KIND] = ANSWER), "an answer");
    assert!(refused(|bytes| bytes[SRC..SRC + 2].fill(0)), "no address of a sender");
    assert!(refused(|bytes| bytes[DST..DST + 2].fill(0xff)), "no address of ours");
}

#[test]
fn the_longest_packet_travels_and_one_byte_more_would_not() {
    let longest = vec![7; RECV_ROOM + 1];
    let whole = single(&packet(1, IpId::Hidden(0), &longest[1..]));
    assert_eq!(unpacked(&whole), [(1, longest[1..].to_vec())]);
    assert!(read(&single(&packet(1, IpId::Hidden(0), &longest))).is_none());
}
