//! Requests, and what becomes of the ids that are made for them.

use std::ptr::null_mut;

use uroce_ibverbs::cq_create::ibv_create_cq;
use uroce_ibverbs::object::zeroed;
use uroce_ibverbs::qp_create::ibv_destroy_qp;
use uroce_verbs_abi::*;

use super::states::resolved;
use super::{RC, make_qp};
use crate::connection::{rdma_accept, rdma_connect};
use crate::destroy::rdma_destroy_id;
use crate::queue_pair::rdma_create_qp;

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
