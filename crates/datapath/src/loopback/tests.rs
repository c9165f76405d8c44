//! Loopback specifics; what all datapaths share is in `tests/it/conformance.rs`.

use super::*;
use crate::packet::RxPacket;
use crate::route::Route;
use crate::{Datapath, Flush};

fn addr(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 4791))
}

fn route(from: u8, to: u8) -> Route {
    let src = SocketAddr::from(([10, 0, 0, from], 0xC123));
    Route { src, dst: addr(to), hop_limit: 64, traffic_class: 0 }
}

fn commit(path: &mut LoopbackDatapath, route: &Route, bytes: &[u8]) {
    path.tx_space().expect("room")[..bytes.len()].copy_from_slice(bytes);
    path.tx_commit(route, bytes.len(), &mut |_, _| ());
}

fn received(path: &mut LoopbackDatapath) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    path.recv(usize::MAX, &mut |packet| packets.push(packet.payload.to_vec())).expect("recv");
    packets
}

#[test]
fn an_address_is_attached_once_and_free_again_after_drop() {
    let fabric = LoopbackFabric::new();
    let first = fabric.attach(addr(1)).expect("attach");
    assert!(matches!(fabric.attach(addr(1)), Err(AttachError::AddressInUse(_))));
    drop(first);
    assert!(fabric.attach(addr(1)).is_ok());
}

#[test]
fn a_burst_for_several_peers_is_split() {
    let fabric = LoopbackFabric::new();
    let [mut a, mut b, mut c] = [1, 2, 3].map(|n| fabric.attach(addr(n)).expect("attach"));
    for text in [b"1", b"2"] {
        commit(&mut a, &route(1, 2), text);
        commit(&mut a, &route(1, 3), text);
        commit(&mut a, &route(1, 9), text);
    }
    let flush = a.flush().expect("flush");
    assert_eq!(flush, Flush { sent: 4, dropped: 2, blocked: false });
    assert_eq!(received(&mut b), [b"1", b"2"]);
    assert_eq!(received(&mut c), [b"1", b"2"]);
}

#[test]
fn a_packet_to_oneself_arrives() {
    let mut a = LoopbackFabric::new().attach(addr(1)).expect("attach");
    commit(&mut a, &route(1, 1), b"self");
    a.flush().expect("flush");
    assert_eq!(received(&mut a), [b"self"]);
}

#[test]
fn a_peer_that_comes_back_is_found_again() {
    let fabric = LoopbackFabric::new();
    let mut a = fabric.attach(addr(1)).expect("attach");
    drop(fabric.attach(addr(2)).expect("attach"));
    let mut b = fabric.attach(addr(2)).expect("attach");
    commit(&mut a, &route(1, 2), b"again");
    assert_eq!(a.flush().expect("flush").sent, 1);
    assert_eq!(received(&mut b), [b"again"]);
}

#[test]
fn a_full_ring_drops_counts_and_recovers() {
    let fabric = LoopbackFabric::new();
    let [mut a, mut b] = [1, 2].map(|n| fabric.attach(addr(n)).expect("attach"));
    let mut sent = 0;
    for _ in 0..200 {
        while a.tx_space().is_some() {
            commit(&mut a, &route(1, 2), &[7; 4096]);
            sent += 1;
        }
        a.flush().expect("flush");
    }
    let got = received(&mut b).len();
    assert!(got < sent);
    assert_eq!(b.stats().rx_dropped as usize, sent - got);
    commit(&mut a, &route(1, 2), b"later");
    a.flush().expect("flush");
    assert_eq!(received(&mut b), [b"later"]);
}

#[test]
fn a_megabyte_in_small_bursts_fits_in_the_ring() {
    let fabric = LoopbackFabric::new();
    let [mut a, mut b] = [1, 2].map(|n| fabric.attach(addr(n)).expect("attach"));
    for _ in 0..100 {
        (0..3).for_each(|_| commit(&mut a, &route(1, 2), &[7; 4096]));
        a.flush().expect("flush");
    }
    assert_eq!(received(&mut b).len(), 300);
}

#[test]
fn senders_in_several_threads_keep_their_order_and_lose_nothing() {
    let fabric = LoopbackFabric::new();
    let mut b = fabric.attach(addr(9)).expect("attach");
    let senders: Vec<_> = (1..4u8)
        .map(|n| {
            let mut path = fabric.attach(addr(n)).expect("attach");
            std::thread::spawn(move || {
                for count in 0..3000u32 {
                    let len = 4 + (count as usize * 13) % 200;
                    let mut packet = vec![n; len];
                    packet[..4].copy_from_slice(&count.to_ne_bytes());
                    commit(&mut path, &route(n, 9), &packet);
                    if count % 7 == 0 {
                        path.flush().expect("flush");
                    }
                    if count % 64 == 0 {
                        std::thread::sleep(std::time::Duration::from_micros(200));
                    }
                }
                path.flush().expect("flush");
            })
        })
        .collect();
    let mut next = [0u32; 4];
    while next[1..] != [3000; 3] {
        let mut check = |packet: RxPacket<'_>| {
            let IpAddr::V4(src) = packet.src.ip() else { panic!("IPv4 only") };
            let n = src.octets()[3];
            let (count, rest) = packet.payload.split_first_chunk().expect("count");
            assert_eq!(u32::from_ne_bytes(*count), next[usize::from(n)]);
            assert!(rest.iter().all(|byte| *byte == n));
            next[usize::from(n)] += 1;
        };
        b.recv(64, &mut check).expect("recv");
        assert_eq!(b.stats().rx_dropped, 0);
    }
    senders.into_iter().for_each(|sender| sender.join().expect("sender"));
}

#[test]
fn an_assisted_receiver_is_left_to_a_sender_that_defers_wake_ups() {
    let fabric = LoopbackFabric::new();
    let [mut a, mut b, mut c] = [1, 2, 3].map(|n| fabric.attach(addr(n)).expect("attach"));
    a.defer_wakeups();
    b.endpoint().set_assisted(true);
    assert!(!b.arm());
    for _ in 0..2 {
        commit(&mut a, &route(1, 2), b"1");
        a.flush().expect("flush");
    }
    assert_eq!(a.next_unwoken().as_ref(), Some(b.endpoint()), "once for two flushes");
    assert_eq!(a.next_unwoken(), None);
    assert!(b.endpoint().has_packets() && b.endpoint().wake(), "it was asleep");
    assert_eq!(received(&mut b).len(), 2);
    assert!(!b.arm());
    commit(&mut c, &route(3, 2), b"2");
    c.flush().expect("flush");
    assert!(!b.endpoint().wake(), "a sender that defers nothing has woken it");
    assert_eq!(c.next_unwoken(), None);
}

#[test]
fn a_receiver_for_whom_the_list_has_no_room_is_woken() {
    let fabric = LoopbackFabric::new();
    let mut a = fabric.attach(addr(1)).expect("attach");
    a.defer_wakeups();
    let receivers: Vec<_> = (2..8)
        .map(|n| {
            let mut receiver = fabric.attach(addr(n)).expect("attach");
            receiver.endpoint().set_assisted(true);
            assert!(!receiver.arm());
            receiver
        })
        .collect();
    (2..8).for_each(|n| commit(&mut a, &route(1, n), b"x"));
    a.flush().expect("flush");
    let asleep: Vec<bool> = receivers.iter().map(|receiver| receiver.endpoint().wake()).collect();
    assert_eq!(asleep, [true, true, true, true, false, false]);
    let listed = std::iter::from_fn(|| a.next_unwoken());
    assert!(listed.eq(receivers[..4].iter().map(|receiver| receiver.endpoint().clone())));
}
