//! All interfaces of this network namespace with their addresses.

use std::io;
use std::net::IpAddr;

use uroce_datapath::Mac;

use super::message::{
    ADDRESS, ADDRESS_INDEX, BorrowedAttribute, FixedPart, LINK, LINK_FLAGS, LINK_INDEX, word,
};
use super::socket::{NetlinkSocket, find};
use super::{address, number};

/// Room for a datagram. The kernel sends larger ones than 32 KiB only for an entry that is larger.
const DATAGRAM: usize = 256 * 1024;

/// A network interface and its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedInterface {
    /// The kernel's number of it.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its hardware address, if it has one of six bytes.
    pub mac: Option<Mac>,
    /// In bytes, IP header included; `None` if the kernel does not tell.
    pub mtu: Option<u32>,
    /// It is up.
    pub up: bool,
    /// It is up and can carry packets.
    pub running: bool,
    /// It is a loopback interface.
    pub loopback: bool,
    /// Its own addresses, each once, in the kernel's order.
    pub addresses: Vec<IpAddr>,
}

/// All interfaces, by their index.
///
/// # Errors
///
/// When netlink is not to be had.
pub fn interfaces() -> io::Result<Vec<ListedInterface>> {
    let mut socket = NetlinkSocket::open(None, DATAGRAM)?;
    let skip = libc::RTEXT_FILTER_SKIP_STATS.to_ne_bytes();
    let no_statistics = [BorrowedAttribute::new(libc::IFLA_EXT_MASK, &skip)];
    let all = FixedPart::of_link(0);
    let mut found =
        socket.dump(libc::RTM_GETLINK, (&all, &no_statistics), ListedInterface::read)?;
    let all = FixedPart([0; ADDRESS]);
    let addresses =
        socket.dump(libc::RTM_GETADDR, (&all, &[] as &[BorrowedAttribute<'_>]), own_address)?;
    found.sort_unstable_by_key(|interface| interface.index);
    for (index, address) in addresses {
        let Ok(place) = found.binary_search_by_key(&index, |interface| interface.index) else {
            continue;
        };
        let listed = &mut found[place].addresses;
        // With two peers it is told twice.
        if !listed.contains(&address) {
            listed.push(address);
        }
    }
    Ok(found)
}

impl ListedInterface {
    /// From the body of `RTM_NEWLINK`.
    fn read(body: &[u8]) -> Option<Self> {
        let (fixed, rest) = body.split_at_checked(LINK)?;
        let (index, flags) = (word(fixed, LINK_INDEX)?, word(fixed, LINK_FLAGS)?);
        let has = |flag: libc::c_int| flags & flag.cast_unsigned() != 0;
        let name = find(rest, libc::IFLA_IFNAME)?.split(|&byte| byte == 0).next()?;
        Some(Self {
            index,
            name: String::from_utf8_lossy(name).into_owned(),
            mac: find(rest, libc::IFLA_ADDRESS).and_then(|mac| mac.try_into().ok()),
            mtu: find(rest, libc::IFLA_MTU).and_then(number),
            up: has(libc::IFF_UP),
            running: has(libc::IFF_UP) && has(libc::IFF_RUNNING),
            loopback: has(libc::IFF_LOOPBACK),
            addresses: vec![],
        })
    }
}

/// Index of the interface and address, from the body of `RTM_NEWADDR`.
fn own_address(body: &[u8]) -> Option<(u32, IpAddr)> {
    let (fixed, rest) = body.split_at_checked(ADDRESS)?;
    // On a link between two points IFA_ADDRESS is the other end.
    let own = find(rest, libc::IFA_LOCAL).or_else(|| find(rest, libc::IFA_ADDRESS))?;
    Some((word(fixed, ADDRESS_INDEX)?, address(own)?))
}

#[cfg(test)]
mod tests;
