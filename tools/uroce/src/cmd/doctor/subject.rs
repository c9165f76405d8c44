//! What is examined: a device's address and interface, and perhaps a peer.

use std::net::IpAddr;

use uroce_device::{Interface, interface_of};
use uroce_verbs::device_list;

use crate::failure::Failure;
use crate::global::Global;
use crate::nic::{self, address_towards};

/// What is examined.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The device's address.
    pub address: IpAddr,
    /// RoCE's UDP port.
    pub port: u16,
    /// The interface that has the address.
    pub interface: Interface,
    /// The kernel's number of the interface.
    pub index: u32,
    /// The peer that it shall reach.
    pub peer: Option<IpAddr>,
}

impl Subject {
    /// The device that is named, else the one that reaches the peer, else the first that is up: that there is no route to the
    /// peer is what is found then.
    ///
    /// # Errors
    /// Exit 3 when there is no such device.
    pub fn find(global: &Global, peer: Option<IpAddr>) -> Result<Self, Failure> {
        let address = match (global.address, &global.ib_dev, peer) {
            (Some(address), _, _) => address,
            (None, Some(name), _) => named(name)?,
            (None, None, Some(peer)) => {
                nic::check_peer(peer)?;
                address_towards(peer).or_else(|_no_route| first())?
            }
            (None, None, None) => first()?,
        };
        nic::check_local(address)?;
        let interface = interface_of(address).ok_or_else(|| {
            Failure::environment(format!("the address {address} has just gone from this machine"))
        })?;
        let index = index_of(&interface.netdev);
        Ok(Subject { address, port: global.roce_port(), interface, index, peer })
    }

    /// Name of the interface.
    pub fn netdev(&self) -> &str {
        &self.interface.netdev
    }
}

fn named(name: &str) -> Result<IpAddr, Failure> {
    match name.parse() {
        Ok(address) => Ok(address),
        Err(_) => nic::find(name).map(|device| device.address),
    }
}

fn first() -> Result<IpAddr, Failure> {
    let devices = device_list();
    if devices.is_empty() {
        nic::seen()?;
    }
    let found = devices.into_iter().find(|device| device.up);
    found.map(|device| device.address).ok_or_else(|| {
        Failure::environment("no network interface with an address is up")
            .help("give one an address with `ip addr add`, or set the loopback interface up")
    })
}

/// 0 for an interface that went away meanwhile; every question about it then fails. The kernel is asked, not sysfs:
/// a network namespace may be without a /sys of its own, or with that of another one.
fn index_of(netdev: &str) -> u32 {
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0));
    let index = socket.map(|socket| rustix::net::netdevice::name_to_index(&socket, netdev));
    index.ok().and_then(Result::ok).unwrap_or(0)
}
