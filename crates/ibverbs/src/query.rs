//! `ibv_query_device`, `ibv_query_port` and P_Keys.

use std::ptr::copy_nonoverlapping;

use libc::{c_int, c_void};
use uroce_device::wire::DropReason;

use crate::abi::{
    IBV_ODP_SUPPORT, IBV_ODP_SUPPORT_ATOMIC, IBV_ODP_SUPPORT_ATOMIC_WRITE, IBV_ODP_SUPPORT_FLUSH,
    IBV_ODP_SUPPORT_IMPLICIT, IBV_ODP_SUPPORT_READ, IBV_ODP_SUPPORT_RECV, IBV_ODP_SUPPORT_SEND,
    IBV_ODP_SUPPORT_SRQ_RECV, IBV_ODP_SUPPORT_WRITE, IBV_PORT_ACTIVE, IBV_PORT_CM_SUP,
    IBV_PORT_IP_BASED_GIDS, IBV_QPF_GRH_REQUIRED, ibv_context, ibv_cq_moderation_caps,
    ibv_device_attr, ibv_device_attr_ex, ibv_odp_caps, ibv_port_attr,
};
use crate::arg::{check_port, not_null};
use crate::clock::{CORE_CLOCK_KHZ, TIMESTAMP_MASK};
use crate::context::{Ctx, ctx_of};
use crate::device_list::put_text;
use crate::device_memory::MAX_DM_SIZE;
use crate::errno::{Errno, INVALID};
use crate::object::zeroed;
use crate::return_value::{minus_one, status};
use crate::{object_of, output};

/// A step of `ibv_query_port_speed`, in bits per second.
const SPEED_STEP: u64 = 100_000_000;
/// The only P_Key: the default partition, full member.
const PKEY: u16 = 0xffff;
const PHYS_LINK_UP: u8 = 5;
const PHYS_DISABLED: u8 = 3;
/// What the old field of one byte says of a link that is faster.
const SPEED_NDR: u8 = 128;
/// Bytes of `struct ibv_port_attr` before rdma-core 21, which `ibv_query_port` itself fills; later
/// fields come through the slot.
const OLD_PORT_ATTR: usize = 48;
const PORT_CAPS: u32 = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;

const ODP_UD: u32 = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
const ODP_UC: u32 = ODP_UD | IBV_ODP_SUPPORT_WRITE;
/// Memory need not be there when it is registered on demand; it is the program's own.
const ODP_CAPS: ibv_odp_caps = ibv_odp_caps {
    general_caps: IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
    rc_odp_caps: ODP_UC
        | IBV_ODP_SUPPORT_READ
        | IBV_ODP_SUPPORT_ATOMIC
        | IBV_ODP_SUPPORT_FLUSH
        | IBV_ODP_SUPPORT_ATOMIC_WRITE,
    uc_odp_caps: ODP_UC,
    ud_odp_caps: ODP_UD,
};

/// ibv_query_device(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_device(
    context: *mut ibv_context,
    attr: *mut ibv_device_attr,
) -> c_int {
    status(|| {
        let ctx = object_of!(ctx_of(context))?;
        // SAFETY: not null; `write` drops nothing.
        unsafe { not_null(attr)?.write(device_attr(ctx)) };
        Ok(())
    })
}

/// The slot behind `ibv_query_device_ex`.
pub(crate) unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    _input: *const c_void,
    attr: *mut ibv_device_attr_ex,
    size: usize,
) -> c_int {
    status(|| {
        let ctx = object_of!(ctx_of(context))?;
        if size < size_of::<ibv_device_attr>() {
            return Err(INVALID);
        }
        // SAFETY: integers and bytes.
        let mut full: ibv_device_attr_ex = unsafe { zeroed() };
        full.orig_attr = device_attr(ctx);
        full.device_cap_flags_ex = ctx.device_attr().device_cap_flags_ex;
        full.max_dm_size = MAX_DM_SIZE as u64;
        full.cq_mod_caps =
            ibv_cq_moderation_caps { max_cq_count: u16::MAX, max_cq_period: u16::MAX };
        full.odp_caps = ODP_CAPS;
        full.xrc_odp_caps = ODP_CAPS.rc_odp_caps;
        full.completion_timestamp_mask = TIMESTAMP_MASK;
        full.hca_core_clock = CORE_CLOCK_KHZ;
        full.phys_port_cnt_ex = u32::from(full.orig_attr.phys_port_cnt);
        // SAFETY: the program gave `size` bytes.
        unsafe { put_prefix(not_null(attr)?, &full, size) };
        Ok(())
    })
}

/// Writes as much of `value` as the program's version of the struct has; zeros what it has more.
///
/// # Safety
/// `size` bytes at `to` are the program's.
unsafe fn put_prefix<T: Copy>(to: *mut T, value: &T, size: usize) {
    let known = size.min(size_of::<T>());
    // SAFETY: `known` bytes are within both; the rest within what the caller promises.
    unsafe {
        copy_nonoverlapping(std::ptr::from_ref(value).cast::<u8>(), to.cast(), known);
        to.cast::<u8>().add(known).write_bytes(0, size - known);
    }
}

fn int(count: impl TryInto<c_int>) -> c_int {
    count.try_into().unwrap_or(c_int::MAX)
}

fn device_attr(ctx: &Ctx) -> ibv_device_attr {
    let from = ctx.device_attr();
    let limits = from.limits;
    // SAFETY: integers and bytes.
    let mut attr: ibv_device_attr = unsafe { zeroed() };
    put_text(&mut attr.fw_ver, from.fw_ver);
    attr.node_guid = from.node_guid.to_be();
    attr.sys_image_guid = from.sys_image_guid.to_be();
    attr.max_mr_size = from.max_mr_size;
    attr.page_size_cap = from.page_size_cap;
    attr.vendor_id = from.vendor_id;
    attr.vendor_part_id = from.vendor_part_id;
    attr.hw_ver = from.hw_ver;
    attr.max_qp = int(limits.max_qp);
    attr.max_qp_wr = int(limits.max_qp_wr);
    attr.device_cap_flags = from.device_cap_flags;
    attr.max_sge = int(limits.max_sge);
    attr.max_sge_rd = int(limits.max_sge);
    attr.max_cq = int(limits.max_cq);
    attr.max_cqe = int(limits.max_cqe);
    attr.max_mr = int(limits.max_mr);
    attr.max_pd = int(limits.max_pd);
    attr.max_qp_rd_atom = int(from.max_qp_rd_atom);
    attr.max_res_rd_atom = int(from.max_res_rd_atom);
    attr.max_qp_init_rd_atom = int(from.max_qp_init_rd_atom);
    attr.atomic_cap = int(from.atomic_cap);
    attr.max_mw = int(limits.max_mw);
    attr.max_mcast_grp = int(limits.max_mcast_grp);
    attr.max_mcast_qp_attach = int(limits.max_mcast_qp_attach);
    attr.max_total_mcast_qp_attach = int(limits.max_mcast_grp * limits.max_mcast_qp_attach);
    attr.max_ah = int(from.max_ah);
    attr.max_srq = int(limits.max_srq);
    attr.max_srq_wr = int(limits.max_srq_wr);
    attr.max_srq_sge = int(limits.max_srq_sge);
    attr.max_pkeys = from.max_pkeys;
    attr.local_ca_ack_delay = from.local_ca_ack_delay;
    attr.phys_port_cnt = from.phys_port_cnt;
    attr
}

/// ibv_query_port(3) as old programs call it.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_port(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
) -> c_int {
    // SAFETY: the arguments of the program; this is the length of the old struct.
    unsafe { query_port(context, port, attr, OLD_PORT_ATTR) }
}

/// The slot behind `ibv_query_port`.
pub(crate) unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
    size: usize,
) -> c_int {
    status(|| {
        let ctx = object_of!(ctx_of(context))?;
        check_port(port)?;
        let full = port_attr(ctx)?;
        // SAFETY: the program gave `size` bytes.
        unsafe { put_prefix(not_null(attr)?, &full, size) };
        Ok(())
    })
}

/// ibv_query_port_speed(3): what the link carries, in steps of 100 Mb/s, and never 0. Where its driver does not tell, it is
/// what `ibv_query_port` has as speed and width.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_port_speed(
    context: *mut ibv_context,
    port: u32,
    speed: *mut u64,
) -> c_int {
    status(|| {
        let ctx = object_of!(ctx_of(context))?;
        check_port(u8::try_from(port).map_err(|_| INVALID)?)?;
        output!(speed, ctx.interface.shown_bits_per_second().div_ceil(SPEED_STEP))
    })
}

/// Of a device that is open, what queue pairs are held to: its link may have had another MTU when this context was made.
fn port_attr(ctx: &Ctx) -> Result<ibv_port_attr, Errno> {
    let open_device = ctx.opened();
    let of_open = open_device.as_ref().map(|open_device| open_device.device.port_attr());
    let from = of_open.or_else(|| ctx.interface.port_attr()).ok_or(INVALID)?;
    // SAFETY: integers.
    let mut attr: ibv_port_attr = unsafe { zeroed() };
    attr.state = from.state as c_int;
    attr.max_mtu = c_int::from(from.max_mtu.code());
    attr.active_mtu = c_int::from(from.active_mtu.code());
    attr.gid_tbl_len = int(from.gid_tbl_len);
    attr.port_cap_flags = PORT_CAPS;
    attr.max_msg_sz = from.max_msg_sz;
    attr.pkey_tbl_len = from.pkey_tbl_len;
    attr.max_vl_num = 1;
    attr.active_width = from.active_width;
    attr.active_speed = u8::try_from(from.active_speed).unwrap_or(SPEED_NDR);
    attr.active_speed_ex = u32::from(from.active_speed);
    attr.phys_state = if attr.state == IBV_PORT_ACTIVE { PHYS_LINK_UP } else { PHYS_DISABLED };
    attr.link_layer = from.link_layer;
    attr.flags = IBV_QPF_GRH_REQUIRED;
    if let Some(open_device) = open_device {
        let counters = open_device.device.counters();
        attr.bad_pkey_cntr = dropped(&counters, DropReason::PkeyMismatch);
        attr.qkey_viol_cntr = dropped(&counters, DropReason::QkeyMismatch);
    }
    Ok(attr)
}

/// Packets that this process has dropped for `reason`.
fn dropped(counters: &[(&'static str, u64)], reason: DropReason) -> u32 {
    let mut of_drops =
        counters.iter().filter(|(name, _)| name.strip_prefix("drop_") == Some(reason.name()));
    of_drops.next().map_or(0, |(_, count)| u32::try_from(*count).unwrap_or(u32::MAX))
}

/// ibv_query_pkey(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_pkey(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    minus_one(|| {
        object_of!(ctx_of(context))?;
        check_port(port)?;
        if index != 0 {
            return Err(INVALID);
        }
        output!(pkey, PKEY.to_be())?;
        Ok(())
    })
}

/// ibv_get_pkey_index(3): the index, or -1.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_get_pkey_index(
    context: *mut ibv_context,
    port: u8,
    pkey: u16,
) -> c_int {
    minus_one(|| {
        object_of!(ctx_of(context))?;
        check_port(port)?;
        if u16::from_be(pkey) == PKEY { Ok(()) } else { Err(INVALID) }
    })
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use uroce_device::{Interface, interface_of};

    use super::*;
    use crate::contract_tests::{opened, world};
    use crate::device_list::device_of;
    use crate::open::{ibv_close_device, ibv_open_device};
    use crate::pd::{ibv_alloc_pd, ibv_dealloc_pd};

    #[test]
    fn v95_violations_of_keys_are_counted_by_the_port() {
        let counters = [("drop_pkey_mismatch", 3), ("drop_qkey_mismatch", u64::MAX)];
        assert_eq!(dropped(&counters, DropReason::PkeyMismatch), 3);
        assert_eq!(dropped(&counters, DropReason::QkeyMismatch), u32::MAX);
        let context = opened(13);
        // SAFETY: as the manual pages want it. The domain opens the device.
        unsafe {
            let pd = ibv_alloc_pd(context);
            let counters = ctx_of(context).unwrap().opened().unwrap().device.counters();
            for reason in [DropReason::PkeyMismatch, DropReason::QkeyMismatch] {
                let name = format!("drop_{}", reason.name());
                assert!(counters.iter().any(|(counter, _)| *counter == name), "{name}");
            }
            assert_eq!(port_attr(ctx_of(context).unwrap()).unwrap().qkey_viol_cntr, 0);
            assert_eq!(ibv_dealloc_pd(pd), 0);
            assert_eq!(ibv_close_device(context), 0);
        }
    }

    #[test]
    fn the_mtu_of_a_port_is_the_one_that_queue_pairs_are_held_to() {
        let world = world(212);
        let interface = interface_of(world.address).expect("127.0.0.0/8 is local");
        let was_smaller = Interface { mtu: 1500, ..interface };
        // SAFETY: as the manual pages want it. The domain makes the context use the open device.
        unsafe {
            let listed_before = ibv_open_device(device_of(was_smaller));
            let active_mtu = || port_attr(ctx_of(listed_before).unwrap()).unwrap().active_mtu;
            assert_eq!(active_mtu(), 3, "1024 bytes, before it uses the device");
            let pd = ibv_alloc_pd(listed_before);
            assert_eq!(active_mtu(), 5, "4096 bytes");
            assert_eq!((ibv_dealloc_pd(pd), ibv_close_device(listed_before)), (0, 0));
        }
        world.end();
    }

    /// Steps of 100 Mb/s for each lane of `active_speed_ex`, and lanes for each `active_width`, as IBTA has them.
    fn steps(attr: &ibv_port_attr) -> u64 {
        let lanes = match attr.active_width {
            1 => 1,
            2 => 4,
            other => panic!("width {other}"),
        };
        let lane = match attr.active_speed_ex {
            1 => 25,
            4 => 100,
            32 => 250,
            64 => 500,
            128 => 1000,
            256 => 2000,
            other => panic!("speed {other}"),
        };
        lanes * lane
    }

    #[test]
    fn the_speed_of_a_port_is_that_of_its_attributes() {
        let context = opened(14);
        let mut speed = 0;
        // SAFETY: as the manual page wants it; null is found out.
        unsafe {
            let ctx = ctx_of(context).unwrap();
            let shown = steps(&port_attr(ctx).unwrap());
            assert_eq!(ibv_query_port_speed(context, 1, &raw mut speed), 0);
            // Width and speed are the next that reach the rate of the link.
            assert!((1..=shown).contains(&speed), "{speed} of {shown}");
            if ctx.interface.bits_per_second.is_none() {
                assert_eq!(speed, shown, "the driver does not tell");
            }
            for port in [0, 2, 257, u32::MAX] {
                assert_eq!(ibv_query_port_speed(context, port, &raw mut speed), libc::EINVAL);
            }
            assert_eq!(ibv_query_port_speed(context, 1, null_mut()), libc::EINVAL);
            assert_eq!(ibv_query_port_speed(null_mut(), 1, &raw mut speed), libc::EINVAL);
            assert_eq!(ibv_close_device(context), 0);
        }
    }
}
