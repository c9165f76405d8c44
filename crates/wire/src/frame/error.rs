//! Why a frame is not RoCE.

use core::fmt;

use crate::DropReason;

/// What is wrong with a frame, by field and offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// A header or the packet it announces does not fit.
    TooShort {
        /// The header.
        layer: &'static str,
        /// Bytes there are.
        got: usize,
        /// Bytes there should be.
        need: usize,
    },
    /// Something other than RoCE.
    NotRoce {
        /// The field that says so.
        field: &'static str,
        /// Its value.
        value: u16,
    },
    /// A fragment.
    Fragment {
        /// Offset of the field in the IP header.
        offset: usize,
    },
    /// IPv4 options or IPv6 extension headers.
    IpOptions {
        /// Offset of the field in the IP header.
        offset: usize,
    },
    /// UDP and IP length do not agree.
    LengthMismatch {
        /// UDP length.
        udp: u16,
        /// Bytes that IP has for UDP.
        ip: usize,
    },
}

impl FrameError {
    /// The counter that this error goes to.
    pub fn drop_reason(&self) -> DropReason {
        match self {
            FrameError::TooShort { .. } => DropReason::TooShort,
            FrameError::NotRoce { .. } => DropReason::NotRoce,
            FrameError::Fragment { .. } => DropReason::Fragment,
            FrameError::IpOptions { .. } => DropReason::IpOptions,
            FrameError::LengthMismatch { .. } => DropReason::BadLength,
        }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FrameError::TooShort { layer, got, need } => {
                write!(f, "{layer}: {got} bytes, but {need} are needed")
            }
            FrameError::NotRoce { field, value } => write!(f, "not RoCE: {field} is {value:#x}"),
            FrameError::Fragment { offset } => {
                write!(f, "IP offset {offset}: a fragment; RoCE packets are never fragmented")
            }
            FrameError::IpOptions { offset } => {
                write!(f, "IP offset {offset}: options or extension headers, which RoCE never has")
            }
            FrameError::LengthMismatch { udp, ip } => {
                write!(f, "UDP offset 4: length {udp}, but IP leaves {ip} bytes for UDP")
            }
        }
    }
}

impl core::error::Error for FrameError {}
