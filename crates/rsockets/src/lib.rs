//! rsockets: sockets whose bytes travel by RDMA WRITE, on ids and queue pairs of `uroce-rdmacm`.
//!
//! ```text
//!   send                                                     receive
//!     | copy                                                   ^ copy
//!   [ ring ] ---- RDMA WRITE with immediate "n bytes" ----> [ ring, in two halves ]
//!   [ table of halves ] <-- RDMA WRITE with immediate "credits" --+
//! ```
//!
//! Each end tells the other one in the private data of its REQ or REP where its table and the first half
//! of its ring are. A half that was read is written into the peer's table again. What the peer says is
//! checked against what it was offered; a peer that breaks the protocol is reset.
//!
//! Datagrams go between UD queue pairs, which two ends learn of by UDP.
//!
//! A socket makes progress when its program calls: nothing is lost meanwhile, since the receives for all
//! that the peer may send are posted.
//!
//! The functions here are those of `rdma/rsocket.h` without the pointers of C, which `uroce-cabi` adds.
#![forbid(unsafe_code)]

mod close;
mod connect;
mod connection;
mod credit_table;
mod datagram_header;
mod datagram_queue_pair;
mod datagrams;
mod deadline;
mod exit;
mod fd_table;
#[doc(hidden)]
pub mod fuzzing;
mod inbound;
mod iomap;
mod mapped;
mod options;
mod outbound;
mod poll;
mod protocol;
mod protocol_error;
mod queue_pair;
mod registered;
mod socket;
mod sockopt;
mod stream;
mod transfer;
mod wakeup;

#[cfg(test)]
mod tests;

pub use close::close;
pub use connect::{Accepted, socket};
pub use deadline::Deadline;
pub use fd_table::Handle;
pub use iomap::Buffer;
pub use poll::poll;
