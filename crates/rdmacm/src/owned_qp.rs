//! Queue pairs that Rust code owns.

use std::os::fd::RawFd;
use std::ptr::null_mut;
use std::sync::Arc;

use libc::c_int;
use uroce_device::transport::CqId;
use uroce_device::wire::Qpn;
use uroce_device::{CompChannel, Device};
use uroce_ibverbs::channel::{channel_of, ibv_create_comp_channel, ibv_destroy_comp_channel};
use uroce_ibverbs::cq::cq_of;
use uroce_ibverbs::cq_create::{ibv_create_cq, ibv_destroy_cq};
use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_ibverbs::object::zeroed;
use uroce_ibverbs::open_device::OpenDevice;
use uroce_verbs_abi::{IBV_QPT_RC, IBV_QPT_UD, ibv_comp_channel, ibv_cq, ibv_qp_init_attr};

use crate::OwnedId;
use crate::queue_pair::{rdma_create_qp, rdma_destroy_qp};
use crate::wait::done;

/// The type of a queue pair, and how long its queues are.
#[derive(Debug, Clone, Copy)]
pub struct QueueSizes {
    /// UD; else RC.
    pub is_datagram: bool,
    /// Send work requests.
    pub sends: u32,
    /// Receive work requests.
    pub receives: u32,
    /// Inline bytes of a send work request.
    pub inline: u32,
}

/// The queue pair of an id, with a completion queue and a channel of its own.
#[derive(Debug)]
pub struct OwnedQueuePair {
    id: Arc<OwnedId>,
    c_channel: *mut ibv_comp_channel,
    c_cq: *mut ibv_cq,
    open_device: Arc<OpenDevice>,
    events: CompChannel,
    cq: CqId,
    qpn: Qpn,
}

// SAFETY: the objects may be used by any thread, and have no other owner.
unsafe impl Send for OwnedQueuePair {}

impl OwnedQueuePair {
    /// The queue pair of an id, which must have its device. Each work request completes.
    ///
    /// # Errors
    /// EINVAL: the id has a queue pair. Else what the device says.
    pub fn new(id: &Arc<OwnedId>, sizes: QueueSizes) -> Result<OwnedQueuePair, Errno> {
        let (open_device, c_id) = (id.open_device()?, id.as_ptr());
        let one_call = id.lock();
        // SAFETY: the id lives as long as `id`; each object is used by the next one only.
        unsafe {
            if !(*c_id).qp.is_null() {
                // Of another object of this kind, which destroys it.
                return Err(INVALID);
            }
            let c_channel = ibv_create_comp_channel((*c_id).verbs);
            let events = channel_of(c_channel).ok_or_else(Errno::last)?.events.clone();
            let size = c_int::try_from(sizes.sends + sizes.receives).unwrap_or(c_int::MAX);
            let c_cq = ibv_create_cq((*c_id).verbs, size, null_mut(), c_channel, 0);
            let Ok(cq) = cq_of(c_cq).map(|cq| cq.id) else {
                let why = Errno::last();
                ibv_destroy_comp_channel(c_channel);
                return Err(why);
            };
            let (id, qpn) = (Arc::clone(id), Qpn::new(0));
            let mut made = OwnedQueuePair { id, c_channel, c_cq, open_device, events, cq, qpn };
            let mut init: ibv_qp_init_attr = zeroed();
            init.qp_type = if sizes.is_datagram { IBV_QPT_UD } else { IBV_QPT_RC };
            init.sq_sig_all = 1;
            (init.send_cq, init.recv_cq) = (c_cq, c_cq);
            (init.cap.max_send_wr, init.cap.max_recv_wr) = (sizes.sends, sizes.receives);
            (init.cap.max_send_sge, init.cap.max_recv_sge) = (2, 1);
            init.cap.max_inline_data = sizes.inline;
            let created = done(rdma_create_qp(c_id, null_mut(), &raw mut init));
            // To drop what was made takes the lock as well.
            drop(one_call);
            created?;
            made.qpn = Qpn::new((*(*c_id).qp).qp_num);
            Ok(made)
        }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.open_device.device
    }

    /// Its number.
    pub fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// Where its work requests complete.
    pub fn cq(&self) -> CqId {
        self.cq
    }

    /// The channel of its completion queue.
    pub fn events(&self) -> &CompChannel {
        &self.events
    }

    /// The descriptor of the channel: readable while an event waits.
    pub fn fd(&self) -> RawFd {
        // SAFETY: the channel lives as long as this.
        unsafe { (*self.c_channel).fd }
    }
}

impl Drop for OwnedQueuePair {
    fn drop(&mut self) {
        let _one_call = self.id.lock();
        let id = self.id.as_ptr();
        // SAFETY: the id lives as long as `self.id`, and the objects have no other owner.
        unsafe {
            if !(*id).qp.is_null() {
                rdma_destroy_qp(id);
            }
            ibv_destroy_cq(self.c_cq);
            ibv_destroy_comp_channel(self.c_channel);
        }
    }
}
