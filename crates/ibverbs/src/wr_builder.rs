//! Work requests of the extended interface, gathered between `ibv_wr_start` and `ibv_wr_complete`.

use crate::errno::{Errno, INVALID};
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use uroce_device::Device;
use uroce_device::memory::Sge;
use uroce_device::transport::{SendData, SendFlags, SendOp, SendWr, UdDestination};
use uroce_device::wire::Qpn;

/// Work requests that are posted under one lock.
const BATCH: usize = 16;

/// The requests of a queue pair that are being written. One thread at a time has it, from start to
/// complete or abort; others wait.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    draft: Mutex<Draft>,
    free: Condvar,
}

/// Its memory is kept from one list to the next.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    open: bool,
    requests: Vec<Request>,
    sges: Vec<Sge>,
    bytes: Vec<u8>,
    error: Option<Errno>,
}

#[derive(Debug)]
struct Request {
    wr_id: u64,
    op: SendOp,
    flags: SendFlags,
    data: Data,
    ud: Option<UdDestination>,
    srqn: Option<u32>,
}

/// Places in [`Draft`].
#[derive(Debug)]
enum Data {
    Sges(Range<usize>),
    Inline(Range<usize>),
}

impl Builder {
    fn lock(&self) -> MutexGuard<'_, Draft> {
        self.draft.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a list.
    pub(crate) fn start(&self) {
        let draft = self.lock();
        let waited = self.free.wait_while(draft, |draft| draft.open);
        let mut draft = waited.unwrap_or_else(PoisonError::into_inner);
        draft.clear();
        draft.open = true;
    }

    /// Adds to the list.
    pub(crate) fn edit(&self, change: impl FnOnce(&mut Draft)) {
        change(&mut self.lock());
    }

    /// Forgets the list.
    pub(crate) fn abort(&self) {
        self.lock().clear();
        self.free.notify_one();
    }

    /// Posts the list. If it was written wrongly, nothing is posted.
    pub(crate) fn complete(&self, device: &Device, qpn: Qpn) -> Result<(), Errno> {
        let mut draft = self.lock();
        let posted = draft.post(device, qpn);
        draft.clear();
        self.free.notify_one();
        posted
    }
}

impl Draft {
    fn clear(&mut self) {
        self.open = false;
        self.requests.clear();
        self.sges.clear();
        self.bytes.clear();
        self.error = None;
    }

    /// The list cannot be posted any more; the first reason is the one that is reported.
    pub(crate) fn refuse(&mut self, errno: Errno) {
        self.error.get_or_insert(errno);
    }

    /// The next request; what is set afterwards belongs to it.
    pub(crate) fn add(&mut self, wr_id: u64, flags: u32, op: SendOp) {
        let flags = SendFlags::from_bits_truncate(flags) - SendFlags::INLINE;
        let data = Data::Sges(0..0);
        self.requests.push(Request { wr_id, op, flags, data, ud: None, srqn: None });
    }

    pub(crate) fn set_destination(&mut self, to: UdDestination) {
        match self.requests.last_mut() {
            Some(request) => request.ud = Some(to),
            None => self.refuse(INVALID),
        }
    }

    pub(crate) fn set_srqn(&mut self, number: u32) {
        match self.requests.last_mut() {
            Some(request) => request.srqn = Some(number),
            None => self.refuse(INVALID),
        }
    }

    pub(crate) fn set_sges(&mut self, sges: &[Sge]) {
        let start = self.sges.len();
        self.sges.extend_from_slice(sges);
        self.set_data(Data::Sges(start..self.sges.len()), SendFlags::empty());
    }

    /// Inline data in several pieces, which are joined.
    pub(crate) fn set_inline<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) {
        let start = self.bytes.len();
        pieces.for_each(|piece| self.bytes.extend_from_slice(piece));
        self.set_data(Data::Inline(start..self.bytes.len()), SendFlags::INLINE);
    }

    fn set_data(&mut self, data: Data, flag: SendFlags) {
        match self.requests.last_mut() {
            Some(request) => {
                request.data = data;
                request.flags = (request.flags - SendFlags::INLINE) | flag;
            }
            None => self.refuse(INVALID),
        }
    }

    fn post(&self, device: &Device, qpn: Qpn) -> Result<(), Errno> {
        if let Some(errno) = self.error {
            return Err(errno);
        }
        self.requests.chunks(BATCH).try_for_each(|some| self.post_some(some, device, qpn))
    }

    fn post_some(&self, some: &[Request], device: &Device, qpn: Qpn) -> Result<(), Errno> {
        let mut pieces: [&[u8]; BATCH] = [&[]; BATCH];
        for (piece, request) in pieces.iter_mut().zip(some) {
            if let Data::Inline(range) = &request.data {
                *piece = &self.bytes[range.clone()];
            }
        }
        let nothing = SendWr {
            wr_id: 0,
            op: SendOp::Send,
            flags: SendFlags::empty(),
            data: SendData::default(),
            ud: None,
            srqn: None,
        };
        let mut batch = [nothing; BATCH];
        for ((wr, request), piece) in batch.iter_mut().zip(some).zip(&pieces) {
            let data = match &request.data {
                Data::Sges(range) => SendData::Sges(&self.sges[range.clone()]),
                Data::Inline(_) => SendData::Inline(std::slice::from_ref(piece)),
            };
            let Request { wr_id, op, flags, ud, srqn, .. } = *request;
            *wr = SendWr { wr_id, op, flags, data, ud, srqn };
        }
        device.post_send(qpn, &batch[..some.len()]).map_err(|(_, error)| error.into())
    }
}
