//! Requests, and what becomes of the ids that are made for them.

use std::net::SocketAddr;
use std::ptr::null_mut;
use std::time::Duration;

use uroce_device::CmEventKind;
use uroce_ibverbs::cq_create::ibv_create_cq;
use uroce_ibverbs::object::zeroed;
use uroce_ibverbs::qp_create::ibv_destroy_qp;
use uroce_verbs_abi::*;

use super::objects::bound;
use super::states::{Event, finish, resolved};
use super::{End, RC, address, make_qp, own_qp, ready, values};
use crate::bind::rdma_bind_addr;
use crate::channel::{channel_of, post, rdma_destroy_event_channel};
use crate::connection::{rdma_accept, rdma_connect};
use crate::destroy::rdma_destroy_id;
use crate::id::rdma_get_src_port;
use crate::listen::rdma_listen;
use crate::queue_pair::rdma_create_qp;
use crate::translate::translate;

#[test]
fn an_event_does_not_write_to_a_queue_pair_that_the_program_destroyed() {
    let (client, server) = resolved("127.47.93.207:0", "127.47.93.208:0");
    make_qp(client.id);
    // SAFETY: as the manual pages want it; in the place of a queue pair that was destroyed is memory of the test.
    unsafe {
        assert_eq!(rdma_connect(client.id, null_mut()), 0);
        let called = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
        let cq = ibv_create_cq((*called).verbs, 8, null_mut(), null_mut(), 0);
        let mut init: ibv_qp_init_attr = zeroed();
        (init.qp_type, init.send_cq, init.recv_cq) = (RC, cq, cq);
        (init.cap.max_send_wr, init.cap.max_recv_wr) = (4, 4);
        assert_eq!(rdma_create_qp(called, null_mut(), &raw mut init), 0);
        assert_eq!(rdma_accept(called, null_mut()), 0);
        client.expect(RDMA_CM_EVENT_ESTABLISHED);
        assert_eq!(ibv_destroy_qp((*called).qp), 0);
        let mut destroyed: ibv_qp = zeroed();
        (*called).qp = &raw mut destroyed;
        let established = server.expect(RDMA_CM_EVENT_ESTABLISHED);
        assert_eq!(((*called).qp.read().state, established), (0, called));
        (*called).qp = null_mut();
        assert_eq!(rdma_destroy_id(called), 0);
    }
    client.end();
    server.end();
}

#[test]
fn a_program_readies_its_queue_pair_after_it_has_accepted() {
    let (client, server) = resolved("127.47.93.203:0", "127.47.93.204:0");
    let mine = own_qp(client.id);
    // SAFETY: as the manual pages want it.
    unsafe {
        let mut param: rdma_conn_param = zeroed();
        (param.qp_num, param.responder_resources, param.initiator_depth) = ((*mine).qp_num, 3, 5);
        assert_eq!(rdma_connect(client.id, &raw mut param), 0);
        let called = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
        let theirs = own_qp(called);
        param.qp_num = (*theirs).qp_num;
        assert_eq!(rdma_accept(called, &raw mut param), 0);
        ready(called, theirs);
        client.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
        ready(client.id, mine);
        let ((rq, sq, to, _), (their_rq, their_sq, from, _)) = (values(mine), values(theirs));
        assert_eq!((rq, sq), (their_sq, their_rq));
        assert_eq!((to, from), ((*theirs).qp_num, (*mine).qp_num));
        finish(called);
        assert_eq!((ibv_destroy_qp(mine), ibv_destroy_qp(theirs)), (0, 0));
    }
    client.end();
    server.end();
}

#[test]
fn a_request_is_refused_whose_listener_goes_while_another_thread_fetches_it() {
    let (client, server) = resolved("127.47.93.205:0", "127.47.93.206:0");
    make_qp(client.id);
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(rdma_connect(client.id, null_mut()), 0);
        let events = &channel_of(server.channel).expect("a channel").events;
        let fetched = events.next_event(Some(Duration::from_secs(10))).expect("poll");
        assert_eq!(rdma_destroy_id(server.id), 0);
        assert!(translate(fetched.expect("a request")).is_none());
        rdma_destroy_event_channel(server.channel);
    }
    client.expect(RDMA_CM_EVENT_REJECTED);
    client.end();
}

#[test]
fn a_request_that_the_program_has_fetched_leaves_the_backlog() {
    let (server, mut at) = (End::new(), address("127.47.93.201:0"));
    // SAFETY: as the manual pages want it.
    let port = unsafe {
        assert_eq!(rdma_bind_addr(server.id, (&raw mut at).cast()), 0);
        assert_eq!(rdma_listen(server.id, 1), 0);
        u16::from_be(rdma_get_src_port(server.id))
    };
    let clients = [(); 3].map(|()| {
        let client = End::new();
        client.resolve("127.47.93.202:0", SocketAddr::new([127, 47, 93, 201].into(), port));
        make_qp(client.id);
        client
    });
    // SAFETY: as the manual pages want it.
    let call = |client: &End| unsafe { assert_eq!(rdma_connect(client.id, null_mut()), 0) };
    let fetched = clients.each_ref().map(|client| {
        call(client);
        server.expect(RDMA_CM_EVENT_CONNECT_REQUEST)
    });
    fetched.into_iter().for_each(finish);
    clients.iter().for_each(|client| _ = client.expect(RDMA_CM_EVENT_REJECTED));
    clients.into_iter().for_each(End::end);
    server.end();
}

#[test]
fn a_call_for_a_queue_pair_of_the_program_says_whether_it_receives_into_a_shared_queue() {
    let (client, server) = resolved("127.47.93.209:0", "127.47.93.210:0");
    // SAFETY: as the manual pages want it.
    unsafe {
        let mut param: rdma_conn_param = zeroed();
        (param.qp_num, param.srq) = (0x99, 1);
        assert_eq!(rdma_connect(client.id, &raw mut param), 0);
        let request = server.next();
        assert_eq!((request.conn.qp_num, request.conn.srq), (0x99, 1));
        finish(request.id);
    }
    client.end();
    server.end();
}

/// What an event says of the other end: reads it wants, reads it serves, flow control, RNR retries, SRQ, queue pair.
fn said(event: &Event) -> (u8, u8, u8, u8, u8, u32) {
    let conn = &event.conn;
    let depths = (conn.responder_resources, conn.initiator_depth);
    (depths.0, depths.1, conn.flow_control, conn.rnr_retry_count, conn.srq, conn.qp_num)
}

#[test]
fn a_caller_is_told_what_the_reply_says() {
    let (client, server) = resolved("127.47.93.211:0", "127.47.93.213:0");
    // SAFETY: as the manual pages want it.
    unsafe {
        let mut param: rdma_conn_param = zeroed();
        (param.qp_num, param.responder_resources, param.initiator_depth) = (0x66, 3, 5);
        assert_eq!(rdma_connect(client.id, &raw mut param), 0);
        let called = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
        (param.responder_resources, param.initiator_depth) = (4, 2);
        (param.flow_control, param.rnr_retry_count) = (1, 6);
        (param.srq, param.qp_num) = (1, 0x77);
        assert_eq!(rdma_accept(called, &raw mut param), 0);
        let reply = client.next();
        assert_eq!(reply.kind, RDMA_CM_EVENT_CONNECT_RESPONSE);
        assert_eq!(said(&reply), (2, 4, 1, 6, 1, 0x77));
        finish(called);
    }
    client.end();
    server.end();
}

#[test]
fn a_caller_with_a_queue_pair_is_told_what_the_reply_says() {
    let (client, server) = resolved("127.47.93.214:0", "127.47.93.215:0");
    make_qp(client.id);
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(rdma_connect(client.id, null_mut()), 0);
        let called = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
        make_qp(called);
        let mut param: rdma_conn_param = zeroed();
        (param.responder_resources, param.initiator_depth, param.rnr_retry_count) = (4, 2, 6);
        assert_eq!(rdma_accept(called, &raw mut param), 0);
        let reply = client.next();
        assert_eq!(reply.kind, RDMA_CM_EVENT_ESTABLISHED);
        assert_eq!(said(&reply), (2, 4, 0, 6, 0, (*(*called).qp).qp_num));
        let established = server.next();
        assert_eq!(established.kind, RDMA_CM_EVENT_ESTABLISHED);
        assert_eq!(said(&established), (0, 0, 0, 0, 0, 0), "an RTU says nothing");
        finish(called);
    }
    client.end();
    server.end();
}

#[test]
fn an_end_that_the_peer_has_not_answered_has_a_status() {
    let end = bound(RDMA_PS_TCP, "127.47.93.216:0");
    for (unanswered, status) in [(true, -libc::ETIMEDOUT), (false, 0)] {
        let kind = CmEventKind::Disconnected { unanswered, private_data: Box::default() };
        // SAFETY: an id.
        assert_eq!(unsafe { post(end.id, None, kind) }, Ok(()));
        let event = end.next();
        assert_eq!((event.kind, event.status), (RDMA_CM_EVENT_DISCONNECTED, status));
    }
    end.end();
}
