//! Reading captures as they come: pcap, pcapng, compressed with gzip or not.

mod clock;
mod error;
mod input;
mod kind;
mod order;
mod pcap;
mod pcapng;
mod window;

use std::io::Read;
use std::ops::Range;

pub use error::CaptureError;
use input::Input;
use kind::FileKind;
use pcap::Pcap;
use pcapng::Pcapng;
use window::Window;

use crate::{Direction, Frame, LinkType, Timestamp};

/// A frame by its place in the window, so that looking for it borrows nothing.
#[derive(Debug)]
struct Found {
    interface: u32,
    time: Timestamp,
    link_type: LinkType,
    direction: Option<Direction>,
    original_len: u32,
    data: Range<usize>,
}

#[derive(Debug)]
enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
    /// There is nothing more to read; so many packets were lost.
    End {
        lost: u64,
    },
}

/// Reads the frames of a capture one after the other: pcap and pcapng, both byte orders, plain or
/// compressed with gzip, from a file or a pipe. It never holds the whole capture, and a frame is
/// given as soon as its last byte is there.
///
/// ```
/// use uroce_analyze::CaptureReader;
///
/// let capture = include_bytes!("../../../pcaps/rc-send.pcap");
/// let mut reader = CaptureReader::new(&capture[..])?;
/// let mut bytes = 0;
/// while let Some(frame) = reader.next_frame()? {
///     bytes += frame.data.len();
/// }
/// assert!(bytes > 1000);
/// # Ok::<(), uroce_analyze::CaptureError>(())
/// ```
#[derive(Debug)]
pub struct CaptureReader<R> {
    window: Window<Input<R>>,
    format: Format,
    frames: u64,
    comment: String,
}

impl<R: Read> CaptureReader<R> {
    /// Reads the first bytes of `source`, to see what it is.
    ///
    /// # Errors
    /// [`CaptureError::NotACapture`] says what it is instead; others if it cannot be read or if its
    /// header is damaged.
    pub fn new(source: R) -> Result<Self, CaptureError> {
        let mut window = Window::new(Input::new(source)?);
        window.fill(kind::LOOK)?;
        let head = window.rest();
        let format = match FileKind::of(head.get(..kind::LOOK).unwrap_or(head))? {
            FileKind::Pcapng => Format::Pcapng(Pcapng::new()),
            FileKind::Pcap { order, unit, record } => {
                Format::Pcap(Pcap::open(&mut window, (order, unit, record))?)
            }
        };
        Ok(Self { window, format, frames: 0, comment: String::new() })
    }

    /// The next frame, or `None` behind the last one. Frames of any link type are given. A frame of
    /// a Simple Packet Block has no time: it is 0.
    ///
    /// # Errors
    /// What is wrong, and where. Afterwards the capture is at its end: every further call gives
    /// `None`.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, CaptureError> {
        self.comment.clear();
        let found = match &mut self.format {
            Format::Pcap(pcap) => pcap.next(&mut self.window),
            Format::Pcapng(pcapng) => pcapng.next(&mut self.window, &mut self.comment),
            Format::End { .. } => Ok(None),
        };
        let Ok(Some(found)) = found else {
            self.format = Format::End { lost: self.lost_packets() };
            return found.map(|_| None);
        };
        self.frames += 1;
        Ok(Some(Frame {
            number: self.frames,
            interface: found.interface,
            time: found.time,
            link_type: found.link_type,
            direction: found.direction,
            original_len: found.original_len,
            data: self.window.get(found.data),
            comment: &self.comment,
        }))
    }

    /// Packets that are missing because whoever captured could not keep up, as a pcapng capture itself says up to here
    /// (`epb_dropcount`, `isb_ifdrop` and `isb_osdrop`); other captures do not tell.
    pub fn lost_packets(&self) -> u64 {
        match &self.format {
            Format::Pcap(_) => 0,
            Format::Pcapng(pcapng) => pcapng.lost(),
            Format::End { lost } => *lost,
        }
    }

    /// Bytes of the capture that were taken so far, decompressed.
    pub const fn offset(&self) -> u64 {
        self.window.offset()
    }

    /// The next frame can be given without reading: the next call of
    /// [`CaptureReader::next_frame`] does not wait for a pipe. `false` may also mean that the next
    /// part is no frame.
    pub fn is_next_buffered(&self) -> bool {
        let rest = self.window.rest();
        match &self.format {
            Format::Pcap(pcap) => pcap.is_whole(rest),
            Format::Pcapng(pcapng) => pcapng.is_whole(rest),
            Format::End { .. } => true,
        }
    }
}
