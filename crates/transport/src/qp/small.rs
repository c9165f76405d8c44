//! The short way of a requester for small messages.
//!
//! A SEND or WRITE of one entry that fits into one packet, on its first way out, needs its headers and one
//! copy. As with [`middle`](super::middle), the long way gives the same bytes
//! (`r19_the_short_way_of_a_small_message_writes_what_the_long_way_writes`), and decides about whatever is
//! not known here.

use uroce_wire::{Bth, Header, ICRC_LEN, Opcode, Reth};

use crate::attr::{QpState, QpType};
use crate::context::{Context, Step, Transmit};
use crate::qp::QueuePair;
use crate::qp::segment::pad_of;
use crate::qp::send_queue::SendWqe;
use crate::time::Instant;
use crate::wr::{SendFlags, SendOp};

impl QueuePair {
    /// The next packet if it is such a message and may go out.
    #[inline]
    pub(crate) fn poll_small(
        &mut self,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        let wqe = self.send_queue.get(self.requester.cursor)?;
        let sge = wqe.only_sge().filter(|_| self.is_small(wqe))?;
        if !self.window_has_room(1) {
            return None;
        }
        let (length, psn) = (wqe.length as usize, self.requester.psn);
        let (pad, mut start) = (pad_of(length), Bth::LEN);
        let mut bth = Bth::new(Opcode::RC_SEND_ONLY, self.peer_qpn(), psn);
        bth.pad = pad as u8;
        bth.ack_req = !self.spares_ack(wqe) || self.wants_ack_within();
        if let SendOp::Write { va, rkey } = wqe.op {
            bth.opcode = Opcode::RC_WRITE_ONLY;
            Reth { va, rkey: rkey.0, length: length as u32 }.write(out.get_mut(Bth::LEN..)?)?;
            start += Reth::LEN;
        }
        bth.write(out)?;
        let (body, behind) = out.get_mut(start..)?.split_at_mut_checked(length)?;
        cx.mem.gather(self.init.pd, std::slice::from_ref(sge), 0, body).ok()?;
        if pad > 0 {
            behind.get_mut(..pad)?.fill(0);
        }
        cx.counters.rdma_sends += u64::from(start > Bth::LEN);
        self.pass_small(now, bth.ack_req);
        let len = start + length + pad + ICRC_LEN;
        Some(Transmit { len, path: self.path(), step: Step::Ends })
    }

    /// Only such messages, and nothing that has to go out before them.
    #[inline]
    fn is_small(&self, wqe: &SendWqe) -> bool {
        let plain = SendFlags::SIGNALED;
        matches!(wqe.op, SendOp::Send | SendOp::Write { .. })
            && self.init.qp_type == QpType::Rc
            && self.state == QpState::Rts
            && (1..=self.mtu()).contains(&wqe.length)
            && plain.contains(wqe.flags)
            && !wqe.numbered
            && self.requester.middle.is_none()
            && self.requester.sends_new()
    }

    /// Bookkeeping behind such a packet, as `note_sent` does it for others.
    #[inline]
    fn pass_small(&mut self, now: Instant, asked: bool) {
        let requester = &mut self.requester;
        let psn = requester.psn;
        if let Some(wqe) = self.send_queue.get_mut(requester.cursor) {
            wqe.numbered = true;
            wqe.first_psn = psn;
            wqe.psn_count = 1;
        }
        if asked {
            requester.tail_probe.note_asked(psn, now);
        }
        requester.note_ack_request(asked);
        requester.psn = psn.add(1);
        requester.next_new = requester.psn;
        requester.cursor += 1;
        self.arm_ack_timer(now);
    }
}
