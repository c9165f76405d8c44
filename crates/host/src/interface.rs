//! The addresses of this host, and the interface behind one.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};

use socket2::Socket;

use crate::sys::interface;
pub use crate::sys::interface::{Owner, addresses, index, mtu, name};

/// The interface that a local address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The kernel's number of the interface; 0 when unknown.
    pub index: u32,
    /// In bytes.
    pub mtu: usize,
}

impl Link {
    /// What is assumed of an interface that cannot be found.
    const UNKNOWN: Self = Self { index: 0, mtu: 1500 };

    /// The link of `address`; any socket serves to ask.
    pub fn of(address: IpAddr, socket: &Socket) -> Self {
        let owners = interface::addresses().unwrap_or_default();
        let exact = owners.iter().find(|owner| owner.address == address);
        let near = || owners.iter().find(|owner| covers(owner, address));
        let Some(owner) = exact.or_else(near) else {
            return Self::UNKNOWN;
        };
        let name = owner.interface.as_str();
        let index = rustix::net::netdevice::name_to_index(socket, name).unwrap_or(0);
        Self { index, mtu: interface::mtu(socket, name).unwrap_or(Self::UNKNOWN.mtu) }
    }
}

/// Whether `address` is local without being listed: all of 127.0.0.0/8 belongs to `lo`.
fn covers(owner: &Owner, address: IpAddr) -> bool {
    let (IpAddr::V4(own), Some(IpAddr::V4(mask)), IpAddr::V4(address)) =
        (owner.address, owner.mask, address)
    else {
        return false;
    };
    let net = |ip: Ipv4Addr| ip.to_bits() & mask.to_bits();
    owner.loopback && net(own) == net(address)
}

/// The address with the scope that a link-local IPv6 address needs.
pub fn scoped(addr: SocketAddr, index: u32) -> SocketAddr {
    match addr {
        SocketAddr::V6(mut v6) if v6.scope_id() == 0 && needs_scope(&v6) => {
            v6.set_scope_id(index);
            v6.into()
        }
        other => other,
    }
}

/// Whether the address means something only together with an interface.
fn needs_scope(addr: &SocketAddrV6) -> bool {
    let [first, second, ..] = addr.ip().octets();
    addr.ip().is_unicast_link_local() || (first == 0xff && matches!(second & 0x0f, 1 | 2))
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Type};

    use super::*;

    fn link(address: &str) -> Link {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
        Link::of(address.parse().expect("address"), &socket)
    }

    #[test]
    fn every_address_of_the_loopback_network_is_on_lo() {
        let lo = index("lo").expect("lo");
        assert_eq!(name(lo).as_deref(), Some("lo"));
        for address in ["127.0.0.1", "127.91.2.3"] {
            let found = link(address);
            assert!(found.index == lo && found.mtu > 1500, "{found:?}");
        }
        let all = addresses().expect("addresses");
        assert!(all.iter().any(|owner| owner.loopback && owner.interface == "lo"));
    }

    #[test]
    fn an_address_of_no_interface_has_an_unknown_link() {
        assert_eq!(link("203.0.113.9"), Link::UNKNOWN);
        assert_eq!(name(u32::MAX), None);
        assert!(index("no-such-one").is_err() && index("with\0zero").is_err());
    }

    #[test]
    fn only_addresses_of_one_link_get_its_scope() {
        let scope = |text: &str| match scoped(text.parse().expect("address"), 7) {
            SocketAddr::V6(v6) => v6.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        assert_eq!(["[fe80::1]:1", "[ff02::1]:1", "[ff01::1]:1"].map(scope), [7; 3]);
        assert_eq!(["[fd00::1]:1", "[ff05::1]:1", "10.0.0.1:1"].map(scope), [0; 3]);
        assert_eq!(scope("[fe80::1%3]:1"), 3, "a scope that was given stays");
    }
}
