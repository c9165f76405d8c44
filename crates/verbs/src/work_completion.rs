//! Work completions.

use std::time::Duration;

use thiserror::Error;
pub use uroce_device::transport::Wc as WorkCompletion;
/// ```
/// use std::{error::Error, time::Duration};
/// use uroce_verbs::*;
///
/// fn main() -> Result<(), Box<dyn Error>> {
///     let fabric = LoopbackFabric::new();
///     let open = |ip: [u8; 4]| Context::builder().address(ip).loopback(&fabric).open();
///     let (client, server) = (open([10, 0, 0, 1])?, open([10, 0, 0, 2])?);
///     let cq = client.create_cq(16)?;
///     let qp = client.alloc_pd()?.qp_builder(QpType::Rc, &cq, &cq).build()?;
///     let (pd, server_cq) = (server.alloc_pd()?, server.create_cq(16)?);
///     let peer = pd.qp_builder(QpType::Rc, &server_cq, &server_cq).build()?;
///     qp.connect(&peer.endpoint(), &ConnectOptions::default())?;
///     peer.connect(&qp.endpoint(), &ConnectOptions::default())?;
///
///     // The peer may read this region, but the request is a WRITE.
///     let memory = pd.alloc_mr(4096, Access::REMOTE_READ)?;
///     qp.post_send(&[SendWr::write(1, &[], memory.remote()).inline(b"hello")])?;
///     let error = cq.wait_one(Duration::from_secs(5))?.result().expect_err("no right to write");
///     assert_eq!(error.0.status, WcStatus::RemAccessErr);
///     assert!(error.to_string().contains("check the rkey, the address range, the access flags"));
///     Ok(())
/// }
/// ```
pub use uroce_device::transport::WorkError;

/// No completion came in the time given: the work request was not [signaled](crate::SendWr::signaled), the peer sends
/// nothing, or its retries still go on (with the defaults of [`ConnectOptions`](crate::ConnectOptions) a
/// peer that is gone is noticed within two seconds).
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "no completion within {waited:?}: was the work request signalled, and is the peer connected?"
)]
pub struct WaitError {
    /// How long the call waited.
    pub waited: Duration,
}

uroce_memory::debug_is_display!(WaitError);
