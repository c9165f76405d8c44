//! Link layers: what stands in front of the network header.

use crate::{Direction, LinkType};

/// Bytes of an Ethernet header.
pub(super) const ETHERNET: usize = 14;
/// Bytes of a VLAN tag.
pub(super) const VLAN: usize = 4;
/// VLAN tags that are followed.
const MAX_TAGS: usize = 4;
/// Bytes of a local route header.
pub(super) const LRH: usize = 8;
/// Bytes of an ERF record header.
pub(super) const ERF: usize = 16;
/// ERF extension headers that are followed.
const MAX_ERF_EXTENSIONS: usize = 16;

/// What follows the link layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// What an Ethertype tells.
    Ethertype(u16),
    /// IPv4 or IPv6, which its first byte tells.
    Ip,
    /// A local route header.
    Lrh,
}

/// The link layer of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link {
    /// Where VLAN tags begin, if there are some: they end where the next header begins.
    pub(super) tags: usize,
    /// Where the next header begins.
    pub(super) at: usize,
    /// What it is.
    pub(super) next: Next,
    /// Which way the frame went, if the link layer tells.
    pub(super) direction: Option<Direction>,
}

impl Link {
    const fn new(at: usize, next: Next) -> Self {
        Self { tags: at, at, next, direction: None }
    }

    /// Reads the link layer; `None` if it is of another type, or cut off.
    #[inline]
    pub(super) fn read(link_type: LinkType, data: &[u8]) -> Option<Self> {
        match link_type {
            LinkType::Ethernet => ethernet(data, 0),
            LinkType::RawIp => Some(Self::new(0, Next::Ip)),
            LinkType::Null | LinkType::Loop => Some(Self::new(4, Next::Ip)),
            LinkType::LinuxSll => cooked(data, 14, 0, 16),
            LinkType::LinuxSll2 => cooked(data, 0, 10, 20),
            LinkType::Infiniband => Some(Self::new(0, Next::Lrh)),
            LinkType::Erf => erf(data),
            LinkType::Other(_) => None,
        }
    }
}

pub(super) fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    data.get(at..)?.first_chunk().map(|raw| u16::from_be_bytes(*raw))
}

/// The Ethertypes of VLAN tags: 802.1Q, 802.1ad, and two older ones of stacked tags.
pub(super) const fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, 0x8100 | 0x88a8 | 0x9100 | 0x9200)
}

/// An Ethernet header at `at`, with its tags.
#[inline]
fn ethernet(data: &[u8], at: usize) -> Option<Link> {
    untagged(data, at + ETHERNET, u16_at(data, at + 12)?)
}

/// What `ethertype` announces at `at`, behind VLAN tags if there are some.
#[inline]
fn untagged(data: &[u8], tags: usize, mut ethertype: u16) -> Option<Link> {
    let mut at = tags;
    for _ in 0..MAX_TAGS {
        if !is_tag(ethertype) {
            break;
        }
        ethertype = u16_at(data, at + 2)?;
        at += VLAN;
    }
    Some(Link { tags, ..Link::new(at, Next::Ethertype(ethertype)) })
}

/// The header of a capture on all interfaces.
fn cooked(data: &[u8], protocol_at: usize, type_at: usize, length: usize) -> Option<Link> {
    let link = untagged(data, length, u16_at(data, protocol_at)?)?;
    // The older header has 16 bits for the type, of which the lower 8 are in use.
    let low = if length == 16 { type_at + 1 } else { type_at };
    let direction = match data.get(low)? {
        4 => Direction::Outbound,
        _ => Direction::Inbound,
    };
    Some(Link { direction: Some(direction), ..link })
}

fn erf(data: &[u8]) -> Option<Link> {
    let kind = *data.get(8)?;
    let mut at = ERF;
    if kind & 0x80 != 0 {
        // The first bit of each extension header tells whether another one follows.
        for _ in 0..MAX_ERF_EXTENSIONS {
            let more = data.get(at)? & 0x80 != 0;
            at += 8;
            if !more {
                break;
            }
        }
    }
    match kind & 0x7f {
        // Ethernet, in several forms, has two bytes of padding in front.
        2 | 11 | 16 | 20 => ethernet(data, at + 2),
        21 => Some(Link::new(at, Next::Lrh)),
        22 | 23 => Some(Link::new(at, Next::Ip)),
        _ => None,
    }
}
