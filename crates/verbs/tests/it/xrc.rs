//! X1 to X5: extended reliable connections through the whole NIC.

use uroce_verbs::*;

use crate::common::*;

on_both!(
    every_operation_reaches_the_queue_it_names,
    x3_an_unknown_queue_is_refused_and_says_so,
    x3_memory_of_another_protection_domain_is_not_reached,
    a_queue_that_goes_away_is_refused,
);

/// A server with one XRC SRQ that has `count` receives, and its target.
struct Server {
    target: QueuePair,
    srq: SharedReceiveQueue,
    mr: MemoryRegion,
    cq: CompletionQueue,
    domain: XrcDomain,
    pd: ProtectionDomain,
}

fn server(net: &Net, count: u64) -> Server {
    let context = net.open();
    let domain = context.open_xrcd().unwrap();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(64).unwrap());
    let mr = pd.alloc_mr(MR_LEN, all()).unwrap();
    let srq = pd.create_xrc_srq(&domain, &cq, 16, 1).unwrap();
    for id in 0..count {
        srq.post_recv(&[RecvWr::new(id, &[mr.sge(id as usize * 64..id as usize * 64 + 64)])])
            .unwrap();
    }
    let target = domain.create_target().unwrap();
    Server { target, srq, mr, cq, domain, pd }
}

/// An initiator that is connected to the target.
fn client(net: &Net, server: &Server) -> Side {
    let side = Side::new(net, QpType::XrcIni);
    connect(&side.qp, &server.target, &ConnectOptions::default());
    side
}

fn every_operation_reaches_the_queue_it_names(net: &Net) {
    let server = server(net, 4);
    let client = client(net, &server);
    let (here, there) = (&client.mr, &server.mr);
    let number = server.srq.number();
    here.write(0, &pattern(5000, 1)).unwrap();
    client.send(SendWr::send(1, &[]).inline(b"hello").imm(7).to_srq(number).signaled());
    client.done();
    let wc = server.cq.wait_one(COMPLETION_TIMEOUT).unwrap().result().unwrap();
    assert_eq!((wc.wr_id, wc.byte_len, wc.imm), (0, 5, Some(7)));
    assert_eq!(wc.qpn, server.target.qpn().get());
    let remote = there.remote().part(4096..9096);
    client.send(SendWr::write(2, &[here.sge(..5000)], remote).imm(8).to_srq(number).signaled());
    client.done();
    assert_eq!(server.cq.wait_one(COMPLETION_TIMEOUT).unwrap().result().unwrap().wr_id, 1);
    client.send(SendWr::read(3, &[here.sge(5000..10_000)], remote).to_srq(number).signaled());
    client.done();
    assert_eq!(client.bytes(5000, 5000), pattern(5000, 1));
    there.store_u64(64, 40).unwrap();
    let word = there.remote().part(64..72);
    client.send(SendWr::fetch_add(4, &[here.sge(..8)], word, 2).to_srq(number).signaled());
    client.done();
    assert_eq!(there.load_u64(64).unwrap(), 42);
}

fn x3_an_unknown_queue_is_refused_and_says_so(net: &Net) {
    let server = server(net, 1);
    let client = client(net, &server);
    // A queue of another domain of the same device.
    let other = server.target.context().open_xrcd().unwrap();
    let foreign = server.pd.create_xrc_srq(&other, &server.cq, 4, 1).unwrap();
    client.send(SendWr::send(1, &[]).to_srq(foreign.number()));
    let error = client.next().result().unwrap_err();
    assert!(error.to_string().contains("invalid request"), "{error}");
    let event = server.target.context().next_async_event(Some(COMPLETION_TIMEOUT)).unwrap();
    assert_eq!(event, Some(AsyncEvent::QpReqErr(server.target.qpn())));
    assert_eq!(server.target.state(), QpState::Err);
}

fn x3_memory_of_another_protection_domain_is_not_reached(net: &Net) {
    let server = server(net, 1);
    let client = client(net, &server);
    let pd = server.target.context().alloc_pd().unwrap();
    let foreign = pd.alloc_mr(64, all()).unwrap();
    let number = server.srq.number();
    client.send(SendWr::write(1, &[], server.mr.remote()).inline(b"x").to_srq(number).signaled());
    client.done();
    client.send(SendWr::write(2, &[], foreign.remote()).inline(b"x").to_srq(number).signaled());
    assert_eq!(client.next().status, WcStatus::RemAccessErr);
}

fn a_queue_that_goes_away_is_refused(net: &Net) {
    let server = server(net, 1);
    let client = client(net, &server);
    let number = server.srq.number();
    drop(server.srq);
    client.send(SendWr::send(1, &[]).to_srq(number));
    assert_eq!(client.next().status, WcStatus::RemInvReqErr);
    assert_eq!(server.cq.poll_one(), None);
}

#[test]
fn a_request_has_to_name_a_queue() {
    let net = Net::fabric();
    let server = server(&net, 1);
    let client = client(&net, &server);
    let error = client.qp.post_send(&[SendWr::send(1, &[])]).unwrap_err();
    assert!(error.to_string().contains("shared receive queue"), "{error}");
}

#[test]
fn x1_neither_end_does_what_the_other_does() {
    let net = Net::fabric();
    let server = server(&net, 1);
    let client = client(&net, &server);
    let error = client.qp.post_recv(&[RecvWr::new(1, &[])]).unwrap_err();
    assert!(error.to_string().contains("XRC SRQ"), "{error}");
    let error = server.target.post_send(&[SendWr::send(1, &[])]).unwrap_err();
    assert!(error.to_string().contains("XRC_INI"), "{error}");
    assert_eq!(server.target.xrcd().map(XrcDomain::id), Some(server.domain.id()));
}

#[test]
fn v110_objects_of_xrc_and_others_do_not_go_together() {
    let net = Net::fabric();
    let server = server(&net, 1);
    let build = |qp_type, srq: &SharedReceiveQueue| {
        server.pd.qp_builder(qp_type, &server.cq, &server.cq).srq(srq).build()
    };
    let error = build(QpType::Rc, &server.srq).unwrap_err();
    assert!(error.to_string().contains("basic SRQ"), "{error}");
    let basic = server.pd.create_srq(4, 1).unwrap();
    let error = build(QpType::XrcIni, &basic).unwrap_err();
    assert!(error.to_string().contains("receives nothing"), "{error}");
    let error = build(QpType::XrcTgt, &basic).unwrap_err();
    assert!(error.to_string().contains("XRC domain"), "{error}");
    let other = net.open().open_xrcd().unwrap();
    let error = server.pd.create_xrc_srq(&other, &server.cq, 4, 1).unwrap_err();
    assert!(error.to_string().contains("another context"), "{error}");
}

#[test]
fn r93_the_domain_outlives_whatever_belongs_to_it() {
    let net = Net::fabric();
    let server = server(&net, 1);
    let client = client(&net, &server);
    let Server { target, srq, cq, domain, pd, mr } = server;
    drop((domain, pd));
    client.send(SendWr::send(1, &[]).to_srq(srq.number()).signaled());
    client.done();
    drop(target);
    assert_eq!(cq.wait_one(COMPLETION_TIMEOUT).unwrap().result().unwrap().wr_id, 0);
    drop((srq, mr));
}
