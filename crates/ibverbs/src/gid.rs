//! The GID table.

use std::ffi::CString;

use libc::{c_int, c_uint};
use uroce_device::limits::GID_TABLE_LEN;

use crate::abi::{IBV_GID_TYPE_ROCE_V2, ibv_context, ibv_gid, ibv_gid_entry};
use crate::arg::{check_port, not_null};
use crate::context::{Ctx, ctx_of};
use crate::errno::{Errno, INVALID};
use crate::return_value::{minus_one, status, value};
use crate::{object_of, output};

/// The values of `ibv_query_gid_type`, which has its own enumeration: RoCE v2 is 1 there.
const SYSFS_ROCE_V2: c_uint = 1;

/// ibv_query_gid(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_gid(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    minus_one(|| {
        let ctx = object_of!(ctx_of(context))?;
        let entry = entry(ctx, u32::from(port), u32::try_from(index).map_err(|_| INVALID)?)?;
        output!(gid, entry.gid)?;
        Ok(())
    })
}

/// What the inline `ibv_query_gid_ex` calls.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut ibv_context,
    port: u32,
    index: u32,
    out: *mut ibv_gid_entry,
    flags: u32,
    entry_size: usize,
) -> c_int {
    status(|| {
        let ctx = object_of!(ctx_of(context))?;
        check_form(flags, entry_size)?;
        let found = entry(ctx, port, index)?;
        // SAFETY: not null, and the size is that of the entry.
        unsafe { *not_null(out)? = found };
        Ok(())
    })
}

/// What the inline `ibv_query_gid_table` calls: the number of entries, or a negative errno value.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max_entries: usize,
    flags: u32,
    entry_size: usize,
) -> isize {
    let fill = || -> Result<isize, Errno> {
        let ctx = object_of!(ctx_of(context))?;
        check_form(flags, entry_size)?;
        let entries = not_null(entries)?;
        if max_entries < GID_TABLE_LEN as usize {
            return Err(INVALID);
        }
        for index in 0..GID_TABLE_LEN {
            // SAFETY: the program's array has at least so many entries.
            unsafe { *entries.add(index as usize) = entry(ctx, 1, index)? };
        }
        Ok(GID_TABLE_LEN as isize)
    };
    value(-(libc::EIO as isize), || fill().unwrap_or_else(|errno| -(errno.0 as isize)))
}

/// What ibv_devinfo calls to name the type of a GID.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_gid_type(
    context: *mut ibv_context,
    port: u8,
    index: c_uint,
    gid_type: *mut c_uint,
) -> c_int {
    minus_one(|| {
        let ctx = object_of!(ctx_of(context))?;
        entry(ctx, u32::from(port), index)?;
        output!(gid_type, SYSFS_ROCE_V2)?;
        Ok(())
    })
}

fn check_form(flags: u32, entry_size: usize) -> Result<(), Errno> {
    if flags != 0 {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    if entry_size == size_of::<ibv_gid_entry>() { Ok(()) } else { Err(INVALID) }
}

fn entry(ctx: &Ctx, port: u32, index: u32) -> Result<ibv_gid_entry, Errno> {
    check_port(u8::try_from(port).map_err(|_| INVALID)?)?;
    let gid = ctx.interface.gid(index).ok_or(INVALID)?;
    Ok(ibv_gid_entry {
        gid: ibv_gid::from_gid(gid),
        gid_index: index,
        port_num: port,
        gid_type: IBV_GID_TYPE_ROCE_V2,
        ndev_ifindex: interface_index(&ctx.interface.netdev),
    })
}

/// The number of a network interface; 0 if there is none.
pub fn interface_index(netdev: &str) -> u32 {
    // SAFETY: a string that ends with 0.
    CString::new(netdev).map_or(0, |name| unsafe { libc::if_nametoindex(name.as_ptr()) })
}
