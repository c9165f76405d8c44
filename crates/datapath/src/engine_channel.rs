//! Several engines of one process on an address that the process has for itself.
//!
//! Each engine has a slot, as processes on a shared address do, and a datapath inside that brings what the
//! kernel gave to it. What belongs to another engine goes over by a lane: a bounded channel for each engine,
//! without a lock, through which parcels of packets change hands and come back empty.

mod datapath;
mod demux;
mod membership;
mod packet_batch;
mod sender;
mod wakeup;

pub use datapath::ChannelDatapath;
