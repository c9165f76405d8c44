//! What a device has, as its own process and others see it.

mod common;

use common::{Node, ip};
use uroce_device::datapath::LoopbackFabric;
use uroce_device::transport::{QpType, SrqAttr};
use uroce_device::{DeviceConfig, Resource, ResourceKind, device_reports};

fn of_kind(resources: &[Resource], kind: ResourceKind) -> Vec<&Resource> {
    resources.iter().filter(|resource| resource.kind() == kind).collect()
}

/// The reports of this process about the device with this address.
fn reports_of(node: &Node) -> Vec<Vec<Resource>> {
    let address = node.device.address().to_string();
    let all = device_reports().expect("/proc/net/unix is shown");
    let ours = all.into_iter().flatten().filter(|report| report.pid == std::process::id());
    ours.map(|report| report.resources)
        .filter(|resources| resources[0].get("address") == Some(&address))
        .collect()
}

#[test]
fn every_object_is_listed_and_other_processes_see_the_same() {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Node::threaded(&fabric, 201), Node::threaded(&fabric, 202));
    let buffer = a.buffer(4096);
    let srq = a.device.create_srq(a.pd, &SrqAttr { max_wr: 8, max_sge: 1, limit: 2 }).expect("SRQ");
    let (rc, ud) = (a.qp(QpType::Rc), a.qp(QpType::Ud));
    let remote = b.qp(QpType::Rc);
    a.connect(rc, ip(202), remote);

    let list = a.device.resources();
    let line = |kind, name: &str, value: u32| {
        let value = value.to_string();
        let found = of_kind(&list, kind).into_iter().find(|found| found.get(name) == Some(&value));
        found.unwrap_or_else(|| panic!("no {name} {value} in {list:?}")).to_string()
    };
    let connected = line(ResourceKind::Qp, "lqpn", rc.get());
    let peer =
        format!("rqpn {} peer 10.0.0.202 type RC state RTS rq-psn 4096 sq-psn 4096", remote.get());
    assert!(connected.contains(&peer), "{connected}");
    let datagram = line(ResourceKind::Qp, "lqpn", ud.get());
    assert!(datagram.contains(" type UD state RESET ") && !datagram.contains("rqpn"), "{datagram}");
    let cq = line(ResourceKind::Cq, "cqn", a.cq.0);
    assert!(cq.contains("users 4 waiting 0 channel no overflowed no"), "{cq}");
    let mr = of_kind(&list, ResourceKind::Mr)[0].to_string();
    let keys = format!(
        "rkey {:#x} lkey {:#x} iova {:#x} mrlen 4096",
        buffer.mr.rkey.0,
        buffer.mr.lkey.0,
        buffer.addr()
    );
    assert!(mr.contains(&keys) && mr.contains("LOCAL_WRITE|REMOTE_WRITE"), "{mr}");
    let srq = line(ResourceKind::Srq, "srqn", srq.0);
    assert!(srq.contains("max-wr 8 waiting 0 limit 2 users 0"), "{srq}");
    assert_eq!(of_kind(&list, ResourceKind::Pd).len(), 1);
    let sent = of_kind(&list, ResourceKind::Counters)[0].get("sent_pkts").map(str::to_owned);
    assert_eq!(sent.as_deref(), Some("0"), "nothing was posted");

    assert_eq!(reports_of(&a), [list]);
}

#[test]
fn a_device_can_be_asked_while_it_is_open_and_only_then() {
    let fabric = LoopbackFabric::new();
    let node = Node::inline(&fabric, 203);
    assert!(node.device.is_reported());
    assert_eq!(reports_of(&node).len(), 1, "no progress thread is needed");
    let secretive = DeviceConfig { report: false, ..DeviceConfig::loopback(ip(204), &fabric) };
    let other = Node::open(secretive);
    assert!(!other.device.is_reported());
    assert_eq!(reports_of(&other), [[]; 0]);
    assert_eq!(other.device.resources()[0].get("address"), Some("10.0.0.204"), "but asks itself");
    let address = node.device.address().to_string();
    drop(node);
    let left = device_reports().expect("shown");
    assert!(
        left.into_iter()
            .flatten()
            .all(|report| report.resources[0].get("address") != Some(&address))
    );
}
