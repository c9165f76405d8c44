//! The fast path of a requester: packets that have never been out, while nothing else is going on.
//!
//! A SEND or WRITE of one entry that fits into one packet needs its headers and one copy. The packets between the first
//! and the last of a long one differ in PSN and payload only: what they share is worked out once, behind the first. The
//! slow path gives the same bytes (`r19_the_fast_path_of_a_small_message_writes_what_the_slow_path_writes`,
//! `r19_the_fast_path_writes_what_the_slow_path_writes`), and decides about whatever is not known here, a closed window or
//! a lost registration.

use uroce_memory::{Access, MrSlice, Sge};
use uroce_wire::{
    Bth, Header, HeaderWriter, ICRC_LEN, Opcode, Operation, Packet, Position, Psn, Reth, opcode_for,
};

use super::Requester;
use super::segment::Segment;
use super::send_queue::{Payload, SendQueue, SendWqe};
use crate::attr::QpType;
use crate::context::{Context, Step, Train, Transmit};
use crate::qp::config::{QpConfig, pad_of};
use crate::qp::run::{Origin, Run};
use crate::qp_state::QpState;
use crate::time::Instant;
use crate::wr::{SendFlags, SendOp};

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
            None => self.poll_small(config, now, out, cx),
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

    #[inline]
    fn poll_small(
        &mut self,
        config: &QpConfig,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        let len = write_small(self, config, now, None, &mut false, out, cx)?;
        self.arm_ack_timer(config, now);
        Some(Transmit { len, path: config.path(), step: Step::Ends })
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

/// Writes up to `most` small messages whose packets have `len` bytes behind each other into `out`, with the CRCs of
/// their payloads if they are wanted and to be had.
pub(in crate::qp) fn poll_small_train(
    requester: &mut Requester,
    config: &QpConfig,
    now: Instant,
    len: usize,
    (most, mut crcs): (usize, bool),
    out: &mut [u8],
    cx: &mut Context<'_>,
) -> Train {
    if !requester.awake || requester.middle.is_some() || !requester.is_plain_in_order(config) {
        return Train::default();
    }
    let mut packets = 0;
    for packet in out.chunks_exact_mut(len).take(most) {
        requester.ack_requests.suppress(requester.tail_probe.may_suppress_ack_request(now));
        if write_small(requester, config, now, Some(len), &mut crcs, packet, cx).is_none() {
            break;
        }
        packets += 1;
    }
    if packets > 0 {
        requester.arm_ack_timer(config, now);
    }
    Train { packets, crcs: crcs && packets > 0 }
}

/// Writes a small message if one is next, it may go out, and its packet has the `wanted` length; that length. `crcs`: the
/// CRC of the payload is wanted; false behind it, where it is not in the place of the ICRC.
// Always: it is the way of each small message that leaves, from two places.
#[inline(always)]
fn write_small(
    requester: &mut Requester,
    config: &QpConfig,
    now: Instant,
    wanted: Option<usize>,
    crcs: &mut bool,
    out: &mut [u8],
    cx: &mut Context<'_>,
) -> Option<usize> {
    let Requester { send_queue, psns, window, ack_requests, tail_probe, selective_repeat, .. } =
        requester;
    let wqe = send_queue.current_mut().filter(|wqe| is_small(config, wqe))?;
    let (outstanding, window) = (psns.outstanding(), window.packets());
    if outstanding > 0 && outstanding >= window {
        return None;
    }
    let (length, psn) = (wqe.length as usize, psns.next());
    let write = if let SendOp::Write { va, rkey } = wqe.op { Some((va, rkey)) } else { None };
    let start = Bth::LEN + if write.is_some() { Reth::LEN } else { 0 };
    let pad = pad_of(length);
    let len = start + length + pad + ICRC_LEN;
    if wanted.is_some_and(|wanted| wanted != len) {
        return None;
    }
    let mut bth = Bth::new(Opcode::RC_SEND_ONLY, config.peer_qpn(), psn);
    bth.pad = pad as u8;
    bth.ack_req = !ack_requests.spares(config, wqe) || ack_requests.is_due(1, window);
    if let Some((va, rkey)) = write {
        bth.opcode = Opcode::RC_WRITE_ONLY;
        Reth { va, rkey: rkey.0, length: length as u32 }.write(out.get_mut(Bth::LEN..)?)?;
    }
    bth.write(out)?;
    let (body, behind) = out.get_mut(start..)?.split_at_mut_checked(length)?;
    let from = cx.mem.check_local(wqe.only_sge()?, config.init.pd, Access::empty()).ok()?;
    copy_small(from, crcs, body, behind)?;
    if pad > 0 {
        behind.get_mut(..pad)?.fill(0);
    }
    cx.counters.rdma_sends += u64::from(write.is_some());
    wqe.set_psns(psn, 1);
    if bth.ack_req && !selective_repeat.is_under_way() {
        tail_probe.note_asked(psn, now);
    }
    if ack_requests.note_in_turn(bth.ack_req, outstanding) {
        tail_probe.wait_anew();
    }
    psns.note_sent(psn.add(1));
    send_queue.move_on();
    Some(len)
}

/// Copies the payload of a small message. `crcs`: its CRC is wanted in the first bytes of `behind`; false behind it, where it is
/// not there.
// Always: as above.
#[inline(always)]
fn copy_small(
    from: MrSlice<'_>,
    crcs: &mut bool,
    body: &mut [u8],
    behind: &mut [u8],
) -> Option<()> {
    *crcs = *crcs && body.len().is_power_of_two();
    match if *crcs { from.copy_out_crc(0, body) } else { None } {
        Some(crc) => *behind.first_chunk_mut()? = crc.to_le_bytes(),
        None => {
            *crcs = false;
            from.copy_out(0, body).ok()?;
        }
    }
    Some(())
}

/// A plain SEND or WRITE of RC that one packet carries.
#[inline]
fn is_small(config: &QpConfig, wqe: &SendWqe) -> bool {
    matches!(wqe.op, SendOp::Send | SendOp::Write { .. })
        && config.init.qp_type == QpType::Rc
        && (1..=config.mtu()).contains(&wqe.length)
        && SendFlags::SIGNALED.contains(wqe.flags)
        && !wqe.numbered
        && wqe.only_sge().is_some()
}
