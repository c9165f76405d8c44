//! The functions of libibverbs that lie in front of a context, as the inline functions of its header find them.

use std::mem::{offset_of, zeroed};
use std::ptr::null;

use uroce_conform::Extensions;
use uroce_verbs_abi::{ibv_context, ibv_device_attr_ex, verbs_context, verbs_slots};

/// `ibv_context::abi_compat` of a context that has slots.
const HAS_SLOTS: usize = usize::MAX;
/// `ibv_atomic_cap` GLOB.
const WITH_CPU: i32 = 2;

/// Bits of `ibv_device_attr::device_cap_flags`, and of `ibv_device_attr_ex::device_cap_flags_ex`.
mod cap {
    pub(super) const XRC: u64 = 1 << 20;
    pub(super) const INVALIDATE: u64 = 1 << 21;
    pub(super) const WINDOW_2A: u64 = 1 << 23;
    pub(super) const WINDOW_2B: u64 = 1 << 24;
    pub(super) const FLUSH: u64 = 1 << 38;
    pub(super) const PERSIST: u64 = 1 << 39;
    pub(super) const ATOMIC_WRITE: u64 = 1 << 40;
}

/// The slots of a context, and how many bytes from their first to the end of the context this libibverbs has.
fn slots(context: *mut ibv_context) -> Option<(*const verbs_slots, usize)> {
    // SAFETY: an open device.
    if unsafe { (*context).abi_compat.addr() } != HAS_SLOTS {
        return None;
    }
    // SAFETY: a context that says so lies at the end of its slots, of which the last is always there. The first ones
    // may lie in front of what was allocated: no reference is made, and `slot` looks at `sz` before it reads one.
    unsafe {
        let slots = context.wrapping_byte_sub(offset_of!(verbs_context, context));
        let slots = slots.cast::<verbs_slots>().cast_const();
        let size = (&raw const (*slots).sz).read();
        Some((slots, size))
    }
}

/// The slot at `offset`, if this libibverbs has it and the driver fills it. `_pick` names its type.
pub(crate) fn slot<F: Copy>(
    context: *mut ibv_context,
    offset: usize,
    _pick: impl Fn(&verbs_slots) -> Option<F>,
) -> Option<F> {
    let (slots, size) = slots(context)?;
    let there = size >= size_of::<verbs_context>() - offset;
    // SAFETY: the slot is within the size that libibverbs names, and `Option` of a function is a pointer or null.
    if there { unsafe { slots.byte_add(offset).cast::<Option<F>>().read() } } else { None }
}

/// The function in the slot of this name, if it is there.
macro_rules! find {
    ($context:expr, $name:ident) => {
        crate::slots::slot(
            $context,
            std::mem::offset_of!(uroce_verbs_abi::verbs_slots, $name),
            |slots: &uroce_verbs_abi::verbs_slots| slots.$name,
        )
    };
}
pub(crate) use find;

/// What the device has beside what every device has.
pub(crate) fn extensions(context: *mut ibv_context, flags: u32, atomic_cap: i32) -> Extensions {
    let flags = u64::from(flags) | extended_flags(context).unwrap_or(0);
    let has = |bits| flags & bits != 0;
    Extensions {
        atomics_with_cpu: atomic_cap == WITH_CPU,
        windows: has(cap::WINDOW_2A | cap::WINDOW_2B),
        invalidate: has(cap::INVALIDATE),
        xrc: has(cap::XRC) && find!(context, open_xrcd).is_some(),
        flush: has(cap::FLUSH),
        persist: has(cap::PERSIST),
        atomic_write: has(cap::ATOMIC_WRITE),
    }
}

/// `ibv_device_attr_ex::device_cap_flags_ex`.
fn extended_flags(context: *mut ibv_context) -> Option<u64> {
    let query = find!(context, query_device_ex)?;
    // SAFETY: integers.
    let mut attr: ibv_device_attr_ex = unsafe { zeroed() };
    let size = size_of::<ibv_device_attr_ex>();
    // SAFETY: an open device, no input, and room of the size that is named.
    let status = unsafe { query(context, null(), &raw mut attr, size) };
    (status == 0).then_some(attr.device_cap_flags_ex)
}
