//! Queue pairs and shared receive queues of ids: sizes that cannot be, wrong orders, and what is left behind.

use std::ptr::null_mut;

use libc::{EBUSY, EINVAL, c_int};
use uroce_ibverbs::cq_create::{ibv_create_cq, ibv_destroy_cq};
use uroce_ibverbs::object::zeroed;
use uroce_ibverbs::pd::{ibv_alloc_pd, ibv_dealloc_pd};
use uroce_ibverbs::qp_attr::ibv_query_qp;
use uroce_verbs_abi::*;

use super::states::errno;
use super::{End, address, listener, make_qp};
use crate::bind::rdma_bind_addr;
use crate::connection::rdma_connect;
use crate::destroy::rdma_destroy_id;
use crate::qp_values::rdma_init_qp_attr;
use crate::queue_pair::{rdma_create_qp, rdma_create_qp_ex, rdma_destroy_qp};
use crate::shared_receive::{rdma_create_srq, rdma_create_srq_ex, rdma_destroy_srq};

const INIT: c_int = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

/// An id that is bound to a device.
pub(super) fn bound(space: c_int, text: &str) -> End {
    let (end, mut at) = (End::of(space), address(text));
    // SAFETY: as the manual page wants it.
    assert_eq!(unsafe { rdma_bind_addr(end.id, (&raw mut at).cast()) }, 0);
    end
}

fn init(qp_type: c_int) -> ibv_qp_init_attr {
    // SAFETY: integers and null pointers.
    let mut init: ibv_qp_init_attr = unsafe { zeroed() };
    init.qp_type = qp_type;
    (init.cap.max_send_wr, init.cap.max_recv_wr) = (4, 4);
    (init.cap.max_send_sge, init.cap.max_recv_sge) = (1, 1);
    init
}

fn create(end: &End, init: &mut ibv_qp_init_attr) -> Result<(), c_int> {
    // SAFETY: as the manual page wants it.
    let done = unsafe { rdma_create_qp(end.id, null_mut(), init) };
    if done == 0 { Ok(()) } else { Err(errno()) }
}

/// The id has no queue pair, and nothing that was made for one.
fn assert_clean(end: &End, why: &str) {
    // SAFETY: an id.
    unsafe {
        let id = &*end.id;
        assert!(id.qp.is_null(), "{why}");
        assert!(id.send_cq.is_null() && id.recv_cq.is_null(), "{why}: completion queues");
        let channels = (id.send_cq_channel, id.recv_cq_channel);
        assert!(channels.0.is_null() && channels.1.is_null(), "{why}: channels");
    }
}

#[test]
fn v44_a_queue_pair_is_made_on_the_device_of_its_id() {
    let (end, other) = (bound(RDMA_PS_TCP, "127.47.98.40:0"), bound(RDMA_PS_TCP, "127.47.98.41:0"));
    // SAFETY: as the manual pages want it, but for the device.
    unsafe {
        let verbs = (*other.id).verbs;
        let (pd, cq) = (ibv_alloc_pd(verbs), ibv_create_cq(verbs, 8, null_mut(), null_mut(), 0));
        let mut init = init(IBV_QPT_RC);
        (init.send_cq, init.recv_cq) = (cq, cq);
        assert_eq!((rdma_create_qp(end.id, pd, &raw mut init), errno()), (-1, EINVAL));
        let mut long: ibv_qp_init_attr_ex = zeroed();
        (long.send_cq, long.recv_cq, long.pd) = (cq, cq, pd);
        (long.qp_type, long.cap, long.comp_mask) = (IBV_QPT_RC, init.cap, IBV_QP_INIT_ATTR_PD);
        assert_eq!((rdma_create_qp_ex(end.id, &raw mut long), errno()), (-1, EINVAL));
        assert_clean(&end, "another device");
        assert_eq!((ibv_destroy_cq(cq), ibv_dealloc_pd(pd)), (0, 0));
    }
    end.end();
    other.end();
}

#[test]
fn a_queue_pair_that_cannot_be_made_leaves_nothing_behind() {
    let end = bound(RDMA_PS_TCP, "127.47.98.1:0");
    type Change = fn(&mut ibv_qp_init_attr);
    let wrong: [(&str, Change); 6] = [
        ("sends that do not fit into a number", |init| init.cap.max_send_wr = u32::MAX),
        ("more sends than there can be", |init| init.cap.max_send_wr = 1 << 24),
        ("receives that do not fit into a number", |init| init.cap.max_recv_wr = u32::MAX),
        ("more receives than there can be", |init| init.cap.max_recv_wr = 1 << 24),
        ("too many pieces", |init| init.cap.max_send_sge = 10_000),
        ("no such type", |init| init.qp_type = 77),
    ];
    for (why, change) in wrong {
        let mut init = init(IBV_QPT_RC);
        change(&mut init);
        assert!(create(&end, &mut init).is_err(), "{why}");
        assert_clean(&end, why);
        // Programs try again with smaller numbers in the same attributes.
        (init.cap, init.qp_type) = (self::init(0).cap, IBV_QPT_RC);
        assert_eq!(create(&end, &mut init), Ok(()), "{why}");
        // SAFETY: an id with a queue pair.
        unsafe { rdma_destroy_qp(end.id) };
    }
    end.end();
}

#[test]
fn queues_that_are_made_for_an_id_have_it_as_their_context() {
    let end = bound(RDMA_PS_TCP, "127.47.98.50:0");
    assert_eq!(create(&end, &mut init(IBV_QPT_RC)), Ok(()));
    // SAFETY: an id with queues; the calls as the manual pages want them.
    unsafe {
        let id = end.id;
        for cq in [(*id).send_cq, (*id).recv_cq] {
            assert_eq!((*cq).cq_context, id.cast(), "as rdma_get_recv_comp(3) asserts");
        }
        rdma_destroy_qp(id);
        (*id).qp_type = IBV_QPT_XRC_RECV;
        let mut shared: ibv_srq_init_attr = zeroed();
        (shared.attr.max_wr, shared.attr.max_sge) = (4, 1);
        assert_eq!(rdma_create_srq(id, null_mut(), &raw mut shared), 0);
        assert_eq!((*(*id).recv_cq).cq_context, id.cast());
        rdma_destroy_srq(id);
    }
    end.end();
}

#[test]
fn a_queue_pair_takes_its_receives_from_the_shared_queue_of_its_id() {
    let end = bound(RDMA_PS_TCP, "127.47.98.51:0");
    // SAFETY: integers and null pointers; the calls as the manual pages want them.
    unsafe {
        let mut shared: ibv_srq_init_attr = zeroed();
        (shared.attr.max_wr, shared.attr.max_sge) = (4, 1);
        assert_eq!(rdma_create_srq(end.id, null_mut(), &raw mut shared), 0);
        let mut wanted = init(IBV_QPT_RC);
        wanted.cap.max_send_wr = 1 << 24;
        assert!(create(&end, &mut wanted).is_err());
        assert!(wanted.srq.is_null(), "a program may try again");
        wanted.cap.max_send_wr = 4;
        assert_eq!(create(&end, &mut wanted), Ok(()));
        let srq = (*end.id).srq;
        assert_eq!([wanted.srq, (*(*end.id).qp).srq], [srq; 2]);
        rdma_destroy_qp(end.id);
        rdma_destroy_srq(end.id);
    }
    end.end();
}

#[test]
fn an_id_has_one_queue_pair_and_goes_after_it() {
    let end = bound(RDMA_PS_TCP, "127.47.98.2:0");
    assert_eq!(create(&end, &mut init(IBV_QPT_RC)), Ok(()));
    // SAFETY: an id with a queue pair.
    unsafe {
        let qp = (*end.id).qp;
        assert_eq!(create(&end, &mut init(IBV_QPT_RC)), Err(EINVAL));
        assert_eq!((*end.id).qp, qp, "the first one stays");
        assert_eq!((*qp).state, IBV_QPS_INIT, "it takes receives");
        assert_eq!((*end.id).qp_type, IBV_QPT_RC);
        assert_eq!((rdma_destroy_id(end.id), errno()), (-1, EBUSY), "its queues would stay");
        rdma_destroy_qp(end.id);
        assert_clean(&end, "destroyed");
        rdma_destroy_qp(end.id);
        assert_clean(&end, "twice");
    }
    assert_eq!(create(&end, &mut init(IBV_QPT_RC)), Ok(()), "another one");
    end.end();
}

#[test]
fn completion_queues_of_the_program_stay_with_it() {
    let end = bound(RDMA_PS_TCP, "127.47.98.3:0");
    // SAFETY: as the manual pages want it.
    unsafe {
        let (verbs, pd) = ((*end.id).verbs, ibv_alloc_pd((*end.id).verbs));
        let cq = ibv_create_cq(verbs, 8, null_mut(), null_mut(), 0);
        let mut init = init(IBV_QPT_RC);
        (init.send_cq, init.recv_cq) = (cq, cq);
        assert_eq!(rdma_create_qp(end.id, pd, &raw mut init), 0);
        assert!((*end.id).send_cq.is_null() && (*end.id).recv_cq.is_null());
        assert_eq!(((*end.id).pd, (*(*end.id).qp).send_cq), (pd, cq));
        assert_eq!((ibv_destroy_cq(cq), ibv_dealloc_pd(pd)), (EBUSY, EBUSY));
        rdma_destroy_qp(end.id);
        assert_eq!(ibv_destroy_cq(cq), 0, "nobody else destroys it");
        assert_eq!(ibv_dealloc_pd(pd), 0);
    }
    end.end();
}

#[test]
fn only_the_queue_that_is_missing_is_made() {
    let end = bound(RDMA_PS_TCP, "127.47.98.4:0");
    // SAFETY: as the manual pages want it.
    unsafe {
        let cq = ibv_create_cq((*end.id).verbs, 8, null_mut(), null_mut(), 0);
        let mut init = init(IBV_QPT_RC);
        init.recv_cq = cq;
        assert_eq!(create(&end, &mut init), Ok(()));
        assert!(!(*end.id).send_cq.is_null() && (*end.id).recv_cq.is_null());
        assert_eq!(init.send_cq, (*end.id).send_cq, "the program is told");
        assert_eq!((*(*end.id).send_cq).channel, (*end.id).send_cq_channel);
        rdma_destroy_qp(end.id);
        assert_clean(&end, "destroyed");
        assert_eq!(ibv_destroy_cq(cq), 0);
    }
    end.end();
}

#[test]
fn a_queue_pair_of_datagrams_is_ready_at_once() {
    let end = bound(RDMA_PS_UDP, "127.47.98.5:0");
    assert_eq!(create(&end, &mut init(IBV_QPT_UD)), Ok(()));
    // SAFETY: integers and null pointers; the call as the manual page wants it.
    unsafe {
        let (mut attr, mut kept) = (zeroed::<ibv_qp_attr>(), zeroed());
        assert_eq!(ibv_query_qp((*end.id).qp, &raw mut attr, 0, &raw mut kept), 0);
        assert_eq!((attr.qp_state, (*(*end.id).qp).state), (IBV_QPS_RTS, IBV_QPS_RTS));
        assert_eq!((attr.qkey, attr.port_num), (RDMA_UDP_QKEY, 1));
    }
    end.end();
}

#[test]
fn the_extended_call_takes_what_is_missing_from_the_id() {
    let end = bound(RDMA_PS_TCP, "127.47.98.6:0");
    // SAFETY: integers and null pointers; the calls as the manual pages want them.
    unsafe {
        let mut extended: ibv_qp_init_attr_ex = zeroed();
        extended.qp_type = IBV_QPT_RC;
        (extended.cap.max_send_wr, extended.cap.max_recv_wr) = (2, 2);
        extended.comp_mask = 1 << 30;
        assert_eq!(rdma_create_qp_ex(end.id, &raw mut extended), -1, "no such attribute");
        assert_clean(&end, "refused");
        (extended.comp_mask, extended.send_cq, extended.recv_cq) = (0, null_mut(), null_mut());
        assert_eq!(rdma_create_qp_ex(end.id, &raw mut extended), 0);
        assert_eq!(extended.pd, (*end.id).pd);
        assert_eq!(rdma_create_qp_ex(end.id, &raw mut extended), -1);
        assert_eq!(errno(), EINVAL, "it has one");
    }
    end.end();
}

/// What a step needs, and the mask that says so.
fn step(end: &End, state: c_int) -> Result<(ibv_qp_attr, c_int), c_int> {
    // SAFETY: integers; the call as the manual page wants it.
    unsafe {
        let (mut attr, mut mask) = (zeroed::<ibv_qp_attr>(), -1);
        (attr.qp_state, attr.cap.max_send_wr, attr.qkey) = (state, 99, 99);
        match rdma_init_qp_attr(end.id, &raw mut attr, &raw mut mask) {
            0 => Ok((attr, mask)),
            _ => Err(errno()),
        }
    }
}

#[test]
fn steps_name_what_their_service_needs_and_nothing_else() {
    let reliable = bound(RDMA_PS_TCP, "127.47.98.7:0");
    let (attr, mask) = step(&reliable, IBV_QPS_INIT).expect("it needs no connection");
    assert_eq!(mask, INIT | IBV_QP_ACCESS_FLAGS);
    assert_eq!((attr.qp_state, attr.port_num, attr.pkey_index), (IBV_QPS_INIT, 1, 0));
    assert_eq!(
        attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE as u32,
        IBV_ACCESS_REMOTE_WRITE as u32
    );
    assert_eq!((attr.cap.max_send_wr, attr.qkey), (0, 0), "what was in it is gone");
    for state in [IBV_QPS_RTR, IBV_QPS_RTS] {
        assert_eq!(step(&reliable, state).err(), Some(EINVAL), "no connection");
    }
    for state in [IBV_QPS_RESET, IBV_QPS_SQD, IBV_QPS_SQE, IBV_QPS_ERR, 7, -1] {
        assert_eq!(step(&reliable, state).err(), Some(EINVAL), "{state}");
    }
    reliable.end();
    let datagrams = bound(RDMA_PS_UDP, "127.47.98.8:0");
    for (state, wanted) in [
        (IBV_QPS_INIT, INIT | IBV_QP_QKEY),
        (IBV_QPS_RTR, IBV_QP_STATE),
        (IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN),
    ] {
        let (attr, mask) = step(&datagrams, state).expect("it needs no connection");
        assert_eq!((mask, attr.qkey), (wanted, RDMA_UDP_QKEY), "{state}");
    }
    assert_eq!(step(&datagrams, IBV_QPS_ERR).err(), Some(EINVAL));
    datagrams.end();
}

#[test]
fn steps_of_a_connection_name_its_peer() {
    use crate::connection::{rdma_accept, rdma_connect};
    let (server, at) = listener("127.47.98.9:0");
    let client = End::new();
    client.resolve("127.47.98.10:0", at);
    make_qp(client.id);
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(rdma_connect(client.id, null_mut()), 0);
        let called = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
        make_qp(called);
        let theirs = (*(*client.id).qp).qp_num;
        let end = End { channel: server.channel, id: called };
        let (rtr, mask) = step(&end, IBV_QPS_RTR).expect("it is called");
        let wanted = IBV_QP_STATE
            | IBV_QP_AV
            | IBV_QP_PATH_MTU
            | IBV_QP_DEST_QPN
            | IBV_QP_RQ_PSN
            | IBV_QP_MAX_DEST_RD_ATOMIC
            | IBV_QP_MIN_RNR_TIMER;
        assert_eq!((mask, rtr.dest_qp_num), (wanted, theirs));
        assert_eq!(rtr.ah_attr.grh.dgid.raw[12..], [127, 47, 98, 10]);
        assert!(rtr.path_mtu >= 1 && rtr.rq_psn < 1 << 24 && rtr.max_dest_rd_atomic > 0);
        let (rts, mask) = step(&end, IBV_QPS_RTS).expect("it is called");
        let wanted = IBV_QP_STATE
            | IBV_QP_TIMEOUT
            | IBV_QP_RETRY_CNT
            | IBV_QP_RNR_RETRY
            | IBV_QP_SQ_PSN
            | IBV_QP_MAX_QP_RD_ATOMIC;
        assert_eq!(mask, wanted);
        assert!(rts.timeout < 32 && rts.retry_cnt < 8 && rts.rnr_retry < 8);
        assert_eq!(rdma_accept(called, null_mut()), 0);
        client.expect(RDMA_CM_EVENT_ESTABLISHED);
        rdma_destroy_qp(called);
        assert_eq!(rdma_destroy_id(called), 0);
    }
    client.end();
    server.end();
}

#[test]
fn a_shared_receive_queue_that_cannot_be_made_leaves_nothing_behind() {
    let end = bound(RDMA_PS_TCP, "127.47.98.11:0");
    // SAFETY: integers and null pointers; the calls as the manual pages want them.
    unsafe {
        let mut init: ibv_srq_init_attr = zeroed();
        (init.attr.max_wr, init.attr.max_sge) = (u32::MAX, 1);
        assert_eq!(rdma_create_srq(end.id, null_mut(), &raw mut init), -1);
        assert!((*end.id).srq.is_null());
        let mut extended: ibv_srq_init_attr_ex = zeroed();
        (extended.attr.max_wr, extended.attr.max_sge) = (u32::MAX, 1);
        (extended.comp_mask, extended.srq_type) = (IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_XRC);
        for max_wr in [u32::MAX, 1 << 24] {
            (extended.attr.max_wr, extended.cq, extended.xrcd) = (max_wr, null_mut(), null_mut());
            assert_eq!(rdma_create_srq_ex(end.id, &raw mut extended), -1);
            assert!((*end.id).srq.is_null());
            assert_clean(&end, "one of XRC");
        }
        rdma_destroy_srq(end.id);
        init.attr.max_wr = 4;
        assert_eq!(rdma_create_srq(end.id, null_mut(), &raw mut init), 0);
        let srq = (*end.id).srq;
        let mut qp = self::init(IBV_QPT_RC);
        qp.srq = srq;
        assert_eq!(create(&end, &mut qp), Ok(()));
        assert_eq!((*(*end.id).qp).srq, srq);
        rdma_destroy_qp(end.id);
        rdma_destroy_srq(end.id);
        rdma_destroy_srq(end.id);
        assert!((*end.id).srq.is_null());
    }
    end.end();
}

/// What programs read of the way to a peer: one record, as with librdmacm.
#[test]
fn an_id_has_one_path_record_once_its_route_is_known() {
    let (server, at) = listener("127.47.98.50:0");
    let client = End::new();
    let record = |id: *mut rdma_cm_id| {
        // SAFETY: an id, and its record if it has one.
        unsafe { ((*id).route.num_paths, (*id).route.path_rec.as_ref()) }
    };
    assert!(matches!(record(client.id), (0, None)));
    client.resolve("127.47.98.51:0", at);
    let (count, path) = record(client.id);
    let path = path.unwrap();
    // SAFETY: an id.
    let addr = unsafe { (*client.id).route.addr };
    assert_eq!((count, path.sgid.raw, path.dgid.raw), (1, addr.sgid.raw, addr.dgid.raw));
    assert_eq!((path.pkey, path.reversible, path.hop_limit), (0xffff, 1, 64));
    assert_eq!((path.mtu_selector, path.rate_selector, path.packet_life_time_selector), (2, 2, 2));
    assert!((1..=5).contains(&path.mtu) && c_int::from(path.rate) == IBV_RATE_10_GBPS);
    assert_eq!(path.packet_life_time, 16);
    make_qp(client.id);
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(rdma_connect(client.id, null_mut()), 0);
        let called = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
        let (count, path) = record(called);
        assert_eq!((count, path.unwrap().dgid.raw), (1, addr.sgid.raw), "the way back");
        assert_eq!(rdma_destroy_id(called), 0);
    }
    client.end();
    server.end();
}
