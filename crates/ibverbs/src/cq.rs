//! Completion queues.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use libc::{c_int, c_void};
use uroce_device::transport::{CqId, Moderation, Notify, Wc, WcFlags, WcStatus};
use uroce_device::{Device, EventOwner};

use crate::abi::{ibv_comp_channel, ibv_context, ibv_cq, ibv_cq_ex, ibv_modify_cq_attr, ibv_wc};
use crate::card::Card;
use crate::channel::{channel_of, fresh_locks, live_channel};
use crate::context::ctx_of;
use crate::cq_event::Unacknowledged;
use crate::cq_ex::{Reader, with_functions};
use crate::errno::{Errno, INVALID, NOT_SUPPORTED};
use crate::object::{Object, Place};
use crate::outcome::{pointer, status, value};
use crate::query::not_null;

/// `IBV_CQ_ATTR_MODERATE`.
const ATTR_MODERATE: u32 = 1;

/// What we keep about a completion queue. In C all of them are long enough for the extended form.
#[derive(Debug)]
pub(crate) struct Cq {
    card: Arc<Card>,
    pub(crate) id: CqId,
    channel: *mut ibv_comp_channel,
    pub(crate) unacknowledged: Unacknowledged,
    pub(crate) unacknowledged_async: Unacknowledged,
    /// What the service level of a datagram's completion says, see [`packet_type`].
    packet_type: u8,
    /// The completion that the extended interface reads.
    pub(crate) reader: Reader,
}

// SAFETY: the pointer is used only to find the channel again when the queue is destroyed, at a time
// when by the contract (a channel with queues cannot be destroyed) it is still there.
unsafe impl Send for Cq {}
// SAFETY: as above.
unsafe impl Sync for Cq {}

type Whole = Object<ibv_cq_ex, Cq>;

impl Cq {
    pub(crate) fn device(&self) -> &Device {
        &self.card.device
    }

    /// The service level of a completion. RoCE has none; a datagram's says how the packet came.
    pub(crate) fn service_level(&self, wc: &Wc) -> u8 {
        if wc.flags.contains(WcFlags::GRH) { self.packet_type } else { 0 }
    }
}

/// How datagrams to this address come. IBTA A17.4.5.2 wants a completion to say so and names no field; ConnectX takes that of
/// the service level: bit 3 for UDP, and below it 1 for IPv6 or 2 for IPv4. UCX reads it, and drops what it does not know.
fn packet_type(address: IpAddr) -> u8 {
    const IN_UDP: u8 = 1 << 3;
    IN_UDP | if address.is_ipv6() { 1 } else { 2 }
}

/// Our part of a completion queue.
///
/// # Safety
/// By the contract.
pub(crate) unsafe fn cq_of<'a>(cq: *const ibv_cq) -> Result<&'a Cq, Errno> {
    // SAFETY: the caller's promise; each queue is a `Whole`, whose first field is an `ibv_cq`.
    unsafe { Whole::of(cq.cast()) }.ok_or(INVALID)
}

/// Our part of a completion queue, for control verbs; ENOENT if there is none at that address.
///
/// # Safety
/// By the contract.
pub(crate) unsafe fn live_cq<'a>(cq: *const ibv_cq) -> Result<&'a Cq, Errno> {
    // SAFETY: the caller's promise, as above.
    unsafe { Whole::live(cq.cast()) }
}

/// ibv_create_cq(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq {
    pointer(|| {
        let cqe = u32::try_from(cqe).map_err(|_| INVALID)?;
        let vector = u32::try_from(comp_vector).map_err(|_| INVALID)?;
        // SAFETY: by the contract.
        unsafe { create(context, cqe, cq_context, channel, vector) }.map(<*mut ibv_cq_ex>::cast)
    })
}

/// Both forms of creation.
///
/// # Safety
/// By the contract.
pub(crate) unsafe fn create(
    context: *mut ibv_context,
    cqe: u32,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: u32,
) -> Result<*mut ibv_cq_ex, Errno> {
    // SAFETY: by the contract.
    let (ctx, users) = unsafe { (ctx_of(context)?, live_channel(channel)?) };
    let card = ctx.card()?;
    let (mutex, cond) = fresh_locks();
    let base = ibv_cq {
        context,
        channel,
        cq_context,
        handle: 0,
        cqe: c_int::try_from(cqe).map_err(|_| INVALID)?,
        mutex,
        cond,
        comp_events_completed: 0,
        async_events_completed: 0,
    };
    let mut place = Place::new();
    let cookie = place.address();
    let id =
        card.device.create_cq_on(comp_vector, cqe, users.map(|channel| &channel.events), cookie)?;
    card.device.own_events(EventOwner::Cq(id), &ctx.events, cookie);
    // SAFETY: by the contract.
    unsafe { count_user(channel, 1) };
    let packet_type = packet_type(card.address());
    let inner = Cq {
        card,
        id,
        channel,
        unacknowledged: Unacknowledged::default(),
        unacknowledged_async: Unacknowledged::default(),
        packet_type,
        reader: Reader::default(),
    };
    Ok(place.fill(with_functions(ibv_cq { handle: id.0, ..base }), inner))
}

/// Counts a queue of a channel in (1) or out (-1), for us and in the field that programs see.
///
/// # Safety
/// By the contract.
unsafe fn count_user(channel: *mut ibv_comp_channel, by: i32) {
    // SAFETY: by the contract.
    if let Some(inner) = unsafe { channel_of(channel) } {
        let users = inner.users.fetch_add(by.cast_unsigned(), Ordering::SeqCst);
        // SAFETY: by the contract; nobody else writes the field.
        unsafe { (*channel).refcnt = users.wrapping_add_signed(by) as c_int };
    }
}

/// ibv_resize_cq(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    status(|| {
        // SAFETY: by the contract.
        let inner = unsafe { live_cq(cq)? };
        inner.device().resize_cq(inner.id, u32::try_from(cqe).map_err(|_| INVALID)?)?;
        // SAFETY: by the contract.
        unsafe { (*cq).cqe = cqe };
        Ok(())
    })
}

/// The slot behind `ibv_modify_cq`.
pub(crate) unsafe extern "C" fn modify_cq(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int {
    status(|| {
        // SAFETY: by the contract.
        let (inner, attr) = unsafe { (live_cq(cq)?, &*not_null(attr)?) };
        if attr.attr_mask != ATTR_MODERATE {
            return Err(if attr.attr_mask == 0 { INVALID } else { NOT_SUPPORTED });
        }
        let (count, period_ns) = (attr.cq_count.into(), u64::from(attr.cq_period) * 1_000);
        Ok(inner.device().moderate_cq(inner.id, Moderation { count, period_ns })?)
    })
}

/// ibv_destroy_cq(3). Waits until all its events are acknowledged.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    status(|| {
        // SAFETY: by the contract.
        if unsafe { Whole::is_inherited(cq.cast()) } {
            return Ok(());
        }
        // SAFETY: by the contract.
        let inner = unsafe { live_cq(cq)? };
        inner.device().destroy_cq(inner.id)?;
        inner.unacknowledged.wait();
        inner.unacknowledged_async.wait();
        // SAFETY: by the contract nobody uses it any more, and its channel still exists.
        unsafe {
            count_user(inner.channel, -1);
            Whole::destroy(cq.cast());
        }
        Ok(())
    })
}

/// `ibv_poll_cq`: the number of completions, or a negative errno value.
pub(crate) unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, count: c_int, out: *mut ibv_wc) -> c_int {
    value(-libc::EIO, || {
        // SAFETY: by the contract, an array of `count` completions.
        unsafe {
            match cq_of(cq) {
                Ok(inner) => poll_into(inner, usize::try_from(count).unwrap_or(0), out),
                Err(errno) => -errno.0,
            }
        }
    })
}

/// # Safety
/// `out` has room for `count` completions.
unsafe fn poll_into(cq: &Cq, count: usize, out: *mut ibv_wc) -> c_int {
    let mut next = out;
    let polled = cq.device().poll_cq_each(cq.id, count, |wc| {
        explain(wc);
        // SAFETY: it is shown `count` completions at most.
        unsafe {
            next.write(ibv_wc { sl: cq.service_level(wc), ..wc_of(wc) });
            next = next.add(1);
        }
    });
    polled.map_or_else(|error| -Errno::from(error).0, |count| count as c_int)
}

/// Tells users who want to know why a work request failed. Those that were flushed only follow.
pub(crate) fn explain(wc: &Wc) {
    if !wc.is_ok() && wc.status != WcStatus::WrFlushErr {
        crate::log::explain_failure(wc);
    }
}

/// The completion as the program has it.
fn wc_of(wc: &Wc) -> ibv_wc {
    ibv_wc {
        wr_id: wc.wr_id,
        status: wc.status as c_int,
        opcode: wc.opcode as c_int,
        vendor_err: wc.vendor_err,
        byte_len: wc.byte_len,
        imm_data: imm_data(wc),
        qp_num: wc.qpn,
        src_qp: wc.src_qpn,
        wc_flags: wc.flags.bits(),
        ..ibv_wc::default()
    }
}

/// Immediate data in network byte order, or the key that was invalidated: they share a field.
pub(crate) fn imm_data(wc: &Wc) -> u32 {
    wc.imm.map(u32::to_be).or(wc.invalidated).unwrap_or(0)
}

/// `ibv_req_notify_cq`.
pub(crate) unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    status(|| {
        // SAFETY: by the contract.
        let inner = unsafe { cq_of(cq)? };
        let notify = if solicited_only == 0 { Notify::Next } else { Notify::Solicited };
        Ok(inner.device().req_notify(inner.id, notify)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v70_a_datagrams_completion_says_how_it_came() {
        assert_eq!(packet_type([10, 0, 0, 1].into()), 0b1010);
        assert_eq!(packet_type([0u16; 8].into()), 0b1001);
    }
}
