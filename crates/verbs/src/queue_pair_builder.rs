//! How a queue pair is made.

use uroce_device::QpRequest;
use uroce_device::transport::{QpCaps, QpType};

use crate::completion_queue::CompletionQueue;
use crate::error::{CreateQueuePairError, ForeignObject};
use crate::protection_domain::ProtectionDomain;
use crate::queue_pair::QueuePair;
use crate::shared_receive_queue::SharedReceiveQueue;

/// Sizes and options of a queue pair that is to be made. Made by [`ProtectionDomain::qp_builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder makes nothing until build() is called"]
pub struct QueuePairBuilder<'a> {
    pd: &'a ProtectionDomain,
    qp_type: QpType,
    send_cq: &'a CompletionQueue,
    recv_cq: &'a CompletionQueue,
    srq: Option<&'a SharedReceiveQueue>,
    caps: QpCaps,
    signal_all: bool,
}

/// Sizes unless told otherwise.
const DEFAULT_CAPS: QpCaps = QpCaps {
    max_send_wr: 128,
    max_recv_wr: 128,
    max_send_sge: 4,
    max_recv_sge: 4,
    max_inline: 256,
};

impl ProtectionDomain {
    /// Starts to describe a queue pair (`ibv_create_qp`). Both queues may be the same one.
    pub fn qp_builder<'a>(
        &'a self,
        qp_type: QpType,
        send_cq: &'a CompletionQueue,
        recv_cq: &'a CompletionQueue,
    ) -> QueuePairBuilder<'a> {
        QueuePairBuilder::new(self, qp_type, send_cq, recv_cq)
    }
}

impl<'a> QueuePairBuilder<'a> {
    pub(crate) fn new(
        pd: &'a ProtectionDomain,
        qp_type: QpType,
        send_cq: &'a CompletionQueue,
        recv_cq: &'a CompletionQueue,
    ) -> Self {
        let (srq, caps, signal_all) = (None, DEFAULT_CAPS, false);
        QueuePairBuilder { pd, qp_type, send_cq, recv_cq, srq, caps, signal_all }
    }

    /// Send work requests that may be outstanding. Default: 128.
    pub fn max_send_wr(mut self, count: u32) -> Self {
        self.caps.max_send_wr = count;
        self
    }

    /// Receive work requests that may be outstanding. Default: 128.
    pub fn max_recv_wr(mut self, count: u32) -> Self {
        self.caps.max_recv_wr = count;
        self
    }

    /// Scatter/gather entries of one send work request. Default: 4.
    pub fn max_send_sge(mut self, count: u32) -> Self {
        self.caps.max_send_sge = count;
        self
    }

    /// Scatter/gather entries of one receive work request. Default: 4.
    pub fn max_recv_sge(mut self, count: u32) -> Self {
        self.caps.max_recv_sge = count;
        self
    }

    /// Inline bytes of one send work request ([`SendWr::inline`](crate::SendWr::inline)). Default: 256.
    pub fn max_inline(mut self, bytes: u32) -> Self {
        self.caps.max_inline = bytes;
        self
    }

    /// Sets all sizes at once.
    pub fn caps(mut self, caps: QpCaps) -> Self {
        self.caps = caps;
        self
    }

    /// The queue pair takes its receives from `srq` and has no receive queue of its own. Default: its own queue.
    pub fn srq(mut self, srq: &'a SharedReceiveQueue) -> Self {
        self.srq = Some(srq);
        self
    }

    /// Whether each send work request raises a completion on success, also one that is not
    /// [`signaled`](crate::SendWr::signaled) (`sq_sig_all`). Default: no.
    pub fn signal_all(mut self, wanted: bool) -> Self {
        self.signal_all = wanted;
        self
    }

    /// Makes the queue pair, in the state RESET.
    ///
    /// # Errors
    /// [`CreateQueuePairError`]: a size beyond the device's limit, an object of another device, ...
    pub fn build(self) -> Result<QueuePair, CreateQueuePairError> {
        self.check_device()?;
        let request = QpRequest {
            qp_type: self.qp_type,
            pd: self.pd.id(),
            send_cq: self.send_cq.id(),
            recv_cq: self.recv_cq.id(),
            srq: self.srq.map(SharedReceiveQueue::id),
            caps: self.caps,
            signal_all: self.signal_all,
        };
        QueuePair::new(&request, self.pd, [self.send_cq, self.recv_cq], self.srq)
    }

    fn check_device(&self) -> Result<(), ForeignObject> {
        let device = self.pd.context();
        let parents = [
            ("send completion queue", Some(self.send_cq.context())),
            ("receive completion queue", Some(self.recv_cq.context())),
            ("shared receive queue", self.srq.map(|srq| srq.pd().context())),
        ];
        for (what, context) in parents {
            if context.is_some_and(|context| !context.is(device)) {
                return Err(ForeignObject { what });
            }
        }
        Ok(())
    }
}
