//! The service's side.

mod admission;
mod attached;
mod demux;
mod link_table;
mod links;
mod memo;
mod port;
mod serve;
mod spin;

pub use serve::{PortService, ServiceOptions};
