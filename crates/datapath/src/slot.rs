//! Several processes on one address.

mod allowance;
mod claim;
mod datapath;
mod inbox;
mod letter;
mod links;
mod place;
mod porter;
mod probe;
mod sorter;
mod steer;
mod survey;

pub use datapath::SlotDatapath;
pub use place::slots_taken;
pub use sorter::{Addressee, GsiAddressee};
