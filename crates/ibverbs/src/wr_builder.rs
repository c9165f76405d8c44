//! Work requests of the extended interface, gathered between `ibv_wr_start` and `ibv_wr_complete`.

use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use uroce_device::Device;
use uroce_device::memory::{Rkey, Sge};
use uroce_device::transport::{SendData, SendFlags, SendOp, SendWr, UdDestination};
use uroce_device::wire::Qpn;

use crate::abi::ibv_mw;
use crate::errno::{Errno, INVALID};

/// The requests of a queue pair that are being written. One thread at a time has it, from start to
/// complete or abort; others wait. A thread that starts twice starts over.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    draft: Mutex<Draft>,
    free: Condvar,
}

/// Its memory is kept from one list to the next.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// The thread that is writing; 0: none.
    writer: usize,
    requests: Vec<Request>,
    sges: Vec<Sge>,
    bytes: Vec<u8>,
    /// Windows, by their address, and the keys that they get by being bound.
    binds: Vec<(u64, Rkey)>,
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
        let (draft, me) = (self.lock(), this_thread());
        let of_another = |draft: &mut Draft| draft.writer != 0 && draft.writer != me;
        let waited = self.free.wait_while(draft, of_another);
        let mut draft = waited.unwrap_or_else(PoisonError::into_inner);
        draft.clear();
        draft.writer = me;
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

    /// Posts the list, and tells `rekey` the windows (by their address) that it binds, with their keys. If
    /// a request was written wrongly or finds no room, nothing is posted.
    pub(crate) fn complete(
        &self,
        device: &Device,
        qpn: Qpn,
        rekey: impl Fn(u64, Rkey),
    ) -> Result<(), Errno> {
        let mut draft = self.lock();
        let posted = draft.post(device, qpn);
        if posted.is_ok() {
            draft.binds.iter().for_each(|&(mw, key)| rekey(mw, key));
        }
        draft.clear();
        self.free.notify_one();
        posted
    }
}

impl Draft {
    fn clear(&mut self) {
        self.writer = 0;
        self.requests.clear();
        self.sges.clear();
        self.bytes.clear();
        self.binds.clear();
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

    /// The list binds this window, which has that key when the list is posted.
    pub(crate) fn note_bind(&mut self, mw: *mut ibv_mw, key: Rkey) {
        self.binds.push((mw.expose_provenance() as u64, key));
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

    /// All or none: "No work is executed to the queue until ibv_wr_complete() returns success".
    fn post(&self, device: &Device, qpn: Qpn) -> Result<(), Errno> {
        if let Some(errno) = self.error {
            return Err(errno);
        }
        let posted = device.post_send_all(qpn, self.requests.len(), |index, take| {
            let Request { wr_id, op, flags, ud, srqn, .. } = self.requests[index];
            let piece: &[u8];
            let data = match &self.requests[index].data {
                Data::Sges(range) => SendData::Sges(&self.sges[range.clone()]),
                Data::Inline(range) => {
                    piece = &self.bytes[range.clone()];
                    SendData::Inline(std::slice::from_ref(&piece))
                }
            };
            take(&SendWr { wr_id, op, flags, data, ud, srqn })
        });
        posted.map_err(|(_, error)| error.into())
    }
}

/// What tells this thread from others while it lives.
pub(crate) fn this_thread() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}
