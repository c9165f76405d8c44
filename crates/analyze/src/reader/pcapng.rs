//! pcapng captures: sections of blocks.

mod interface;
mod options;
mod packet;

use std::io::Read;

use interface::Interface;
use options::Options;

use super::order::Order;
use super::window::Window;
use super::{CaptureError, Found};

/// Block types.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

/// Bytes of the longest block that is held; one of a kind that is passed over may be longer.
const MAX_BLOCK: u32 = 16 << 20;

/// Type and length in front, length behind.
const FRAMING: u32 = 12;

/// Interfaces of one section at most; each takes memory.
const MAX_INTERFACES: usize = 65_536;

/// Type and length of a block, and where it begins.
#[derive(Debug, Clone, Copy)]
struct Head {
    kind: u32,
    length: u32,
    offset: u64,
}

/// Where the reader is in a pcapng capture.
#[derive(Debug)]
pub(super) struct Pcapng {
    order: Order,
    /// Interfaces of the section.
    interfaces: Vec<Interface>,
    /// Interfaces of the sections before.
    before: u32,
    /// Packets that the sections before say they lost.
    lost_before: u64,
}

impl Pcapng {
    pub(super) const fn new() -> Self {
        Self { order: Order::Little, interfaces: Vec::new(), before: 0, lost_before: 0 }
    }

    /// Packets that are not in the capture, as its blocks so far say.
    pub(super) fn lost(&self) -> u64 {
        let lost = self.interfaces.iter().map(Interface::lost);
        lost.fold(self.lost_before, u64::saturating_add)
    }

    /// The next frame; comments on it are added to `comment`.
    pub(super) fn next<R: Read>(
        &mut self,
        window: &mut Window<R>,
        comment: &mut String,
    ) -> Result<Option<Found>, CaptureError> {
        while let Some(head) = self.head(window)? {
            match head.kind {
                ENHANCED_PACKET | PACKET | SIMPLE_PACKET => {
                    let block = take(self.order, window, head)?;
                    return self.packet(window.get(block.clone()), block.start, head, comment);
                }
                SECTION_HEADER => self.section(window, head)?,
                INTERFACE_DESCRIPTION => self.interface(window, head)?,
                INTERFACE_STATISTICS => self.statistics(window, head)?,
                _ => self.pass_over(window, head)?,
            }
        }
        Ok(None)
    }

    /// Whether `rest` begins with a whole block that holds a frame.
    pub(super) fn is_whole(&self, rest: &[u8]) -> bool {
        let (kind, length) = (self.order.u32(rest, 0), self.order.u32(rest, 4));
        matches!(kind, ENHANCED_PACKET | PACKET | SIMPLE_PACKET) && rest.len() >= length as usize
    }

    /// Reads type and length; `None` at the end of the capture.
    fn head<R: Read>(&mut self, window: &mut Window<R>) -> Result<Option<Head>, CaptureError> {
        let offset = window.offset();
        if !window.fill(FRAMING as usize)? {
            return match window.buffered() {
                0 => Ok(None),
                _ => Err(CaptureError::damaged(offset, "the file ends within a block")),
            };
        }
        if window.rest().starts_with(&SECTION_HEADER.to_be_bytes()) {
            self.order = section_order(window.rest(), offset)?;
        }
        let (kind, length) = (self.order.u32(window.rest(), 0), self.order.u32(window.rest(), 4));
        if length < FRAMING || length % 4 != 0 {
            let reason =
                format!("a block of {length} bytes: at least 12, and a multiple of 4, is it");
            return Err(CaptureError::damaged(offset, reason));
        }
        Ok(Some(Head { kind, length, offset }))
    }

    fn section<R: Read>(&mut self, window: &mut Window<R>, head: Head) -> Result<(), CaptureError> {
        let block = take(self.order, window, head)?;
        let bytes = window.get(block);
        if bytes.len() < 28 {
            return Err(CaptureError::damaged(head.offset, "a section header that is too short"));
        }
        let (major, minor) = (self.order.u16(bytes, 12), self.order.u16(bytes, 14));
        if major != 1 {
            let (offset, what) = (head.offset, "pcapng");
            return Err(CaptureError::Version { offset, what, major, minor });
        }
        self.lost_before = self.lost();
        self.before = self.before.saturating_add(self.interfaces.len() as u32);
        self.interfaces.clear();
        Ok(())
    }

    fn interface<R: Read>(
        &mut self,
        window: &mut Window<R>,
        head: Head,
    ) -> Result<(), CaptureError> {
        let block = take(self.order, window, head)?;
        let Some(interface) = Interface::read(self.order, window.get(block)) else {
            let reason = "an interface description that is too short";
            return Err(CaptureError::damaged(head.offset, reason));
        };
        if self.interfaces.len() == MAX_INTERFACES {
            let reason = format!("more than {MAX_INTERFACES} interfaces in one section");
            return Err(CaptureError::damaged(head.offset, reason));
        }
        self.interfaces.push(interface);
        Ok(())
    }

    /// Those of an interface that was not described say nothing.
    fn statistics<R: Read>(
        &mut self,
        window: &mut Window<R>,
        head: Head,
    ) -> Result<(), CaptureError> {
        let block = take(self.order, window, head)?;
        let bytes = window.get(block);
        let options = bytes.get(20..bytes.len() - 4).unwrap_or(&[]);
        let number = self.order.u32(bytes, 8) as usize;
        if let Some(interface) = self.interfaces.get_mut(number) {
            interface.read_statistics(Options::new(self.order, options), self.order);
        }
        Ok(())
    }

    /// Passes over a block that has no frame.
    fn pass_over<R: Read>(&self, window: &mut Window<R>, head: Head) -> Result<(), CaptureError> {
        let is_whole = window.skip(u64::from(head.length - 4))? && window.fill(4)?;
        if !is_whole {
            return Err(ends_within(head));
        }
        let place = window.take(4);
        check_length(self.order.u32(window.get(place), 0), head)
    }
}

/// Takes a whole block; its place in the window.
fn take<R: Read>(
    order: Order,
    window: &mut Window<R>,
    head: Head,
) -> Result<std::ops::Range<usize>, CaptureError> {
    if head.length > MAX_BLOCK {
        let reason =
            format!("a block of {} bytes; the longest that is read has 16 MiB", head.length);
        return Err(CaptureError::damaged(head.offset, reason));
    }
    if !window.fill(head.length as usize)? {
        return Err(ends_within(head));
    }
    check_length(order.u32(window.rest(), head.length as usize - 4), head)?;
    Ok(window.take(head.length as usize))
}

#[cold]
fn ends_within(head: Head) -> CaptureError {
    CaptureError::damaged(
        head.offset,
        format!("the file ends within a block of {} bytes", head.length),
    )
}

fn check_length(behind: u32, head: Head) -> Result<(), CaptureError> {
    if behind == head.length {
        return Ok(());
    }
    let reason = format!("a block has length {} in front and {behind} behind", head.length);
    Err(CaptureError::damaged(head.offset, reason))
}

fn section_order(head: &[u8], offset: u64) -> Result<Order, CaptureError> {
    match head.get(8..12) {
        Some([0x1a, 0x2b, 0x3c, 0x4d]) => Ok(Order::Big),
        Some([0x4d, 0x3c, 0x2b, 0x1a]) => Ok(Order::Little),
        _ => Err(CaptureError::damaged(offset, "a section header without a byte order")),
    }
}
