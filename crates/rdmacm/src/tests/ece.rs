//! Options of a vendor that travel with REQ and REP.

use std::ptr::{null, null_mut};

use libc::{EINVAL, c_int};
use uroce_ibverbs::object::zeroed;
use uroce_verbs_abi::*;

use super::states::{errno, finish, resolved};
use super::{End, make_qp};
use crate::connection::{rdma_accept, rdma_connect, rdma_establish};
use crate::ece::{rdma_get_remote_ece, rdma_reject_ece, rdma_set_local_ece};

const VENDOR: u32 = 0x02_c903;
const REJECTED_FOR_OPTION: c_int = 35;

fn set(id: *mut rdma_cm_id, vendor_id: u32, options: u32, comp_mask: u32) -> c_int {
    let mut ece = ibv_ece { vendor_id, options, comp_mask };
    // SAFETY: an id, and a local variable.
    if unsafe { rdma_set_local_ece(id, &raw mut ece) } == 0 { 0 } else { errno() }
}

fn told(id: *mut rdma_cm_id) -> (u32, u32, u32) {
    let mut ece = ibv_ece { vendor_id: 1, options: 1, comp_mask: 1 };
    // SAFETY: an id, and a local variable.
    assert_eq!(unsafe { rdma_get_remote_ece(id, &raw mut ece) }, 0);
    (ece.vendor_id, ece.options, ece.comp_mask)
}

/// Calls with a queue pair of the program's own.
fn call(client: &End) {
    // SAFETY: integers and null pointers; the call as the manual page wants it.
    unsafe {
        let mut param: rdma_conn_param = zeroed();
        param.qp_num = 0x11;
        assert_eq!(rdma_connect(client.id, &raw mut param), 0);
    }
}

#[test]
fn both_ends_hear_what_the_other_one_supports() {
    let (client, server) = resolved("127.47.95.1:0", "127.47.95.2:0");
    assert_eq!(told(client.id), (0, 0, 0), "nobody has told anything");
    assert_eq!(set(client.id, VENDOR, 0x8123_4567, 0), 0);
    call(&client);
    let called = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    assert_eq!(told(called), (VENDOR, 0x8123_4567, 0));
    assert_eq!(set(called, VENDOR, 0x4567, 0), 0);
    // SAFETY: integers and null pointers; the calls as the manual pages want them.
    unsafe {
        let mut param: rdma_conn_param = zeroed();
        param.qp_num = 0x12;
        assert_eq!(rdma_accept(called, &raw mut param), 0);
        assert_eq!(client.expect(RDMA_CM_EVENT_CONNECT_RESPONSE), client.id);
        assert_eq!(told(client.id), (VENDOR, 0x4567, 0));
        assert_eq!(rdma_establish(client.id), 0);
    }
    assert_eq!(server.expect(RDMA_CM_EVENT_ESTABLISHED), called);
    finish(called);
    client.end();
    server.end();
}

#[test]
fn options_that_do_not_suit_are_a_reason_to_reject() {
    let (client, server) = resolved("127.47.95.3:0", "127.47.95.4:0");
    assert_eq!(set(client.id, VENDOR, 7, 0), 0);
    call(&client);
    let called = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    // SAFETY: as the manual page wants it.
    assert_eq!(unsafe { rdma_reject_ece(called, c"no".as_ptr().cast(), 2) }, 0);
    let event = client.next();
    assert_eq!((event.kind, event.status), (RDMA_CM_EVENT_REJECTED, REJECTED_FOR_OPTION));
    assert_eq!(&event.data[..3], b"no\0");
    finish(called);
    client.end();
    server.end();
}

#[test]
fn options_are_those_of_a_vendor_and_of_queue_pairs_that_the_program_manages() {
    let (client, server) = resolved("127.47.95.5:0", "127.47.95.6:0");
    assert_eq!(set(client.id, 0, 7, 0), EINVAL, "of nobody");
    assert_eq!(set(client.id, VENDOR, 7, 1), EINVAL, "of a newer form");
    make_qp(client.id);
    assert_eq!(set(client.id, VENDOR, 7, 0), EINVAL, "the id has a queue pair");
    // SAFETY: null is checked.
    unsafe {
        assert_eq!((rdma_set_local_ece(client.id, null_mut()), errno()), (-1, EINVAL));
        assert_eq!((rdma_get_remote_ece(client.id, null_mut()), errno()), (-1, EINVAL));
        assert_eq!((rdma_reject_ece(null_mut(), null(), 0), errno()), (-1, EINVAL));
    }
    client.end();
    server.end();
}
