//! Creating and destroying completion queues, in both forms.

use std::net::IpAddr;
use std::sync::atomic::Ordering;

use libc::{c_int, c_void};
use uroce_device::EventOwner;

use crate::abi::{
    IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CQ_INIT_ATTR_MASK_PD, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, IBV_WC_STANDARD_FLAGS, ibv_comp_channel,
    ibv_context, ibv_cq, ibv_cq_ex, ibv_cq_init_attr_ex,
};
use crate::channel::{channel_of, live_channel};
use crate::context::ctx_of;
use crate::cq::{Cq, CqObject, live_cq};
use crate::cq_ex::with_functions;
use crate::domain::hold_parent;
use crate::errno::{Errno, INVALID, NOT_SUPPORTED};
use crate::object::{Place, fresh_locks};
use crate::object_of;
use crate::return_value::{pointer, status};
use crate::use_count::Use;

/// Fields of a completion that a program can ask for.
const KNOWN_WC_FLAGS: u64 = IBV_WC_STANDARD_FLAGS
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
/// The flags are promises of the program that we have no use for.
const KNOWN_MASK: u32 = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;

/// ibv_create_cq(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq {
    pointer(|| {
        let cqe = u32::try_from(cqe).map_err(|_| INVALID)?;
        let vector = u32::try_from(comp_vector).map_err(|_| INVALID)?;
        // SAFETY: the arguments are those of a call from C.
        unsafe { create(context, cqe, cq_context, (channel, vector), None) }
            .map(<*mut ibv_cq_ex>::cast)
    })
}

/// The slot behind `ibv_create_cq_ex`.
pub unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    pointer(|| {
        if attr.is_null() {
            return Err(INVALID);
        }
        // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
        let attr = unsafe { &*attr };
        if attr.wc_flags & !KNOWN_WC_FLAGS != 0 || attr.comp_mask & !KNOWN_MASK != 0 {
            return Err(NOT_SUPPORTED);
        }
        let mut parent = None;
        if attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD != 0 {
            let ctx = object_of!(ctx_of(context))?;
            // SAFETY: the arguments are those of a call from C.
            parent = Some(unsafe { hold_parent(attr.parent_domain, &ctx.open_device()?)? });
        }
        let place = (attr.channel, attr.comp_vector);
        // SAFETY: the arguments are those of a call from C.
        unsafe { create(context, attr.cqe, attr.cq_context, place, parent) }
    })
}

/// Both forms of creation.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn create(
    context: *mut ibv_context,
    cqe: u32,
    cq_context: *mut c_void,
    (channel, comp_vector): (*mut ibv_comp_channel, u32),
    parent: Option<Use>,
) -> Result<*mut ibv_cq_ex, Errno> {
    let (ctx, users) = (object_of!(ctx_of(context))?, object_of!(live_channel(channel))?);
    let open_device = ctx.open_device()?;
    users.map_or(Ok(()), |channel| open_device.check_same(&channel.open_device))?;
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
    let id = open_device.device.create_cq_on(
        comp_vector,
        cqe,
        users.map(|channel| &channel.events),
        cookie,
    )?;
    open_device.device.async_events().own(EventOwner::Cq(id), &ctx.events, cookie);
    // SAFETY: the arguments are those of a call from C.
    unsafe { count_user(channel, 1) };
    let packet_type = packet_type(open_device.address());
    let mut inner = Cq::new(open_device, id, channel, packet_type);
    inner._parent = parent;
    Ok(place.fill(with_functions(ibv_cq { handle: id.0, ..base }), inner))
}

/// How datagrams to this address come. IBTA A17.4.5.2 wants a completion to say so and names no field; ConnectX takes that of
/// the service level: bit 3 for UDP, and below it 1 for IPv6 or 2 for IPv4. UCX reads it, and drops what it does not know.
fn packet_type(address: IpAddr) -> u8 {
    const IN_UDP: u8 = 1 << 3;
    IN_UDP | if address.is_ipv6() { 1 } else { 2 }
}

/// Counts a queue of a channel in (1) or out (-1), for us and in the field that programs see.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn count_user(channel: *mut ibv_comp_channel, by: i32) {
    if let Some(inner) = object_of!(channel_of(channel)) {
        let users = inner.users.fetch_add(by.cast_unsigned(), Ordering::SeqCst);
        // SAFETY: the channel was found, and nothing else writes to the field.
        unsafe { (*channel).refcnt = users.wrapping_add_signed(by) as c_int };
    }
}

/// ibv_destroy_cq(3). Waits until all its events are acknowledged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    status(|| {
        if CqObject::is_inherited(cq.cast()) {
            return Ok(());
        }
        let inner = object_of!(live_cq(cq))?;
        inner.device().destroy_cq(inner.id)?;
        inner.unacknowledged.wait();
        inner.unacknowledged_async.wait();
        // SAFETY: the manual pages ask that the queue is not used any more; a channel with queues is not destroyed.
        unsafe {
            count_user(inner.channel, -1);
            CqObject::destroy(cq.cast());
        }
        Ok(())
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
