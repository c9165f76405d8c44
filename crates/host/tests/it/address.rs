//! Socket addresses beside those of the C library.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

use proptest::prelude::*;
use socket2::SockAddr;
use uroce_host::address::{NAME, decode, encode, length_of};

fn encoded(addr: &SocketAddr) -> Vec<u8> {
    // What was there before must not show.
    let mut name = [0xa5; NAME];
    let length = encode(addr, &mut name);
    name[..length].to_vec()
}

/// The fields of a name, one after the other: family, port, flow label, address, scope.
fn fields(name: &[u8]) -> (u16, u16, [u8; 4], &[u8], &[u8]) {
    let half = |at: usize| [name[at], name[at + 1]];
    let flow = [name[4], name[5], name[6], name[7]];
    (u16::from_ne_bytes(half(0)), u16::from_be_bytes(half(2)), flow, &name[8..24], &name[24..])
}

#[test]
fn an_ipv6_name_has_its_scope_and_no_flow_label() {
    let ip: Ipv6Addr = "fe80::1:2".parse().expect("address");
    let addr = SocketAddr::V6(SocketAddrV6::new(ip, 4791, 0xf_ffff, 0x0102_0304));
    let name = encoded(&addr);
    let scope = 0x0102_0304u32.to_ne_bytes();
    let expected = (libc::AF_INET6 as u16, 4791, [0; 4], &ip.octets()[..], &scope[..]);
    assert_eq!(fields(&name), expected);
}

#[test]
fn scope_and_flow_label_are_no_part_of_what_is_read() {
    let plain: SocketAddr = "[fe80::1]:7".parse().expect("address");
    for (flow, scope) in [(0, 0), (0xf_ffff, 9), (1, u32::MAX)] {
        let ip = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
        let theirs = SockAddr::from(SocketAddrV6::new(ip, 7, flow, scope));
        let mut name = encoded(&plain);
        name[4..8].copy_from_slice(&flow.to_be_bytes());
        name[24..28].copy_from_slice(&scope.to_ne_bytes());
        assert_eq!(theirs.len() as usize, name.len());
        assert_eq!(decode(&name), Some(plain), "{flow} {scope}");
    }
}

#[test]
fn a_name_needs_the_fields_that_are_read_and_may_have_more() {
    for (addr, needed) in [("10.1.2.3:4791", 8), ("[fd00::1]:4791", 24)] {
        let addr: SocketAddr = addr.parse().expect("address");
        let name = encoded(&addr);
        for length in 0..name.len() {
            let expected = (length >= needed).then_some(addr);
            assert_eq!(decode(&name[..length]), expected, "{length} bytes of {addr}");
        }
        assert_eq!(decode(&[&name[..], &[0xff; 40]].concat()), Some(addr));
    }
}

#[test]
fn only_the_two_ip_versions_have_a_length() {
    assert_eq!(length_of(libc::AF_INET as u16), Some(16));
    assert_eq!(length_of(libc::AF_INET6 as u16), Some(28));
    let others = (0..=u16::MAX).filter(|&family| {
        length_of(family).is_some() && ![libc::AF_INET, libc::AF_INET6].contains(&family.into())
    });
    assert_eq!(others.count(), 0);
    for family in [libc::AF_UNSPEC, libc::AF_UNIX, libc::AF_NETLINK, libc::AF_PACKET] {
        let mut name = [1; NAME];
        name[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        assert_eq!(decode(&name), None, "family {family}");
    }
}

proptest! {
    #[test]
    fn every_address_has_the_length_and_the_value_of_the_c_library(
        v4: [u8; 4], v6: [u8; 16], port: u16,
    ) {
        for addr in [SocketAddr::from((v4, port)), SocketAddr::from((v6, port))] {
            let theirs = SockAddr::from(addr);
            let name = encoded(&addr);
            prop_assert_eq!(name.len(), theirs.len() as usize);
            prop_assert_eq!(decode(&name), theirs.as_socket());
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Some(addr) = decode(&bytes) {
            prop_assert_eq!(&encoded(&addr)[..4], &bytes[..4]);
        }
    }
}
