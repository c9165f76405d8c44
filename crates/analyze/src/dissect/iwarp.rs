//! iWARP, the other RDMA on Ethernet: recognised, so that it is not taken for nothing.

use std::fmt;

/// Bytes of the key of an MPA frame.
const KEY: usize = 16;

/// What a TCP segment of iWARP begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Iwarp {
    /// The request that begins a connection.
    MpaRequest,
    /// The answer to it.
    MpaReply,
    /// A message in frames of MPA (FPDU); the number is the opcode of RDMAP.
    Fpdu(u8),
}

impl Iwarp {
    /// What `payload` of a TCP segment begins with. `length` is how long it was on the wire. A
    /// segment that begins in the middle of a frame is not recognised.
    pub(super) fn of(payload: &[u8], length: usize) -> Option<Self> {
        match payload.get(..KEY) {
            Some(b"MPA ID Req Frame") => Some(Self::MpaRequest),
            Some(b"MPA ID Rep Frame") => Some(Self::MpaReply),
            _ => fpdu(payload, length),
        }
    }

    /// Its name, as the specifications have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MpaRequest => "MPA request",
            Self::MpaReply => "MPA reply",
            Self::Fpdu(0) => "RDMA Write",
            Self::Fpdu(1) => "RDMA Read Request",
            Self::Fpdu(2) => "RDMA Read Response",
            Self::Fpdu(3) => "Send",
            Self::Fpdu(4) => "Send with Invalidate",
            Self::Fpdu(5) => "Send with Solicited Event",
            Self::Fpdu(6) => "Send with Solicited Event and Invalidate",
            Self::Fpdu(7) => "Terminate",
            Self::Fpdu(8) => "Immediate Data",
            Self::Fpdu(9) => "Immediate Data with Solicited Event",
            Self::Fpdu(10) => "Atomic Request",
            Self::Fpdu(11) => "Atomic Response",
            Self::Fpdu(_) => "RDMAP opcode that is not defined",
        }
    }
}

impl fmt::Display for Iwarp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "iWARP {}", self.name())
    }
}

/// A segment that is one or more whole frames: length, control fields of DDP and RDMAP in version 1,
/// and a length that ends where the segment or another such frame begins.
fn fpdu(payload: &[u8], length: usize) -> Option<Iwarp> {
    let (frame, opcode) = frame(payload)?;
    let next = payload.get(frame..).unwrap_or(&[]);
    let fits = frame == length || frame < length && self::frame(next).is_some();
    fits.then_some(Iwarp::Fpdu(opcode))
}

/// Bytes of the frame that `payload` begins with, and its opcode.
fn frame(payload: &[u8]) -> Option<(usize, u8)> {
    let &[high, low, ddp, rdmap, ..] = payload else {
        return None;
    };
    let ulpdu = usize::from(u16::from_be_bytes([high, low]));
    // Reserved bits are zero; tagged messages are WRITEs and READ responses.
    let (tagged, opcode) = (ddp & 0x80 != 0, rdmap & 0x0f);
    let plausible = ddp & 0x3f == 1 && rdmap & 0xf0 == 0x40 && opcode <= 11;
    let header = if tagged { 14 } else { 18 };
    let is_frame = plausible && tagged == matches!(opcode, 0 | 2) && ulpdu >= header;
    is_frame.then_some(((2 + ulpdu).next_multiple_of(4) + 4, opcode))
}
