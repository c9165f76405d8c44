//! Shared receive queues: one pool for several queue pairs, the limit event, sizes.

use uroce_verbs::*;

use crate::common::{COMPLETION_TIMEOUT, MOMENT, Net, QKEY, Side, connect, on_both};

on_both!(
    three_connections_share_one_pool,
    r90_the_limit_event_comes_once_per_arming,
    r89_the_last_receive_is_announced,
    datagrams_take_from_the_pool_as_well,
);

/// A server whose queue pairs take from one queue of `count` receives.
fn server(net: &Net, count: u64) -> (Side, SharedReceiveQueue) {
    let side = Side::new(net, QpType::Rc);
    let srq = side.pd.create_srq(16, 2).unwrap();
    post(&side, &srq, 0..count);
    (side, srq)
}

fn post(side: &Side, srq: &SharedReceiveQueue, ids: std::ops::Range<u64>) {
    for id in ids {
        let at = id as usize * 64;
        srq.post_recv(&[RecvWr::new(id, &[side.mr.sge(at..at + 64)])]).unwrap();
    }
}

/// A client and the server's queue pair for it.
fn client(net: &Net, server: &Side, srq: &SharedReceiveQueue) -> (Side, QueuePair) {
    let side = Side::new(net, QpType::Rc);
    let builder = server.pd.qp_builder(QpType::Rc, &server.cq, &server.cq);
    let peer = builder.srq(srq).build().unwrap();
    connect(&side.qp, &peer, &ConnectOptions::default());
    (side, peer)
}

fn three_connections_share_one_pool(net: &Net) {
    let (server, srq) = server(net, 6);
    let clients = [(); 3].map(|()| client(net, &server, &srq));
    for round in 0..2_u64 {
        for (number, (client, peer)) in clients.iter().enumerate() {
            client.send(SendWr::send(1, &[]).inline(&[number as u8; 4]).signaled());
            client.done();
            let received = server.done();
            assert_eq!(received.wr_id, round * 3 + number as u64, "first in, first out");
            assert_eq!(received.qpn, peer.qpn().get());
            assert_eq!(server.bytes(received.wr_id as usize * 64, 4), [number as u8; 4]);
        }
    }
}

fn r90_the_limit_event_comes_once_per_arming(net: &Net) {
    let (server, srq) = server(net, 6);
    let (client, _peer) = client(net, &server, &srq);
    srq.set_limit(5).unwrap();
    assert_eq!(srq.query().limit, 5);
    let send = || {
        client.send(SendWr::send(1, &[]).inline(b"x").signaled());
        client.done();
    };
    send(); // 5 wait: not fewer than 5
    assert_eq!(server.context.next_async_event(Some(MOMENT)).unwrap(), None);
    send();
    let event = server.context.next_async_event(Some(COMPLETION_TIMEOUT)).unwrap();
    assert_eq!(event, Some(AsyncEvent::SrqLimitReached(srq.id())));
    assert_eq!(srq.query().limit, 0);
    send();
    assert_eq!(server.context.next_async_event(Some(MOMENT)).unwrap(), None);
    srq.set_limit(3).unwrap();
    send();
    let event = server.context.next_async_event(Some(COMPLETION_TIMEOUT)).unwrap();
    assert_eq!(event, Some(AsyncEvent::SrqLimitReached(srq.id())));
}

fn r89_the_last_receive_is_announced(net: &Net) {
    let (server, srq) = server(net, 2);
    let (_client, peer) = client(net, &server, &srq);
    peer.fail().unwrap();
    let event = server.context.next_async_event(Some(COMPLETION_TIMEOUT)).unwrap();
    assert_eq!(event, Some(AsyncEvent::QpLastWqeReached(peer.qpn())));
    assert_eq!(server.cq.poll_one(), None, "receives of the pool are not flushed");
}

fn datagrams_take_from_the_pool_as_well(net: &Net) {
    let (server, srq) = server(net, 2);
    let builder = server.pd.qp_builder(QpType::Ud, &server.cq, &server.cq);
    let receiver = builder.srq(&srq).build().unwrap();
    receiver.activate(QKEY).unwrap();
    let sender = Side::new(net, QpType::Ud);
    sender.qp.activate(QKEY).unwrap();
    let ah = sender.pd.create_ah(&receiver.endpoint()).unwrap();
    sender.send(SendWr::send(1, &[]).inline(b"x").to(&ah, receiver.qpn(), QKEY));
    assert_eq!(server.done().byte_len, 41);
}

#[test]
fn v100_b41_sizes_are_checked_and_a_failed_resize_changes_nothing() {
    let (server, srq) = server(&Net::fabric(), 6);
    assert!(server.pd.create_srq(0, 1).unwrap_err().to_string().contains("max_wr = 0"));
    assert!(server.pd.create_srq(1, 33).unwrap_err().to_string().contains("max_sge = 33"));
    let error = srq.resize(5).unwrap_err();
    assert!(error.to_string().contains("6 work requests wait"), "{error}");
    assert_eq!(srq.query().max_wr, 16);
    assert_eq!(srq.resize(32).unwrap().max_wr, 32);
    let error = srq.set_limit(33).unwrap_err();
    assert!(error.to_string().contains("above the size"), "{error}");
}

#[test]
fn b36_a_full_queue_names_the_request_that_did_not_fit() {
    let (server, srq) = server(&Net::fabric(), 14);
    let sges = [server.mr.sge(..8)];
    let wrs = [14, 15, 16, 17].map(|id| RecvWr::new(id, &sges));
    let error = srq.post_recv(&wrs).unwrap_err();
    assert_eq!(error.index, 2);
    assert!(error.to_string().contains("work request 2 of the list"), "{error}");
    let three = [sges[0]; 3];
    let error = srq.post_recv(&[RecvWr::new(1, &three)]).unwrap_err();
    assert!(!error.to_string().is_empty());
}

#[test]
fn a_queue_pair_with_a_pool_has_no_receives_of_its_own() {
    let (server, srq) = server(&Net::fabric(), 1);
    let builder = server.pd.qp_builder(QpType::Rc, &server.cq, &server.cq);
    let qp = builder.srq(&srq).build().unwrap();
    qp.init().unwrap();
    let error = qp.post_recv(&[RecvWr::new(1, &[])]).unwrap_err();
    assert!(error.to_string().contains("SRQ"), "{error}");
    assert_eq!(qp.srq().map(SharedReceiveQueue::id), Some(srq.id()));
}
