//! Which devices can be opened here: one for each address of each network interface.

use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use rustix::io::Errno;
use uroce_host::BindError;
use uroce_link::ListedInterface;

use crate::error::OpenError;

/// More than it takes to ask the system for its interfaces.
const DESCRIPTORS_TO_ASK: usize = 8;

/// An address on which a device can be opened: one for each address of each network interface.
///
/// There is no hardware to find; a device comes into being when it is opened on such an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Device name: `uroce0`, `uroce1`, ...
    pub name: String,
    /// The network interface that has the address.
    pub netdev: String,
    /// The address on which the device is opened, and its GID.
    pub address: IpAddr,
    /// MAC address; zero where there is none.
    pub mac: [u8; 6],
    /// MTU of the network interface in bytes, IP header included.
    pub mtu: usize,
    /// The interface is up.
    pub up: bool,
    /// The interface is up and has a carrier.
    pub running: bool,
    /// The interface is the loopback interface.
    pub loopback: bool,
    /// Speed of the link in bits per second, if the driver tells.
    pub bits_per_second: Option<u64>,
}

/// MTU taken for an interface whose driver does not tell: Ethernet's.
const ETHERNET_MTU: usize = 1500;

/// Stands for the name of an interface that exists only inside this process.
const FABRIC: &str = "fabric";

/// All addresses of this machine as devices.
///
/// The order is stable as long as the addresses are: real interfaces before the loopback interface,
/// then by interface index; within an interface IPv4 before IPv6. IPv6 link-local addresses are left
/// out: they need a zone, which a GID cannot carry.
pub fn interfaces() -> Vec<Interface> {
    let mut netdevs = uroce_link::interfaces().unwrap_or_default();
    netdevs.sort_unstable_by_key(|netdev| (netdev.loopback, netdev.index));
    let mut found: Vec<Interface> = netdevs.iter().flat_map(addresses_of).collect();
    for (index, interface) in found.iter_mut().enumerate() {
        interface.name = format!("uroce{index}");
    }
    found
}

/// The interface of `address`; `None` if this machine does not have it. Every address of 127.0.0.0/8
/// belongs to the loopback interface, even though only 127.0.0.1 is listed.
pub fn interface_of(address: IpAddr) -> Option<Interface> {
    let all = interfaces();
    if let Some(exact) = all.iter().find(|interface| interface.address == address) {
        return Some(exact.clone());
    }
    if !matches!(address, IpAddr::V4(v4) if v4.is_loopback()) {
        return None;
    }
    let home = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let lo = all.into_iter().find(|interface| interface.loopback && interface.address == home)?;
    Some(Interface { name: format!("{}-{address}", lo.name), address, ..lo })
}

/// The interface of `address`, or why it was not found.
pub(crate) fn find_interface(address: IpAddr) -> Result<Interface, OpenError> {
    if let Some(found) = interface_of(address) {
        return Ok(found);
    }
    // Without descriptors the system cannot be asked, and seems to have no interfaces.
    let asking: io::Result<Vec<UdpSocket>> =
        (0..DESCRIPTORS_TO_ASK).map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))).collect();
    match asking {
        Err(error) if is_shortage(&error) => Err(OpenError::Bind(BindError::Descriptors)),
        _ => Err(interfaces_hidden().unwrap_or(OpenError::NotLocal(address))),
    }
}

/// Why [`interfaces`] is empty although there may be some: the system does not show them to this process. `None` where it does.
pub fn interfaces_hidden() -> Option<OpenError> {
    match uroce_host::interface::addresses() {
        Err(error) if is_shortage(&error) => Some(OpenError::Bind(BindError::Descriptors)),
        Err(error) => Some(OpenError::InterfacesHidden(error)),
        Ok(_) => None,
    }
}

fn is_shortage(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

impl Interface {
    /// It exists only inside this process.
    pub(crate) fn is_of_process(&self) -> bool {
        self.netdev == FABRIC
    }
}

/// An interface that exists only inside this process.
pub(crate) fn fabric_interface(address: IpAddr, mtu: usize) -> Interface {
    Interface {
        name: format!("uroce-{address}"),
        netdev: FABRIC.to_owned(),
        address,
        mac: [0; 6],
        mtu,
        up: true,
        running: true,
        loopback: false,
        bits_per_second: None,
    }
}

fn addresses_of(netdev: &ListedInterface) -> Vec<Interface> {
    let (v4, v6): (Vec<IpAddr>, _) = netdev.addresses.iter().partition(|address| address.is_ipv4());
    let is_usable =
        |address: &IpAddr| !matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let usable: Vec<IpAddr> = [v4, v6].concat().into_iter().filter(is_usable).collect();
    let mtu = netdev.mtu.and_then(|mtu| usize::try_from(mtu).ok());
    // The driver is asked only where there is a device.
    let bits_per_second =
        if usable.is_empty() { None } else { uroce_link::bits_per_second(&netdev.name) };
    let describe = |address| Interface {
        name: String::new(),
        netdev: netdev.name.clone(),
        address,
        mac: netdev.mac.unwrap_or_default(),
        mtu: mtu.unwrap_or(ETHERNET_MTU),
        up: netdev.up,
        running: netdev.running,
        loopback: netdev.loopback,
        bits_per_second,
    };
    usable.into_iter().map(describe).collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn loopback_is_listed_last_and_names_count_up() {
        let all = interfaces();
        let home = all.iter().find(|i| i.address == IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert!(home.is_some_and(|i| i.loopback && i.mtu > 0));
        let first_loopback = all.iter().position(|i| i.loopback).expect("every machine has lo");
        assert!(all[first_loopback..].iter().all(|i| i.loopback));
        assert!(all.iter().enumerate().all(|(i, found)| found.name == format!("uroce{i}")));
    }

    #[test]
    fn the_order_is_stable() {
        // Another program may change an interface between two looks, but not every time.
        let same = || interfaces() == interfaces();
        assert!((0..5).any(|_| same()));
    }

    #[test]
    fn any_127_address_belongs_to_the_loopback_interface() {
        let far = IpAddr::V4(Ipv4Addr::new(127, 9, 8, 7));
        let found = interface_of(far).expect("127.0.0.0/8 is local");
        assert!(found.loopback && found.address == far);
    }

    #[test]
    fn foreign_addresses_are_not_ours() {
        assert_eq!(interface_of(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 77))), None);
        let doc = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x77);
        assert_eq!(interface_of(IpAddr::V6(doc)), None);
    }
}
