//! Completion channels.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::c_int;
use uroce_device::CompChannel;

use crate::abi::{ibv_comp_channel, ibv_context};
use crate::context::ctx_of;
use crate::descriptor::make_blocking;
use crate::errno::{BUSY, Errno, INVALID};
use crate::object::Object;
use crate::object_of;
use crate::open_device::OpenDevice;
use crate::return_value::{pointer, status};

/// What we keep about a completion channel.
#[derive(Debug)]
pub struct Channel {
    /// Its events.
    pub events: CompChannel,
    /// Whose queues raise them.
    pub(crate) open_device: Arc<OpenDevice>,
    /// Completion queues that use it.
    pub(crate) users: AtomicU32,
}

/// Our part of a channel.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub unsafe fn channel_of<'a>(channel: *const ibv_comp_channel) -> Option<&'a Channel> {
    // SAFETY: the caller's promise.
    unsafe { Object::<ibv_comp_channel, Channel>::of(channel) }
}

/// Our part of a channel, for control verbs; null is none, ENOENT if there is none at that address.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub unsafe fn live_channel<'a>(
    channel: *const ibv_comp_channel,
) -> Result<Option<&'a Channel>, Errno> {
    if channel.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { Object::<ibv_comp_channel, Channel>::live(channel) }.map(Some)
}

/// ibv_create_comp_channel(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_comp_channel(
    context: *mut ibv_context,
) -> *mut ibv_comp_channel {
    pointer(|| {
        let open_device = object_of!(ctx_of(context))?.open_device()?;
        let events = open_device.device.create_channel()?;
        make_blocking(events.as_fd())?;
        let fd = events.as_fd().as_raw_fd();
        let channel = Channel { events, open_device, users: AtomicU32::new(0) };
        Ok(Object::create(ibv_comp_channel { context, fd, refcnt: 0 }, channel))
    })
}

/// ibv_destroy_comp_channel(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    status(|| {
        if Object::<ibv_comp_channel, Channel>::is_inherited(channel) {
            return Ok(());
        }
        let inner = object_of!(live_channel(channel))?.ok_or(INVALID)?;
        if inner.users.load(Ordering::SeqCst) > 0 {
            return Err(BUSY);
        }
        // SAFETY: the manual pages ask that the object is not used any more.
        unsafe { Object::<ibv_comp_channel, Channel>::destroy(channel) };
        Ok(())
    })
}
