//! Interfaces and their addresses, beside what /sys shows.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use socket2::{Domain, Socket, Type};
use uroce_host::interface::{Link, addresses, index, mtu, name, scoped};

fn socket() -> Socket {
    Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket")
}

fn shown(interface: &str, what: &str) -> usize {
    let text = std::fs::read_to_string(format!("/sys/class/net/{interface}/{what}"));
    text.expect("shown").trim().parse().expect("a number")
}

#[test]
fn every_address_belongs_to_an_interface_that_can_be_asked_for() {
    let owners = addresses().expect("addresses");
    assert!(!owners.is_empty());
    for owner in owners {
        let found = index(&owner.interface).expect("it exists");
        assert_eq!(name(found), Some(owner.interface.clone()));
        let bytes = mtu(socket(), &owner.interface).expect("it exists");
        assert_eq!(bytes, shown(&owner.interface, "mtu"), "{owner:?}");
        assert_eq!(found as usize, shown(&owner.interface, "ifindex"));
        assert!(owner.mask.is_none_or(|mask| mask.is_ipv4() == owner.address.is_ipv4()));
    }
}

#[test]
fn the_link_of_an_address_is_that_of_its_interface() {
    let socket = socket();
    for owner in addresses().expect("addresses") {
        let link = Link::of(owner.address, &socket);
        assert_eq!(link.mtu, shown(&owner.interface, "mtu"), "{owner:?}");
    }
    let unknown = Link::of("2001:db8::77".parse().expect("address"), &socket);
    assert_eq!(unknown, Link { index: 0, mtu: 1500 });
}

#[test]
fn a_name_that_no_interface_can_have_is_no_other_interface() {
    for absent in ["uroce-none0", "", "a-name-of-more-bytes-than-any"] {
        assert!(index(absent).is_err() && mtu(socket(), absent).is_err(), "{absent:?}");
    }
    // Not the interface whose name its first bytes are.
    for longer in ["lo\0", "lo\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"] {
        assert!(index(longer).is_err() && mtu(socket(), longer).is_err(), "{longer:?}");
    }
    let file = std::fs::File::open("/dev/null").expect("a file");
    assert!(mtu(file, "lo").is_err(), "no socket");
}

#[test]
fn a_scope_is_given_to_link_local_addresses_alone_and_leaves_the_rest() {
    for (text, expected) in [
        ("[fe80::1]:4791", 5),
        ("[febf::1]:4791", 5),
        ("[fec0::1]:4791", 0),
        ("[ff02::1]:4791", 5),
        ("[ff11::1]:4791", 5),
        ("[ff03::1]:4791", 0),
        ("[::1]:4791", 0),
    ] {
        let addr: SocketAddr = text.parse().expect("address");
        let SocketAddr::V6(v6) = scoped(addr, 5) else { panic!("{text}") };
        assert_eq!((v6.scope_id(), v6.port()), (expected, 4791), "{text}");
        assert_eq!(IpAddr::V6(*v6.ip()), addr.ip());
    }
    let v4 = UdpSocket::bind("127.0.0.1:0").expect("free").local_addr().expect("bound");
    assert_eq!(scoped(v4, 5), v4);
}
