//! Connections by address and port, with the nouns of rdma_cm.

mod cm_id;
mod conn_param;
mod error;
mod event;
mod event_channel;
mod registry;

pub use cm_id::{CmId, RDMA_UDP_QKEY};
pub use conn_param::ConnParam;
pub use error::CmIdError;
pub use event::CmEvent;
pub use event_channel::EventChannel;
