//! Interface Description Blocks, and Interface Statistics Blocks.

use super::options::Options;
use crate::LinkType;
use crate::reader::clock::Clock;
use crate::reader::order::Order;

const TIMESTAMP_RESOLUTION: u16 = 9;
const TIMESTAMP_OFFSET: u16 = 14;
const DROPPED_BY_INTERFACE: u16 = 5;
const DROPPED_BY_SYSTEM: u16 = 7;

/// What is known about an interface.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interface {
    pub(super) link_type: LinkType,
    /// Bytes of a frame that were kept at most; 0 is no limit.
    pub(super) snap_len: u32,
    pub(super) clock: Clock,
    /// Packets that were lost between the frames, as their blocks say.
    lost_between: u64,
    /// Packets that were lost, as the last statistics say.
    lost_in_all: u64,
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
        let snap_len = order.u32(fixed, 4);
        Some(Self { link_type, snap_len, clock, lost_between: 0, lost_in_all: 0 })
    }

    /// A frame says that `packets` before it were lost.
    pub(super) const fn add_lost(&mut self, packets: u64) {
        self.lost_between = self.lost_between.saturating_add(packets);
    }

    /// Reads the options of statistics, which are about the whole capture so far.
    pub(super) fn read_statistics(&mut self, options: Options<'_>, order: Order) {
        let dropped = options
            .filter(|(code, value)| {
                matches!(*code, DROPPED_BY_INTERFACE | DROPPED_BY_SYSTEM) && value.len() >= 8
            })
            .fold(0, |sum: u64, (_, value)| sum.saturating_add(order.u64(value, 0)));
        self.lost_in_all = self.lost_in_all.max(dropped);
    }

    /// Packets that are not in the capture. Frames and statistics tell of the same ones.
    pub(super) fn lost(&self) -> u64 {
        self.lost_between.max(self.lost_in_all)
    }
}
