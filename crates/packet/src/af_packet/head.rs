//! What stands in front of a payload on its way into a packet socket.

use uroce_link::{HeaderTemplate, MAX_HEADERS};

use super::vnet::{PLAIN, VNET, segmented};

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;

/// The Ethertype of frames to or from an address of that IP version.
pub(super) fn ether_type(ipv4: bool) -> u16 {
    if ipv4 { ETHERTYPE_IPV4 } else { ETHERTYPE_IPV6 }
}

/// What becomes of a super-packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    /// It is cut into payloads of that size.
    pub(super) segment: usize,
    /// Bytes of the payload that the kernel holds in one block with the headers.
    pub(super) in_block: usize,
}

/// Virtio-net header, Ethernet, IP and UDP header of one frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    bytes: [u8; VNET + MAX_HEADERS],
    len: usize,
    ether_type: u16,
}

impl Head {
    pub(super) const EMPTY: Self = Self { bytes: [0; VNET + MAX_HEADERS], len: 0, ether_type: 0 };

    /// Fills in the headers for `payload` bytes; with `cut` for a super-packet. False when that is
    /// longer than IP allows.
    pub(super) fn fill(
        &mut self,
        headers: &HeaderTemplate,
        id: u16,
        payload: usize,
        cut: Option<Cut>,
    ) -> bool {
        let (vnet, frame) = self.bytes.split_at_mut(VNET);
        let written = match cut {
            Some(Cut { segment, in_block }) => {
                let linear = (headers.len() + in_block).min(u16::MAX.into());
                vnet.copy_from_slice(&segmented(linear, headers.udp_at(), segment));
                headers.write_for_offload(id, payload, frame)
            }
            None => {
                vnet.copy_from_slice(&PLAIN);
                headers.write(id, payload, frame)
            }
        };
        self.len = VNET + written.unwrap_or(0);
        self.ether_type = ether_type(headers.is_ipv4());
        written.is_some()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(super) fn ether_type(&self) -> u16 {
        self.ether_type
    }
}

#[cfg(test)]
mod tests;
