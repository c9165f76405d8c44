//! rdma_create_id(3).

use libc::{c_int, c_void};
use uroce_device::cm::PortSpace;
use uroce_ibverbs::arg::not_null;
use uroce_ibverbs::errno::Errno;
use uroce_ibverbs::return_value::minus_one;
use uroce_verbs_abi::{rdma_cm_id, rdma_event_channel};

use crate::channel;
use crate::id::make;

fn space_of(number: c_int) -> Result<PortSpace, Errno> {
    [PortSpace::Tcp, PortSpace::Udp]
        .into_iter()
        .find(|space| *space as c_int == number)
        .ok_or(Errno(libc::EPROTONOSUPPORT))
}

/// rdma_create_id(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_create_id(
    channel: *mut rdma_event_channel,
    out: *mut *mut rdma_cm_id,
    context: *mut c_void,
    space: c_int,
) -> c_int {
    minus_one(|| {
        let (out, space) = (not_null(out)?, space_of(space)?);
        // SAFETY: not null, and so room that the program has for the result.
        unsafe { *out = create(channel, context, space)? };
        Ok(())
    })
}

/// A new id; without a channel it waits on one of its own.
pub(crate) fn create(
    channel: *mut rdma_event_channel,
    context: *mut c_void,
    space: PortSpace,
) -> Result<*mut rdma_cm_id, Errno> {
    let waits = channel.is_null();
    let channel = if waits { channel::create()? } else { channel };
    make(channel, context, space, (waits, waits))
}
