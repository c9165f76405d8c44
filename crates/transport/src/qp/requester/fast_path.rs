//! The fast path of a requester: packets that have never been out, while nothing else is going on.
//!
//! The packets between the first and the last of a long message differ in PSN and payload only: what they share is worked out once,
//! behind the first. Small messages are in [`small`](super::small). The slow path gives the same bytes
//! (`r19_the_fast_path_writes_what_the_slow_path_writes`), and decides about whatever is not known here, a closed window or
//! a lost registration.

use uroce_memory::{Access, MrSlice, Sge};
use uroce_wire::{
    Bth, HeaderWriter, ICRC_LEN, Opcode, Operation, Packet, Position, Psn, opcode_for,
};

use super::Requester;
use super::segment::Segment;
use super::send_queue::{Payload, SendQueue, SendWqe};
use super::small::poll_small;
use crate::attr::QpType;
use crate::context::{Context, Step, Transmit};
use crate::qp::config::QpConfig;
use crate::qp::run::{Origin, Run};
use crate::qp_state::QpState;
use crate::time::Instant;
use crate::wr::SendOp;

/// What follows the packet that was sent last, up to the last packet of its message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Middle {
    /// PSN of the next packet; the fast path is taken only if that is what goes out next.
    psn: Psn,
    /// Packets left before the last one.
    left: u32,
    /// Where in `sge` the next packet's payload begins.
    offset: u64,
    sge: Sge,
    opcode: Opcode,
}

impl Middle {
    /// The middle packets behind the packet `psn` of `wqe`, if they can take the fast path.
    pub(super) fn behind(
        config: &QpConfig,
        queue: &SendQueue,
        wqe: &SendWqe,
        psn: Psn,
    ) -> Option<Middle> {
        let operation = match wqe.op {
            _ if wqe.split => return None,
            SendOp::Write { .. } | SendOp::WriteWithImm { .. } => Operation::Write,
            SendOp::Send | SendOp::SendWithImm(_) | SendOp::SendWithInvalidate(_) => {
                Operation::Send
            }
            _ => return None,
        };
        let Payload::Sges(&[sge], []) = queue.payload(wqe) else {
            return None;
        };
        let mtu = config.mtu();
        let offset = Segment::of(wqe, psn, mtu).offset + mtu;
        let last = wqe.length.checked_sub(offset + 1)? >> config.mtu_shift();
        let opcode = opcode_for(config.service(), operation, Position::Middle, false, false)?;
        Some(Middle { psn: psn.add(1), left: last as u32, offset, sge, opcode })
    }

    /// Several packets are left.
    #[inline]
    pub(super) fn may_run(&self) -> bool {
        self.left > 1
    }
}

impl Requester {
    /// The next packet if it takes the fast path and may go out.
    #[inline]
    pub(super) fn poll_fast_path(
        &mut self,
        config: &QpConfig,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        if !self.is_plain_in_order(config) {
            return None;
        }
        match self.middle {
            None => poll_small(self, config, now, out, cx),
            Some(middle) => self.poll_middle(config, middle, now, out, cx),
        }
    }

    /// What goes out next has never been out, and nothing holds it back.
    #[inline]
    pub(super) fn is_plain_in_order(&self, config: &QpConfig) -> bool {
        config.state == QpState::Rts
            && self.psns.sends_new()
            && !self.rnr_wait.is_on()
            && self.selective_repeat.lets_new_pass()
    }

    fn poll_middle(
        &mut self,
        config: &QpConfig,
        middle: Middle,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        let reliable = config.init.qp_type.is_reliable();
        if middle.left == 0 || middle.psn != self.psns.next() {
            return None;
        }
        if reliable && !self.window.has_room(self.psns.outstanding(), 1) {
            return None;
        }
        let mut bth = Bth::new(middle.opcode, config.peer_qpn(), middle.psn);
        bth.ack_req = reliable && self.wants_ack_within(1);
        let mut writer = HeaderWriter::new(out);
        writer.put(&bth)?;
        if config.init.qp_type == QpType::XrcIni {
            writer.put(&config.xrceth_of(self.send_queue.current()?.srqn)?)?;
        }
        let start = writer.len();
        let end = start + config.mtu() as usize;
        let body = out.get_mut(start..end)?;
        cx.mem.gather(config.init.pd, &[middle.sge], middle.offset, body).ok()?;
        self.pass_middle(config, now, 1, bth.ack_req);
        Some(Transmit { len: end + ICRC_LEN, path: config.path(), step: Step::Within })
    }

    /// `packets` middle packets have left, the last of which asks for an ACK or not: bookkeeping as `note_sent` does it for
    /// others.
    #[inline]
    pub(crate) fn pass_middle(
        &mut self,
        config: &QpConfig,
        now: Instant,
        packets: u32,
        asked: bool,
    ) {
        let Some(middle) = &mut self.middle else {
            return debug_assert!(false, "planned from nothing");
        };
        debug_assert!(middle.left >= packets, "so many were planned");
        middle.psn = middle.psn.add(packets);
        middle.left -= packets;
        middle.offset += u64::from(packets) * config.mtu();
        let next = middle.psn;
        if asked && !self.selective_repeat.is_under_way() {
            self.tail_probe.note_asked(next.sub(1), now);
        }
        self.psns.note_sent(next);
        self.ack_requests.note_sent(packets, asked);
        if config.init.qp_type.is_reliable() {
            self.arm_ack_timer(config, now);
        }
    }

    /// Middle packets that may leave next as a run of up to `most`, at least two.
    pub(crate) fn plan_run(&self, config: &QpConfig, most: u32) -> Option<Run> {
        let middle = self.middle.as_ref()?;
        let usual = self.awake && self.is_plain_in_order(config) && middle.psn == self.psns.next();
        let packets = middle.left.min(most);
        let window = self.window.packets();
        let packets = packets.min(window.saturating_sub(self.psns.outstanding()));
        if !usual || packets < 2 {
            return None;
        }
        let length = packets as usize * config.mtu() as usize;
        let rest = u64::from(middle.sge.length).checked_sub(middle.offset)?;
        let addr = middle.sge.addr.checked_add(middle.offset)?;
        let from = Sge { addr, length: u32::try_from(length).ok()?, lkey: middle.sge.lkey };
        if length as u64 > rest {
            return None;
        }
        let mut bth = Bth::new(middle.opcode, config.peer_qpn(), middle.psn);
        bth.ack_req = self.wants_ack_within(packets);
        let origin = Origin::Request { pd: config.init.pd, from };
        Run::new(&bth, packets, config.mtu() as usize, origin, config.path())
    }

    /// READ responses of a run: in order, of one READ REQUEST, and not the end of it. False, with nothing changed, if
    /// they have to come one by one.
    pub(crate) fn take_run(
        &mut self,
        config: &QpConfig,
        now: Instant,
        head: &Packet<'_>,
        packets: u32,
        payload: &MrSlice<'_>,
        cx: &mut Context<'_>,
    ) -> bool {
        let (first, last) = (head.bth.psn, head.bth.psn.add(packets - 1));
        let usual = head.bth.opcode == Opcode::RC_READ_RESPONSE_MIDDLE
            && first == self.psns.una()
            && !self.selective_repeat.is_under_way()
            && self.psns.is_outstanding(last);
        let oldest = self.send_queue.front().filter(|_| usual);
        let place =
            oldest.and_then(|wqe| wqe.place_of(first, last, payload.len(), config.attr.path_mtu));
        let Some(place) = place else { return false };
        let granted = cx.mem.check_local(&place, config.init.pd, Access::LOCAL_WRITE);
        if !granted.is_ok_and(|slice| slice.copy_from(payload).is_ok()) {
            return false;
        }
        self.any_response = true;
        self.finish_responses(config, now, last, cx);
        self.wake();
        true
    }
}

/// READ responses that arrived behind each other, up to `most`: in order, of one READ REQUEST, and not the end of it. Returns
/// how many; what is not usual has changed nothing.
pub(in crate::qp) fn take_response_train<'p>(
    requester: &mut Requester,
    config: &QpConfig,
    now: Instant,
    head: &Packet<'_>,
    most: u32,
    mut next: impl FnMut(Psn) -> Option<Packet<'p>>,
    cx: &mut Context<'_>,
) -> u32 {
    let (first, mtu) = (head.bth.psn, config.attr.path_mtu.bytes());
    let usual = head.bth.opcode == Opcode::RC_READ_RESPONSE_MIDDLE
        && first == requester.psns.una()
        && head.payload().len() == mtu
        && !requester.selective_repeat.is_under_way();
    let oldest = requester.send_queue.front().filter(|_| usual);
    let place = oldest.and_then(|wqe| {
        let most = wqe.middle_responses(first).min(requester.psns.outstanding()).min(most);
        let last = first.add(most.checked_sub(1)?);
        wqe.place_of(first, last, most as usize * mtu, config.attr.path_mtu)
    });
    let place = place.map(|sge| cx.mem.check_local(&sge, config.init.pd, Access::LOCAL_WRITE));
    let Some(Ok(place)) = place else { return 0 };
    let (most, mut taken) = ((place.len() / mtu) as u32, 0);
    while taken < most
        && let Some(packet) = next(first.add(taken))
    {
        let copied = place.copy_in_part(taken as usize * mtu, packet.payload());
        copied.expect("the place is as long as all payloads");
        taken += 1;
    }
    if taken > 0 {
        requester.any_response = true;
        requester.finish_responses(config, now, first.add(taken - 1), cx);
        requester.wake();
    }
    taken
}
