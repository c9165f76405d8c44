//! Interface Description Blocks.

use super::options::Options;
use crate::LinkType;
use crate::reader::clock::Clock;
use crate::reader::order::Order;

const TIMESTAMP_RESOLUTION: u16 = 9;
const TIMESTAMP_OFFSET: u16 = 14;

/// What is known about an interface.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interface {
    pub(super) link_type: LinkType,
    /// Bytes of a frame that were kept at most; 0 is no limit.
    pub(super) snap_len: u32,
    pub(super) clock: Clock,
}

impl Interface {
    /// Reads a whole block; `None` if it is too short.
    pub(super) fn read(order: Order, block: &[u8]) -> Option<Self> {
        let body = block.get(8..block.len().checked_sub(4)?)?;
        let (fixed, options) = body.split_at_checked(8)?;
        let mut clock = Clock::default();
        for (code, value) in Options::new(order, options) {
            match (code, value) {
                (TIMESTAMP_RESOLUTION, [resolution, ..]) => clock.set_resolution(*resolution),
                (TIMESTAMP_OFFSET, value) if value.len() >= 8 => {
                    clock.set_offset(order.i64(value, 0));
                }
                _ => {}
            }
        }
        let link_type = LinkType::from_number(order.u16(fixed, 0).into());
        Some(Self { link_type, snap_len: order.u32(fixed, 4), clock })
    }
}
