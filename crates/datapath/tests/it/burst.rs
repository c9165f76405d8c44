//! Bursts beside packets that are kept one at a time.

use std::net::SocketAddr;

use proptest::prelude::*;
use uroce_datapath::{Burst, Cursor, GsoLimit, PACKET_ROOM, Route};

fn route(to: u8) -> Route {
    let src = SocketAddr::from(([10, 0, 0, 1], 0xC000));
    let dst = SocketAddr::from(([10, 0, 0, to], 4791));
    Route { src, dst, hop_limit: 64, traffic_class: 0 }
}

fn put(burst: &mut Burst, route: &Route, bytes: &[u8]) -> usize {
    burst.space().expect("room")[..bytes.len()].copy_from_slice(bytes);
    let (place, committed) = burst.commit(route, bytes.len());
    assert_eq!(committed, bytes);
    place
}

fn all(burst: &Burst) -> Vec<(Route, Vec<u8>)> {
    let mut at = Cursor::default();
    std::iter::from_fn(|| burst.next(&mut at).map(|(route, bytes)| (*route, bytes.to_vec())))
        .collect()
}

#[test]
fn every_field_of_a_route_parts_batches() {
    let first = route(2);
    for other in [
        Route { hop_limit: 63, ..first },
        Route { traffic_class: 1, ..first },
        Route { src: SocketAddr::new(first.src.ip(), 0xC001), ..first },
        Route { dst: SocketAddr::new(first.dst.ip(), 4792), ..first },
    ] {
        let mut burst = Burst::new(4, GsoLimit::NONE);
        put(&mut burst, &first, &[0; 8]);
        put(&mut burst, &other, &[0; 8]);
        assert_eq!(burst.batches().len(), 2, "{other:?}");
    }
}

#[test]
fn a_break_holds_for_one_packet() {
    let mut burst = Burst::new(8, GsoLimit::NONE);
    put(&mut burst, &route(2), &[0; 8]);
    burst.break_batch();
    let places = [(); 3].map(|()| put(&mut burst, &route(2), &[0; 8]));
    assert_eq!(places, [0, 1, 2]);
    assert_eq!(burst.batches().iter().map(|batch| batch.packets).collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn without_gso_every_packet_is_a_batch_from_then_on() {
    let mut burst = Burst::new(8, GsoLimit::NONE);
    (0..2).for_each(|_| _ = put(&mut burst, &route(2), &[0; 8]));
    burst.disable_gso();
    (0..2).for_each(|_| _ = put(&mut burst, &route(2), &[0; 8]));
    assert_eq!(burst.batches().iter().map(|batch| batch.packets).collect::<Vec<_>>(), [2, 1, 1]);
    burst.clear();
    (0..2).for_each(|_| _ = put(&mut burst, &route(2), &[0; 8]));
    assert_eq!(burst.batches().len(), 2, "for good");
}

#[test]
fn the_head_of_a_batch_is_its_first_packet() {
    let mut burst = Burst::new(8, GsoLimit::NONE);
    for bytes in [&b"aaaa"[..], b"bbbb", b"c"] {
        put(&mut burst, &route(2), bytes);
    }
    put(&mut burst, &route(3), b"zz");
    let [first, second] = burst.batches() else { panic!("two batches") };
    assert_eq!((first.head().packets, burst.batch_bytes(&first.head())), (1, &b"aaaa"[..]));
    let last = first.without(2);
    assert_eq!((last.packets, burst.batch_bytes(&last)), (1, &b"c"[..]));
    assert_eq!(burst.batch_bytes(&last.head()), b"c");
    assert_eq!(burst.batch_bytes(&second.head()), b"zz");
    let none = first.without(3);
    assert_eq!((none.packets, none.bytes()), (0, 0));
}

#[test]
fn room_ends_by_packets_and_by_bytes() {
    let mut few = Burst::new(0, GsoLimit::NONE);
    assert_eq!(few.capacity(), 1, "one packet at least");
    put(&mut few, &route(2), &[]);
    assert!(few.space().is_none() && !few.fits(1, 0));
    // Two full packets fit by their number, one by its bytes; up to 64 bytes of alignment may be left over.
    let mut short = Burst::with_room(2, PACKET_ROOM, GsoLimit::NONE);
    assert!(short.fits(2, PACKET_ROOM) && !short.fits(3, 0) && !short.fits(1, PACKET_ROOM + 65));
    put(&mut short, &route(2), &[7; 100]);
    assert!(short.space().is_none(), "less than a whole packet is left");
    short.clear();
    assert!(short.space().is_some());
}

#[test]
fn what_does_not_fit_is_not_appended_and_what_does_is() {
    let mut from = Burst::new(8, GsoLimit::NONE);
    (0..5).for_each(|n| _ = put(&mut from, &route(2), &[n; 100]));
    let mut to = Burst::with_room(8, 250, GsoLimit::NONE);
    let taken = to.append(&from, &from.batches()[0]);
    assert!((2..=3).contains(&taken), "{taken}");
    assert_eq!(all(&to), all(&from)[..taken]);
    let mut few = Burst::new(3, GsoLimit::NONE);
    assert_eq!(few.append(&from, &from.batches()[0]), 3);
    assert_eq!(few.append(&from, &from.batches()[0]), 0);
}

#[test]
fn touching_the_memory_leaves_no_packet() {
    let mut burst = Burst::new(2, GsoLimit::NONE);
    burst.touch();
    assert!(burst.is_empty() && burst.batches().is_empty());
    assert_eq!(burst.space().expect("room")[..4], [0xff; 4]);
}

#[test]
#[should_panic(expected = "commit without tx_space")]
fn a_packet_longer_than_the_space_is_a_bug() {
    Burst::new(1, GsoLimit::NONE).commit(&route(2), PACKET_ROOM + 1);
}

proptest! {
    #[test]
    fn batches_are_what_one_packet_at_a_time_would_be(
        packets in prop::collection::vec((2u8..4, 0usize..40, prop::bool::weighted(0.1)), 1..60),
        packets_limit in 1usize..8,
        bytes_limit in 1usize..300,
    ) {
        let limit = GsoLimit { packets: packets_limit, bytes: bytes_limit };
        let mut burst = Burst::new(60, limit);
        let mut model: Vec<(Route, Vec<Vec<u8>>)> = vec![];
        for (n, (to, len, is_break)) in packets.into_iter().enumerate() {
            let (route, bytes) = (route(to), vec![n as u8; len]);
            if is_break {
                burst.break_batch();
            }
            let place = put(&mut burst, &route, &bytes);
            let last = model.last_mut().filter(|(to, batch)| {
                let size = batch[0].len();
                let is_full = batch.iter().all(|packet| packet.len() == size);
                let total: usize = batch.iter().map(Vec::len).sum();
                let has_room = batch.len() < limit.packets && total + len <= limit.bytes;
                !is_break && *to == route && is_full && len <= size && has_room
            });
            match last {
                Some((_, batch)) => batch.push(bytes),
                None => model.push((route, vec![bytes])),
            }
            prop_assert_eq!(place + 1, model.last().expect("one").1.len());
        }
        prop_assert_eq!(burst.batches().len(), model.len());
        for (batch, (route, packets)) in burst.batches().iter().zip(&model) {
            prop_assert_eq!(batch.route, *route);
            prop_assert_eq!((batch.packets, batch.size), (packets.len(), packets[0].len()));
            prop_assert_eq!(burst.batch_bytes(batch), &packets.concat()[..]);
        }
        let singles: Vec<_> = model
            .iter()
            .flat_map(|(route, packets)| packets.iter().map(|bytes| (*route, bytes.clone())))
            .collect();
        prop_assert_eq!(all(&burst), &singles[..]);
        prop_assert_eq!(burst.packets(), singles.len());
        prop_assert_eq!(burst.bytes(), singles.iter().map(|(_, bytes)| bytes.len()).sum::<usize>());
    }

    #[test]
    fn a_cursor_that_skips_stands_where_one_that_reads_does(
        sizes in prop::collection::vec(1usize..6, 1..6),
        stops in prop::collection::vec(1usize..6, 1..20),
    ) {
        let mut burst = Burst::new(30, GsoLimit::NONE);
        for (to, count) in sizes.iter().enumerate() {
            (0..*count).for_each(|_| _ = put(&mut burst, &route(2 + to as u8), &[1; 8]));
        }
        let (mut skipping, mut reading) = (Cursor::default(), Cursor::default());
        for stop in stops {
            let Some(batch) = burst.batches().get(skipping.batch) else { break };
            let count = stop.min(batch.packets - skipping.packet);
            burst.skip(&mut skipping, count);
            (0..count).for_each(|_| assert!(burst.next(&mut reading).is_some()));
            prop_assert_eq!(skipping, reading);
        }
    }
}
