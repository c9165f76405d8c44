//! Hardware addresses from the tables of the kernel, in network namespaces.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use uroce_link::{Neighbours, NextHop, Resolution, Unreachable, interface_of};
use uroce_testkit::namespace::{Namespace, Wire};

const A: [u8; 6] = [2, 0, 0, 0, 0, 0x0a];
const B: [u8; 6] = [2, 0, 0, 0, 0, 0x0b];
const C: [u8; 6] = [2, 0, 0, 0, 0, 0x0c];

/// How long an answer holds.
const LIFETIME: Duration = Duration::from_secs(1);

fn address(text: &str) -> IpAddr {
    text.parse().expect("address")
}

fn open(namespace: &Namespace, local: &'static str) -> Neighbours {
    let local = address(local);
    let open = move || Neighbours::open(local, interface_of(local).expect("there"));
    namespace.run(open).expect("sockets")
}

/// Asks until the answer is not that one has to wait.
fn settled(neighbours: &mut Neighbours, dst: &str) -> Resolution {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let now = Instant::now();
        match neighbours.resolve(address(dst), now).0 {
            Resolution::Pending => assert!(now < end, "{dst} is not resolved"),
            settled => return settled,
        }
        std::thread::yield_now();
    }
}

fn ready(neighbours: &mut Neighbours, dst: &str) -> NextHop {
    match settled(neighbours, dst) {
        Resolution::Ready(hop) => hop,
        other => panic!("{dst}: {other:?}"),
    }
}

#[test]
fn a_neighbour_that_the_kernel_does_not_know_is_asked_for() {
    let Some(wire) = Wire::without_neighbours(1500) else { return };
    for (local, peer) in [("10.77.0.1", "10.77.0.2"), ("fd77::1", "fd77::2")] {
        let mut neighbours = open(&wire.a, local);
        let first = neighbours.resolve(address(peer), Instant::now());
        assert_eq!(first.0, Resolution::Pending, "nobody has asked for {peer} yet");
        let interface = neighbours.home().index;
        let expected = NextHop { interface, src: A, dst: B, mtu: 1500 };
        assert_eq!(ready(&mut neighbours, peer), expected);
    }
}

#[test]
fn a_silent_host_is_pending_for_three_seconds_and_then_named() {
    let Some(wire) = Wire::without_neighbours(1500) else { return };
    let mut neighbours = open(&wire.a, "10.77.0.1");
    let (absent, start) = (address("10.77.0.99"), Instant::now());
    let mut now = start;
    while now < start + Duration::from_secs(3) {
        assert_eq!(neighbours.resolve(absent, now).0, Resolution::Pending);
        now += Duration::from_millis(500);
    }
    let silent = Resolution::Unreachable(Unreachable::Silent(absent));
    assert_eq!(neighbours.resolve(absent, now), (silent, now + LIFETIME));
}

#[test]
fn a_host_that_moved_is_found_when_the_answer_is_a_second_old() {
    let Some(wire) = Wire::new(1500) else { return };
    let mut neighbours = open(&wire.a, "10.77.0.1");
    let (peer, now) = (address("10.77.0.2"), Instant::now());
    let dst = |resolution| match resolution {
        Resolution::Ready(NextHop { dst, .. }) => dst,
        other => panic!("{other:?}"),
    };
    assert_eq!(dst(neighbours.resolve(peer, now).0), B);
    wire.a.sh("ip neigh replace 10.77.0.2 lladdr 02:00:00:00:00:0c dev wa nud permanent");
    assert_eq!(dst(neighbours.resolve(peer, now + LIFETIME / 2).0), B, "not asked for again");
    assert_eq!(dst(neighbours.resolve(peer, now + LIFETIME).0), C);
    // What the kernel forgets is used on while it is asked for.
    wire.a.sh("ip neigh del 10.77.0.2 dev wa");
    assert_eq!(dst(neighbours.resolve(peer, now + 2 * LIFETIME).0), C);
}

#[test]
fn an_entry_that_failed_has_no_hardware_address() {
    let Some(wire) = Wire::without_neighbours(1500) else { return };
    let mut neighbours = open(&wire.a, "10.77.0.1");
    wire.a.sh("ip neigh add 10.77.0.50 lladdr 02:00:00:00:00:0c dev wa nud permanent");
    assert_eq!(ready(&mut neighbours, "10.77.0.50").dst, C);
    wire.a.sh("ip neigh add 10.77.0.51 dev wa nud failed");
    let failed = neighbours.resolve(address("10.77.0.51"), Instant::now()).0;
    assert_eq!(failed, Resolution::Pending);
}

#[test]
fn a_link_local_neighbour_is_looked_for_on_our_interface() {
    let Some(wire) = Wire::new(1500) else { return };
    wire.a.sh("ip neigh add fe80::99 lladdr 02:00:00:00:00:0c dev wa nud permanent");
    let mut neighbours = open(&wire.a, "fd77::1");
    let hop = ready(&mut neighbours, "fe80::99");
    assert_eq!((hop.interface, hop.src, hop.dst), (neighbours.home().index, A, C));
}

#[test]
fn groups_have_the_hardware_address_of_their_number() {
    let Some(wire) = Wire::new(1500) else { return };
    let mut neighbours = open(&wire.a, "10.77.0.1");
    assert_eq!(ready(&mut neighbours, "239.129.2.3").dst, [1, 0, 0x5e, 1, 2, 3]);
    let mut neighbours = open(&wire.a, "fd77::1");
    assert_eq!(ready(&mut neighbours, "ff12::1:2").dst, [0x33, 0x33, 0, 1, 0, 2]);
    // Loopback has no hardware addresses.
    let mut neighbours = open(&wire.a, "127.0.0.1");
    assert_eq!(ready(&mut neighbours, "239.129.2.3").dst, [0; 6]);
}

#[test]
fn an_interface_without_arp_is_its_own_neighbour() {
    let Some(wire) = Wire::without_neighbours(1500) else { return };
    wire.a.sh("ip link set wa arp off");
    let mut neighbours = open(&wire.a, "10.77.0.1");
    assert!(!neighbours.home().arp && neighbours.home().ethernet);
    let hop = ready(&mut neighbours, "10.77.0.2");
    assert_eq!((hop.src, hop.dst), (A, A));
}

#[test]
fn an_address_of_another_host_has_no_interface() {
    let Some(wire) = Wire::new(1500) else { return };
    let error = wire.a.run(|| interface_of(address("10.77.0.2"))).expect_err("the other end");
    assert_eq!(error.raw_os_error(), Some(libc::EADDRNOTAVAIL));
    let home = wire.a.run(|| interface_of(address("10.77.0.1"))).expect("ours");
    assert!(home.ethernet && home.arp && !home.loopback);
    assert_eq!((home.mac, home.mtu), (A, 1500));
    let away = wire.a.run(move || Neighbours::open(address("10.77.0.2"), home).map(drop));
    assert_eq!(away.expect_err("not ours").raw_os_error(), Some(libc::EADDRNOTAVAIL));
}
