//! The fast path of a requester for packets that stand alone: small messages, and the parts of a WRITE that is split (ADR 36).
//!
//! Each needs its headers and one copy. The slow path gives the same bytes
//! (`r19_the_fast_path_of_a_small_message_writes_what_the_slow_path_writes`, `r19_parts_that_are_lost_come_again_as_they_were`).

use uroce_memory::{Access, MrSlice};
use uroce_wire::{Bth, Header, ICRC_LEN, MORE_PARTS, Opcode, Reth};

use super::Requester;
use super::segment::Segment;
use super::send_queue::{SendWqe, splits};
use crate::attr::QpType;
use crate::context::{Context, Step, Train, Transmit};
use crate::qp::config::{QpConfig, pad_of};
use crate::time::Instant;
use crate::wr::{SendFlags, SendOp};

/// The next small message, or the next part of a WRITE, if it may go out.
#[inline]
pub(super) fn poll_small(
    requester: &mut Requester,
    config: &QpConfig,
    now: Instant,
    out: &mut [u8],
    cx: &mut Context<'_>,
) -> Option<Transmit> {
    let crcs = &mut false;
    let Some(len) = write_only_packet::<false>(requester, config, now, None, crcs, out, cx) else {
        requester.send_queue.current()?;
        return poll_part(requester, config, now, out, cx);
    };
    requester.arm_ack_timer(config, now);
    Some(Transmit { len, path: config.path(), step: Step::Ends })
}

/// The next part of a WRITE that is split.
#[inline(never)]
fn poll_part(
    requester: &mut Requester,
    config: &QpConfig,
    now: Instant,
    out: &mut [u8],
    cx: &mut Context<'_>,
) -> Option<Transmit> {
    let crcs = &mut false;
    let len = write_only_packet::<true>(requester, config, now, None, crcs, out, cx)?;
    requester.arm_ack_timer(config, now);
    let goes_on = requester.send_queue.current().is_some_and(|wqe| wqe.numbered);
    let step = if goes_on { Step::Within } else { Step::Ends };
    Some(Transmit { len, path: config.path(), step })
}

/// Writes up to `most` small messages, or parts of WRITEs that are split, whose packets have `len` bytes behind each other into
/// `out`, with the CRCs of their payloads if they are wanted and to be had.
pub(in crate::qp) fn poll_small_train(
    requester: &mut Requester,
    config: &QpConfig,
    now: Instant,
    len: usize,
    limits: (usize, bool),
    out: &mut [u8],
    cx: &mut Context<'_>,
) -> Train {
    if !requester.awake || requester.middle.is_some() || !requester.is_plain_in_order(config) {
        return Train::default();
    }
    let next = requester.send_queue.current();
    let train = if next.is_some_and(|wqe| is_part(config, wqe)) {
        write_train::<true>(requester, config, now, len, limits, out, cx)
    } else {
        write_train::<false>(requester, config, now, len, limits, out, cx)
    };
    if train.packets > 0 {
        requester.arm_ack_timer(config, now);
    }
    train
}

/// [`poll_small_train`] of small messages, or of parts.
#[inline(always)]
fn write_train<const PARTS: bool>(
    requester: &mut Requester,
    config: &QpConfig,
    now: Instant,
    len: usize,
    (most, mut crcs): (usize, bool),
    out: &mut [u8],
    cx: &mut Context<'_>,
) -> Train {
    let mut packets = 0;
    for packet in out.chunks_exact_mut(len).take(most) {
        requester.ack_requests.suppress(requester.tail_probe.may_suppress_ack_request(now));
        let wanted = Some(len);
        if write_only_packet::<PARTS>(requester, config, now, wanted, &mut crcs, packet, cx)
            .is_none()
        {
            break;
        }
        packets += 1;
    }
    Train { packets, crcs: crcs && packets > 0 }
}

/// Writes a small message, or the next `PART` of a WRITE that is split, if that is next, it may go out, and its packet has the
/// `wanted` length; that length. `crcs`: the CRC of the payload is wanted; false behind it, where it is not in the place of the ICRC.
// Always: it is the way of each small message that leaves, from two places.
#[inline(always)]
fn write_only_packet<const PART: bool>(
    requester: &mut Requester,
    config: &QpConfig,
    now: Instant,
    wanted: Option<usize>,
    crcs: &mut bool,
    out: &mut [u8],
    cx: &mut Context<'_>,
) -> Option<usize> {
    let Requester { send_queue, psns, window, ack_requests, .. } = requester;
    let wqe = send_queue.current_mut().filter(|wqe| is_next::<PART>(config, wqe))?;
    let (outstanding, window) = (psns.outstanding(), window.packets());
    if outstanding > 0 && outstanding >= window {
        return None;
    }
    let psn = psns.next();
    let (offset, length, ends) = if PART {
        let piece = Segment::of(wqe, psn, config.mtu());
        (piece.offset, piece.length, piece.ends())
    } else {
        (0, wqe.length as usize, true)
    };
    let write = if let SendOp::Write { va, rkey } = wqe.op { Some((va, rkey)) } else { None };
    let start = Bth::LEN + write.map_or(0, |_| Reth::LEN);
    let pad = pad_of(length);
    let len = start + length + pad + ICRC_LEN;
    if wanted.is_some_and(|wanted| wanted != len) {
        return None;
    }
    let mut bth = Bth::new(Opcode::RC_SEND_ONLY, config.peer_qpn(), psn);
    (bth.pad, bth.reserved7) = (pad as u8, if ends { 0 } else { MORE_PARTS });
    bth.ack_req = ends && !ack_requests.spares(config, wqe) || ack_requests.is_due(1, window);
    if let Some((va, rkey)) = write {
        bth.opcode = Opcode::RC_WRITE_ONLY;
        let va = va.wrapping_add(offset);
        Reth { va, rkey: rkey.0, length: length as u32 }.write(out.get_mut(Bth::LEN..)?)?;
    }
    bth.write(out)?;
    let (body, behind) = out.get_mut(start..)?.split_at_mut_checked(length)?;
    let from = cx.mem.check_local(wqe.only_sge()?, config.init.pd, Access::empty()).ok()?;
    copy_small(from, offset as usize, crcs, body, behind)?;
    if pad > 0 {
        behind.get_mut(..pad)?.fill(0);
    }
    cx.counters.rdma_sends += u64::from(write.is_some() && offset == 0);
    if !PART {
        wqe.set_psns(psn, 1);
    } else if !wqe.numbered {
        wqe.split = true;
        wqe.set_psns(psn, wqe.psns_needed(config.mtu()));
    }
    note_only_packet(requester, now, bth.ack_req, ends);
    Some(len)
}

/// Bookkeeping behind a packet that has never been out, as `note_sent` does it for others.
#[inline(always)]
fn note_only_packet(requester: &mut Requester, now: Instant, asked: bool, ends: bool) {
    let Requester { send_queue, psns, ack_requests, tail_probe, selective_repeat, .. } = requester;
    let (psn, outstanding) = (psns.next(), psns.outstanding());
    if asked && !selective_repeat.is_under_way() {
        tail_probe.note_asked(psn, now);
    }
    if ack_requests.note_in_turn(asked, outstanding) {
        tail_probe.wait_anew();
    }
    psns.note_sent(psn.add(1));
    if ends {
        send_queue.move_on();
    }
}

/// Copies a payload from `offset` on. `crcs`: its CRC is wanted in the first bytes of `behind`; false behind it, where it is
/// not there.
// Always: as above.
#[inline(always)]
fn copy_small(
    from: MrSlice<'_>,
    offset: usize,
    crcs: &mut bool,
    body: &mut [u8],
    behind: &mut [u8],
) -> Option<()> {
    *crcs = *crcs && body.len().is_power_of_two();
    match if *crcs { from.copy_out_crc(offset, body) } else { None } {
        Some(crc) => *behind.first_chunk_mut()? = crc.to_le_bytes(),
        None => {
            *crcs = false;
            from.copy_out(offset, body).ok()?;
        }
    }
    Some(())
}

#[inline(always)]
fn is_next<const PART: bool>(config: &QpConfig, wqe: &SendWqe) -> bool {
    if PART { is_part(config, wqe) } else { is_small(config, wqe) }
}

/// A plain SEND or WRITE of RC that one packet carries.
#[inline]
fn is_small(config: &QpConfig, wqe: &SendWqe) -> bool {
    matches!(wqe.op, SendOp::Send | SendOp::Write { .. })
        && (1..=config.mtu()).contains(&wqe.length)
        && !wqe.numbered
        && is_plain(config, wqe)
}

/// A plain WRITE of RC that is split, or will be.
fn is_part(config: &QpConfig, wqe: &SendWqe) -> bool {
    (if wqe.numbered { wqe.split } else { splits(config, wqe) }) && is_plain(config, wqe)
}

/// A request of RC, from one entry, that asks for nothing but a completion.
#[inline]
fn is_plain(config: &QpConfig, wqe: &SendWqe) -> bool {
    config.init.qp_type == QpType::Rc
        && SendFlags::SIGNALED.contains(wqe.flags)
        && wqe.only_sge().is_some()
}
