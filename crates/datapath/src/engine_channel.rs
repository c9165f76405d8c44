//! Several engines of one process on an address that the process has for itself.
//!
//! Each engine has a slot, as processes on a shared address do, and an inner datapath that receives
//! what the kernel steers to it. Packets of another engine are redirected by a bounded channel
//! without a lock, one for each engine. Batches of packets go through the channel, and their
//! buffers come back empty.

mod datapath;
mod demux;
mod membership;
mod packet_batch;
mod sender;
mod wakeup;

pub use datapath::ChannelDatapath;
