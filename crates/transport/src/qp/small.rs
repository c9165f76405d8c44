//! The short way of a requester for small messages.
//!
//! A SEND of one entry that fits into one packet, on its first way out, needs one header and one copy. As
//! with [`middle`](super::middle), the long way gives the same bytes
//! (`r19_the_short_way_of_a_small_message_writes_what_the_long_way_writes`), and decides about whatever is
//! not known here.

use uroce_wire::{Bth, Header, Opcode};

use crate::attr::{QpState, QpType};
use crate::context::{Context, Transmit};
use crate::qp::QueuePair;
use crate::qp::emit::ICRC_LEN;
use crate::qp::piece::{Piece, pad_of};
use crate::qp::send_queue::SendWqe;
use crate::time::Instant;
use crate::wr::{SendFlags, SendOp};

impl QueuePair {
    /// The next packet if it is such a message and may go out.
    #[inline(never)]
    pub(crate) fn poll_small(
        &mut self,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        let wqe = self.send_queue.get(self.requester.cursor)?;
        let usual = self.init.qp_type == QpType::Rc && self.state == QpState::Rts;
        if !usual || !self.is_small(wqe) || !self.window_has_room(1) {
            return None;
        }
        let (length, psn) = (wqe.length as usize, self.requester.psn);
        let mut bth = Bth::new(Opcode::RC_SEND_ONLY, self.peer_qpn(), psn);
        bth.pad = pad_of(length) as u8;
        bth.ack_req = self.wants_ack(wqe, &Piece::of(wqe, psn, self.mtu()));
        bth.write(out)?;
        let (body, behind) = out.get_mut(Bth::LEN..)?.split_at_mut_checked(length)?;
        let sge = *self.send_queue.only_sge(wqe)?;
        cx.mem.gather(self.init.pd, &[sge], 0, body).ok()?;
        let pad = pad_of(length);
        behind.get_mut(..pad)?.fill(0);
        self.pass_small(now, bth.ack_req);
        Some(Transmit { len: Bth::LEN + length + pad + ICRC_LEN, path: self.path() })
    }

    fn is_small(&self, wqe: &SendWqe) -> bool {
        let plain = SendFlags::SIGNALED;
        matches!(wqe.op, SendOp::Send)
            && (1..=self.mtu()).contains(&wqe.length)
            && plain.contains(wqe.flags)
            && !wqe.numbered
            && self.requester.psn == self.requester.next_new
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
        requester.middle = None;
        if asked && !requester.repair.is_under_way() {
            requester.probe.note_asked(psn, now);
        }
        requester.note_unrequested(asked);
        requester.psn = psn.add(1);
        requester.next_new = requester.psn;
        requester.cursor += 1;
        self.arm_ack_timer(now);
    }
}
