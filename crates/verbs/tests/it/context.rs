//! Opening devices, and what they tell about themselves.

use std::net::IpAddr;
use std::time::Duration;

use uroce_verbs::*;

use crate::common::{COMPLETION_TIMEOUT, Net, Side, connect, on_both, pair};

on_both!(queries, counters_count, traffic_is_recorded);

fn queries(net: &Net) {
    let context = net.builder().name("mine").open().unwrap();
    assert_eq!(context.name(), "mine");
    let own = Gid::from_ip(context.address());
    assert_eq!([0, 1, 2].map(|i| context.query_gid(i)), [Some(own), Some(own), None]);
    let device = context.query_device();
    assert_eq!((device.phys_port_cnt, device.node_guid), (1, context.guid()));
    let port = context.query_port();
    assert_eq!((port.state, port.max_mtu), (PortState::Active, Mtu::M4096));
    assert!(context.datapath_caps().mtu >= port.active_mtu.bytes());
    assert!(context.has_progress_thread());
}

fn counters_count(net: &Net) {
    let (a, b) = pair(net, QpType::Rc);
    let before = b.counter("rcvd_pkts");
    a.send(SendWr::write(1, &[], b.mr.remote()).inline(b"x").signaled());
    a.done();
    assert!(b.counter("rcvd_pkts") > before);
    assert_eq!(b.context.counter("no such counter"), None);
    // On a busy machine the ACK comes so late that the request was sent again.
    let repeated = DropReason::DuplicateRequest;
    let drops = b.context.drops();
    assert!(drops.iter().all(|(reason, count)| *count == 0 || *reason == repeated), "{drops:?}");
    assert_eq!(a.context.datapath_problem(), None);
}

fn traffic_is_recorded(net: &Net) {
    let path = std::env::temp_dir().join(format!("uroce-verbs-{}.pcapng", std::process::id()));
    let path = path.with_extension(format!("{:?}.pcapng", std::thread::current().id()));
    let file = PcapFile::create(&path).unwrap();
    let open = || Side::of(net.builder().pcap(&file).open().unwrap(), QpType::Rc);
    let (a, b) = (open(), open());
    connect(&a.qp, &b.qp, &ConnectOptions::default());
    a.send(SendWr::write(1, &[], b.mr.remote()).inline(b"find me in the capture").signaled());
    a.done();
    drop((a, b, file));
    let captured = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let words = b"find me in the capture";
    assert!(captured.windows(words.len()).any(|window| window == words));
}

#[test]
fn two_contexts_cannot_share_an_address_of_a_fabric() {
    let builder = Net::fabric().builder();
    let _first = builder.clone().open().unwrap();
    let second = builder.open().unwrap_err();
    assert!(!second.to_string().is_empty());
    assert_eq!(second.errno(), 98, "EADDRINUSE: {second}");
}

/// As two processes do.
#[test]
fn two_contexts_share_an_address_of_this_machine() {
    let builder = Net::udp().builder();
    let open = || Side::of(builder.clone().open().unwrap(), QpType::Rc);
    let (a, b) = (open(), open());
    connect(&a.qp, &b.qp, &ConnectOptions::default());
    a.send(SendWr::write(1, &[], b.mr.remote()).inline(b"neighbour").signaled());
    a.done();
    assert_eq!(b.bytes(0, 9), b"neighbour");
}

#[test]
fn addresses_that_are_not_ours_are_refused_with_a_remedy() {
    let foreign = Context::builder().address([198, 51, 100, 1]).open().unwrap_err();
    assert!(foreign.to_string().contains("uroce devices"), "{foreign}");
    let group = Context::builder().address([239, 1, 1, 1]).open().unwrap_err();
    assert!(group.to_string().contains("network interface"), "{group}");
}

#[test]
fn a_capture_that_cannot_be_written_is_refused() {
    let error = Net::fabric().builder().pcap("/no/such/directory/x.pcapng").open().unwrap_err();
    assert!(error.to_string().contains("/no/such/directory"), "{error}");
}

#[test]
fn a_listed_device_can_be_opened() {
    let devices = device_list();
    let home = devices.iter().find(|device| device.address == IpAddr::from([127, 0, 0, 1]));
    let home = home.expect("every machine has 127.0.0.1");
    // The default port may be taken by another program; then the error says so.
    match Context::open(home) {
        Ok(context) => assert_eq!((context.name(), context.netdev()), (&*home.name, "lo")),
        Err(error) => assert_eq!(error.errno(), 98, "{error}"),
    }
}

#[test]
fn without_a_progress_thread_the_callers_do_the_work() {
    let fabric = LoopbackFabric::new();
    let open = |host| {
        let builder = Context::builder().address([10, 0, 0, host]).loopback(&fabric);
        Side::of(builder.progress_thread(false).open().unwrap(), QpType::Rc)
    };
    let (a, b) = (open(1), open(2));
    connect(&a.qp, &b.qp, &ConnectOptions::default());
    assert!(!a.context.has_progress_thread());
    a.send(SendWr::write(1, &[], b.mr.remote()).inline(b"x").signaled());
    assert_eq!(a.cq.wait(&mut [WorkCompletion::default()], Duration::from_millis(5)), 0);
    while b.context.drive() {}
    a.done();
    assert_eq!(b.bytes(0, 1), b"x");
}

#[test]
fn events_also_come_to_a_device_without_a_progress_thread() {
    let net = Net::fabric();
    let lone = Side::of(net.builder().progress_thread(false).open().unwrap(), QpType::Rc);
    let peer = Side::new(&net, QpType::Rc);
    connect(&lone.qp, &peer.qp, &ConnectOptions::default());
    let nothing = lone.context.next_async_event(Some(Duration::from_millis(2))).unwrap();
    assert_eq!(nothing, None);
    peer.send(SendWr::write(1, &[], RemoteSlice::new(0, Rkey(1), 8)).inline(b"x"));
    // The violation arrives while the caller sleeps in the device.
    let event = lone.context.next_async_event(Some(COMPLETION_TIMEOUT)).unwrap();
    assert_eq!(event, Some(AsyncEvent::QpAccessErr(lone.qp.qpn())));
}
