//! The short way of a requester through a long message.
//!
//! The packets between the first and the last of a SEND or WRITE differ in PSN and payload only.
//! What they share is worked out once, behind the first; `emit_request` is the long way, and gives
//! the same bytes (`r19_the_short_way_writes_what_the_long_way_writes`). Whatever the short way does
//! not know, a closed window or a lost registration, it leaves to the long one.

use uroce_memory::Sge;
use uroce_wire::{Bth, HeaderWriter, ICRC_LEN, Opcode, Operation, Position, Psn, opcode_for};

use crate::attr::QpType;
use crate::context::{Context, Step, Transmit};
use crate::qp::config::QpConfig;
use crate::qp::requester::Requester;
use crate::qp::requester::segment::Segment;
use crate::qp::requester::send_queue::{Payload, SendWqe};
use crate::time::Instant;
use crate::wr::SendOp;

/// What follows the packet that was sent last, up to the last packet of its message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Middle {
    /// PSN of the next packet; the short way is taken only if that is what goes out next.
    pub(crate) psn: Psn,
    /// Packets left before the last one.
    pub(crate) left: u32,
    /// Where in `sge` the next packet's payload begins.
    pub(crate) offset: u64,
    pub(crate) sge: Sge,
    pub(crate) opcode: Opcode,
}

impl Requester {
    /// The middle packets behind `piece` of `wqe`, if they can go the short way.
    pub(crate) fn middle_behind(
        &self,
        config: &QpConfig,
        wqe: &SendWqe,
        psn: Psn,
        piece: &Segment,
    ) -> Option<Middle> {
        let operation = match wqe.op {
            SendOp::Write { .. } | SendOp::WriteWithImm { .. } => Operation::Write,
            SendOp::Send | SendOp::SendWithImm(_) | SendOp::SendWithInvalidate(_) => {
                Operation::Send
            }
            _ => return None,
        };
        let Payload::Sges(&[sge], []) = self.send_queue.payload(wqe) else {
            return None;
        };
        let offset = piece.offset + config.mtu();
        let last = wqe.length.checked_sub(offset + 1)? >> config.mtu_shift();
        let opcode = opcode_for(config.service(), operation, Position::Middle, false, false)?;
        Some(Middle { psn: psn.add(1), left: last as u32, offset, sge, opcode })
    }

    /// The next packet if it is such a middle packet and may go out.
    pub(crate) fn poll_middle(
        &mut self,
        config: &QpConfig,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        let middle = self.middle.filter(|middle| middle.left > 0)?;
        let reliable = config.init.qp_type.is_reliable();
        if middle.psn != self.psn || reliable && !self.window_has_room(config, 1) {
            return None;
        }
        let mut bth = Bth::new(middle.opcode, config.peer_qpn(), middle.psn);
        bth.ack_req = reliable && self.wants_ack_within(config);
        let mut writer = HeaderWriter::new(out);
        writer.put(&bth)?;
        if config.init.qp_type == QpType::XrcIni {
            let wqe = self.send_queue.get(self.cursor)?;
            writer.put(&self.xrceth_of(config, wqe)?)?;
        }
        let start = writer.len();
        let end = start + config.mtu() as usize;
        let body = out.get_mut(start..end)?;
        cx.mem.gather(config.init.pd, &[middle.sge], middle.offset, body).ok()?;
        self.pass_middle(config, now, &middle, 1, bth.ack_req, cx);
        Some(Transmit { len: end + ICRC_LEN, path: config.path(), step: Step::Within })
    }

    /// Bookkeeping behind middle packets, as `note_sent` does it for others.
    #[inline]
    pub(crate) fn pass_middle(
        &mut self,
        config: &QpConfig,
        now: Instant,
        sent: &Middle,
        packets: u32,
        asked: bool,
        cx: &mut Context<'_>,
    ) {
        let next = sent.psn.add(packets);
        let offset = sent.offset + u64::from(packets) * config.mtu();
        if sent.psn != self.next_new {
            cx.counters.retransmit(packets, self.retransmission);
        } else {
            self.next_new = next;
            if asked && !self.selective_repeat.is_under_way() {
                self.tail_probe.note_asked(next.sub(1), now);
            }
        }
        self.psn = next;
        self.since_ack_request = if asked { 0 } else { self.since_ack_request + packets };
        self.middle = Some(Middle { psn: next, left: sent.left - packets, offset, ..*sent });
        if config.init.qp_type.is_reliable() {
            self.arm_ack_timer(config, now);
        }
    }
}
