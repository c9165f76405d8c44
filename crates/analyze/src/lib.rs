//! Knowledge from captured RoCEv2 traffic.
//!
//! ```text
//!  bytes of a file       frames         packets           annotated packets
//!  or an interface  ->  Frame   ->    Packet   ->   Tracker   ->   findings, report, ladder
//! ```
//!
//! Nothing here opens a file, reads a clock or allocates by what a length field of the capture
//! claims: bytes and times are arguments, so that the same capture always gives the same answer.
#![forbid(unsafe_code)]

mod capture_writer;
mod dissect;
mod fields;
mod filter;
mod frame;
mod icrc_status;
pub mod judge;
mod ladder;
mod packet;
mod printable;
pub mod quantity;
mod reader;
pub mod report;
#[cfg(test)]
mod sample;
mod summary;
mod timestamp;
pub mod track;
pub mod view;

pub use capture_writer::CaptureWriter;
pub use dissect::{Dissector, DissectorConfig, FrameKind, Iwarp, Malformed, PacketSink};
pub use fields::{Field, Layer, field_names, fields};
pub use filter::{
    BadFrameRange, BadPsnRange, BadQpn, Filter, FrameRange, Learned, OpcodeFilter, PsnRange,
    UnknownOpcode, parse_qpn,
};
pub use frame::{Direction, Frame, LinkType};
pub use icrc_status::{IcrcStatus, NotChecked};
pub use ladder::{
    Arrow, ArrowKind, End, Fold, Ladder, LadderBuilder, LadderConfig, Mark, PsnStyle, Row,
    TextStyle,
};
pub use packet::{Encapsulation, Packet};
pub use printable::printable;
pub use reader::{CaptureError, CaptureReader};
pub use summary::{PacketSummary, cm_message};
pub use timestamp::Timestamp;
pub use track::{Annotation, Flow, FlowId, Tracker, TrackerConfig};
