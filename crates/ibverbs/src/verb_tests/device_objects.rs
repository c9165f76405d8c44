//! Device memory, thread domains, the list of devices, and what a context tells of itself.

use std::ffi::CStr;
use std::ptr::{null, null_mut};

use libc::{EBUSY, EINVAL, ENOENT, EOPNOTSUPP, c_int};

use super::{errno, why, world};
use crate::abi::*;
use crate::clock::query_rt_values;
use crate::device_list::{
    ibv_free_device_list, ibv_get_device_guid, ibv_get_device_index, ibv_get_device_list,
    ibv_get_device_name,
};
use crate::device_memory::MAX_DM_SIZE;
use crate::dm::{alloc_dm, free_dm, ibv_import_dm, ibv_unimport_dm, reg_dm_mr};
use crate::mr::ibv_dereg_mr;
use crate::names::{ibv_event_type_str, ibv_node_type_str, ibv_port_state_str, ibv_wc_status_str};
use crate::object::zeroed;
use crate::open::ibv_close_device;
use crate::query::{ibv_query_port, query_device_ex, query_port};
use crate::rate::{ibv_rate_to_mbps, ibv_rate_to_mult, mbps_to_ibv_rate, mult_to_ibv_rate};
use crate::sysfs::ibv_read_sysfs_file;

const ZERO_BASED: u32 = (IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE) as u32;

#[test]
fn device_memory_is_allocated_up_to_its_limits() {
    let world = world(80);
    let alloc = |length, log_align_req, comp_mask| {
        let mut attr = ibv_alloc_dm_attr { length, log_align_req, comp_mask };
        // SAFETY: as the manual page wants it.
        why(unsafe { alloc_dm(world.context, &raw mut attr) })
    };
    for (length, align) in [(1, 0), (MAX_DM_SIZE, 0), (4096, 12)] {
        let dm = alloc(length, align, 0).expect("within the limits");
        // SAFETY: just made; destroyed twice.
        unsafe {
            assert_eq!(((*dm).context, (*dm).comp_mask), (world.context, 0));
            assert_eq!((free_dm(dm), free_dm(dm)), (0, ENOENT));
        }
    }
    assert_eq!(alloc(0, 0, 0).err(), Some(EINVAL));
    assert_eq!(alloc(MAX_DM_SIZE + 1, 0, 0).err(), Some(EINVAL));
    assert_eq!(alloc(usize::MAX, 0, 0).err(), Some(EINVAL));
    assert_eq!((alloc(8, 13, 0).err(), alloc(8, 0, 1).err()), (Some(EOPNOTSUPP), Some(EOPNOTSUPP)));
    world.end();
}

#[test]
fn regions_of_device_memory_lie_within_it_and_hold_it() {
    let world = world(81);
    let mut attr = ibv_alloc_dm_attr { length: 64, log_align_req: 0, comp_mask: 0 };
    // SAFETY: as the manual pages want it.
    unsafe {
        let dm = alloc_dm(world.context, &raw mut attr);
        let register =
            |offset, length, access| why(reg_dm_mr(world.pd, dm, offset, length, access));
        for (offset, length) in [(0, 65), (64, 1), (65, 0), (u64::MAX, 2), (1, usize::MAX)] {
            assert_eq!(
                register(offset, length, ZERO_BASED).err(),
                Some(EINVAL),
                "{offset} {length}"
            );
        }
        assert_eq!(register(0, 64, 1).err(), Some(EINVAL), "addresses count from 0");
        let on_demand = ZERO_BASED | IBV_ACCESS_ON_DEMAND as u32;
        assert_eq!(register(0, 64, on_demand).err(), Some(EINVAL));
        let (one, two) = (register(0, 64, ZERO_BASED), register(60, 4, ZERO_BASED));
        let (one, two) = (one.expect("all of it"), two.expect("its end"));
        assert_eq!(((*one).addr, (*two).length), (null_mut(), 4));
        assert_eq!((free_dm(dm), ibv_dereg_mr(one), free_dm(dm)), (EBUSY, 0, EBUSY));
        let imported = ibv_import_dm(world.context, (*dm).handle);
        assert_eq!((ibv_dereg_mr(two), free_dm(dm)), (0, EBUSY), "another object stands for it");
        ibv_unimport_dm(imported);
        assert_eq!(free_dm(dm), 0);
        assert_eq!(
            why(ibv_import_dm(world.context, (*world.pd).handle ^ 0xffff_0000)).err(),
            Some(ENOENT)
        );
    }
    world.end();
}

#[test]
fn copies_of_device_memory_are_whole_words_within_it() {
    let world = world(82);
    let mut attr = ibv_alloc_dm_attr { length: 16, log_align_req: 0, comp_mask: 0 };
    let (mut bytes, from) = ([0_u8; 16], [7_u8; 16]);
    // SAFETY: as the manual pages want it; null is checked.
    unsafe {
        let dm = alloc_dm(world.context, &raw mut attr);
        let (put, get) = ((*dm).memcpy_to_dm, (*dm).memcpy_from_dm);
        for (offset, length) in [(0, 3), (2, 4), (16, 4), (12, 8), (u64::MAX - 3, 4)] {
            assert_eq!(put(dm, offset, from.as_ptr().cast(), length), EINVAL, "{offset} {length}");
            assert_eq!(get(bytes.as_mut_ptr().cast(), dm, offset, length), EINVAL);
        }
        assert_eq!(put(dm, 0, null(), 4), EINVAL);
        assert_eq!(get(null_mut(), dm, 0, 4), EINVAL);
        assert_eq!(get(bytes.as_mut_ptr().cast(), dm, 0, 16), 0);
        assert_eq!(bytes, [0; 16], "nothing was copied, and it begins with zeros");
        assert_eq!(put(dm, 12, from.as_ptr().cast(), 4), 0, "the last word");
        assert_eq!(get(bytes.as_mut_ptr().cast(), dm, 0, 16), 0);
        assert_eq!((bytes[11], bytes[12], bytes[15]), (0, 7, 7));
        assert_eq!((put(dm, 0, from.as_ptr().cast(), 0), free_dm(dm)), (0, 0));
        assert_eq!(put(dm, 0, from.as_ptr().cast(), 4), ENOENT, "it is gone");
    }
    world.end();
}

#[test]
fn devices_are_listed_with_their_names_and_an_end() {
    let mut count = -1;
    // SAFETY: as the manual pages want it.
    unsafe {
        let list = ibv_get_device_list(&raw mut count);
        let again = ibv_get_device_list(null_mut());
        assert!(!list.is_null() && !again.is_null() && count > 0, "every machine has lo");
        let devices: Vec<_> = (0..count as usize).map(|at| *list.add(at)).collect();
        for (index, device) in devices.iter().copied().enumerate() {
            assert_eq!(*again.add(index), device, "the same each time");
            let name = CStr::from_ptr(ibv_get_device_name(device));
            assert!(!name.is_empty() && name.count_bytes() < 64, "{name:?}");
            assert_ne!(ibv_get_device_guid(device), 0);
            assert_eq!(ibv_get_device_index(device), index as c_int);
            assert_eq!(
                ((*device).node_type, (*device).transport_type),
                (IBV_NODE_CA, IBV_TRANSPORT_IB)
            );
        }
        assert!((*list.add(devices.len())).is_null());
        ibv_free_device_list(list);
        ibv_free_device_list(again);
    }
}

#[test]
fn structs_of_another_version_get_what_they_have_room_for() {
    let world = world(83);
    // SAFETY: room for what is asked, and more.
    unsafe {
        let mut device = [0xee_u8; size_of::<ibv_device_attr_ex>() + 16];
        let place = device.as_mut_ptr().cast::<ibv_device_attr_ex>();
        let size = size_of::<ibv_device_attr>();
        assert_eq!(query_device_ex(world.context, null(), place, size), 0);
        assert!(device[size..].iter().all(|byte| *byte == 0xee), "not a byte more");
        let more = device.len();
        assert_eq!(query_device_ex(world.context, null(), place, more), 0);
        assert_eq!(device[more - 16..], [0; 16], "what we do not know is 0");
        let mut port = [0xee_u8; size_of::<ibv_port_attr>() + 8];
        let place = port.as_mut_ptr().cast::<ibv_port_attr>();
        assert_eq!(ibv_query_port(world.context, 1, place), 0);
        assert_eq!(port[48..], [0xee; size_of::<ibv_port_attr>() - 40], "48 bytes, as it was once");
        assert_eq!(query_port(world.context, 1, place, port.len()), 0);
        assert_eq!(port[port.len() - 8..], [0; 8]);
        let attr = place.read_unaligned();
        assert_eq!((attr.gid_tbl_len, attr.pkey_tbl_len, attr.link_layer), (2, 1, 2));
        assert_eq!(attr.flags & IBV_QPF_GRH_REQUIRED, IBV_QPF_GRH_REQUIRED);
        assert!(attr.max_mtu >= attr.active_mtu && attr.active_mtu >= 1);
    }
    world.end();
}

#[test]
fn the_clock_is_read_if_it_is_asked_for() {
    let world = world(84);
    // SAFETY: integers; the calls as the manual page wants them.
    unsafe {
        let mut values: ibv_values_ex = zeroed();
        values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
        assert_eq!(query_rt_values(world.context, &raw mut values), 0);
        let first = values.raw_clock.tv_nsec;
        assert!(first > 0 && values.raw_clock.tv_sec == 0, "ticks are in the nanoseconds");
        assert_eq!(query_rt_values(world.context, &raw mut values), 0);
        assert!(values.raw_clock.tv_nsec >= first);
        for mask in [2, 1 << 31, u32::MAX] {
            values.comp_mask = mask;
            assert_eq!(query_rt_values(world.context, &raw mut values), EOPNOTSUPP, "{mask:#x}");
        }
    }
    world.end();
}

#[test]
fn numbers_have_names_and_others_are_unknown() {
    let name = |text: *const libc::c_char| {
        // SAFETY: strings that are never freed.
        unsafe { CStr::from_ptr(text) }
    };
    assert_eq!(name(ibv_wc_status_str(0)), c"success");
    assert_eq!(name(ibv_wc_status_str(5)), c"Work Request Flushed Error");
    assert_eq!(name(ibv_wc_status_str(13)), c"RNR retry counter exceeded");
    assert_eq!(name(ibv_node_type_str(IBV_NODE_CA)), c"InfiniBand channel adapter");
    assert_eq!(name(ibv_port_state_str(IBV_PORT_ACTIVE)), c"active");
    assert_eq!(name(ibv_event_type_str(IBV_EVENT_PORT_ERR)), c"port error");
    for number in [-1, 24, c_int::MAX, c_int::MIN] {
        for text in [ibv_wc_status_str, ibv_node_type_str, ibv_port_state_str, ibv_event_type_str] {
            assert_eq!(name(text(number)), c"unknown", "{number}");
        }
    }
    assert_eq!(
        (ibv_rate_to_mult(IBV_RATE_10_GBPS), ibv_rate_to_mbps(IBV_RATE_100_GBPS)),
        (4, 103_125)
    );
    assert_eq!((ibv_rate_to_mult(IBV_RATE_MAX), ibv_rate_to_mbps(-1)), (-1, -1));
    assert_eq!((mult_to_ibv_rate(12), mbps_to_ibv_rate(1)), (IBV_RATE_30_GBPS, IBV_RATE_MAX));
}

#[test]
fn files_below_sys_are_read_whole_or_not_at_all() {
    // SAFETY: strings that end with 0, and a buffer as long as is said.
    unsafe {
        let list = ibv_get_device_list(null_mut());
        let folder = (**list).ibdev_path.as_ptr();
        let mut buffer = [0x55 as libc::c_char; 64];
        let start = buffer.as_mut_ptr();
        let read = |file: &CStr, size| ibv_read_sysfs_file(folder, file.as_ptr(), start, size);
        assert_eq!(read(c"node_type", 64), 5);
        assert_eq!(read(c"node_type", 6), 5, "with its end");
        assert_eq!(read(c"node_type", 5), -1, "no room for the end");
        assert_eq!((read(c"node_type", 0), read(c"no_such_file", 64)), (-1, -1));
        assert_eq!(CStr::from_ptr(start), c"1: CA");
        ibv_free_device_list(list);
    }
}

#[test]
fn a_context_is_closed_once_and_only_if_it_is_one() {
    let context = crate::contract_tests::opened(86);
    // SAFETY: a context, and null.
    unsafe {
        assert!((*context).cmd_fd >= 0 && (*context).async_fd >= 0);
        assert!((*context).num_comp_vectors >= 1);
        assert_eq!(ibv_close_device(context), 0);
        assert_eq!((ibv_close_device(null_mut()), errno()), (-1, EINVAL));
    }
}
