//! Blocks that hold a frame.

use super::options::Options;
use super::{Head, Interface, PACKET, Pcapng, SIMPLE_PACKET};
use crate::reader::order::Order;
use crate::reader::{CaptureError, Found};
use crate::{Direction, Timestamp};

const COMMENT: u16 = 1;
const FLAGS: u16 = 2;
const DROP_COUNT: u16 = 4;

/// What the options of a frame say beside comments.
#[derive(Default)]
struct PacketOptions {
    direction: Option<Direction>,
    /// Packets that were lost between the frame before and this one.
    lost: u64,
}

/// The fixed fields of a block with a frame.
struct Fields {
    interface: u32,
    /// Timestamp in units of the interface; `None` if the block has none.
    units: Option<u64>,
    captured: u32,
    original: u32,
    /// Where the frame begins in the block.
    data_at: usize,
}

impl Fields {
    /// Of a block of type `kind`; what it is too short for is 0.
    #[inline]
    fn read(order: Order, kind: u32, block: &[u8]) -> Self {
        let number = |at| order.u32(block, at);
        if kind == SIMPLE_PACKET {
            let original = number(8);
            let room = (block.len() as u32).saturating_sub(16);
            return Self {
                interface: 0,
                units: None,
                captured: original.min(room),
                original,
                data_at: 12,
            };
        }
        let interface = if kind == PACKET { order.u16(block, 8).into() } else { number(8) };
        Self {
            interface,
            units: Some(u64::from(number(12)) << 32 | u64::from(number(16))),
            captured: number(20),
            original: number(24),
            data_at: 28,
        }
    }
}

impl Pcapng {
    /// The frame of `block`, which stands at `at` in the window.
    #[inline]
    pub(super) fn packet(
        &mut self,
        block: &[u8],
        at: usize,
        head: Head,
        comment: &mut String,
    ) -> Result<Option<Found>, CaptureError> {
        let fields = Fields::read(self.order, head.kind, block);
        let Some(interface) = self.interfaces.get_mut(fields.interface as usize) else {
            return Err(no_interface(&fields, head));
        };
        let length = snapped(&fields, head.kind, interface) as usize;
        let end = fields.data_at + length;
        // The length behind the block is no part of the frame.
        if end + 4 > block.len() {
            return Err(does_not_fit(length, head));
        }
        let options = block.get(end.next_multiple_of(4)..block.len() - 4).unwrap_or(&[]);
        let told = read_options(self.order, options, comment);
        interface.add_lost(told.lost);
        Ok(Some(Found {
            interface: self.before.saturating_add(fields.interface),
            time: fields.units.map_or(Timestamp::default(), |units| interface.clock.time(units)),
            link_type: interface.link_type,
            direction: told.direction,
            original_len: fields.original.max(length as u32),
            data: at + fields.data_at..at + end,
        }))
    }
}

/// Bytes of the frame in the block. Only the snap length tells it of a Simple Packet Block, which
/// is filled up to a multiple of 4.
fn snapped(fields: &Fields, kind: u32, interface: &Interface) -> u32 {
    match (kind, interface.snap_len) {
        (SIMPLE_PACKET, 1..) => fields.captured.min(interface.snap_len),
        _ => fields.captured,
    }
}

fn read_options(order: Order, options: &[u8], comment: &mut String) -> PacketOptions {
    let mut told = PacketOptions::default();
    for (code, value) in Options::new(order, options) {
        match code {
            COMMENT => add_comment(comment, value),
            FLAGS if value.len() >= 4 => {
                told.direction = match order.u32(value, 0) & 3 {
                    1 => Some(Direction::Inbound),
                    2 => Some(Direction::Outbound),
                    _ => None,
                };
            }
            DROP_COUNT if value.len() >= 8 => told.lost = order.u64(value, 0),
            _ => {}
        }
    }
    told
}

/// Several comments on one frame are one text for the reader, with `; ` between them.
fn add_comment(comment: &mut String, value: &[u8]) {
    if !comment.is_empty() {
        comment.push_str("; ");
    }
    comment.push_str(&String::from_utf8_lossy(value));
}

#[cold]
fn no_interface(fields: &Fields, head: Head) -> CaptureError {
    let number = fields.interface;
    CaptureError::damaged(
        head.offset,
        format!("a frame of interface {number}, which was not described"),
    )
}

#[cold]
fn does_not_fit(length: usize, head: Head) -> CaptureError {
    let reason = format!("a frame of {length} bytes in a block of {}", head.length);
    CaptureError::damaged(head.offset, reason)
}
