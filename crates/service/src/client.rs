//! The client's side.

mod attachment;
mod datapath;
mod enquiry;
mod link;
mod links;
mod peer_links;
mod reconnect;

pub use attachment::AttachRefused;
pub use datapath::ServedDatapath;
pub use enquiry::{serves, status};

/// The client's end without a datapath, for tests of the service.
#[cfg(test)]
pub(crate) mod testing {
    use std::net::SocketAddr;
    use std::path::Path;

    pub(crate) use super::attachment::{Attachment, await_message};

    pub(crate) fn attach(socket: &Path, local: SocketAddr) -> Attachment {
        Attachment::open(socket, local).expect("a place")
    }
}
