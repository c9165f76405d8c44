//! Why bytes are not a RoCE frame.

use core::fmt;

use crate::DropReason;

/// Why bytes are not a RoCE frame. Offsets count from the first byte that was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// The bytes end inside a header.
    Truncated {
        /// The header.
        header: &'static str,
        /// Where it starts.
        offset: usize,
        /// Bytes there are from there.
        got: usize,
        /// Bytes it takes.
        need: usize,
    },
    /// Ethertype, protocol or port belong to something else.
    NotRoce {
        /// The field.
        field: &'static str,
        /// Where it is.
        offset: usize,
        /// What it holds.
        found: u16,
    },
    /// More than one VLAN tag, or a service tag.
    StackedVlan {
        /// Where the Ethertype of the first tag is.
        offset: usize,
    },
    /// The IP version does not fit the Ethertype, or does not exist.
    BadVersion {
        /// Where it is.
        offset: usize,
        /// The version.
        found: u8,
    },
    /// IPv4 options, a bad IHL, or IPv6 extension headers.
    IpOptions {
        /// The field.
        field: &'static str,
        /// Where it is.
        offset: usize,
        /// What it holds.
        found: u8,
    },
    /// An IP fragment.
    Fragment {
        /// The field that says so.
        field: &'static str,
        /// Where it is.
        offset: usize,
    },
    /// A length field that does not fit the bytes there are.
    LengthMismatch {
        /// The field.
        field: &'static str,
        /// Where it is.
        offset: usize,
        /// Bytes that it announces, its header included.
        found: usize,
        /// Bytes there are.
        room: usize,
    },
}

impl FrameError {
    /// The counter that this error goes to.
    pub fn drop_reason(&self) -> DropReason {
        match self {
            FrameError::Truncated { .. } => DropReason::TooShort,
            FrameError::NotRoce { .. }
            | FrameError::StackedVlan { .. }
            | FrameError::BadVersion { .. } => DropReason::NotRoce,
            FrameError::IpOptions { .. } => DropReason::IpOptions,
            FrameError::Fragment { .. } => DropReason::Fragment,
            FrameError::LengthMismatch { .. } => DropReason::BadLength,
        }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FrameError::Truncated { header, offset, got, need } => write!(
                f,
                "{header} header at offset {offset}: {need} bytes needed, {got} left; the frame \
                 was cut"
            ),
            FrameError::NotRoce { field, offset, found } => {
                write!(f, "{field} at offset {offset} is {found:#06x}: not a RoCE packet")
            }
            FrameError::StackedVlan { offset } => write!(
                f,
                "VLAN tag at offset {offset} is a service tag or has another behind it; only one \
                 802.1Q tag is read"
            ),
            FrameError::BadVersion { offset, found } => {
                write!(f, "IP version at offset {offset} is {found}, which does not belong here")
            }
            FrameError::IpOptions { field, offset, found } => write!(
                f,
                "{field} at offset {offset} is {found}: RoCE uses no IP options or extension \
                 headers"
            ),
            FrameError::Fragment { field, offset } => write!(
                f,
                "{field} at offset {offset} marks a fragment; RoCE sets DF, so something on the \
                 way cut the packet"
            ),
            FrameError::LengthMismatch { field, offset, found, room } => {
                write!(
                    f,
                    "{field} at offset {offset} announces {found} bytes, but there are {room}"
                )
            }
        }
    }
}

impl core::error::Error for FrameError {}
