//! Network headers, read leniently: what is there is used, and what is missing is said.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use uroce_wire::{Grh, Header};

use super::link::u16_at;

/// Bytes of an IPv6 header and of a GRH.
pub(super) const IPV6: usize = 40;
/// IPv6 extension headers that are followed.
const MAX_EXTENSIONS: usize = 8;

const FRAGMENT: u8 = 44;

/// Whether a packet is a piece of a larger one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fragment {
    /// It is whole.
    No,
    /// The first piece: it has the headers of the transport.
    First,
    /// A later piece.
    Later,
}

/// A network header and what it says, by its place in the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network {
    /// Where it begins.
    pub(super) at: usize,
    /// Where it ends, options and extension headers included.
    pub(super) header_end: usize,
    /// Where the packet ends on the wire; may lie behind the bytes that were captured.
    pub(super) end: usize,
    /// What follows: a protocol number of IP.
    pub(super) protocol: u8,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) traffic_class: u8,
    pub(super) hop_limit: u8,
    /// The IPv4 identification.
    pub(super) ip_id: Option<u16>,
    pub(super) fragment: Fragment,
}

impl Network {
    /// Reads IPv4 or IPv6 at `at`, which its first byte tells.
    #[inline]
    pub(super) fn ip(data: &[u8], at: usize, frame_len: usize) -> Option<Self> {
        match data.get(at)? >> 4 {
            4 => Self::ipv4(data, at, frame_len),
            6 => Self::ipv6(data, at, frame_len),
            _ => None,
        }
    }

    #[inline]
    fn ipv4(data: &[u8], at: usize, frame_len: usize) -> Option<Self> {
        let header = data.get(at..)?.first_chunk::<20>()?;
        let length = usize::from(header[0] & 0x0f) * 4;
        if length < header.len() {
            return None;
        }
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let piece = u16::from_be_bytes([header[6], header[7]]);
        let fragment = match (piece & 0x1fff, piece & 0x2000) {
            (0, 0) => Fragment::No,
            (0, _) => Fragment::First,
            _ => Fragment::Later,
        };
        let address = |at: usize| {
            IpAddr::V4(Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]))
        };
        Some(Self {
            at,
            header_end: at + length,
            // Segmentation offload leaves 0 in a batch that is longer than 16 bits can tell.
            end: if total < length { frame_len } else { at + total },
            protocol: header[9],
            source: address(12),
            destination: address(16),
            traffic_class: header[1],
            hop_limit: header[8],
            ip_id: Some(u16::from_be_bytes([header[4], header[5]])),
            fragment,
        })
    }

    #[inline]
    fn ipv6(data: &[u8], at: usize, frame_len: usize) -> Option<Self> {
        let network = Self::grh(data, at, frame_len)?;
        network.behind_extensions(data)
    }

    /// Reads a GRH at `at`, which has the layout of IPv6.
    #[inline]
    pub(super) fn grh(data: &[u8], at: usize, frame_len: usize) -> Option<Self> {
        let header = Grh::read(data.get(at..)?)?;
        let length = usize::from(header.payload_len);
        Some(Self {
            at,
            header_end: at + IPV6,
            end: if length == 0 { frame_len } else { at + IPV6 + length },
            protocol: header.next_header,
            source: Ipv6Addr::from(*header.src.bytes()).into(),
            destination: Ipv6Addr::from(*header.dst.bytes()).into(),
            traffic_class: header.traffic_class,
            hop_limit: header.hop_limit,
            ip_id: None,
            fragment: Fragment::No,
        })
    }

    fn behind_extensions(mut self, data: &[u8]) -> Option<Self> {
        for _ in 0..MAX_EXTENSIONS {
            let unit = match self.protocol {
                0 | 43 | 60 | 135 | FRAGMENT => 8,
                51 => 4,
                _ => break,
            };
            let (next, units) = (*data.get(self.header_end)?, *data.get(self.header_end + 1)?);
            if self.protocol == FRAGMENT {
                let piece = u16_at(data, self.header_end + 2)?;
                self.fragment = match (piece >> 3, piece & 1) {
                    (0, 0) => self.fragment,
                    (0, _) => Fragment::First,
                    _ => Fragment::Later,
                };
                self.header_end += 8;
            } else {
                // The length does not count the first 8 bytes.
                self.header_end += 8 + usize::from(units) * unit;
            }
            self.protocol = next;
        }
        Some(self)
    }
}
