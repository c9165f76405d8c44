//! The switch inside the process: its addresses, groups, limits and sleepers.

use std::net::SocketAddr;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use uroce_datapath::{
    AttachError, Datapath, Flush, IcrcRx, IcrcTx, IpId, LoopbackDatapath, LoopbackFabric, Route,
};

fn addr(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 4791))
}

fn attach(fabric: &LoopbackFabric, last: u8) -> LoopbackDatapath {
    fabric.attach(addr(last)).expect("free")
}

fn route(from: u8, dst: SocketAddr) -> Route {
    let src = SocketAddr::from(([10, 0, 0, from], 0xC123));
    Route { src, dst, hop_limit: 0, traffic_class: 9 }
}

fn commit(path: &mut LoopbackDatapath, dst: SocketAddr, bytes: &[u8]) -> bool {
    let [.., from] = match path.local().ip() {
        std::net::IpAddr::V4(ip) => ip.octets(),
        std::net::IpAddr::V6(_) => panic!("IPv4 only"),
    };
    path.tx_space().expect("room")[..bytes.len()].copy_from_slice(bytes);
    let mut sealed = false;
    path.tx_commit(&route(from, dst), bytes.len(), &mut |id, packet| {
        assert_eq!((id, &*packet), (0, bytes));
        sealed = true;
    });
    sealed
}

fn received(path: &mut LoopbackDatapath) -> Vec<Vec<u8>> {
    let mut all = vec![];
    path.recv(usize::MAX, &mut |packet| all.push(packet.payload.to_vec())).expect("recv");
    all
}

fn is_readable(path: &LoopbackDatapath) -> bool {
    let waiter = path.waiter().expect("a descriptor");
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(&waiter, PollFlags::IN)], Some(&now)).expect("poll") == 1
}

#[test]
fn clones_are_one_switch_and_new_ones_are_others() {
    let fabric = LoopbackFabric::new();
    let _one = attach(&fabric, 1);
    let error = fabric.clone().attach(addr(1)).expect_err("taken");
    assert!(matches!(error, AttachError::AddressInUse(taken) if taken == addr(1)));
    assert!(error.to_string().contains("10.0.0.1:4791"), "{error}");
    assert!(LoopbackFabric::default().attach(addr(1)).is_ok());
    assert!(fabric.attach(SocketAddr::new(addr(1).ip(), 4792)).is_ok(), "another port");
}

#[test]
fn only_a_switch_without_icrc_leaves_it_out() {
    let caps = |fabric: LoopbackFabric| attach(&fabric, 1).caps().icrc;
    let sealed = caps(LoopbackFabric::new());
    assert_eq!((sealed.rx, sealed.tx), (IcrcRx::Verify, IcrcTx::Seal));
    let bare = caps(LoopbackFabric::without_icrc());
    assert_eq!((bare.rx, bare.tx), (IcrcRx::Skip, IcrcTx::Skip));
}

#[test]
fn a_packet_longer_than_the_mtu_is_dropped_unsealed_and_counted_once() {
    let fabric = LoopbackFabric::with_mtu(128);
    let [mut a, mut b] = [1, 2].map(|last| attach(&fabric, last));
    assert_eq!(a.caps().mtu, 128);
    assert!(commit(&mut a, addr(2), &[1; 100]), "28 bytes of headers: as long as it may be");
    assert!(!commit(&mut a, addr(2), &[2; 101]));
    assert_eq!(a.flush().expect("flush"), Flush { sent: 1, dropped: 1, blocked: false });
    assert_eq!(a.flush().expect("flush"), Flush::default());
    assert_eq!(received(&mut b), [vec![1; 100]]);
    let stats = a.stats();
    assert_eq!((stats.tx_packets, stats.tx_dropped, stats.tx_bytes), (1, 1, 100));
}

#[test]
fn bytes_of_what_was_sent_count_beside_what_was_lost() {
    let fabric = LoopbackFabric::new();
    let [mut a, mut b] = [1, 2].map(|last| attach(&fabric, last));
    commit(&mut a, addr(2), &[1; 30]);
    commit(&mut a, addr(9), &[2; 50]);
    commit(&mut a, addr(2), &[3; 7]);
    assert_eq!(a.flush().expect("flush"), Flush { sent: 2, dropped: 1, blocked: false });
    let stats = a.stats();
    assert_eq!((stats.tx_packets, stats.tx_dropped, stats.tx_bytes), (2, 1, 37));
    assert_eq!(received(&mut b).len(), 2);
    assert_eq!((b.stats().rx_packets, b.stats().rx_bytes), (2, 37));
    // To nobody at all.
    commit(&mut a, addr(9), &[2; 50]);
    assert_eq!(a.flush().expect("flush"), Flush { sent: 0, dropped: 1, blocked: false });
    assert_eq!(a.stats().tx_bytes, 37);
}

#[test]
fn the_header_fields_are_those_of_the_route() {
    let fabric = LoopbackFabric::new();
    let [mut a, mut b] = [1, 2].map(|last| attach(&fabric, last));
    commit(&mut a, addr(2), b"x");
    a.flush().expect("flush");
    let count = b.recv(9, &mut |packet| {
        assert_eq!((packet.src, packet.dst), (route(1, addr(2)).src, addr(2)));
        assert_eq!((packet.traffic_class, packet.hop_limit), (9, 1), "0 is sent as 1");
        assert_eq!(packet.ip_id, IpId::Known(0));
    });
    assert_eq!(count.expect("recv"), 1);
}

#[test]
fn a_group_reaches_its_members_at_that_port_and_nobody_is_no_loss() {
    let fabric = LoopbackFabric::new();
    let [mut a, mut b, mut c] = [1, 2, 3].map(|last| attach(&fabric, last));
    let mut other = fabric.attach(SocketAddr::new(addr(2).ip(), 4792)).expect("free");
    let group = SocketAddr::from(([239, 1, 2, 3], 4791));
    for member in [&mut a, &mut b, &mut other] {
        member.join(group.ip()).expect("a group");
        member.join(group.ip()).expect("a member already");
    }
    commit(&mut a, group, b"1");
    assert_eq!(a.flush().expect("flush").sent, 1);
    assert_eq!([&mut a, &mut b, &mut c, &mut other].map(|path| received(path).len()), [1, 1, 0, 0]);
    b.leave(group.ip()).expect("left");
    b.leave(group.ip()).expect("not a member");
    drop(a);
    let mut a = attach(&fabric, 1);
    commit(&mut a, group, b"2");
    assert_eq!(a.flush().expect("flush"), Flush { sent: 1, dropped: 0, blocked: false });
    assert_eq!([&mut a, &mut b].map(|path| received(path).len()), [0, 0], "gone, and left");
}

#[test]
fn a_burst_ends_by_packets_and_by_bytes() {
    let fabric = LoopbackFabric::new();
    let [mut a, mut b] = [1, 2].map(|last| attach(&fabric, last));
    for size in [1, 4096] {
        let mut count = 0;
        while a.tx_space().is_some() {
            commit(&mut a, addr(2), &vec![0; size]);
            count += 1;
        }
        assert!((1..=a.caps().tx_batch).contains(&count), "{count} of {size} bytes");
        assert_eq!(a.flush().expect("flush").sent, count);
        assert!(a.tx_space().is_some());
        assert_eq!(received(&mut b).len(), count);
    }
}

#[test]
fn a_sleeper_is_woken_once_and_one_that_is_awake_is_not() {
    let fabric = LoopbackFabric::new();
    let [mut a, mut b] = [1, 2].map(|last| attach(&fabric, last));
    commit(&mut a, addr(2), b"1");
    a.flush().expect("flush");
    assert!(!is_readable(&b) && b.arm(), "something is there: no time to sleep");
    assert_eq!(received(&mut b).len(), 1);
    assert!(!b.arm() && !is_readable(&b));
    for _ in 0..2 {
        commit(&mut a, addr(2), b"2");
        a.flush().expect("flush");
    }
    assert!(is_readable(&b));
    assert_eq!(a.stats().syscalls, 1, "the second packet found it awake");
    assert_eq!(received(&mut b).len(), 2);
    assert!(!b.arm() && !is_readable(&b));
}

#[test]
fn a_handle_finds_its_receiver_and_tells_whether_packets_wait() {
    let fabric = LoopbackFabric::new();
    let [mut a, mut b] = [1, 2].map(|last| attach(&fabric, last));
    assert!(a.find(&addr(2)) == Some(b.endpoint()) && a.find(&addr(9)).is_none());
    assert!(a.endpoint() != b.endpoint());
    assert!(!b.endpoint().has_packets());
    commit(&mut a, addr(2), b"1");
    a.flush().expect("flush");
    assert!(b.endpoint().has_packets() && !b.endpoint().wake(), "it does not sleep");
    received(&mut b);
    assert!(!b.endpoint().has_packets() && !b.arm());
    a.notify(&addr(2));
    assert!(is_readable(&b));
    a.notify(&addr(9));
}

#[test]
fn receivers_are_left_to_the_caller_only_if_both_agree() {
    let fabric = LoopbackFabric::new();
    let [mut a, mut b] = [1, 2].map(|last| attach(&fabric, last));
    for (assisted, defers, left) in
        [(false, false, false), (true, false, false), (true, true, true)]
    {
        b.endpoint().set_assisted(assisted);
        assert_eq!(b.endpoint().is_assisted(), assisted);
        if defers {
            a.defer_wakeups();
        }
        assert!(!b.arm());
        commit(&mut a, addr(2), b"1");
        a.flush().expect("flush");
        let unwoken = a.next_unwoken();
        assert_eq!((unwoken.is_some(), is_readable(&b)), (left, !left), "{assisted} {defers}");
        if let Some(endpoint) = unwoken {
            assert!(&endpoint == b.endpoint() && endpoint.wake() && is_readable(&b));
        }
        assert!(a.next_unwoken().is_none());
        received(&mut b);
    }
}
