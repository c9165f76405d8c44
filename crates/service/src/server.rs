//! The service's side.

mod admission;
mod attached;
mod demux;
mod memo;
mod port;
mod serve;

pub use serve::{PortService, ServiceOptions};
