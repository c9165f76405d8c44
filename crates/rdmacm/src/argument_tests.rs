//! What each function says to null, and to an id in the wrong state.

use std::ffi::CStr;
use std::ptr::{null, null_mut};

use libc::{EINVAL, ENOENT, ENOTCONN, EPROTONOSUPPORT, c_int};
use uroce_ibverbs::object::zeroed;
use uroce_verbs_abi::*;

use crate::addrinfo::{rdma_freeaddrinfo, rdma_getaddrinfo};
use crate::bind::rdma_bind_addr;
use crate::channel::{
    rdma_ack_cm_event, rdma_create_event_channel, rdma_destroy_event_channel, rdma_get_cm_event,
};
use crate::connection::{
    rdma_accept, rdma_connect, rdma_disconnect, rdma_establish, rdma_notify, rdma_reject,
};
use crate::create::rdma_create_id;
use crate::destroy::rdma_destroy_id;
use crate::endpoint::{rdma_create_ep, rdma_destroy_ep, rdma_get_request};
use crate::event::rdma_event_str;
use crate::id::{rdma_get_dst_port, rdma_get_src_port};
use crate::listen::rdma_listen;
use crate::migrate::rdma_migrate_id;
use crate::multicast::{rdma_join_multicast, rdma_join_multicast_ex, rdma_leave_multicast};
use crate::qp_values::rdma_init_qp_attr;
use crate::queue_pair::{rdma_create_qp, rdma_create_qp_ex, rdma_destroy_qp};
use crate::resolve::{rdma_resolve_addr, rdma_resolve_route};
use crate::set_option::rdma_set_option;
use crate::shared_receive::{rdma_create_srq, rdma_create_srq_ex, rdma_destroy_srq};
use crate::sockaddr;

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

#[test]
fn null_is_refused() {
    // SAFETY: the library checks for null.
    let answers = unsafe {
        [
            rdma_create_id(null_mut(), null_mut(), null_mut(), RDMA_PS_TCP),
            rdma_destroy_id(null_mut()),
            rdma_bind_addr(null_mut(), null_mut()),
            rdma_listen(null_mut(), 1),
            rdma_resolve_addr(null_mut(), null_mut(), null_mut(), 1),
            rdma_resolve_route(null_mut(), 1),
            rdma_connect(null_mut(), null_mut()),
            rdma_accept(null_mut(), null_mut()),
            rdma_reject(null_mut(), null(), 0),
            rdma_disconnect(null_mut()),
            rdma_establish(null_mut()),
            rdma_notify(null_mut(), IBV_EVENT_COMM_EST),
            rdma_migrate_id(null_mut(), null_mut()),
            rdma_set_option(null_mut(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, null_mut(), 0),
            rdma_join_multicast(null_mut(), null_mut(), null_mut()),
            rdma_join_multicast_ex(null_mut(), null_mut(), null_mut()),
            rdma_leave_multicast(null_mut(), null_mut()),
            rdma_create_qp(null_mut(), null_mut(), null_mut()),
            rdma_create_qp_ex(null_mut(), null_mut()),
            rdma_create_srq(null_mut(), null_mut(), null_mut()),
            rdma_create_srq_ex(null_mut(), null_mut()),
            rdma_init_qp_attr(null_mut(), null_mut(), null_mut()),
            rdma_get_cm_event(null_mut(), null_mut()),
            rdma_create_ep(null_mut(), null_mut(), null_mut(), null_mut()),
            rdma_get_request(null_mut(), null_mut()),
            rdma_getaddrinfo(null(), null(), null(), null_mut()),
        ]
    };
    for (index, answer) in answers.into_iter().enumerate() {
        assert_eq!((answer, errno()), (-1, EINVAL), "call {index}");
    }
}

#[test]
fn functions_that_cannot_fail_ignore_null() {
    // SAFETY: the library checks for null.
    unsafe {
        rdma_destroy_qp(null_mut());
        rdma_destroy_srq(null_mut());
        rdma_destroy_ep(null_mut());
        rdma_destroy_event_channel(null_mut());
        rdma_freeaddrinfo(null_mut());
        assert_eq!(rdma_ack_cm_event(null_mut()), EINVAL);
        assert_eq!((rdma_get_src_port(null_mut()), rdma_get_dst_port(null_mut())), (0, 0));
    }
}

#[test]
fn v44_what_was_destroyed_is_not_there_any_more() {
    let gone = new_id(RDMA_PS_TCP);
    end(gone);
    let (channel, id) = gone;
    let (mut srq, mut attr, mut mask): (ibv_srq_init_attr, ibv_qp_attr, c_int) =
        // SAFETY: integers and null pointers.
        unsafe { (zeroed(), zeroed(), 0) };
    let mut event = null_mut();
    // SAFETY: the pointers of destroyed objects are compared, and not followed.
    let answers = unsafe {
        [
            rdma_create_srq(id, null_mut(), &raw mut srq),
            rdma_listen(id, 1),
            rdma_resolve_route(id, 1),
            rdma_connect(id, null_mut()),
            rdma_disconnect(id),
            rdma_init_qp_attr(id, &raw mut attr, &raw mut mask),
            rdma_get_cm_event(channel, &raw mut event),
            rdma_destroy_id(id),
        ]
    };
    assert_eq!((answers, errno()), ([-1; 8], ENOENT));
    // SAFETY: as above.
    unsafe {
        rdma_destroy_event_channel(channel);
        rdma_destroy_qp(id);
        assert_eq!((rdma_get_src_port(id), rdma_ack_cm_event(channel.cast())), (0, ENOENT));
    }
}

#[test]
fn events_have_their_names() {
    let name = |event| {
        // SAFETY: strings that are never freed.
        unsafe { CStr::from_ptr(rdma_event_str(event)) }
    };
    assert_eq!(name(RDMA_CM_EVENT_ADDR_RESOLVED), c"RDMA_CM_EVENT_ADDR_RESOLVED");
    assert_eq!(name(RDMA_CM_EVENT_ESTABLISHED), c"RDMA_CM_EVENT_ESTABLISHED");
    assert_eq!(name(RDMA_CM_EVENT_TIMEWAIT_EXIT), c"RDMA_CM_EVENT_TIMEWAIT_EXIT");
    assert_eq!((name(-1), name(99)), (c"UNKNOWN EVENT", c"UNKNOWN EVENT"));
}

/// An id, with its channel.
fn new_id(space: c_int) -> (*mut rdma_event_channel, *mut rdma_cm_id) {
    let (channel, mut id) = (rdma_create_event_channel(), null_mut());
    // SAFETY: a channel, and room for an id.
    assert_eq!(unsafe { rdma_create_id(channel, &raw mut id, null_mut(), space) }, 0);
    (channel, id)
}

fn end((channel, id): (*mut rdma_event_channel, *mut rdma_cm_id)) {
    // SAFETY: they are not used any more.
    unsafe {
        assert_eq!(rdma_destroy_id(id), 0);
        rdma_destroy_event_channel(channel);
    }
}

#[test]
fn there_are_two_port_spaces() {
    let (channel, mut id) = (rdma_create_event_channel(), null_mut());
    for space in [0, 1, -1, 0x013f] {
        // SAFETY: a channel, and room for an id.
        let made = unsafe { rdma_create_id(channel, &raw mut id, null_mut(), space) };
        assert_eq!((made, errno()), (-1, EPROTONOSUPPORT), "{space}");
    }
    assert!(id.is_null());
    // SAFETY: it is not used any more.
    unsafe { rdma_destroy_event_channel(channel) };
    for space in [RDMA_PS_TCP, RDMA_PS_UDP] {
        let made = new_id(space);
        // SAFETY: an id.
        let (ps, qp_type) = unsafe { ((*made.1).ps, (*made.1).qp_type) };
        let expected = if space == RDMA_PS_UDP { IBV_QPT_UD } else { IBV_QPT_RC };
        assert_eq!((ps, qp_type), (space, expected));
        end(made);
    }
}

#[test]
fn an_id_without_a_device_can_only_be_bound_or_resolved() {
    let made = new_id(RDMA_PS_TCP);
    let id = made.1;
    // SAFETY: an id, and local variables.
    unsafe {
        let mut init: ibv_qp_init_attr = zeroed();
        let mut srq: ibv_srq_init_attr = zeroed();
        let (mut attr, mut mask): (ibv_qp_attr, c_int) = (zeroed(), 0);
        attr.qp_state = IBV_QPS_RTR;
        let answers = [
            rdma_connect(id, null_mut()),
            rdma_accept(id, null_mut()),
            rdma_reject(id, null(), 0),
            rdma_disconnect(id),
            rdma_establish(id),
            rdma_notify(id, IBV_EVENT_COMM_EST),
            rdma_resolve_route(id, 1),
            rdma_create_qp(id, null_mut(), &raw mut init),
            rdma_create_srq(id, null_mut(), &raw mut srq),
            rdma_init_qp_attr(id, &raw mut attr, &raw mut mask),
        ];
        assert_eq!(answers, [-1; 10]);
        assert_eq!(errno(), EINVAL);
        assert_eq!((rdma_notify(id, 77), errno()), (-1, EINVAL), "another event");
    }
    end(made);
}

#[test]
fn an_id_that_is_bound_has_no_connection_yet() {
    let made = new_id(RDMA_PS_TCP);
    let id = made.1;
    let mut at = sockaddr::write("127.47.94.60:0".parse().expect("an address"));
    let at = (&raw mut at).cast();
    // SAFETY: an id and an address.
    unsafe {
        assert_eq!(rdma_bind_addr(id, at), 0);
        assert_ne!(rdma_get_src_port(id), 0, "it was given one");
        assert_eq!((rdma_bind_addr(id, at), errno()), (-1, EINVAL), "twice");
        for answer in [
            rdma_accept(id, null_mut()),
            rdma_reject(id, null(), 0),
            rdma_disconnect(id),
            rdma_establish(id),
        ] {
            assert_eq!((answer, errno()), (-1, ENOTCONN));
        }
        assert_eq!((rdma_connect(id, null_mut()), errno()), (-1, EINVAL), "no peer");
    }
    end(made);
}

#[test]
fn an_id_that_listens_does_nothing_else() {
    let made = new_id(RDMA_PS_TCP);
    let id = made.1;
    let mut at = sockaddr::write("127.47.94.61:0".parse().expect("an address"));
    let at = (&raw mut at).cast();
    // SAFETY: an id and an address.
    unsafe {
        assert_eq!(rdma_bind_addr(id, at), 0);
        assert_eq!(rdma_listen(id, 1), 0);
        for answer in [
            rdma_listen(id, 1),
            rdma_bind_addr(id, at),
            rdma_resolve_addr(id, null_mut(), at, 1),
            rdma_connect(id, null_mut()),
        ] {
            assert_eq!((answer, errno()), (-1, EINVAL));
        }
    }
    end(made);
}
