//! What tester and agent say to each other: one JSON object a line, one reply to each request.

mod access;
mod cm;
pub(crate) mod fields;
pub mod limits;
mod line;
mod reply;
mod request;
mod work;

pub use access::Access;
pub use cm::{CmEvent, CmRequest, CmSpace, cm_event};
pub use fields::FromJson;
pub use line::{Message, ProtocolError, read_message, write_message};
pub use reply::{Card, Completion, Counter, Event, Extensions, Reply};
pub use request::{Kind, Link, Request, State};
pub use work::{Operation, Piece, Receive, Work};

/// The version of the protocol. Both ends must have the same: cases and agent belong together.
pub const VERSION: u32 = 3;
