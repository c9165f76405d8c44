//! The queue pair of a socket, with its completion queue and channel.

use std::ptr::null_mut;
use std::sync::Arc;

use libc::c_int;
use uroce_device::CompChannel;
use uroce_device::memory::{Rkey, Sge};
use uroce_device::transport::{
    CqId, Notify, RecvWr, SendData, SendFlags, SendOp, SendWr, UdDestination, Wc,
};
use uroce_device::wire::Qpn;

use crate::abi::{ibv_comp_channel, ibv_cq, ibv_qp_init_attr};
use crate::card::Card;
use crate::channel::{channel_of, ibv_create_comp_channel, ibv_destroy_comp_channel};
use crate::cq::{cq_of, explain, ibv_create_cq, ibv_destroy_cq};
use crate::errno::Errno;
use crate::object::zeroed;
use crate::rdmacm::abi::rdma_cm_id;
use crate::rdmacm::endpoint::done;
use crate::rdmacm::queue_pair::{rdma_create_qp, rdma_destroy_qp};

/// `IBV_QPT_RC` and `IBV_QPT_UD`.
const RC: c_int = 2;
const UD: c_int = 4;
/// Marks the completions of receives.
const RECEIVE: u64 = 1 << 63;
/// Receives that are posted under one lock.
const BATCH: usize = 16;

/// Where an RDMA WRITE goes, and what is said with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write {
    pub va: u64,
    pub rkey: u32,
    /// `None`: the peer is not told of it.
    pub imm: Option<u32>,
    pub wr_id: u64,
}

/// What a queue pair is for, and how long its queues are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub is_datagram: bool,
    pub sends: u32,
    pub receives: u32,
}

/// A queue pair that belongs to an id.
#[derive(Debug)]
pub(super) struct Link {
    id: *mut rdma_cm_id,
    c_channel: *mut ibv_comp_channel,
    c_cq: *mut ibv_cq,
    card: Arc<Card>,
    events: CompChannel,
    cq: CqId,
    qpn: Qpn,
    armed: bool,
}

// SAFETY: the objects may be used by any thread, and nobody else has them.
unsafe impl Send for Link {}

impl Link {
    /// A queue pair for this id, which must have its device.
    ///
    /// # Safety
    /// The id is alive, and outlives the result.
    pub unsafe fn new(id: *mut rdma_cm_id, card: Arc<Card>, shape: Shape) -> Result<Link, Errno> {
        let Shape { is_datagram, sends, receives } = shape;
        // SAFETY: by the caller's promise; each object is used by the next one only.
        unsafe {
            let c_channel = ibv_create_comp_channel((*id).verbs);
            let events = channel_of(c_channel).ok_or_else(Errno::last)?.events.clone();
            let size = c_int::try_from(sends + receives).unwrap_or(c_int::MAX);
            let c_cq = ibv_create_cq((*id).verbs, size, null_mut(), c_channel, 0);
            let Ok(cq) = cq_of(c_cq).map(|cq| cq.id) else {
                let why = Errno::last();
                ibv_destroy_comp_channel(c_channel);
                return Err(why);
            };
            let mut link =
                Link { id, c_channel, c_cq, card, events, cq, qpn: Qpn::new(0), armed: false };
            let mut init: ibv_qp_init_attr = zeroed();
            (init.qp_type, init.sq_sig_all) = (if is_datagram { UD } else { RC }, 1);
            (init.send_cq, init.recv_cq) = (c_cq, c_cq);
            (init.cap.max_send_wr, init.cap.max_recv_wr) = (sends, receives);
            (init.cap.max_send_sge, init.cap.max_recv_sge) = (2, 1);
            init.cap.max_inline_data = super::protocol::Iomap::LEN as u32;
            done(rdma_create_qp(id, null_mut(), &raw mut init))?;
            link.qpn = Qpn::new((*(*id).qp).qp_num);
            Ok(link)
        }
    }

    /// # Errors
    /// ECONNRESET: the queue pair takes nothing any more.
    pub fn post_receives(&self, mut count: usize) -> Result<(), Errno> {
        let batch = [RecvWr::new(RECEIVE, &[]); BATCH];
        while count > 0 {
            let now = count.min(BATCH);
            self.card.device.post_recv(self.qpn, &batch[..now]).map_err(|_| RESET)?;
            count -= now;
        }
        Ok(())
    }

    /// One receive, for a message that is kept at this place.
    ///
    /// # Errors
    /// ECONNRESET: the queue pair takes nothing any more.
    pub fn post_receive(&self, place: u64, to: Sge) -> Result<(), Errno> {
        let to = [to];
        let receive = RecvWr::new(RECEIVE | place, &to);
        self.card.device.post_recv(self.qpn, &[receive]).map_err(|_| RESET)
    }

    /// Sends a datagram that is kept at this place.
    ///
    /// # Errors
    /// ECONNRESET: the queue pair takes nothing any more.
    pub fn send_to(&self, to: UdDestination, from: Sge, place: u64) -> Result<(), Errno> {
        self.post_send(place, SendOp::Send, SendData::Sges(&[from]), Some(to))
    }

    /// Writes registered memory of ours to the peer.
    ///
    /// # Errors
    /// ECONNRESET: the queue pair takes nothing any more.
    pub fn write(&self, write: Write, from: &[Sge]) -> Result<(), Errno> {
        self.post(write, SendData::Sges(from))
    }

    /// Writes a few bytes to the peer.
    ///
    /// # Errors
    /// ECONNRESET: the queue pair takes nothing any more.
    pub fn write_inline(&self, write: Write, bytes: &[u8]) -> Result<(), Errno> {
        self.post(write, SendData::Inline(&[bytes]))
    }

    fn post(&self, write: Write, data: SendData<'_>) -> Result<(), Errno> {
        let (va, rkey) = (write.va, Rkey(write.rkey));
        let op = match write.imm {
            Some(imm) => SendOp::WriteWithImm { va, rkey, imm },
            None => SendOp::Write { va, rkey },
        };
        self.post_send(write.wr_id, op, data, None)
    }

    fn post_send(
        &self,
        wr_id: u64,
        op: SendOp,
        data: SendData<'_>,
        ud: Option<UdDestination>,
    ) -> Result<(), Errno> {
        let wr = SendWr { wr_id, op, flags: SendFlags::SIGNALED, data, ud, srqn: None };
        self.card.device.post_send(self.qpn, &[wr]).map_err(|(_, error)| {
            crate::log::explain(&error);
            RESET
        })
    }

    /// Takes completions, and lets the device work.
    pub fn poll(&self, out: &mut [Wc]) -> usize {
        let count = self.card.device.poll_cq(self.cq, out).unwrap_or(0);
        out[..count].iter().for_each(explain);
        count
    }

    pub fn is_receive(wc: &Wc) -> bool {
        wc.wr_id & RECEIVE != 0
    }

    /// The place of the message that a completion is about.
    pub fn place_of(wc: &Wc) -> usize {
        (wc.wr_id & !RECEIVE) as usize
    }

    pub fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// From the next completion on the descriptor is readable; true if that is news, so that one more
    /// look is due.
    pub fn arm(&mut self) -> bool {
        let news = !self.armed;
        if news {
            // The completion queue is there as long as this is.
            let _ = self.card.device.req_notify(self.cq, Notify::Next);
            self.armed = true;
        }
        news
    }

    /// Forgets what made the descriptor readable.
    pub fn take_events(&mut self) {
        if self.armed && self.events.try_event().is_some() {
            self.armed = false;
        }
    }

    pub fn fd(&self) -> c_int {
        // SAFETY: the channel lives as long as this.
        unsafe { (*self.c_channel).fd }
    }

    /// Bytes of a packet.
    pub fn segment(&self) -> usize {
        self.card.device.port_attr().active_mtu.bytes()
    }
}

const RESET: Errno = Errno(libc::ECONNRESET);

impl Drop for Link {
    fn drop(&mut self) {
        // SAFETY: the id outlives this, and nobody uses the objects any more.
        unsafe {
            if !(*self.id).qp.is_null() {
                rdma_destroy_qp(self.id);
            }
            ibv_destroy_cq(self.c_cq);
            ibv_destroy_comp_channel(self.c_channel);
        }
    }
}
