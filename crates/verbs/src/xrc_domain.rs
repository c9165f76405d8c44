//! XRC domains.

use std::sync::Arc;

use uroce_device::CreateError;
use uroce_device::transport::XrcdId;

use crate::completion_queue::CompletionQueue;
use crate::context::Context;
use crate::protection_domain::ProtectionDomain;

/// An XRC domain (`ibv_xrcd`): shared receive queues, and the connections that may reach all of them.
/// A clone is the same domain.
///
/// Of an extended reliable connection one end requests and the other responds. A program that talks to
/// a host has one connection to it, and each message names the shared receive queue that it is for:
///
/// ```
/// use std::{error::Error, net::IpAddr, time::Duration};
/// use uroce_verbs::*;
///
/// fn main() -> Result<(), Box<dyn Error>> {
///     let fabric = LoopbackFabric::new();
///     let open = |ip: &str| -> Result<Context, Box<dyn Error>> {
///         Ok(Context::builder().address(ip.parse::<IpAddr>()?).loopback(&fabric).open()?)
///     };
///     let (client, server) = (open("10.0.0.1")?, open("10.0.0.2")?);
///
///     // The server: a domain with two queues, and a target that serves both.
///     let domain = server.open_xrcd()?;
///     let (pd, cq) = (server.alloc_pd()?, server.create_cq(16)?);
///     let buffers = pd.alloc_mr(4096, Access::LOCAL_WRITE)?;
///     let first = pd.create_xrc_srq(&domain, &cq, 8, 1)?;
///     let second = pd.create_xrc_srq(&domain, &cq, 8, 1)?;
///     first.post_recv(&[RecvWr::new(1, &[buffers.sge(..64)])])?;
///     second.post_recv(&[RecvWr::new(2, &[buffers.sge(64..128)])])?;
///     let target = domain.create_target()?;
///
///     // The client: one initiator.
///     let client_cq = client.create_cq(16)?;
///     let qp = client.alloc_pd()?.qp_builder(QpType::XrcIni, &client_cq, &client_cq).build()?;
///     qp.connect(&target.endpoint(), &ConnectOptions::default())?;
///     target.connect(&qp.endpoint(), &ConnectOptions::default())?;
///
///     for (srq, text) in [(&second, b"to the second"), (&first, b"to the first!")] {
///         qp.post_send(&[SendWr::send(0, &[]).inline(text).to_srq(srq.number()).signaled()])?;
///         client_cq.wait_one(Duration::from_secs(5))?.result()?;
///     }
///     assert_eq!(cq.wait_one(Duration::from_secs(5))?.result()?.wr_id, 2);
///     assert_eq!(cq.wait_one(Duration::from_secs(5))?.result()?.wr_id, 1);
///     Ok(())
/// }
/// ```
///
/// WRITE, READ and atomics name a shared receive queue as well: they reach the memory of its
/// protection domain. A domain is known inside its process only: processes that share one address
/// have domains of their own.
#[derive(Debug, Clone)]
pub struct XrcDomain {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    id: XrcdId,
    /// What targets have for their own; nothing is registered in it.
    pd: ProtectionDomain,
    /// The same, and nothing completes to it.
    cq: CompletionQueue,
}

impl Context {
    /// Makes an XRC domain (`ibv_open_xrcd`). It cannot be opened a second time; its clones are the same domain.
    ///
    /// # Errors
    /// [`CreateError`]: the device has its limit of protection domains or completion queues.
    pub fn open_xrcd(&self) -> Result<XrcDomain, CreateError> {
        XrcDomain::new(self)
    }
}

impl XrcDomain {
    pub(crate) fn new(context: &Context) -> Result<Self, CreateError> {
        let limit = context.query_device().limits.max_pd;
        let pd = context
            .alloc_pd()
            .map_err(|_| CreateError::LimitReached { what: "protection domains", limit })?;
        let cq = context.create_cq(1)?;
        let id = context.device().xrc().open(pd.id(), cq.id())?;
        Ok(XrcDomain { inner: Arc::new(Inner { id, pd, cq }) })
    }

    /// The number of the domain inside its device.
    pub fn id(&self) -> XrcdId {
        self.inner.id
    }

    /// The protection domain and the completion queue that its targets have for their own.
    pub(crate) fn of_targets(&self) -> (&ProtectionDomain, &CompletionQueue) {
        (&self.inner.pd, &self.inner.cq)
    }

    /// The device of this domain.
    pub fn context(&self) -> &Context {
        self.inner.pd.context()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // It cannot be busy: each object of the domain holds a clone.
        let _ = self.pd.context().device().xrc().close(self.id);
    }
}
