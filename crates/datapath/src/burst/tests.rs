//! The GSO batches of a burst against a plain list of packets.

use std::net::SocketAddr;

use proptest::prelude::*;

use super::*;

fn route(n: u8) -> Route {
    let src = SocketAddr::from(([10, 0, 0, 1], 0xC000));
    let dst = SocketAddr::from(([10, 0, 0, n], 4791));
    Route { src, dst, hop_limit: 64, traffic_class: 0 }
}

fn put(burst: &mut Burst, to: u8, len: usize, fill: u8) -> usize {
    burst.space().expect("room")[..len].fill(fill);
    burst.commit(&route(to), len).0
}

/// Packets and bytes of each batch.
fn shape(burst: &Burst) -> Vec<(usize, usize)> {
    burst.batches().iter().map(|batch| (batch.packets, batch.bytes())).collect()
}

#[test]
fn equal_packets_ride_together_and_a_shorter_one_ends_the_train() {
    let mut burst = Burst::new(8, GsoLimit::NONE);
    let places = [1084, 1084, 500, 500, 600].map(|len| put(&mut burst, 2, len, 0));
    assert_eq!(places, [0, 1, 2, 0, 0]);
    assert_eq!(shape(&burst), [(3, 2668), (1, 500), (1, 600)]);
}

#[test]
fn another_route_starts_another_train() {
    let mut burst = Burst::new(8, GsoLimit::NONE);
    for to in [2, 3, 2] {
        put(&mut burst, to, 100, to);
    }
    assert_eq!(shape(&burst), [(1, 100); 3]);
}

#[test]
fn a_train_stops_at_its_limits() {
    let mut burst = Burst::new(8, GsoLimit { packets: 3, bytes: 250 });
    (0..4).for_each(|_| assert!(put(&mut burst, 2, 100, 0) < 4));
    assert_eq!(shape(&burst), [(2, 200), (2, 200)]);
    burst.clear();
    (0..4).for_each(|_| assert!(put(&mut burst, 2, 10, 0) < 4));
    assert_eq!(shape(&burst), [(3, 30), (1, 10)]);
}

#[test]
fn space_ends_with_the_last_packet_of_the_batch() {
    let mut burst = Burst::new(2, GsoLimit::NONE);
    put(&mut burst, 2, PACKET_ROOM, 0);
    assert_eq!(burst.space().map(|space| space.len()), Some(PACKET_ROOM));
    put(&mut burst, 2, PACKET_ROOM, 0);
    assert!(burst.space().is_none());
    burst.clear();
    assert!(burst.is_empty() && burst.space().is_some());
}

#[test]
fn the_buffer_starts_on_a_cache_line() {
    let mut burst = Burst::new(1, GsoLimit::NONE);
    let start = burst.space().expect("room").as_ptr();
    assert_eq!(start.align_offset(ALIGNMENT), 0);
}

proptest! {
    #[test]
    fn what_goes_in_comes_out(
        packets in prop::collection::vec((1u8..4, prop_oneof![Just(64usize), 0..200usize]), 0..80),
        limit in 1usize..9,
    ) {
        let mut burst = Burst::new(64, GsoLimit { packets: limit, bytes: 500 });
        let mut model = Vec::new();
        for (n, (to, len)) in packets.into_iter().enumerate().take(64) {
            put(&mut burst, to, len, n as u8);
            model.push((route(to), vec![n as u8; len]));
        }
        let mut copy = Burst::new(64, GsoLimit::NONE);
        for batch in burst.batches() {
            prop_assert!(batch.packets <= limit);
            prop_assert!(batch.packets == 1 || batch.bytes() <= 500);
            prop_assert_eq!(copy.append(&burst, batch), batch.packets);
        }
        for out in [&burst, &copy] {
            let mut cursor = Cursor::default();
            let all = std::iter::from_fn(|| out.next(&mut cursor));
            let all: Vec<_> = all.map(|(route, bytes)| (*route, bytes.to_vec())).collect();
            prop_assert_eq!(&all, &model);
            let batches: Vec<u8> =
                out.batches().iter().flat_map(|batch| out.batch_bytes(batch).to_vec()).collect();
            prop_assert_eq!(batches, model.iter().flat_map(|(_, bytes)| bytes.clone()).collect::<Vec<u8>>());
        }
    }

    #[test]
    fn the_rest_of_a_train_is_its_last_packets(sizes in 1usize..20, last in 0usize..64, skip in 0usize..21) {
        let mut burst = Burst::new(32, GsoLimit::NONE);
        (0..sizes).for_each(|n| assert_eq!(put(&mut burst, 2, 64, n as u8), n));
        put(&mut burst, 2, last, sizes as u8);
        let skip = skip.min(sizes + 1);
        let rest = burst.batches()[0].without(skip);
        let mut copy = Burst::new(32, GsoLimit::NONE);
        prop_assert_eq!(copy.append(&burst, &rest), sizes + 1 - skip);
        prop_assert_eq!(copy.bytes(), (sizes * 64 + last) - (skip * 64).min(sizes * 64 + last));
    }
}
