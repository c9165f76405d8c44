//! The queue pair of a socket, with its completion queue and channel.

use std::os::fd::RawFd;
use std::sync::Arc;

use uroce_device::memory::{Rkey, Sge};
use uroce_device::transport::{
    Notify, RecvWr, SendData, SendFlags, SendOp, SendWr, UdDestination, Wc,
};
use uroce_device::wire::Qpn;
use uroce_ibverbs::cq::explain;
use uroce_ibverbs::errno::Errno;
use uroce_rdmacm::{OwnedId, OwnedQueuePair, QueueSizes};

use crate::deadline::Asleep;
use crate::protocol::Iomap;

/// Marks the completions of receives.
const RECEIVE: u64 = 1 << 63;
/// Receives that are posted under one lock.
const BATCH: usize = 16;

/// Where an RDMA WRITE goes, and what is said with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write {
    pub va: u64,
    pub rkey: u32,
    /// `None`: the peer is not told of it.
    pub imm: Option<u32>,
    pub wr_id: u64,
}

/// A queue pair that belongs to an id.
#[derive(Debug)]
pub(crate) struct QueuePair {
    inner: OwnedQueuePair,
    /// The next completion makes the descriptor readable.
    armed: bool,
}

impl QueuePair {
    /// A queue pair for this id, which must have its device.
    pub fn new(
        id: &Arc<OwnedId>,
        is_datagram: bool,
        sends: u32,
        receives: u32,
    ) -> Result<QueuePair, Errno> {
        let sizes = QueueSizes { is_datagram, sends, receives, inline: Iomap::LEN as u32 };
        Ok(QueuePair { inner: OwnedQueuePair::new(id, sizes)?, armed: false })
    }

    /// # Errors
    /// ECONNRESET: the queue pair takes nothing any more.
    pub fn post_receives(&self, mut count: usize) -> Result<(), Errno> {
        let batch = [RecvWr::new(RECEIVE, &[]); BATCH];
        while count > 0 {
            let now = count.min(BATCH);
            self.inner.device().post_recv(self.inner.qpn(), &batch[..now]).map_err(|_| RESET)?;
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
        self.inner.device().post_recv(self.inner.qpn(), &[receive]).map_err(|_| RESET)
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
        self.inner.device().post_send(self.inner.qpn(), &[wr]).map_err(|(_, error)| {
            uroce_ibverbs::log::explain(&error);
            RESET
        })
    }

    /// Takes completions, and lets the device work.
    pub fn poll(&self, out: &mut [Wc]) -> usize {
        let count = self.inner.device().poll_cq(self.inner.cq(), out).unwrap_or(0);
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
        self.inner.qpn()
    }

    /// From the next completion on the descriptor is readable; true if that is news, so that one more look is due. What made it
    /// readable before is forgotten, unless it is to wake another thread.
    pub fn arm(&mut self, asleep: &Asleep<'_>) -> bool {
        if !asleep.is_beside_a_long_sleeper() {
            self.take_event();
        }
        let news = !self.armed;
        if news {
            // The completion queue is there as long as this is.
            let _ = self.inner.device().req_notify(self.inner.cq(), Notify::Next);
            self.armed = true;
        }
        news
    }

    fn take_event(&mut self) {
        if self.armed && self.inner.events().try_event().is_some() {
            self.armed = false;
        }
    }

    pub fn fd(&self) -> RawFd {
        self.inner.fd()
    }

    /// Bytes of a packet.
    pub fn segment(&self) -> usize {
        self.inner.device().active_mtu().bytes()
    }
}

const RESET: Errno = Errno(libc::ECONNRESET);
