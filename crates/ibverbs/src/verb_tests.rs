//! Each group of verbs at its limits, called as C programs call them.

mod attribute_masks;
mod buffers;
mod builder;
mod completion_counters;
mod completions;
mod device_objects;
mod dma_handles;
mod paths;
mod regions;
mod shared_queues;

use std::net::{IpAddr, Ipv4Addr};
use std::ptr::null_mut;

use libc::{c_int, c_void};
use uroce_device::wire::Gid;

use crate::abi::*;
use crate::contract_tests::{World, world_on};
use crate::mr::ibv_reg_mr;
use crate::object::zeroed;
use crate::qp_attr::{ibv_modify_qp, ibv_query_qp};
use crate::qp_create::ibv_create_qp;

const LOCAL_WRITE: c_int = IBV_ACCESS_LOCAL_WRITE;
/// All rights that a peer can have.
const REMOTE: c_int =
    LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

const INIT: c_int = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
const RTR: c_int = IBV_QP_STATE
    | IBV_QP_AV
    | IBV_QP_PATH_MTU
    | IBV_QP_DEST_QPN
    | IBV_QP_RQ_PSN
    | IBV_QP_MAX_DEST_RD_ATOMIC
    | IBV_QP_MIN_RNR_TIMER;
const RTS: c_int = IBV_QP_STATE
    | IBV_QP_TIMEOUT
    | IBV_QP_RETRY_CNT
    | IBV_QP_RNR_RETRY
    | IBV_QP_SQ_PSN
    | IBV_QP_MAX_QP_RD_ATOMIC;

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// On an address that no other test has objects on.
fn world(last: u8) -> World {
    world_on(IpAddr::V4(Ipv4Addr::new(127, 47, 101, last)))
}

/// Why there is no object.
fn why<T>(object: *mut T) -> Result<*mut T, c_int> {
    if object.is_null() { Err(errno()) } else { Ok(object) }
}

/// A queue pair of this type that completes to the world's queue.
fn queue_pair(world: &World, qp_type: c_int) -> *mut ibv_qp {
    // SAFETY: integers and null pointers; the call as the manual page wants it.
    unsafe {
        let mut init: ibv_qp_init_attr = zeroed();
        (init.send_cq, init.recv_cq, init.qp_type) = (world.cq, world.cq, qp_type);
        (init.cap.max_send_wr, init.cap.max_recv_wr) = (8, 8);
        (init.cap.max_send_sge, init.cap.max_recv_sge) = (2, 2);
        let qp = ibv_create_qp(world.pd, &raw mut init);
        assert!(!qp.is_null(), "errno {}", errno());
        qp
    }
}

/// Attributes with which each step to RTS is possible, with a queue pair as its own peer.
fn attributes(world: &World, qp: *mut ibv_qp) -> ibv_qp_attr {
    // SAFETY: integers; a queue pair that lives.
    unsafe {
        let mut attr: ibv_qp_attr = zeroed();
        (attr.path_mtu, attr.dest_qp_num) = (3, (*qp).qp_num);
        (attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer) = (14, 7, 7, 12);
        (attr.port_num, attr.max_rd_atomic, attr.max_dest_rd_atomic) = (1, 1, 1);
        (attr.qp_access_flags, attr.qkey) = (REMOTE as u32, 0x11);
        (attr.ah_attr.port_num, attr.ah_attr.is_global) = (1, 1);
        attr.ah_attr.grh.dgid = ibv_gid::from_gid(Gid::from_ip(world.address));
        attr
    }
}

/// What the steps to INIT, RTR and RTS must name.
fn masks(qp_type: c_int) -> [c_int; 3] {
    match qp_type {
        IBV_QPT_UD => [INIT | IBV_QP_QKEY, IBV_QP_STATE, IBV_QP_STATE | IBV_QP_SQ_PSN],
        IBV_QPT_UC => [
            INIT | IBV_QP_ACCESS_FLAGS,
            RTR & !(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
            IBV_QP_STATE | IBV_QP_SQ_PSN,
        ],
        _ => [INIT | IBV_QP_ACCESS_FLAGS, RTR, RTS],
    }
}

/// A queue pair of this type, in this state.
fn in_state(world: &World, qp_type: c_int, state: c_int) -> *mut ibv_qp {
    let qp = queue_pair(world, qp_type);
    let mut attr = attributes(world, qp);
    for (step, mask) in (IBV_QPS_INIT..=state.min(IBV_QPS_RTS)).zip(masks(qp_type)) {
        attr.qp_state = step;
        // SAFETY: as the manual page wants it.
        assert_eq!(unsafe { ibv_modify_qp(qp, &raw mut attr, mask) }, 0, "{qp_type} to {step}");
    }
    if state > IBV_QPS_RTS {
        attr.qp_state = state;
        // SAFETY: as the manual page wants it.
        assert_eq!(unsafe { ibv_modify_qp(qp, &raw mut attr, IBV_QP_STATE) }, 0, "to {state}");
    }
    qp
}

/// What is kept about a queue pair.
fn query(qp: *mut ibv_qp) -> ibv_qp_attr {
    // SAFETY: integers and null pointers; the call as the manual page wants it.
    unsafe {
        let (mut attr, mut init) = (zeroed::<ibv_qp_attr>(), zeroed());
        assert_eq!(ibv_query_qp(qp, &raw mut attr, 0, &raw mut init), 0);
        attr
    }
}

/// A region over the world's buffer that peers may use.
fn remote_region(world: &mut World) -> *mut ibv_mr {
    let start: *mut c_void = world.buffer.as_mut_ptr().cast();
    // SAFETY: the buffer lives as long as the world.
    let mr = unsafe { ibv_reg_mr(world.pd, start, 64, REMOTE | IBV_ACCESS_MW_BIND) };
    assert!(!mr.is_null(), "errno {}", errno());
    mr
}

/// A signalled request without data; what else it needs is for the caller to fill in.
fn request(opcode: c_int) -> ibv_send_wr {
    // SAFETY: integers and null pointers.
    let mut wr: ibv_send_wr = unsafe { zeroed() };
    (wr.wr_id, wr.opcode, wr.send_flags, wr.next) = (1, opcode, IBV_SEND_SIGNALED, null_mut());
    wr
}
