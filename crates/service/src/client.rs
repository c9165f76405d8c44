//! The client's side.

mod attachment;
mod datapath;
mod enquiry;

pub use attachment::AttachRefused;
pub use datapath::ServedDatapath;
pub use enquiry::{serves, status};
