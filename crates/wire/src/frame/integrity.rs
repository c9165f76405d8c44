//! The ICRC of a frame whose headers are at hand.

use super::Frame;
use crate::icrc::{ICRC_LEN, icrc_of_captured};

/// True if the ICRC of a frame is right. The headers are taken as they stand in the frame, so that
/// one with a DF bit or a length other than ours is judged by what it really carries.
pub fn verify_frame_icrc(frame: &Frame<'_>) -> bool {
    let found = frame.transport.last_chunk::<ICRC_LEN>().map(|found| u32::from_le_bytes(*found));
    found.is_some() && found == frame_icrc(frame)
}

/// The ICRC that the frame should have; `None` if it has no room for one.
pub(super) fn frame_icrc(frame: &Frame<'_>) -> Option<u32> {
    let (covered, _) = frame.transport.split_last_chunk::<ICRC_LEN>()?;
    icrc_of_captured(frame.headers, frame.udp.is_some(), covered)
}
