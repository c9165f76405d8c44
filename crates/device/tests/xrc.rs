//! What XRC objects depend on, and how long they live.

mod common;

use common::*;
use uroce_device::datapath::LoopbackFabric;
use uroce_device::transport::{QpCaps, QpType, SrqAttr, SrqId, XrcSrq, XrcdId};
use uroce_device::wire::Qpn;
use uroce_device::{CreateError, DestroyError};

const ATTR: SrqAttr = SrqAttr { max_wr: 4, max_sge: 1, limit: 0 };

/// A domain with an SRQ and a target.
fn domain(node: &Node) -> (XrcdId, SrqId, Qpn) {
    let device = &node.device;
    let cq = device.create_cq(1, None, 0).expect("a CQ");
    let xrcd = device.xrc().open(node.pd, cq).expect("a domain");
    let xrc = XrcSrq { xrcd, cq: node.cq };
    let srq = device.xrc().create_srq(node.pd, xrc, &ATTR).expect("an SRQ");
    (xrcd, srq, device.xrc().create_target(xrcd).expect("a target"))
}

fn busy(result: Result<(), DestroyError>) -> &'static str {
    match result {
        Err(DestroyError::Busy { users, .. }) => users,
        other => panic!("{other:?}"),
    }
}

#[test]
fn r93_what_is_in_use_is_not_destroyed() {
    let node = Node::inline(&LoopbackFabric::new(), 1);
    let device = &node.device;
    let (xrcd, srq, target) = domain(&node);
    assert_eq!(busy(device.xrc().close(xrcd)), "shared receive queues");
    assert_eq!(busy(device.destroy_cq(node.cq)), "XRC objects");
    assert_eq!(device.query_srq(srq).expect("an SRQ"), ATTR);
    device.destroy_srq(srq).expect("a target holds no SRQ");
    assert_eq!(busy(device.xrc().close(xrcd)), "queue pairs");
    assert!(device.memory().dealloc_pd(node.pd).is_err(), "the domain and its target hold it");
    device.destroy_qp(target).expect("destroyed");
    device.xrc().close(xrcd).expect("closed");
    device.destroy_cq(node.cq).expect("destroyed");
    device.memory().dealloc_pd(node.pd).expect("nobody holds it");
    assert!(matches!(device.xrc().close(xrcd), Err(DestroyError::NoSuchObject(_))));
}

#[test]
fn x3_numbers_of_srqs_are_not_those_of_queues_that_were_there_before() {
    let node = Node::inline(&LoopbackFabric::new(), 1);
    let (_, srq, _) = domain(&node);
    let mut seen = vec![node.device.srq_number(srq).expect("a number")];
    for _ in 0..200 {
        let next = node.device.create_srq(node.pd, &ATTR).expect("an SRQ");
        let number = node.device.srq_number(next).expect("a number");
        assert!(!seen.contains(&number) && number < 1 << 24, "{number:#x}");
        seen.push(number);
        node.device.destroy_srq(next).expect("destroyed");
    }
}

#[test]
fn a_target_is_made_in_its_domain_only() {
    let node = Node::inline(&LoopbackFabric::new(), 1);
    let (_, srq, target) = domain(&node);
    let made = node.device.create_qp(&node.request(QpType::XrcTgt));
    assert!(matches!(made, Err(CreateError::Xrc(_))), "{made:?}");
    let mut request = node.request(QpType::Rc);
    request.srq = Some(srq);
    let made = node.device.create_qp(&request);
    assert!(matches!(made, Err(CreateError::Xrc(_))), "{made:?}");
    let (_, init) = node.device.query_qp(target).expect("a target");
    assert_eq!((init.qp_type, init.caps), (QpType::XrcTgt, QpCaps::default()));
    let made = node.device.xrc().create_target(XrcdId(99));
    assert!(matches!(made, Err(CreateError::NoSuchObject(_))), "{made:?}");
}

#[test]
fn the_list_of_objects_tells_what_is_for_xrc() {
    let node = Node::inline(&LoopbackFabric::new(), 1);
    let (xrcd, srq, target) = domain(&node);
    let number = node.device.srq_number(srq).expect("a number");
    let lines: Vec<_> = node.device.resources().iter().map(ToString::to_string).collect();
    let has = |start: &str, end: &str| {
        lines.iter().any(|line| line.starts_with(start) && line.ends_with(end))
    };
    let (cqn, xrcdn) = (node.cq.0, xrcd.0);
    let srqn = srq.0;
    let end = format!("cqn {cqn} xrcdn {xrcdn} remote-srqn {number}");
    assert!(has(&format!("srq srqn {srqn} type XRC "), &end), "{lines:#?}");
    let start = format!("qp lqpn {} type XRC_TGT ", target.get());
    let queue_pair = lines.iter().find(|line| line.starts_with(&start)).expect("it is listed");
    assert!(queue_pair.contains(&format!(" xrcdn {xrcdn} ")), "{queue_pair}");
}
