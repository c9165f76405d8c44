//! Several processes on one address.

mod connections;
mod datapath;
mod demux;
mod inbox;
mod lease;
pub(crate) mod message;
mod namespace;
mod redirect_thread;
mod steer;
mod steering_probe;
mod steering_prober;

pub use datapath::SlotDatapath;
pub use namespace::slots_taken;
