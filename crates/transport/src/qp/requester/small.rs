//! The short way of a requester for small messages.
//!
//! A SEND or WRITE of one entry that fits into one packet, on its first way out, needs its headers and one
//! copy. As with [`middle`](super::middle), the long way gives the same bytes
//! (`r19_the_short_way_of_a_small_message_writes_what_the_long_way_writes`), and decides about whatever is
//! not known here.

use uroce_wire::{Bth, Header, ICRC_LEN, Opcode, Reth};

use crate::attr::{QpState, QpType};
use crate::context::{Context, Step, Transmit};
use crate::qp::config::QpConfig;
use crate::qp::config::pad_of;
use crate::qp::requester::Requester;
use crate::qp::requester::send_queue::SendWqe;
use crate::time::Instant;
use crate::wr::{SendFlags, SendOp};

impl Requester {
    /// The next packet if it is such a message and may go out.
    #[inline]
    pub(crate) fn poll_small(
        &mut self,
        config: &QpConfig,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        let wqe = self.send_queue.get(self.cursor)?;
        let sge = wqe.only_sge().filter(|_| self.is_small(config, wqe))?;
        if !self.window_has_room(config, 1) {
            return None;
        }
        let (length, psn) = (wqe.length as usize, self.psn);
        let (pad, mut start) = (pad_of(length), Bth::LEN);
        let mut bth = Bth::new(Opcode::RC_SEND_ONLY, config.peer_qpn(), psn);
        bth.pad = pad as u8;
        bth.ack_req = !self.spares_ack(config, wqe) || self.wants_ack_within(config);
        if let SendOp::Write { va, rkey } = wqe.op {
            bth.opcode = Opcode::RC_WRITE_ONLY;
            Reth { va, rkey: rkey.0, length: length as u32 }.write(out.get_mut(Bth::LEN..)?)?;
            start += Reth::LEN;
        }
        bth.write(out)?;
        let (body, behind) = out.get_mut(start..)?.split_at_mut_checked(length)?;
        cx.mem.gather(config.init.pd, std::slice::from_ref(sge), 0, body).ok()?;
        if pad > 0 {
            behind.get_mut(..pad)?.fill(0);
        }
        cx.counters.rdma_sends += u64::from(start > Bth::LEN);
        self.pass_small(config, now, bth.ack_req);
        let len = start + length + pad + ICRC_LEN;
        Some(Transmit { len, path: config.path(), step: Step::Ends })
    }

    /// Only such messages, and nothing that has to go out before them.
    #[inline]
    fn is_small(&self, config: &QpConfig, wqe: &SendWqe) -> bool {
        let plain = SendFlags::SIGNALED;
        matches!(wqe.op, SendOp::Send | SendOp::Write { .. })
            && config.init.qp_type == QpType::Rc
            && config.state == QpState::Rts
            && (1..=config.mtu()).contains(&wqe.length)
            && plain.contains(wqe.flags)
            && !wqe.numbered
            && self.middle.is_none()
            && self.sends_new()
    }

    /// Bookkeeping behind such a packet, as `note_sent` does it for others.
    #[inline]
    fn pass_small(&mut self, config: &QpConfig, now: Instant, asked: bool) {
        let psn = self.psn;
        if let Some(wqe) = self.send_queue.get_mut(self.cursor) {
            wqe.numbered = true;
            wqe.first_psn = psn;
            wqe.psn_count = 1;
        }
        if asked {
            self.tail_probe.note_asked(psn, now);
        }
        self.note_ack_request(asked);
        self.psn = psn.add(1);
        self.next_new = self.psn;
        self.cursor += 1;
        self.arm_ack_timer(config, now);
    }
}
