//! Routes of the kernel, in network namespaces.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use uroce_datapath::Route;
use uroce_link::{Ethernet, HeaderTemplate, Neighbours, Router, Unreachable, Way, interface_of};
use uroce_testkit::namespace::{Namespace, Wire};

const A: [u8; 6] = [2, 0, 0, 0, 0, 0x0a];
const B: [u8; 6] = [2, 0, 0, 0, 0, 0x0b];

fn router(namespace: &Namespace, local: &str, vlan: Option<u16>) -> Router {
    let local: IpAddr = local.parse().expect("address");
    let open = move || Neighbours::open(local, interface_of(local).expect("there"));
    Router::new(namespace.run(open).expect("sockets"), vlan)
}

fn route(src: &str, dst: &str) -> Route {
    let [src, dst] = [(src, 0xC123), (dst, 4791)]
        .map(|(ip, port)| SocketAddr::new(ip.parse().expect("ip"), port));
    Route { src, dst, hop_limit: 64, traffic_class: 0 }
}

/// Hardware address and MTU of the way there.
fn way(router: &mut Router, dst: &str) -> ([u8; 6], usize) {
    let src = if dst.contains(':') { "fd77::1" } else { "10.77.0.1" };
    match router.find(&route(src, dst), Instant::now()) {
        Way::Out(out) => (out.hop.dst, out.hop.mtu),
        other => panic!("{dst}: {other:?}"),
    }
}

#[test]
fn hosts_behind_a_gateway_have_its_hardware_address() {
    let Some(wire) = Wire::new(1500) else { return };
    wire.a.sh("ip route add 192.0.2.0/24 via 10.77.0.2");
    wire.a.sh("ip route add 198.51.100.0/24 via inet6 fd77::2 dev wa");
    wire.a.sh("ip route add 2001:db8::/32 via fd77::2");
    let mut v4 = router(&wire.a, "10.77.0.1", None);
    assert_eq!(way(&mut v4, "192.0.2.77"), (B, 1500));
    assert_eq!(way(&mut v4, "198.51.100.7"), (B, 1500), "a gateway of the other IP version");
    let mut v6 = router(&wire.a, "fd77::1", None);
    assert_eq!(way(&mut v6, "2001:db8::7"), (B, 1500));
}

#[test]
fn the_mtu_of_a_path_is_that_of_its_route_or_the_smaller_one_of_the_interface() {
    let Some(wire) = Wire::new(1500) else { return };
    wire.a.sh("ip route add 192.0.2.0/24 via 10.77.0.2 mtu 1300");
    wire.a.sh("ip route add 192.0.3.0/24 via 10.77.0.2 mtu 9000");
    wire.a.sh("ip route add 2001:db8::/32 via fd77::2 mtu 1400");
    let mut v4 = router(&wire.a, "10.77.0.1", None);
    assert_eq!(way(&mut v4, "192.0.2.1").1, 1300);
    assert_eq!(way(&mut v4, "192.0.3.1").1, 1500);
    assert_eq!(way(&mut router(&wire.a, "fd77::1", None), "2001:db8::1").1, 1400);
}

#[test]
fn a_route_that_forbids_is_no_way_and_says_why() {
    let Some(wire) = Wire::new(1500) else { return };
    for (number, kind) in ["unreachable", "prohibit", "blackhole"].into_iter().enumerate() {
        wire.a.sh(&format!("ip route add {kind} 192.0.{number}.0/24"));
    }
    let mut router = router(&wire.a, "10.77.0.1", None);
    let mut reason = |dst: &str| match router.find(&route("10.77.0.1", dst), Instant::now()) {
        Way::None(reason) => reason,
        other => panic!("{dst}: {other:?}"),
    };
    for dst in ["192.0.0.1", "192.0.1.1", "192.0.2.1", "203.0.113.1"] {
        let reason = reason(dst);
        assert!(matches!(reason, Unreachable::NoRoute(_)), "{dst}: {reason:?}");
        assert!(reason.to_string().contains("`ip route get`"), "{reason}");
    }
    assert_eq!(reason("10.77.0.255"), Unreachable::NotUnicast, "the broadcast address");
}

#[test]
fn an_address_of_this_host_leaves_by_loopback() {
    let Some(wire) = Wire::new(1500) else { return };
    for (local, other) in [("10.77.0.2", "10.77.0.3"), ("fd77::2", "fd77::3")] {
        let mut router = router(&wire.b, local, None);
        let found = router.find(&route(local, other), Instant::now());
        let Way::Out(out) = found else { panic!("{found:?}") };
        assert_eq!((out.hop.interface, out.hop.src, out.hop.dst), (1, [0; 6], [0; 6]));
    }
}

#[test]
fn every_frame_has_the_tag_of_the_router() {
    let Some(wire) = Wire::new(1500) else { return };
    let mut router = router(&wire.a, "10.77.0.1", Some(7));
    let route = route("10.77.0.1", "10.77.0.2");
    let Way::Out(out) = router.find(&route, Instant::now()) else { panic!("a neighbour") };
    let ethernet = Ethernet { src: A, dst: B, vlan: Some(7) };
    assert_eq!(Some(out.headers), HeaderTemplate::new(&ethernet, &route));
    assert_eq!(router.neighbours().home().mac, A);
}

#[test]
fn a_neighbour_without_hardware_address_is_pending_and_not_remembered_as_a_way() {
    let Some(wire) = Wire::without_neighbours(1500) else { return };
    let mut router = router(&wire.a, "10.77.0.1", None);
    let route = route("10.77.0.1", "10.77.0.88");
    let now = Instant::now();
    assert_eq!(router.find(&route, now), Way::Pending);
    wire.a.sh("ip neigh replace 10.77.0.88 lladdr 02:00:00:00:00:0b dev wa nud permanent");
    let later = now + std::time::Duration::from_secs(1);
    assert!(matches!(router.find(&route, later), Way::Out(out) if out.hop.dst == B));
}
