//! Multicast groups of ids, and rdma_set_option(3).

use std::ptr::null_mut;

use libc::{EADDRNOTAVAIL, EAFNOSUPPORT, EINVAL, ENOSYS, EOPNOTSUPP, c_int, c_void};
use uroce_ibverbs::object::zeroed;
use uroce_ibverbs::qp_create::ibv_destroy_qp;
use uroce_verbs_abi::*;

use super::objects::bound;
use super::states::errno;
use super::{End, address};
use crate::bind::rdma_bind_addr;
use crate::channel::rdma_write_cm_event;
use crate::create::rdma_create_id;
use crate::destroy::rdma_destroy_id;
use crate::listen::rdma_listen;
use crate::multicast::{rdma_join_multicast, rdma_join_multicast_ex, rdma_leave_multicast};
use crate::queue_pair::rdma_create_qp;
use crate::set_option::rdma_set_option;

const BOTH: u32 = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;

fn result(answer: c_int) -> Result<(), c_int> {
    if answer == 0 { Ok(()) } else { Err(errno()) }
}

fn join(end: &End, group: &str) -> Result<(), c_int> {
    let mut group = address(group);
    // SAFETY: as the manual page wants it.
    result(unsafe { rdma_join_multicast(end.id, (&raw mut group).cast(), end.id.cast()) })
}

fn join_with(end: &End, group: &str, comp_mask: u32, join_flags: u32) -> Result<(), c_int> {
    let mut group = address(group);
    let addr = (&raw mut group).cast();
    let mut attr = rdma_cm_join_mc_attr_ex { comp_mask, join_flags, addr };
    // SAFETY: as the manual page wants it.
    result(unsafe { rdma_join_multicast_ex(end.id, &raw mut attr, null_mut()) })
}

fn leave(end: &End, group: &str) -> Result<(), c_int> {
    let mut group = address(group);
    // SAFETY: as the manual page wants it.
    result(unsafe { rdma_leave_multicast(end.id, (&raw mut group).cast()) })
}

fn datagrams(text: &str) -> End {
    let end = bound(RDMA_PS_UDP, text);
    // SAFETY: integers and null pointers; the call as the manual page wants it.
    unsafe {
        let mut init: ibv_qp_init_attr = zeroed();
        init.qp_type = IBV_QPT_UD;
        (init.cap.max_send_wr, init.cap.max_recv_wr) = (2, 2);
        assert_eq!(rdma_create_qp(end.id, null_mut(), &raw mut init), 0);
    }
    end
}

#[test]
fn a_program_gets_each_event_that_it_has_written_or_asked_for() {
    let end = bound(RDMA_PS_UDP, "127.47.93.212:0");
    end.set_nonblocking();
    for _ in 0..2 {
        // SAFETY: as the manual page wants it.
        assert_eq!(unsafe { rdma_write_cm_event(end.id, RDMA_CM_EVENT_USER, 0, 7) }, 0);
        assert_eq!(join(&end, "230.47.93.212:0"), Ok(()));
    }
    for _ in 0..2 {
        end.expect(RDMA_CM_EVENT_USER);
        end.expect(RDMA_CM_EVENT_MULTICAST_JOIN);
    }
    assert!(!end.is_readable());
    end.end();
}

#[test]
fn only_groups_of_the_family_of_the_device_are_joined() {
    let end = datagrams("127.47.99.1:0");
    for address in ["10.1.2.3:0", "127.47.99.1:0", "0.0.0.0:0", "223.255.255.255:0", "240.0.0.1:0"]
    {
        assert_eq!(join(&end, address), Err(EINVAL), "{address} is no group");
    }
    assert_eq!(join(&end, "[ff0e::1:2]:0"), Err(EINVAL), "of the other family");
    // SAFETY: null, and an address of another family.
    unsafe {
        assert_eq!(result(rdma_join_multicast(end.id, null_mut(), null_mut())), Err(EINVAL));
        let mut other = address("230.47.99.1:0");
        other.ss_family = libc::AF_UNIX as libc::sa_family_t;
        let other = (&raw mut other).cast();
        assert_eq!(result(rdma_join_multicast(end.id, other, null_mut())), Err(EAFNOSUPPORT));
    }
    assert_eq!(leave(&end, "230.47.99.1:0"), Err(EADDRNOTAVAIL), "none was joined");
    end.set_nonblocking();
    end.end();
}

#[test]
fn an_id_leaves_each_group_once_and_all_that_are_left_when_it_goes() {
    let end = datagrams("127.47.99.2:0");
    let groups = ["230.47.99.2:0", "230.47.99.3:0", "224.0.0.99:0", "239.255.255.255:0"];
    for group in groups {
        assert_eq!(join(&end, group), Ok(()), "{group}");
        let joined = end.next();
        assert_eq!((joined.kind, joined.status), (RDMA_CM_EVENT_MULTICAST_JOIN, 0));
        assert_eq!((joined.id, joined.ud.private_data), (end.id, end.id.cast_const().cast()));
        assert_eq!((joined.ud.qp_num, joined.ud.qkey), (0xff_ffff, RDMA_UDP_QKEY));
        let ip = group.split(':').next().expect("an address");
        let octets = ip.parse::<std::net::Ipv4Addr>().expect("of IPv4").octets();
        assert_eq!(joined.ud.ah_attr.grh.dgid.raw[12..], octets, "the way to the group");
    }
    assert_eq!(leave(&end, groups[1]), Ok(()));
    assert_eq!(leave(&end, groups[1]), Err(EADDRNOTAVAIL), "twice");
    assert_eq!(join(&end, groups[1]), Ok(()), "again");
    end.end();
}

#[test]
fn the_extended_call_needs_both_attributes_and_knows_two_ways_to_join() {
    let end = datagrams("127.47.99.4:0");
    let group = "230.47.99.4:0";
    for mask in
        [0, RDMA_CM_JOIN_MC_ATTR_ADDRESS, RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS, BOTH | 4, u32::MAX]
    {
        assert_eq!(join_with(&end, group, mask, 0), Err(EOPNOTSUPP), "{mask:#x}");
    }
    for flags in [2, 3, u32::MAX] {
        assert_eq!(join_with(&end, group, BOTH, flags), Err(EOPNOTSUPP), "{flags}");
    }
    assert_eq!(leave(&end, group), Err(EADDRNOTAVAIL), "nothing was joined");
    assert_eq!(join_with(&end, group, BOTH, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER), Ok(()));
    assert_eq!(end.next().kind, RDMA_CM_EVENT_MULTICAST_JOIN);
    assert_eq!(leave(&end, group), Ok(()));
    assert_eq!(join_with(&end, group, BOTH, RDMA_MC_JOIN_FLAG_FULLMEMBER), Ok(()));
    assert_eq!(leave(&end, group), Ok(()), "its event was not fetched");
    assert!(!end.is_readable(), "who reads a descriptor that blocks would wait");
    end.set_nonblocking();
    let mut event = null_mut();
    // SAFETY: as the manual page wants it.
    let fetched = unsafe { crate::channel::rdma_get_cm_event(end.channel, &raw mut event) };
    assert_eq!((fetched, errno()), (-1, libc::EAGAIN), "a group that was left has no event");
    end.end();
}

#[test]
fn a_queue_pair_that_is_gone_has_left_its_groups() {
    let end = datagrams("127.47.99.21:0");
    assert_eq!(join(&end, "230.47.99.21:0"), Ok(()));
    assert_eq!(end.next().kind, RDMA_CM_EVENT_MULTICAST_JOIN);
    // SAFETY: the queue pair of the id, which knows nothing of it.
    assert_eq!(unsafe { ibv_destroy_qp((*end.id).qp) }, 0);
    assert_eq!(leave(&end, "230.47.99.21:0"), Ok(()));
    // SAFETY: a living id.
    unsafe { (*end.id).qp = null_mut() };
    end.end();
}

#[test]
fn an_id_without_a_queue_pair_learns_the_way_to_a_group() {
    let end = bound(RDMA_PS_UDP, "127.47.99.5:0");
    assert_eq!(join(&end, "230.47.99.5:0"), Ok(()));
    let joined = end.next();
    assert_eq!(joined.kind, RDMA_CM_EVENT_MULTICAST_JOIN);
    assert_eq!(joined.ud.ah_attr.is_global, 1);
    assert_eq!(leave(&end, "230.47.99.5:0"), Ok(()));
    end.end();
    let nowhere = End::of(RDMA_PS_UDP);
    assert_eq!(join(&nowhere, "230.47.99.5:0"), Err(EINVAL), "it has no device");
    assert_eq!(leave(&nowhere, "230.47.99.5:0"), Err(EADDRNOTAVAIL));
    nowhere.end();
}

#[test]
fn an_id_without_a_channel_waits_for_its_group() {
    let (mut id, mut at, mut group) =
        (null_mut(), address("127.47.99.20:0"), address("230.47.99.20:0"));
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(rdma_create_id(null_mut(), &raw mut id, null_mut(), RDMA_PS_UDP), 0);
        assert_eq!(rdma_bind_addr(id, (&raw mut at).cast()), 0);
        assert_eq!(rdma_join_multicast(id, (&raw mut group).cast(), null_mut()), 0);
        assert!(!(*id).event.is_null(), "programs read the way to the group there");
        assert_eq!((*(*id).event).event, RDMA_CM_EVENT_MULTICAST_JOIN);
        assert_eq!((*(*id).event).param.ud.qp_num, 0xff_ffff);
        assert_eq!(rdma_leave_multicast(id, (&raw mut group).cast()), 0);
        assert_eq!(rdma_destroy_id(id), 0);
    }
}

/// Sets an option of this length.
fn set(end: &End, level: c_int, name: c_int, value: c_int, length: usize) -> Result<(), c_int> {
    let mut value = value.to_le_bytes();
    let value: *mut c_void = value.as_mut_ptr().cast();
    // SAFETY: 4 bytes; a length that is wrong is not read.
    result(unsafe { rdma_set_option(end.id, level, name, value, length) })
}

#[test]
fn options_have_their_length_and_their_range() {
    let end = End::new();
    for name in [RDMA_OPTION_ID_TOS, RDMA_OPTION_ID_ACK_TIMEOUT] {
        assert_eq!(set(&end, RDMA_OPTION_ID, name, 1, 1), Ok(()), "{name}");
        for length in [0, 2, 4, usize::MAX] {
            assert_eq!(set(&end, RDMA_OPTION_ID, name, 1, length), Err(EINVAL), "{name} {length}");
        }
    }
    for name in [RDMA_OPTION_ID_REUSEADDR, RDMA_OPTION_ID_AFONLY] {
        assert_eq!(set(&end, RDMA_OPTION_ID, name, 1, 4), Ok(()), "{name}");
        assert_eq!(set(&end, RDMA_OPTION_ID, name, 0, 4), Ok(()), "{name}");
        for length in [0, 1, 3, 5, 8] {
            assert_eq!(set(&end, RDMA_OPTION_ID, name, 1, length), Err(EINVAL), "{name} {length}");
        }
    }
    let timeout = |value| set(&end, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, value, 1);
    assert_eq!([0, 31, 32, 255].map(timeout), [Ok(()), Ok(()), Err(EINVAL), Err(EINVAL)]);
    assert_eq!(set(&end, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 255, 1), Ok(()));
    for name in 0..4 {
        // SAFETY: null is checked.
        let none = unsafe { rdma_set_option(end.id, RDMA_OPTION_ID, name, null_mut(), 1) };
        assert_eq!(result(none), Err(EINVAL), "{name}");
    }
    end.end();
}

#[test]
fn options_that_are_unknown_are_not_implemented() {
    let end = End::new();
    for (level, name) in
        [(RDMA_OPTION_ID, 4), (RDMA_OPTION_ID, -1), (2, 0), (-1, 0), (RDMA_OPTION_IB, 0)]
    {
        assert_eq!(set(&end, level, name, 1, 4), Err(ENOSYS), "{level} {name}");
    }
    end.end();
}

#[test]
fn a_path_may_be_given_instead_of_a_route() {
    /// Set by `ibv_path_data`: management and data, both ways.
    const FLAGS: u8 = 1 | 1 << 1 | 1 << 3 | 1 << 5;
    let (end, listener) = super::states::resolved("127.47.99.7:0", "127.47.99.8:0");
    let give = |end: &End, flags: u8, length: usize| {
        let mut path = [0_u8; 144];
        (path[0], path[64]) = (flags, 0x80 | 14);
        let value = path.as_mut_ptr().cast();
        // SAFETY: up to 144 bytes.
        result(unsafe {
            rdma_set_option(end.id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, value, length)
        })
    };
    for length in [0, 1, 71, 73] {
        assert_eq!(give(&end, FLAGS, length), Err(EINVAL), "{length}");
    }
    assert_eq!(give(&end, FLAGS & !1, 72), Err(EINVAL), "not for management");
    assert_eq!(give(&listener, FLAGS, 72), Err(EINVAL), "it has no peer");
    for length in [72, 144] {
        assert_eq!(give(&end, FLAGS, length), Ok(()));
        assert_eq!(end.next().kind, RDMA_CM_EVENT_ROUTE_RESOLVED);
    }
    end.end();
    listener.end();
}

#[test]
fn datagrams_have_no_ack_timeout() {
    let end = End::of(RDMA_PS_UDP);
    assert_eq!(set(&end, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 14, 1), Err(EINVAL));
    end.end();
}

#[test]
fn options_of_addresses_are_set_before_they_count() {
    let end = bound(RDMA_PS_TCP, "127.47.99.6:0");
    let no_reuse = set(&end, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 0, 4);
    assert_eq!(no_reuse, Err(EINVAL), "it has a port");
    let set = |name| set(&end, RDMA_OPTION_ID, name, 1, 4);
    assert_eq!(set(RDMA_OPTION_ID_AFONLY), Ok(()), "it neither listens nor calls");
    assert_eq!(set(RDMA_OPTION_ID_REUSEADDR), Ok(()));
    // SAFETY: as the manual page wants it.
    assert_eq!(unsafe { rdma_listen(end.id, 0) }, 0, "a backlog of 0 is any");
    assert_eq!(set(RDMA_OPTION_ID_REUSEADDR), Err(EINVAL), "it listens");
    assert_eq!(set(RDMA_OPTION_ID_AFONLY), Err(EINVAL), "it listens");
    end.end();
}
