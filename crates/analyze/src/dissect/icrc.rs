//! What an ICRC says, with the headers that were captured in front of the packet.

use std::ops::Range;

use uroce_wire::{ICRC_LEN, icrc_of_captured, icrc_of_local, solve_two_bytes};

use super::locate::Headers;
use crate::{IcrcStatus, NotChecked};

/// Place of the identification in an IPv4 header.
const IP_ID: usize = 4;

/// Headers that an ICRC covers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Covered<'a> {
    /// IPv4 or IPv6, and UDP.
    Udp(&'a [u8]),
    /// A GRH.
    Grh(&'a [u8]),
    /// A local route header.
    Lrh(&'a [u8]),
}

impl<'a> Covered<'a> {
    /// Those at `headers` in `data`.
    #[inline]
    pub(super) fn of(headers: &Headers, data: &'a [u8]) -> Self {
        let at = |place: &Range<usize>| data.get(place.clone()).unwrap_or(&[]);
        match headers {
            Headers::Udp(place) => Self::Udp(at(place)),
            Headers::Grh(place) => Self::Grh(at(place)),
            Headers::Lrh(place) => Self::Lrh(at(place)),
        }
    }

    /// The ICRC of `covered`, BTH to pad.
    #[inline]
    fn expected(&self, covered: &[u8]) -> Option<u32> {
        match self {
            Self::Udp(headers) => icrc_of_captured(headers, true, covered),
            Self::Grh(headers) => icrc_of_captured(headers, false, covered),
            Self::Lrh(headers) => Some(icrc_of_local(headers.first_chunk()?, covered)),
        }
    }

    /// True if `packet`, BTH to ICRC, ends with its ICRC.
    #[inline]
    pub(super) fn is_right(&self, packet: &[u8]) -> bool {
        packet.split_last_chunk::<ICRC_LEN>().is_some_and(|(covered, found)| {
            self.expected(covered) == Some(u32::from_le_bytes(*found))
        })
    }

    /// The verdict on `packet`, BTH to ICRC. One that is wrong is tried with another IPv4
    /// identification, then with another UDP source port.
    pub(super) fn judge(&self, packet: &[u8]) -> IcrcStatus {
        let Some((covered, found)) = packet.split_last_chunk::<ICRC_LEN>() else {
            return IcrcStatus::NotChecked(NotChecked::Cut);
        };
        let found = u32::from_le_bytes(*found);
        let Some(expected) = self.expected(covered) else {
            return IcrcStatus::NotChecked(NotChecked::NoHeaders);
        };
        if expected == found {
            return IcrcStatus::Right;
        }
        self.explain(found ^ expected, covered.len()).unwrap_or(IcrcStatus::Wrong {
            // Wireshark reads the four bytes as a big-endian number.
            found: found.swap_bytes(),
            expected: expected.swap_bytes(),
        })
    }

    /// The change of one header that makes an ICRC right which differs by `delta`.
    fn explain(&self, delta: u32, covered: usize) -> Option<IcrcStatus> {
        let Self::Udp(headers) = self else {
            return None;
        };
        let field = |at: usize| {
            let old = headers.get(at..)?.first_chunk().map(|old| u16::from_be_bytes(*old))?;
            solve_two_bytes(delta, headers.len() - at + covered).map(|change| old ^ change)
        };
        let is_ipv4 = headers.first().is_some_and(|first| first >> 4 == 4);
        let by_id = if is_ipv4 { field(IP_ID).map(IcrcStatus::RightWithIpId) } else { None };
        let port_at = headers.len().checked_sub(super::locate::UDP_LEN)?;
        by_id.or_else(|| field(port_at).map(IcrcStatus::RightWithSourcePort))
    }
}
