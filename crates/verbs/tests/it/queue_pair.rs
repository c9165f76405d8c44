//! Queue pairs: building, connecting, states, misuse.

use std::collections::HashSet;

use uroce_verbs::*;

use crate::common;
use crate::common::{COMPLETION_TIMEOUT, Net, QKEY, Side, on_both, pair};

on_both!(
    connect_walks_through_the_states,
    a_reset_queue_pair_connects_again,
    sqd_drains_and_says_so,
    the_first_packet_in_rtr_raises_an_event,
    receives_posted_after_init_are_used,
);

fn connect_walks_through_the_states(net: &Net) {
    let (a, b) = (Side::new(net, QpType::Rc), Side::new(net, QpType::Rc));
    assert_eq!(a.qp.state(), QpState::Init);
    common::connect(&a.qp, &b.qp, &ConnectOptions::default());
    let attr = a.qp.query().unwrap();
    assert_eq!(attr.state, QpState::Rts);
    assert_eq!(attr.dest_qpn, b.qp.qpn().get());
    assert_eq!(attr.sq_psn, a.qp.endpoint().psn.get());
    assert_eq!(attr.rq_psn, b.qp.endpoint().psn.get());
    assert_eq!((attr.timeout, attr.retry_cnt, attr.rnr_retry), (14, 7, 7));
    assert_eq!((attr.max_rd_atomic, attr.min_rnr_timer), (16, 12));
    assert_eq!(attr.path_mtu, a.context.query_port().active_mtu);
    let again = a.qp.connect(&b.qp.endpoint(), &ConnectOptions::default()).unwrap_err();
    assert!(matches!(again, ConnectError::Modify(_)), "{again}");
}

fn a_reset_queue_pair_connects_again(net: &Net) {
    let (a, b) = pair(net, QpType::Rc);
    for round in 0..3 {
        a.send(SendWr::write(round, &[], b.mr.remote()).inline(b"x").signaled());
        assert_eq!(a.done().wr_id, round);
        let before = a.qp.endpoint();
        a.qp.reset().unwrap();
        b.qp.reset().unwrap();
        assert_ne!(a.qp.endpoint().psn, before.psn, "1 in 16 million would be bad luck");
        assert_eq!(a.qp.state(), QpState::Reset);
        common::connect(&a.qp, &b.qp, &ConnectOptions::default());
    }
}

fn sqd_drains_and_says_so(net: &Net) {
    let (a, b) = pair(net, QpType::Rc);
    a.send(SendWr::write(1, &[a.mr.sge(..100_000)], b.mr.remote()).signaled());
    let attr = QpAttr { state: QpState::Sqd, en_sqd_async_notify: true, ..QpAttr::default() };
    a.qp.modify(&attr, QpAttrMask::STATE | QpAttrMask::EN_SQD_ASYNC_NOTIFY).unwrap();
    a.send(SendWr::write(2, &[], b.mr.remote()).inline(b"later").signaled());
    let event = a.context.next_async_event(Some(COMPLETION_TIMEOUT)).unwrap();
    assert_eq!(event, Some(AsyncEvent::SqDrained(a.qp.qpn())));
    assert_eq!(a.done().wr_id, 1);
    assert_eq!(a.cq.poll_one(), None);
    let attr = QpAttr { state: QpState::Rts, ..QpAttr::default() };
    a.qp.modify(&attr, QpAttrMask::STATE).unwrap();
    assert_eq!(a.done().wr_id, 2);
}

fn the_first_packet_in_rtr_raises_an_event(net: &Net) {
    let (a, b) = (Side::new(net, QpType::Rc), Side::new(net, QpType::Rc));
    a.qp.connect(&b.qp.endpoint(), &ConnectOptions::default()).unwrap();
    let attr = QpAttr {
        state: QpState::Rtr,
        av: Some(AddressVector::new(b.context.address(), a.context.address())),
        dest_qpn: a.qp.qpn().get(),
        rq_psn: a.qp.endpoint().psn.get(),
        path_mtu: a.context.query_port().active_mtu,
        max_dest_rd_atomic: 1,
        ..QpAttr::default()
    };
    let rtr = QpAttrMask::STATE
        | QpAttrMask::AV
        | QpAttrMask::PATH_MTU
        | QpAttrMask::DEST_QPN
        | QpAttrMask::RQ_PSN
        | QpAttrMask::MAX_DEST_RD_ATOMIC
        | QpAttrMask::MIN_RNR_TIMER;
    let missing = b.qp.modify(&attr, rtr - QpAttrMask::DEST_QPN).unwrap_err();
    assert!(missing.to_string().contains("DEST_QPN"), "{missing}");
    b.qp.modify(&attr, rtr).unwrap();
    b.recv(1, 0..64);
    a.send(SendWr::send(2, &[]).signaled());
    a.done();
    let event = b.context.next_async_event(Some(COMPLETION_TIMEOUT)).unwrap();
    assert_eq!(event, Some(AsyncEvent::CommEst(b.qp.qpn())));
}

fn receives_posted_after_init_are_used(net: &Net) {
    let (a, b) = (Side::new(net, QpType::Rc), Side::new(net, QpType::Rc));
    b.recv(4, 0..64); // before any connection exists
    common::connect(&a.qp, &b.qp, &ConnectOptions::default());
    a.send(SendWr::send(1, &[]).inline(b"early"));
    assert_eq!(b.done().wr_id, 4);
}

#[test]
fn a8_a9_numbers_are_not_guessable() {
    let side = Side::new(&Net::fabric(), QpType::Rc);
    let build = |_| side.pd.qp_builder(QpType::Rc, &side.cq, &side.cq).build().unwrap();
    let many: Vec<_> = (0..64).map(build).collect();
    let qpns: HashSet<_> = many.iter().map(|qp| qp.qpn()).collect();
    let psns: HashSet<_> = many.iter().map(|qp| qp.endpoint().psn.get()).collect();
    assert_eq!(qpns.len(), 64);
    assert!(psns.len() > 60, "random");
    let neighbours = many.windows(2).filter(|w| w[1].qpn().get() == w[0].qpn().get() + 1).count();
    assert!(neighbours < 3, "not counted up");
}

#[test]
fn v100_sizes_beyond_the_limits_are_refused() {
    let side = Side::new(&Net::fabric(), QpType::Rc);
    let builder = || side.pd.qp_builder(QpType::Rc, &side.cq, &side.cq);
    let error = builder().max_inline(1025).build().unwrap_err();
    assert!(error.to_string().contains("max_inline_data = 1025"), "{error}");
    let error = builder().max_send_sge(33).build().unwrap_err();
    assert!(error.to_string().contains("max_send_sge = 33"), "{error}");
    let qp = builder().max_send_wr(1).max_recv_wr(2).max_recv_sge(1).max_inline(0).build().unwrap();
    assert_eq!((qp.caps().max_send_wr, qp.caps().max_recv_wr, qp.caps().max_inline), (1, 2, 0));
    let all = QpCaps { max_inline: 1024, ..qp.caps() };
    assert_eq!(builder().caps(all).build().unwrap().caps(), all);
}

#[test]
fn v110_queues_of_another_device_are_refused() {
    let net = Net::fabric();
    let (a, b) = (Side::new(&net, QpType::Rc), Side::new(&net, QpType::Rc));
    let error = a.pd.qp_builder(QpType::Rc, &a.cq, &b.cq).build().unwrap_err();
    assert!(error.to_string().contains("receive completion queue belongs to another"), "{error}");
    let srq = b.pd.create_srq(1, 1).unwrap();
    let error = a.pd.qp_builder(QpType::Rc, &a.cq, &a.cq).srq(&srq).build().unwrap_err();
    assert!(error.to_string().contains("shared receive queue belongs to another"), "{error}");
}

#[test]
fn posting_in_the_wrong_state_says_what_to_do() {
    let side = Side::new(&Net::fabric(), QpType::Rc);
    let qp = side.pd.qp_builder(QpType::Rc, &side.cq, &side.cq).build().unwrap();
    let error = qp.post_recv(&[RecvWr::new(1, &[])]).unwrap_err();
    assert!(error.to_string().contains("RESET"), "{error}");
    qp.init().unwrap();
    let error = qp.post_send(&[SendWr::send(1, &[])]).unwrap_err();
    assert!(error.to_string().contains("INIT"), "{error}");
}

#[test]
fn connect_and_activate_are_for_their_own_kind() {
    let net = Net::fabric();
    let (rc, ud) = (Side::new(&net, QpType::Rc), Side::new(&net, QpType::Ud));
    let peer = rc.qp.endpoint();
    assert_eq!(
        ud.qp.connect(&peer, &ConnectOptions::default()).unwrap_err(),
        ConnectError::Datagram
    );
    assert_eq!(rc.qp.activate(QKEY).unwrap_err(), ConnectError::NotDatagram);
    let error = rc.qp.attach_mcast([239, 1, 1, 1].into()).unwrap_err();
    assert!(error.to_string().contains("UD"), "{error}");
    ud.qp.activate(QKEY).unwrap();
    let error = ud.qp.attach_mcast([10, 1, 1, 1].into()).unwrap_err();
    assert!(error.to_string().contains("no multicast group"), "{error}");
}

#[test]
fn impossible_peers_and_options_are_refused_before_anything_changes() {
    let side = Side::new(&Net::fabric(), QpType::Rc);
    let good = side.qp.endpoint();
    let try_with = |peer: Endpoint, options: ConnectOptions| {
        let error = side.qp.connect(&peer, &options).unwrap_err();
        assert_eq!(side.qp.state(), QpState::Init, "{error}");
        error.to_string()
    };
    let default = ConnectOptions::default();
    let v6 = Endpoint { gid: "2001:db8::1".parse().unwrap(), ..good };
    assert!(try_with(v6, default).contains("IP versions"));
    let zero = Endpoint { gid: Gid::default(), ..good };
    assert!(try_with(zero, default).contains("zero"));
    assert!(try_with(good, ConnectOptions { gid_index: 2, ..default }).contains("use 0 or 1"));
    let deep = ConnectOptions { max_dest_rd_atomic: 129, ..default };
    assert!(try_with(good, deep).contains("at most 128"));
}

#[test]
fn an_endpoint_is_readable() {
    let gid = Gid::from_ip([10, 0, 0, 1].into());
    let text = Endpoint::new(gid, Qpn::new(0x11), Psn::new(0x1a2b)).to_string();
    assert_eq!(text, "GID ::ffff:10.0.0.1 QPN 0x000011 PSN 0x001a2b");
}

#[test]
fn v120_an_endpoint_and_remote_memory_survive_every_form() {
    let gid = Gid::from_ip([10, 0, 0, 1].into());
    let plain = Endpoint::new(gid, Qpn::new(0x00ff_ffff), Psn::new(0));
    let told = Endpoint { mtu: Some(Mtu::M256), ..plain };
    for end in [plain, told] {
        assert_eq!(end.to_string().parse(), Ok(end));
        assert_eq!(Endpoint::from_bytes(&end.to_bytes()), Ok(end));
        let json = serde_json::to_string(&end).unwrap();
        assert_eq!(serde_json::from_str::<Endpoint>(&json).unwrap(), end);
    }
    let there = RemoteSlice::new(u64::MAX, Rkey(0xdead_beef), 1 << 40);
    assert_eq!(there.to_string().parse(), Ok(there));
    assert_eq!(RemoteSlice::from_bytes(&there.to_bytes()), there);
    let json = serde_json::to_string(&there).unwrap();
    assert_eq!(serde_json::from_str::<RemoteSlice>(&json).unwrap(), there);
}

#[test]
fn v120_text_of_a_peer_that_is_no_endpoint_is_refused() {
    let good = "GID ::1 QPN 0x000011 PSN 0x001a2b MTU 1024";
    assert!(good.parse::<Endpoint>().is_ok());
    for bad in [
        "",
        "GID",
        "GID ::1 QPN 0x000011",
        "GID ::x QPN 0x000011 PSN 0x001a2b",
        "GID ::1 QPN 17 PSN 0x001a2b",
        "GID ::1 QPN 0x1000000 PSN 0x001a2b",
        "GID ::1 QPN 0x+11 PSN 0x001a2b",
        "GID ::1 QPN 0x000011 PSN 0x001a2b MTU 1500",
        "GID ::1 QPN 0x000011 PSN 0x001a2b MTU",
        "GID ::1 QPN 0x000011 PSN 0x001a2b MTU 1024 more",
        "GID ::1 QPN 0x000011 PSN 0x001a2b more",
    ] {
        let error = bad.parse::<Endpoint>().expect_err(bad);
        assert!(error.to_string().contains("is not an endpoint"), "{error}");
    }
    for bad in ["", "4 bytes", "4 bytes at 0x under rkey 0x", "+4 bytes at 0x1 under rkey 0x1"] {
        assert!(bad.parse::<RemoteSlice>().is_err(), "{bad}");
    }
    let mut bytes = good.parse::<Endpoint>().unwrap().to_bytes();
    bytes[16] = 6;
    assert!(Endpoint::from_bytes(&bytes).is_err(), "there is no MTU with code 6");
    let long = "\u{1b}[31m".repeat(1000).parse::<Endpoint>().expect_err("no endpoint");
    assert!(long.to_string().len() < 1000 && !long.to_string().contains('\u{1b}'));
}

#[test]
fn v121_a_connection_takes_the_smaller_mtu_of_both_ends() {
    let net = Net::fabric();
    let mtu_of = |peer: Option<Mtu>, wanted: Option<Mtu>| {
        let side = Side::new(&net, QpType::Rc);
        let peer = Endpoint { mtu: peer, ..side.qp.endpoint() };
        let options = ConnectOptions { mtu: wanted, ..ConnectOptions::default() };
        side.qp.connect(&peer, &options).unwrap();
        (side.context.query_port().active_mtu, side.qp.query().unwrap().path_mtu)
    };
    let (active, agreed) = mtu_of(Some(Mtu::M512), None);
    assert_eq!((active, agreed), (Mtu::M4096, Mtu::M512));
    assert_eq!(mtu_of(None, None).1, active, "nothing was told");
    assert_eq!(mtu_of(Some(Mtu::M512), Some(Mtu::M1024)).1, Mtu::M1024, "the option counts");
    let told = Side::new(&net, QpType::Rc).qp.endpoint().mtu;
    assert_eq!(told, Some(active));
}
