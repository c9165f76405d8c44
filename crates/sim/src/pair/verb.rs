//! Requests as the device wants them.

use uroce_device::memory::{Lkey, Rkey};
use uroce_device::transport::SendOp;

use super::Pair;
use crate::request::{Mistake, Posted, Work};
use crate::windows::Windows;

impl Pair {
    /// The verb of a request, with the peer's address and key.
    pub(super) fn verb(&self, index: usize, posted: &Posted, va: u64, rkey: Rkey) -> SendOp {
        match posted.work {
            Work::Send { imm: None } => SendOp::Send,
            Work::Send { imm: Some(imm) } => SendOp::SendWithImm(imm),
            Work::SendInvalidate { window } => {
                SendOp::SendWithInvalidate(self.ends[1 - index].windows.rkey(window))
            }
            Work::Write { imm: None, .. } => SendOp::Write { va, rkey },
            Work::Write { imm: Some(imm), .. } => SendOp::WriteWithImm { va, rkey, imm },
            Work::Read { .. } => SendOp::Read { va, rkey },
            Work::FetchAdd { add, .. } => SendOp::FetchAdd { va, rkey, add },
            Work::CompareSwap { compare, swap, .. } => {
                SendOp::CompareSwap { va, rkey, compare, swap }
            }
            Work::AtomicWrite { .. } => SendOp::AtomicWrite { va, rkey },
            Work::Flush { .. } => {
                let length = posted.length as u32;
                SendOp::Flush { va, rkey, length, placement: 1, selectivity: 0 }
            }
            Work::Bind { window } | Work::Unbind { window } => self.bind(index, posted, window),
            Work::Invalidate { window } => {
                SendOp::LocalInvalidate(self.ends[index].windows.rkey(window))
            }
        }
    }

    /// A window over the whole arena, or over nothing.
    fn bind(&self, index: usize, posted: &Posted, window: usize) -> SendOp {
        let end = &self.ends[index];
        let (windows, Lkey(key)) = (&end.windows, end.arena.lkey());
        let is_bind = matches!(posted.work, Work::Bind { .. });
        let is_wrong = posted.mistake == Some(Mistake::Region);
        SendOp::BindMw {
            mw: windows.id(window),
            new_rkey: windows.next_rkey(window),
            mr: if is_wrong { Lkey(key ^ 0xff) } else { Lkey(key) },
            va: end.arena.base(),
            length: if is_bind { end.arena.len() } else { 0 },
            access: Windows::ACCESS,
        }
    }
}
