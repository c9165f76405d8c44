//! Classic captures: a header, then records.

use std::io::Read;

use super::order::Order;
use super::window::Window;
use super::{CaptureError, Found};
use crate::{LinkType, Timestamp};

/// Bytes of the header of the file.
const HEADER: usize = 24;

/// Bytes of the longest frame; more than any snap length that is in use.
pub(super) const MAX_FRAME: usize = 1 << 20;

/// What the header says.
#[derive(Debug)]
pub(super) struct Pcap {
    order: Order,
    unit: u32,
    record: usize,
    link_type: LinkType,
}

impl Pcap {
    pub(super) fn open<R: Read>(
        window: &mut Window<R>,
        (order, unit, record): (Order, u32, usize),
    ) -> Result<Self, CaptureError> {
        if !window.fill(HEADER)? {
            return Err(CaptureError::damaged(0, "the file ends within its header of 24 bytes"));
        }
        let header = window.rest();
        let (major, minor) = (order.u16(header, 4), order.u16(header, 6));
        if major != 2 {
            return Err(CaptureError::Version { offset: 0, what: "pcap", major, minor });
        }
        // The upper half of the field tells about the frame check sequence.
        let link_type = LinkType::from_number(order.u32(header, 20) & 0xffff);
        window.take(HEADER);
        Ok(Self { order, unit, record, link_type })
    }

    /// Whether `rest` begins with a whole record.
    pub(super) fn is_whole(&self, rest: &[u8]) -> bool {
        let length = self.order.u32(rest, 8) as usize;
        rest.len().checked_sub(self.record).is_some_and(|behind| behind >= length)
    }

    #[inline]
    pub(super) fn next<R: Read>(
        &mut self,
        window: &mut Window<R>,
    ) -> Result<Option<Found>, CaptureError> {
        let offset = window.offset();
        if !window.fill(self.record)? {
            return match window.buffered() {
                0 => Ok(None),
                _ => Err(CaptureError::damaged(offset, "the file ends within a record header")),
            };
        }
        let header = window.rest();
        let number = |at| self.order.u32(header, at);
        let (seconds, fraction, captured, original) = (number(0), number(4), number(8), number(12));
        let length = captured as usize;
        if length > MAX_FRAME {
            return Err(too_long(offset, captured));
        }
        if !window.fill(self.record + length)? {
            return Err(CaptureError::damaged(offset, "the file ends within a record"));
        }
        let record = window.take(self.record + length);
        let nanoseconds =
            u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * u64::from(self.unit);
        Ok(Some(Found {
            interface: 0,
            time: Timestamp::from_nanos(nanoseconds),
            link_type: self.link_type,
            direction: None,
            original_len: original.max(captured),
            data: record.start + self.record..record.end,
        }))
    }
}

#[cold]
fn too_long(offset: u64, captured: u32) -> CaptureError {
    let reason = format!("a frame of {captured} bytes, but the longest that can be is {MAX_FRAME}");
    CaptureError::damaged(offset, reason)
}
