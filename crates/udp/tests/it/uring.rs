//! What is special about io_uring: who receives, and what happens when buffers or threads end.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use uroce_datapath::{Datapath, Route};
use uroce_udp::{UdpConfig, UdpDatapath, UringDatapath, UringError};

fn bind(address: &str, port: u16, offload: bool) -> Option<UringDatapath> {
    let local = SocketAddr::new(address.parse().expect("address"), port);
    match UringDatapath::bind(&UdpConfig { offload, ..UdpConfig::new(local) }) {
        Ok(path) => Some(path),
        Err(error @ UringError::Bind(_)) => panic!("{error}"),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            println!("skipped: {error}");
            None
        }
    }
}

fn sender(address: &str) -> UdpDatapath {
    let local = SocketAddr::new(address.parse().expect("address"), 0);
    UdpDatapath::bind(&UdpConfig::new(local)).expect("bind")
}

fn route(from: &mut dyn Datapath, dst: SocketAddr) -> Route {
    let src = SocketAddr::new(from.local().ip(), from.source_port(0xD111));
    Route { src, dst, hop_limit: 64, traffic_class: 0 }
}

fn send(from: &mut dyn Datapath, dst: SocketAddr, payload: &[u8]) {
    let route = route(from, dst);
    from.tx_space().expect("room")[..payload.len()].copy_from_slice(payload);
    from.tx_commit(&route, payload.len(), &mut |_, _| ());
    assert_eq!(from.flush().expect("flush").sent, 1, "{:?}", from.last_problem());
}

/// What arrives until `count` packets are there or two seconds have passed.
fn take(path: &mut dyn Datapath, count: usize) -> Vec<Vec<u8>> {
    let end = Instant::now() + Duration::from_secs(2);
    let mut got = Vec::new();
    while got.len() < count && Instant::now() < end {
        path.recv(64, &mut |packet| got.push(packet.payload.to_vec())).expect("recv");
    }
    got
}

fn readable(path: &dyn Datapath, wait: Duration) -> bool {
    let waiter = path.waiter().expect("waiter");
    let mut fds = [PollFd::new(&waiter, PollFlags::IN)];
    let wait = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
    poll(&mut fds, Some(&wait)).expect("poll") == 1
}

#[test]
fn more_messages_than_buffers_all_arrive_in_order() {
    for offload in [true, false] {
        let Some(mut path) = bind("127.0.0.51", 0, offload) else { return };
        let mut from = sender("127.0.0.52");
        for round in 0..3u32 {
            let sent: Vec<_> =
                (0..400u32).map(|n| (round << 16 | n).to_be_bytes().to_vec()).collect();
            // A message each: packets of one flush would arrive as one.
            sent.iter().for_each(|payload| send(&mut from, path.local(), payload));
            assert_eq!(take(&mut path, sent.len()), sent, "offload: {offload}");
        }
        assert_eq!(path.stats().rx_packets, 1200);
    }
}

#[test]
fn it_receives_after_the_end_of_the_thread_that_opened_it() {
    let opened = std::thread::spawn(|| bind("127.0.0.53", 0, true)).join().expect("no panic");
    let Some(mut path) = opened else { return };
    let mut from = sender("127.0.0.54");
    for n in 0..5u8 {
        // The kernel ends the receive with the thread, at some time; then the waiter says so.
        send(&mut from, path.local(), &[n]);
        assert!(path.arm() || readable(&path, Duration::from_millis(900)));
        assert_eq!(take(&mut path, 1), [vec![n]]);
    }
}

#[test]
fn nothing_stays_behind_when_it_is_dropped() {
    let Some(path) = bind("127.0.0.55", 0, true) else { return };
    let local = path.local();
    let waiter = path.waiter().expect("waiter");
    drop(path);
    // Whoever still holds a waiter does not keep the port; the kernel may take a moment to free it.
    let config = UdpConfig { offload: true, ..UdpConfig::new(local) };
    let end = Instant::now() + Duration::from_secs(5);
    let again = loop {
        match UringDatapath::bind(&config) {
            Ok(path) => break path,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut from = sender("127.0.0.56");
    send(&mut from, again.local(), b"new");
    assert!(readable(&again, Duration::from_millis(900)));
    drop(waiter);
}

#[test]
fn a_group_is_heard_until_it_is_left() {
    let group: IpAddr = "239.1.2.4".parse().expect("group");
    let Some(mut path) = bind("127.0.0.57", 0, true) else { return };
    path.join(group).expect("join");
    path.join(group).expect("join twice");
    let mut from = sender("127.0.0.58");
    let dst = SocketAddr::new(group, path.local().port());
    for n in 0..3u8 {
        send(&mut from, dst, &[n]);
        assert!(readable(&path, Duration::from_millis(900)));
        assert_eq!(take(&mut path, 1), [vec![n]]);
    }
    path.leave(group).expect("leave");
    path.leave(group).expect("leave twice");
    send(&mut from, dst, b"nobody");
    send(&mut from, path.local(), b"us");
    assert_eq!(take(&mut path, 1), [b"us".to_vec()]);
    path.join(group).expect("join again");
    send(&mut from, dst, b"back");
    assert_eq!(take(&mut path, 1), [b"back".to_vec()]);
}

#[test]
fn a_packet_that_the_kernel_refuses_does_not_stop_those_behind_it() {
    let Some(mut path) = bind("127.0.0.59", 0, true) else { return };
    let mut there = sender("127.0.0.60");
    let good = route(&mut path, there.local());
    // A loopback address reaches no other host.
    let bad = Route { dst: "198.51.100.1:4791".parse().expect("address"), ..good };
    for route in [good, bad, good] {
        path.tx_space().expect("room")[..4].copy_from_slice(b"pack");
        path.tx_commit(&route, 4, &mut |_, _| ());
    }
    let flush = path.flush().expect("flush");
    assert_eq!((flush.sent, flush.dropped, flush.blocked), (2, 1, false));
    assert!(path.last_problem().is_some_and(|text| text.contains("198.51.100.1")));
    assert_eq!(take(&mut there, 2).len(), 2);
}

#[test]
fn a_taken_port_is_reported_as_by_udp() {
    let Some(first) = bind("127.0.0.61", 0, true) else { return };
    let error = UringDatapath::bind(&UdpConfig::new(first.local())).expect_err("taken");
    assert!(
        matches!(error, UringError::Bind(_)) && error.to_string().contains("is taken"),
        "{error}"
    );
}
