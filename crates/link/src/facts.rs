//! What the kernel tells about a network interface beyond its addresses.

use std::io;

use netlink_packet_core::NLA_F_NESTED;
use rustix::io::Errno;

use crate::netlink::generic::Family;
use crate::netlink::message::{BorrowedAttribute, FixedPart, LINK};
use crate::netlink::socket::{NetlinkSocket, attributes, find};

/// How a program is attached, among the attributes of `IFLA_XDP` (linux/if_link.h).
const XDP_ATTACHED: u16 = 2;

/// Room for an answer about an interface.
const ANSWER: usize = 32 * 1024;

/// linux/netdev.h, family "netdev" (Linux 6.3).
const DEV_GET: u8 = 1;
const DEV_IFINDEX: u16 = 1;
const DEV_XDP_FEATURES: u16 = 3;
const XDP_BASIC: u64 = 1;
const XDP_ZERO_COPY: u64 = 1 << 3;

/// linux/ethtool_netlink.h, family "ethtool" (Linux 5.7).
const FEATURES_GET: u8 = 11;
const FEATURES_HEADER: u16 = 1 | NLA_F_NESTED;
const HEADER_DEV_INDEX: u16 = 1;
const FEATURES_HARDWARE: u16 = 2;
const FEATURES_ACTIVE: u16 = 4;
const FEATURES_NO_CHANGE: u16 = 5;
const BITSET_BITS: u16 = 3;
const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;

/// What rtnetlink says about an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkFacts {
    /// Kind of a virtual interface (`veth`, `vxlan`, ...); `None` for hardware and for `lo`.
    pub kind: Option<String>,
    /// The XDP program on it.
    pub xdp: Attached,
}

/// How an XDP program is attached to an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attached {
    /// There is none.
    Nothing,
    /// In the driver.
    Native,
    /// Behind the driver.
    Generic,
    /// In the hardware, or several at once.
    Other,
}

/// What the driver of an interface can do with XDP programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpSupport {
    /// It runs them itself.
    pub native: bool,
    /// AF_XDP without a copy.
    pub zero_copy: bool,
}

/// Some of the offloads of an interface that matter for GSO batches: those that are on, or those that are fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offloads {
    /// Received packets are merged (`gro`).
    pub gro: bool,
    /// GSO batches stay whole until the driver (`gso`).
    pub gso: bool,
    /// The driver takes UDP GSO batches whole (`tx-udp-segmentation`).
    pub udp_segmentation: bool,
}

impl LinkFacts {
    /// Asks about the interface with that index.
    ///
    /// # Errors
    ///
    /// What the kernel says; ENODEV when there is no such interface.
    pub fn of(index: u32) -> io::Result<Self> {
        let mut socket = NetlinkSocket::open(None, ANSWER)?;
        let none = &[] as &[BorrowedAttribute<'_>];
        let answer = socket.ask(libc::RTM_GETLINK, &FixedPart::of_link(index), none)?;
        Ok(Self::read(answer.get(LINK..).unwrap_or_default()))
    }

    fn read(link: &[u8]) -> Self {
        let within = |outer, inner| find(find(link, outer)?, inner);
        let attached = within(libc::IFLA_XDP, XDP_ATTACHED).and_then(|value| value.first());
        let xdp = match attached {
            None | Some(0) => Attached::Nothing,
            Some(1) => Attached::Native,
            Some(2) => Attached::Generic,
            Some(_) => Attached::Other,
        };
        Self { kind: within(libc::IFLA_LINKINFO, libc::IFLA_INFO_KIND).map(text), xdp }
    }
}

impl XdpSupport {
    /// Asks about the interface with that index.
    ///
    /// # Errors
    ///
    /// ENOENT before Linux 6.3, which does not tell.
    pub fn of(index: u32) -> io::Result<Self> {
        let mut family = Family::open("netdev")?;
        let index = index.to_ne_bytes();
        let device = family.ask(DEV_GET, BorrowedAttribute::new(DEV_IFINDEX, &index))?;
        let features = find(device, DEV_XDP_FEATURES).and_then(|value| value.first_chunk());
        let features = u64::from_ne_bytes(*features.ok_or(Errno::PROTO)?);
        let has = |bit| features & bit != 0;
        Ok(Self { native: has(XDP_BASIC), zero_copy: has(XDP_ZERO_COPY) })
    }
}

impl Offloads {
    /// Asks about the interface with that index.
    ///
    /// # Errors
    ///
    /// ENOENT before Linux 5.7, which tells only by ioctl.
    pub fn of(index: u32) -> io::Result<Self> {
        let mut family = Family::open("ethtool")?;
        let active = find(Self::features(&mut family, index)?, FEATURES_ACTIVE);
        Ok(Self::read(active.ok_or(Errno::PROTO)?))
    }

    /// Those that nobody can switch on or off, since the driver does not have them or never changes them.
    ///
    /// # Errors
    ///
    /// As [`of`](Self::of).
    pub fn fixed(index: u32) -> io::Result<Self> {
        let mut family = Family::open("ethtool")?;
        let features = Self::features(&mut family, index)?;
        let hardware = find(features, FEATURES_HARDWARE).ok_or(Errno::PROTO)?;
        Ok(Self::read_fixed(hardware, find(features, FEATURES_NO_CHANGE).unwrap_or_default()))
    }

    fn features(family: &mut Family, index: u32) -> io::Result<&[u8]> {
        let mut header = [0; 8];
        header[..2].copy_from_slice(&8u16.to_ne_bytes());
        header[2..4].copy_from_slice(&HEADER_DEV_INDEX.to_ne_bytes());
        header[4..].copy_from_slice(&index.to_ne_bytes());
        family.ask(FEATURES_GET, BorrowedAttribute::new(FEATURES_HEADER, &header))
    }

    /// From the set of features that are on; each is there with its name.
    fn read(active: &[u8]) -> Self {
        Self::by_name(|name| bit(active, name).is_some())
    }

    /// From the set of features that the driver has, where each has a value, and that of those that never change.
    fn read_fixed(hardware: &[u8], no_change: &[u8]) -> Self {
        Self::by_name(|name| {
            let can = bit(hardware, name).is_some_and(|bit| find(bit, BIT_VALUE).is_some());
            !can || bit(no_change, name).is_some()
        })
    }

    fn by_name(has: impl Fn(&str) -> bool) -> Self {
        Self {
            gro: has("rx-gro"),
            gso: has("tx-generic-segmentation"),
            udp_segmentation: has("tx-udp-segmentation"),
        }
    }
}

/// The feature called `wanted` in a set.
fn bit<'a>(set: &'a [u8], wanted: &str) -> Option<&'a [u8]> {
    let bits = attributes(find(set, BITSET_BITS).unwrap_or_default());
    let is_it = |bit: &&[u8]| find(bit, BIT_NAME).is_some_and(|name| text(name) == wanted);
    bits.map(|(_, bit)| bit).find(is_it)
}

/// Speed of the interface with that name, if its driver tells.
pub fn bits_per_second(name: &str) -> Option<u64> {
    let told = std::fs::read_to_string(format!("/sys/class/net/{name}/speed")).ok()?;
    read_speed(&told)
}

/// In megabits per second; -1 or 0 where the driver does not know.
fn read_speed(told: &str) -> Option<u64> {
    told.trim().parse::<u64>().ok().filter(|&speed| speed > 0)?.checked_mul(1_000_000)
}

/// A string up to its zero byte.
fn text(bytes: &[u8]) -> String {
    let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LO: u32 = 1;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn the_loopback_interface_answers_every_question() {
        let facts = LinkFacts::of(LO).expect("rtnetlink");
        assert_eq!(facts.kind, None);
        let absent = LinkFacts::of(0x7fff_fff0).expect_err("no such interface");
        assert_eq!(absent.raw_os_error(), Some(libc::ENODEV));
        // Both families exist only in newer kernels.
        match Offloads::of(LO) {
            Ok(offloads) => assert!(offloads.gso, "lo cannot do without"),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOENT)),
        }
        match XdpSupport::of(LO) {
            Ok(support) => assert!(!support.zero_copy),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOENT)),
        }
    }

    #[test]
    fn a_speed_that_the_driver_does_not_know_is_none() {
        assert_eq!(read_speed("25000\n"), Some(25_000_000_000));
        for unknown in ["-1\n", "0\n", "4294967295000000000\n", "", "fast"] {
            assert_eq!(read_speed(unknown), None, "{unknown:?}");
        }
        assert_eq!(bits_per_second("no-such"), None);
    }

    #[test]
    fn kind_and_program_are_read_from_a_link() {
        let kind = attribute(libc::IFLA_LINKINFO, &attribute(libc::IFLA_INFO_KIND, b"veth\0"));
        let program = attribute(libc::IFLA_XDP, &attribute(XDP_ATTACHED, &[2]));
        let link = [kind, program].concat();
        let facts = LinkFacts::read(&link);
        let expected = LinkFacts { kind: Some("veth".to_owned()), xdp: Attached::Generic };
        assert_eq!(facts, expected);
    }

    #[test]
    fn features_that_are_on_are_found_by_name() {
        let bit = |name: &[u8]| attribute(1, &attribute(BIT_NAME, name));
        let bits = [bit(b"rx-gro\0"), bit(b"tx-udp-segmentation\0")].concat();
        let active = attribute(BITSET_BITS, &bits);
        let offloads = Offloads::read(&active);
        assert_eq!(offloads, Offloads { gro: true, gso: false, udp_segmentation: true });
    }

    #[test]
    fn what_the_driver_has_not_and_what_never_changes_is_fixed() {
        let bit = |name: &[u8], value: &[u8]| {
            attribute(1, &[attribute(BIT_NAME, name), value.to_vec()].concat())
        };
        let on = attribute(BIT_VALUE, &[]);
        let hardware = [
            bit(b"rx-gro\0", &on),
            bit(b"tx-generic-segmentation\0", &on),
            bit(b"tx-udp-segmentation\0", &[]),
        ];
        let hardware = attribute(BITSET_BITS, &hardware.concat());
        let never = attribute(BITSET_BITS, &bit(b"tx-generic-segmentation\0", &[]));
        let fixed = Offloads::read_fixed(&hardware, &never);
        assert_eq!(fixed, Offloads { gro: false, gso: true, udp_segmentation: true });
    }
}
