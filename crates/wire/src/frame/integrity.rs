//! The ICRC of a frame whose headers are at hand.

use super::{Frame, Network, UdpPorts};
use crate::icrc::{DUMMY_CRC, ICRC_LEN, update, update_masked};
use crate::{Grh, Header, Ipv4, Ipv6};

/// True if the ICRC of a frame is right. The headers are taken as they stand in the frame, so that
/// one with a DF bit or a length other than ours is judged by what it really carries.
pub fn verify_frame_icrc(frame: &Frame<'_>) -> bool {
    let found = frame.transport.last_chunk::<ICRC_LEN>().map(|found| u32::from_le_bytes(*found));
    found.is_some() && found == frame_icrc(frame)
}

/// The ICRC that the frame should have; `None` if it has no room for one.
pub(super) fn frame_icrc(frame: &Frame<'_>) -> Option<u32> {
    let (covered, _) = frame.transport.split_last_chunk::<ICRC_LEN>()?;
    let mut head = [0; Ipv6::LEN + UdpPorts::LEN];
    let head = head.get_mut(..frame.headers.len())?;
    head.copy_from_slice(frame.headers);
    let udp_at = match frame.ip {
        Network::V4(_) => {
            mask(head, &[1, 8, 10, 11]);
            Ipv4::LEN
        }
        Network::V6(_) | Network::Grh(_) => {
            if let Some(version) = head.first_mut() {
                *version |= 0x0f;
            }
            mask(head, &[1, 2, 3, 7]);
            Grh::LEN
        }
    };
    // RoCEv1 has no UDP header, and then there is nothing at these places.
    mask(head, &[udp_at + 6, udp_at + 7]);
    Some(update_masked(update(DUMMY_CRC, head), covered))
}

fn mask(head: &mut [u8], places: &[usize]) {
    for at in places {
        if let Some(byte) = head.get_mut(*at) {
            *byte = 0xff;
        }
    }
}
