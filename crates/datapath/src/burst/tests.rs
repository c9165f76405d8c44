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
fn a_train_in_the_ring_stops_at_the_last_of_its_pages() {
    let mut burst = Burst::new(16, GsoLimit::NONE).with_ring(PAGE, 2);
    burst.use_ring(true);
    (0..9).for_each(|_| _ = put(&mut burst, 2, 1500, 0));
    // 8192 bytes from 64 in the first page on, from 7564 (two pages end at 12288), and from 12064 on.
    assert_eq!(shape(&burst), [(5, 7500), (3, 4500), (1, 1500)]);
    burst.clear();
    burst.use_ring(false);
    (0..9).for_each(|_| _ = put(&mut burst, 2, 1500, 0));
    assert_eq!(shape(&burst), [(9, 13_500)]);
}

#[test]
fn packets_in_the_ring_and_beside_it_keep_their_order() {
    let mut burst = Burst::new(16, GsoLimit::NONE).with_ring(PAGE, 16);
    for n in 0..8 {
        burst.use_ring(n % 4 > 1);
        put(&mut burst, 2, 100, n);
    }
    assert_eq!(shape(&burst), [(2, 200); 4]);
    assert_eq!((burst.bytes(), burst.ring_bytes()), (800, 400));
    let in_ring: Vec<bool> = burst.batches().iter().map(GsoBatch::is_in_ring).collect();
    assert_eq!(in_ring, [false, true, false, true]);
    let mut cursor = Cursor::default();
    let all = std::iter::from_fn(|| burst.next(&mut cursor));
    assert!(all.map(|(_, packet)| packet[0]).eq(0..8));
    assert_eq!(burst.batch_bytes(&burst.batches()[1]), [[2; 100], [3; 100]].concat());
}

/// A burst writes its packets before it is known which of them stay: the ring is longer than what stays by one burst.
#[test]
fn what_was_cleared_behind_stays_until_the_ring_has_gone_round() {
    const ROOM: usize = 3 * PACKET_ROOM;
    const RING: usize = 16 * PAGE;
    let mut burst = Burst::with_room(4, ROOM, GsoLimit::NONE).with_ring(RING, 16);
    let mut sent: Vec<(usize, u8)> = Vec::new();
    for n in 0..100u8 {
        burst.use_ring(false);
        put(&mut burst, 3, 3000, 0xff);
        burst.use_ring(true);
        for (place, len) in [4000, 100].into_iter().enumerate() {
            assert_eq!(put(&mut burst, 2, len, n), place);
        }
        assert!(burst.fits(1, 1000) && !burst.fits(1, ROOM));
        let first = burst.area.first;
        assert!(first % PAGE == IN_PAGE && first <= RING + IN_PAGE);
        if n % 5 == 0 {
            burst.clear();
        } else {
            burst.clear_behind();
            sent.push((first, n));
        }
        // Two pages for each that stays.
        let kept = (RING - ROOM) / (2 * PAGE);
        for (first, n) in sent.iter().rev().take(kept) {
            assert_eq!(burst.area.buffer[*first..first + 4100], [*n; 4100]);
        }
        assert!(sent.len() >= kept || n < 10);
    }
}

/// Who holds on to what was sent sees nothing of what is sent to another one.
#[test]
fn a_renewed_ring_is_other_memory() {
    let mut burst = Burst::new(4, GsoLimit::NONE).with_ring(PAGE, 16);
    assert!(!Burst::new(4, GsoLimit::NONE).renew_ring(), "there is none");
    burst.use_ring(true);
    put(&mut burst, 2, 100, 7);
    assert!(!burst.renew_ring(), "a packet is in it");
    burst.use_ring(false);
    assert!(!burst.renew_ring(), "a packet is in it");
    burst.clear_behind();
    burst.clear_behind();
    assert_eq!(burst.ring_mut().unwrap().first, PAGE + IN_PAGE, "once for what stood there");
    assert!(burst.renew_ring());
    burst.use_ring(true);
    assert!(burst.area.buffer.iter().all(|byte| *byte == 0));
    assert_eq!(burst.area.first, IN_PAGE);
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
fn packets_begin_a_cache_line_behind_the_beginning_of_a_page() {
    let mut burst = Burst::new(1, GsoLimit::NONE).with_ring(PAGE, 2);
    for in_ring in [false, true] {
        burst.use_ring(in_ring);
        let start = burst.space().expect("room").as_ptr();
        assert_eq!(start.align_offset(PAGE), PAGE - IN_PAGE, "in the ring: {in_ring}");
    }
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
