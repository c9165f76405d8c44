//! Memory regions and windows: what is registered with which rights, moved, shared and refused.

use std::ptr::null_mut;

use libc::{EBUSY, EINVAL, ENOENT, EOPNOTSUPP, c_int, c_void};

use super::{LOCAL_WRITE, REMOTE, errno, in_state, remote_region, request, why, world};
use crate::abi::*;
use crate::contract_tests::World;
use crate::mr::{
    advise_mr, ibv_dereg_mr, ibv_import_mr, ibv_reg_mr, ibv_reg_mr_iova, ibv_rereg_mr,
    ibv_unimport_mr,
};
use crate::mw::{alloc_mw, bind_mw, dealloc_mw};
use crate::object::zeroed;
use crate::pd::{ibv_alloc_pd, ibv_dealloc_pd, ibv_import_pd, ibv_unimport_pd};
use crate::post_send::post_send;
use crate::qp_create::ibv_destroy_qp;

fn register(world: &World, access: c_int) -> Result<*mut ibv_mr, c_int> {
    let start: *mut c_void = world.buffer.as_ptr().cast_mut().cast();
    // SAFETY: the buffer lives as long as the world.
    why(unsafe { ibv_reg_mr(world.pd, start, 64, access) })
}

/// Status of a WRITE of 8 bytes with this key to this address.
pub(super) fn write(world: &World, qp: *mut ibv_qp, rkey: u32, remote_addr: u64) -> c_int {
    let (mut from, mut wr) = (world.sge(0, 8), request(IBV_WR_RDMA_WRITE));
    (wr.sg_list, wr.num_sge) = (&raw mut from, 1);
    wr.wr = wr_union { rdma: rdma_wr { remote_addr, rkey } };
    // SAFETY: as the manual page wants it.
    assert_eq!(unsafe { post_send(qp, &raw mut wr, &mut null_mut()) }, 0);
    world.poll().status
}

#[test]
fn rights_that_go_together_are_registered_and_others_refused() {
    let world = world(60);
    for access in [
        0,
        LOCAL_WRITE,
        IBV_ACCESS_REMOTE_READ,
        LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
        LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
        LOCAL_WRITE | IBV_ACCESS_MW_BIND,
        REMOTE,
        // Relaxed ordering, and others of the optional range, need not be obeyed.
        LOCAL_WRITE | 1 << 20,
    ] {
        let mr = register(&world, access).unwrap_or_else(|errno| panic!("{access:#x}: {errno}"));
        // SAFETY: just made, and not used afterwards.
        unsafe {
            assert_eq!(((*mr).pd, (*mr).context, (*mr).length), (world.pd, world.context, 64));
            assert_eq!(ibv_dereg_mr(mr), 0);
        }
    }
    for access in [IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC, 1 << 19, 1 << 31] {
        assert_eq!(register(&world, access).err(), Some(EINVAL), "{access:#x}");
    }
    world.end();
}

#[test]
fn peers_use_the_addresses_that_a_region_was_registered_at() {
    let world = world(61);
    let qp = in_state(&world, IBV_QPT_RC, IBV_QPS_RTS);
    let start: *mut c_void = world.buffer.as_ptr().cast_mut().cast();
    const IOVA: u64 = 0x7000_0000_0000;
    // SAFETY: the buffer lives as long as the world.
    unsafe {
        let mr = ibv_reg_mr_iova(world.pd, start, 64, IOVA, REMOTE);
        assert_eq!((*mr).addr, start, "the program has its own address");
        assert_eq!(write(&world, qp, (*mr).rkey, IOVA + 56), 0, "the last bytes");
        assert_ne!(write(&world, qp, (*mr).rkey, start as u64), 0, "not for peers");
        assert_eq!(ibv_destroy_qp(qp), 0);
        assert_eq!(ibv_dereg_mr(mr), 0);
        let wraps = ibv_reg_mr_iova(world.pd, start, 64, u64::MAX - 62, REMOTE);
        assert_eq!(why(wraps).err(), Some(EINVAL), "it ends behind the last address");
    }
    world.end();
}

#[test]
fn a_write_beyond_a_region_is_refused_at_either_end() {
    let mut world = world(62);
    let mr = remote_region(&mut world);
    // SAFETY: a region that lives.
    let (rkey, at) = unsafe { ((*mr).rkey, (*mr).addr as u64) };
    for (why, rkey, addr, good) in [
        ("the first bytes", rkey, at, true),
        ("the last bytes", rkey, at + 56, true),
        ("a byte before", rkey, at - 1, false),
        ("a byte behind", rkey, at + 57, false),
        ("around the last address", rkey, u64::MAX - 3, false),
        ("the key of its neighbour", rkey ^ 1, at, false),
    ] {
        // A queue pair that was refused is in error.
        let qp = in_state(&world, IBV_QPT_RC, IBV_QPS_RTS);
        assert_eq!(write(&world, qp, rkey, addr) == 0, good, "{why}");
        // SAFETY: nothing of it is used afterwards.
        assert_eq!(unsafe { ibv_destroy_qp(qp) }, 0);
    }
    // SAFETY: as above.
    assert_eq!(unsafe { ibv_dereg_mr(mr) }, 0);
    world.end();
}

#[test]
fn a_region_changes_whole_or_not_at_all() {
    let world = world(63);
    let mut other = Box::new([0_u8; 128]);
    let (mr, elsewhere) =
        (register(&world, LOCAL_WRITE).expect("memory"), other.as_mut_ptr().cast());
    // SAFETY: as the manual pages want it.
    unsafe {
        let pd = ibv_alloc_pd(world.context);
        let before = ((*mr).addr, (*mr).length, (*mr).pd, (*mr).lkey);
        let all =
            IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
        let now = || ((*mr).addr, (*mr).length, (*mr).pd, (*mr).lkey);
        for (why, pd, addr, length, access) in [
            ("no domain", null_mut(), elsewhere, 128, LOCAL_WRITE),
            ("no address", pd, null_mut(), 128, LOCAL_WRITE),
            ("no bytes", pd, elsewhere, 0, LOCAL_WRITE),
            ("too many bytes", pd, elsewhere, usize::MAX, LOCAL_WRITE),
            ("rights that do not go together", pd, elsewhere, 128, IBV_ACCESS_REMOTE_WRITE),
        ] {
            assert_eq!(ibv_rereg_mr(mr, all, pd, addr, length, access), -1, "{why}");
            assert_eq!(now(), before, "{why}");
        }
        assert_eq!(ibv_rereg_mr(mr, all, pd, elsewhere, 128, REMOTE), 0);
        assert_eq!(((*mr).addr, (*mr).length, (*mr).pd), (elsewhere, 128, pd));
        assert_eq!(ibv_dealloc_pd(pd), EBUSY, "the region is in it now");
        assert_eq!((ibv_dereg_mr(mr), ibv_dereg_mr(mr)), (0, ENOENT), "twice");
        assert_eq!(ibv_rereg_mr(mr, all, pd, elsewhere, 128, REMOTE), -1);
        assert_eq!((errno(), ibv_dealloc_pd(pd)), (ENOENT, 0));
    }
    world.end();
}

#[test]
fn advice_is_checked_and_then_needs_nothing() {
    let world = world(64);
    let readable = register(&world, 0).expect("memory");
    // SAFETY: a region that lives; integers.
    unsafe {
        let mut sge = ibv_sge { lkey: (*readable).lkey, ..world.sge(0, 64) };
        let mut advise =
            |advice, flags, count| advise_mr(world.pd, advice, flags, &raw mut sge, count);
        assert_eq!(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 1), 0);
        assert_eq!(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, 1), 0);
        assert_eq!(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, 1), 0);
        assert_ne!(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, 1), 0, "it is read only");
        assert_eq!(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 2, 1), EINVAL, "no such flag");
        assert_eq!(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 0), EINVAL, "about nothing");
        assert_eq!(advise(3, 0, 1), EOPNOTSUPP, "no such advice");
        assert_eq!(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0, u32::MAX), EINVAL, "no such list");
        sge.length = 65;
        let beyond = advise_mr(world.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &raw mut sge, 1);
        assert_ne!(beyond, 0, "it ends at 64");
        assert_eq!(ibv_dereg_mr(readable), 0);
    }
    world.end();
}

#[test]
fn what_is_imported_is_the_same_and_what_is_not_there_is_not_found() {
    let world = world(65);
    // SAFETY: as the manual pages want it.
    unsafe {
        let pd = ibv_import_pd(world.context, (*world.pd).handle);
        assert!(pd != world.pd && (*pd).handle == (*world.pd).handle);
        let mr = ibv_import_mr(pd, (*world.mr).handle);
        assert_eq!(((*mr).lkey, (*mr).rkey), ((*world.mr).lkey, (*world.mr).rkey));
        assert_eq!(((*mr).addr, (*mr).length), (null_mut(), 0), "nobody has told it");
        for handle in [u32::MAX, (*world.mr).handle.wrapping_add(1 << 20)] {
            assert_eq!(why(ibv_import_mr(pd, handle)).err(), Some(ENOENT), "{handle}");
            assert_eq!(why(ibv_import_pd(world.context, handle)).err(), Some(ENOENT), "{handle}");
        }
        ibv_unimport_mr(mr);
        ibv_unimport_mr(mr);
        ibv_unimport_pd(pd);
        ibv_unimport_pd(pd);
        assert_eq!(why(ibv_import_mr(pd, (*world.mr).handle)).err(), Some(ENOENT));
    }
    world.end();
}

#[test]
fn a_domain_stays_as_long_as_anything_is_in_it() {
    let world = world(66);
    // SAFETY: as the manual pages want it.
    unsafe {
        let pd = ibv_alloc_pd(world.context);
        let start = world.buffer.as_ptr().cast_mut().cast();
        let mr = ibv_reg_mr(pd, start, 64, 0);
        assert_eq!((ibv_dealloc_pd(pd), ibv_dereg_mr(mr)), (EBUSY, 0));
        for mw_type in [IBV_MW_TYPE_1, IBV_MW_TYPE_2] {
            let mw = alloc_mw(pd, mw_type);
            assert_eq!(((*mw).pd, (*mw).type_), (pd, mw_type));
            assert_eq!(ibv_dealloc_pd(pd), EBUSY);
            assert_eq!((dealloc_mw(mw), dealloc_mw(mw)), (0, ENOENT), "twice");
        }
        for mw_type in [0, 3, -1, c_int::MAX] {
            assert_eq!(why(alloc_mw(pd, mw_type)).err(), Some(EINVAL), "{mw_type}");
        }
        assert_eq!((ibv_dealloc_pd(pd), ibv_dealloc_pd(pd)), (0, ENOENT), "twice");
    }
    world.end();
}

#[test]
fn a_window_of_type_1_is_bound_again_and_unbound_by_a_bind_of_nothing() {
    let mut world = world(67);
    let mr = remote_region(&mut world);
    let qp = in_state(&world, IBV_QPT_RC, IBV_QPS_RTS);
    // SAFETY: integers and null pointers; the calls as the manual pages want them.
    unsafe {
        let (mw, at) = (alloc_mw(world.pd, IBV_MW_TYPE_1), (*mr).addr as u64);
        let mut bind: ibv_mw_bind = zeroed();
        (bind.wr_id, bind.send_flags) = (5, IBV_SEND_SIGNALED);
        let mw_access_flags = IBV_ACCESS_REMOTE_WRITE as u32;
        bind.bind_info = ibv_mw_bind_info { mr, addr: at, length: 32, mw_access_flags };
        let first = (*mw).rkey;
        assert_eq!(bind_mw(qp, mw, &raw mut bind), 0);
        assert_eq!(((*mw).rkey >> 8, (*mw).rkey == first), (first >> 8, false), "another variant");
        assert_eq!((world.poll().wr_id, write(&world, qp, (*mw).rkey, at + 24)), (5, 0));
        let old = (*mw).rkey;
        bind.bind_info.addr = at + 32;
        assert_eq!((bind_mw(qp, mw, &raw mut bind), world.poll().status), (0, 0));
        assert_eq!(write(&world, qp, (*mw).rkey, at + 32), 0);
        assert_ne!(old, (*mw).rkey);
        assert_eq!(ibv_dereg_mr(mr), EBUSY, "the window is bound to it");
        bind.bind_info = ibv_mw_bind_info { length: 0, ..bind.bind_info };
        assert_eq!((bind_mw(qp, mw, &raw mut bind), world.poll().status), (0, 0));
        assert_eq!(ibv_dereg_mr(mr), 0, "it is bound to nothing");
        assert_eq!(bind_mw(qp, mw, &raw mut bind), ENOENT, "the region is gone");
        bind.bind_info.mw_access_flags = 1 << 31;
        assert_eq!(bind_mw(qp, mw, &raw mut bind), EINVAL, "no such right");
        assert_eq!((ibv_destroy_qp(qp), dealloc_mw(mw)), (0, 0));
    }
    world.end();
}

/// A peer's requests for memory on demand that is not mapped, or no longer, are refused; the program goes on.
#[test]
fn memory_on_demand_need_not_be_mapped() {
    let world = world(199);
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a mapping of its own, which is given back in two parts; the rest as the manual pages want it.
    unsafe {
        let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).expect("a size");
        let start = libc::mmap(null_mut(), 2 * page, protection, flags, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        let on_demand = REMOTE | IBV_ACCESS_ON_DEMAND;
        let (changed, change) =
            (ibv_reg_mr(world.pd, start, page, REMOTE), IBV_REREG_MR_CHANGE_ACCESS);
        assert_eq!(ibv_rereg_mr(changed, change, null_mut(), null_mut(), 0, on_demand), 0);
        assert_eq!(libc::munmap(start.byte_add(page), page), 0);
        let mr = ibv_reg_mr(world.pd, start, 2 * page, on_demand);
        assert!(!mr.is_null(), "errno {}", errno());
        let is_written = |mr: *mut ibv_mr, offset: usize| {
            let qp = in_state(&world, IBV_QPT_RC, IBV_QPS_RTS);
            let status = write(&world, qp, (*mr).rkey, (start.addr() + offset) as u64);
            assert_eq!(ibv_destroy_qp(qp), 0);
            status == 0
        };
        assert!(is_written(mr, 0) && !is_written(mr, page) && is_written(changed, 0));
        assert_eq!(libc::munmap(start, page), 0);
        for mr in [mr, changed] {
            assert!(!is_written(mr, 0));
            assert_eq!(ibv_dereg_mr(mr), 0);
        }
    }
    world.end();
}
