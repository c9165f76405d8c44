//! rsockets: sockets whose bytes travel by RDMA WRITE, on ids and queue pairs of this library.
//!
//! ```text
//!   rsend                                                    rrecv
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

mod broken;
mod close;
mod connect;
mod connection;
mod datagram_header;
mod datagram_port;
mod datagrams;
mod directory;
mod farewell;
mod identity;
mod inbound;
mod iomap;
mod link;
mod names;
mod options;
mod outbound;
mod patience;
mod poll;
mod protocol;
mod registered;
mod socket;
mod sockopt;
mod stream;
mod tables;
mod transfer;

#[cfg(test)]
mod tests;
