//! DMA handles and `ibv_reg_mr_ex`: which attributes go together, and what a registration keeps.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;

use libc::{EBUSY, EINVAL, ENOENT, EOPNOTSUPP, c_int};

use super::regions::write;
use super::{REMOTE, in_state, why, world};
use crate::abi::*;
use crate::buf::{ibv_alloc_buf, ibv_free_buf};
use crate::contract_tests::World;
use crate::dm::{alloc_dm, free_dm, ibv_dm_export_dmabuf_fd};
use crate::dmah::{ibv_alloc_dmah, ibv_dealloc_dmah};
use crate::mr::ibv_dereg_mr;
use crate::mr_ex::ibv_reg_mr_ex;
use crate::object::zeroed;
use crate::qp_create::ibv_destroy_qp;

const ADDR: u64 = IBV_REG_MR_MASK_ADDR;
const BUF: u64 = IBV_REG_MR_MASK_BUF;
const DMAH: u64 = IBV_REG_MR_MASK_DMAH;
const FD: u64 = IBV_REG_MR_MASK_FD;
const FD_OFFSET: u64 = IBV_REG_MR_MASK_FD_OFFSET;
const IOVA: u64 = IBV_REG_MR_MASK_IOVA;

const CPU_ID: u32 = IBV_DMAH_INIT_ATTR_MASK_CPU_ID;
const PH: u32 = IBV_DMAH_INIT_ATTR_MASK_PH;
const MEM_TYPE: u32 = IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE;

fn handle(world: &World, mut attr: ibv_dmah_init_attr) -> Result<*mut ibv_dmah, c_int> {
    // SAFETY: as the manual page wants it.
    why(unsafe { ibv_alloc_dmah(world.context, &raw mut attr) })
}

/// All of the world's buffer, by its address.
fn of_buffer(world: &World) -> ibv_mr_init_attr {
    // SAFETY: integers and null pointers.
    let mut attr: ibv_mr_init_attr = unsafe { zeroed() };
    attr.addr = world.buffer.as_ptr().cast_mut().cast();
    (attr.length, attr.access, attr.comp_mask) = (64, REMOTE, ADDR);
    attr
}

fn register(world: &World, mut attr: ibv_mr_init_attr) -> Result<*mut ibv_mr, c_int> {
    // SAFETY: the buffer lives as long as the world; what else is wrong is found out.
    why(unsafe { ibv_reg_mr_ex(world.pd, &raw mut attr) })
}

#[test]
fn hints_are_checked_where_they_are_given() {
    let world = world(210);
    let none = ibv_dmah_init_attr { comp_mask: 0, cpu_id: 0, ph: 0, tph_mem_type: 0 };
    let junk = ibv_dmah_init_attr { cpu_id: u32::MAX, ph: 4, tph_mem_type: 2, ..none };
    for (attr, wanted) in [
        (none, None),
        (junk, None),
        (ibv_dmah_init_attr { comp_mask: CPU_ID | PH | MEM_TYPE, ph: 3, ..none }, None),
        (ibv_dmah_init_attr { comp_mask: MEM_TYPE, tph_mem_type: 1, ..junk }, None),
        (ibv_dmah_init_attr { comp_mask: CPU_ID, ..junk }, Some(EINVAL)),
        (ibv_dmah_init_attr { comp_mask: PH, ..junk }, Some(EINVAL)),
        (ibv_dmah_init_attr { comp_mask: MEM_TYPE, ..junk }, Some(EINVAL)),
        (ibv_dmah_init_attr { comp_mask: 1 << 3, ..none }, Some(EOPNOTSUPP)),
        (ibv_dmah_init_attr { comp_mask: u32::MAX, ..none }, Some(EOPNOTSUPP)),
    ] {
        let made = handle(&world, attr);
        let case = (attr.comp_mask, attr.cpu_id, attr.ph, attr.tph_mem_type);
        assert_eq!(made.err(), wanted, "{case:?}");
        if let Ok(made) = made {
            // SAFETY: just made; that it is gone afterwards is found out.
            unsafe {
                assert_eq!((*made).context, world.context);
                assert_eq!((ibv_dealloc_dmah(made), ibv_dealloc_dmah(made)), (0, ENOENT));
            }
        }
    }
    let mut attr = none;
    // SAFETY: null, and objects that are none of what is asked for, are found out.
    unsafe {
        assert_eq!(why(ibv_alloc_dmah(null_mut(), &raw mut attr)).err(), Some(EINVAL));
        assert_eq!(why(ibv_alloc_dmah(world.context, null_mut())).err(), Some(EINVAL));
        assert_eq!(why(ibv_alloc_dmah(world.qp.cast(), &raw mut attr)).err(), Some(ENOENT));
        assert_eq!(ibv_dealloc_dmah(null_mut()), EINVAL);
        assert_eq!(ibv_dealloc_dmah(world.pd.cast()), ENOENT);
    }
    world.end();
}

#[test]
fn a_handle_stays_as_long_as_a_registration_with_it() {
    let world = world(211);
    let hints = ibv_dmah_init_attr { comp_mask: PH, cpu_id: 0, ph: 1, tph_mem_type: 0 };
    let dmah = handle(&world, hints).expect("a hint that there is");
    let with = |dmah, access| {
        register(
            &world,
            ibv_mr_init_attr { comp_mask: ADDR | DMAH, dmah, access, ..of_buffer(&world) },
        )
    };
    assert_eq!(with(null_mut(), 0).err(), Some(EINVAL));
    assert_eq!(with(world.cq.cast(), 0).err(), Some(ENOENT));
    assert_eq!(with(dmah, IBV_ACCESS_ON_DEMAND).err(), Some(EINVAL));
    let (one, two) = (with(dmah, 0).expect("memory"), with(dmah, REMOTE).expect("memory"));
    assert_eq!(with(dmah, IBV_ACCESS_REMOTE_WRITE).err(), Some(EINVAL), "not alone");
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!((ibv_dealloc_dmah(dmah), ibv_dereg_mr(one)), (EBUSY, 0));
        assert_eq!((ibv_dealloc_dmah(dmah), ibv_dereg_mr(two)), (EBUSY, 0));
        assert_eq!(ibv_dealloc_dmah(dmah), 0, "what was refused does not hold it");
    }
    world.end();
}

#[test]
fn attributes_of_a_region_that_do_not_go_together_are_refused() {
    let world = world(212);
    for (comp_mask, wanted) in [
        (0, EINVAL),
        (IOVA, EINVAL),
        (BUF, EINVAL),
        (FD_OFFSET, EINVAL),
        (ADDR | FD, EINVAL),
        (ADDR | FD_OFFSET, EINVAL),
        (FD | BUF, EINVAL),
        (ADDR | BUF, EINVAL),
        (ADDR | 1 << 6, EOPNOTSUPP),
        (u64::MAX, EOPNOTSUPP),
    ] {
        let refused = register(&world, ibv_mr_init_attr { comp_mask, ..of_buffer(&world) });
        assert_eq!(refused.err(), Some(wanted), "{comp_mask:#x}");
    }
    let wrong = ibv_mr_init_attr { buf: world.mr.cast(), ..of_buffer(&world) };
    let wrong = ibv_mr_init_attr { comp_mask: ADDR | BUF, ..wrong };
    assert_eq!(register(&world, wrong).err(), Some(ENOENT), "another object");
    let mut good = of_buffer(&world);
    // SAFETY: null is found out.
    unsafe {
        assert_eq!(why(ibv_reg_mr_ex(world.pd, null_mut())).err(), Some(EINVAL));
        assert_eq!(why(ibv_reg_mr_ex(null_mut(), &raw mut good)).err(), Some(EINVAL));
    }
    world.end();
}

#[test]
fn peers_reach_each_kind_of_region_where_it_was_registered() {
    let world = world(213);
    let at = world.buffer.as_ptr() as u64;
    let mut attr = ibv_alloc_dm_attr { length: 8192, log_align_req: 0, comp_mask: 0 };
    let mut buf = null_mut();
    // SAFETY: as the manual pages want it.
    unsafe {
        let dm = alloc_dm(world.context, &raw mut attr);
        let file = OwnedFd::from_raw_fd(ibv_dm_export_dmabuf_fd(dm));
        let addr = ibv_alloc_buf(world.pd, 64, &raw mut buf);
        let plain = ibv_mr_init_attr { fd: file.as_raw_fd(), ..of_buffer(&world) };
        let plain = ibv_mr_init_attr { fd_offset: 4100, iova: 0x9000, ..plain };
        let inside = ibv_mr_init_attr { addr, buf, ..plain };
        for (comp_mask, attr, start) in [
            (ADDR, plain, at),
            (ADDR | IOVA, plain, 0x9000),
            (ADDR | BUF, inside, addr as u64),
            (ADDR | BUF | IOVA, inside, 0x9000),
            (FD, plain, 0),
            (FD | FD_OFFSET, plain, 4100),
            (FD | FD_OFFSET | IOVA, plain, 0x9000),
        ] {
            let mr = register(&world, ibv_mr_init_attr { comp_mask, ..attr }).expect("a region");
            assert_eq!((*mr).addr.is_null(), comp_mask & FD != 0, "{comp_mask:#x}");
            let qp = in_state(&world, IBV_QPT_RC, IBV_QPS_RTS);
            assert_eq!(write(&world, qp, (*mr).rkey, start), 0, "{comp_mask:#x}");
            assert_eq!(write(&world, qp, (*mr).rkey, start + 56), 0, "{comp_mask:#x}");
            assert_ne!(write(&world, qp, (*mr).rkey, start + 57), 0, "{comp_mask:#x}");
            assert_eq!((ibv_destroy_qp(qp), ibv_dereg_mr(mr)), (0, 0));
        }
        let outside = ibv_mr_init_attr { comp_mask: ADDR | BUF, length: 65, ..inside };
        assert_eq!(register(&world, outside).err(), Some(EINVAL), "its buffer is shorter");
        ibv_free_buf(buf);
        assert_eq!(free_dm(dm), 0);
    }
    world.end();
}
