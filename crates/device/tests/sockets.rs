//! Devices on real UDP sockets of this machine.

mod common;

use std::net::IpAddr;

use common::{Node, QKEY, assert_ok, collect, pattern, rc_pair};
use uroce_device::datapath::LoopbackFabric;
use uroce_device::limits::RX_BUDGET;
use uroce_device::transport::{QpAttr, QpAttrMask, QpState, QpType, SendOp};
use uroce_device::{DatapathChoice, Device, DeviceConfig, Faults, OpenError, interfaces};

const PORT: u16 = 24_791;

fn on(address: IpAddr, port: u16) -> Node {
    Node::open(DeviceConfig { port, progress_thread: false, ..DeviceConfig::new(address) })
}

fn exchange(a: &Node, b: &Node) {
    let (qa, qb) = rc_pair(a, b);
    let (from, to) = (a.buffer(200_000), b.buffer(200_000));
    let data = pattern(100_000, 6);
    from.write(0, &data);
    b.recv(qb, 1, &[to.sge(0, 100_000)]);
    a.send(qa, 2, SendOp::Send, &[from.sge(0, 100_000)]);
    let (va, rkey) = (to.addr(), to.mr.rkey);
    a.send(qa, 3, SendOp::Read { va, rkey }, &[from.sge(100_000, 100_000)]);
    assert_ok(&collect(&[(a, 2), (b, 1)]).concat());
    assert_eq!(from.bytes(100_000, 100_000), data);
}

#[test]
fn ipv4_between_two_loopback_addresses() {
    let (a, b) = (on([127, 0, 0, 31].into(), PORT), on([127, 0, 0, 32].into(), PORT));
    exchange(&a, &b);
    let (predicted, solved) = (b.counter("icrc_predicted"), b.counter("icrc_solved"));
    assert!(predicted > 0 && solved == 0, "our own IDs are always guessed: {predicted}, {solved}");
    assert_eq!(b.counter("drop_bad_icrc"), 0);
}

#[test]
fn io_uring_carries_the_same() {
    let open = |last| {
        let address = [127, 0, 0, last].into();
        let config = DeviceConfig { port: PORT + 3, ..DeviceConfig::new(address) };
        Node::open(DeviceConfig { datapath: DatapathChoice::Uring, ..config })
    };
    if let Err(error) = uroce_device::udp::probe::uring() {
        assert!(std::env::var_os("CI").is_none(), "{error}");
        println!("skipped: {error}");
        return;
    }
    let (a, b) = (open(37), open(38));
    assert_eq!(a.device.datapath_caps().name, "uring");
    assert_eq!(a.device.datapath_choice_note(), "uring: named by whoever opened the device");
    exchange(&a, &b);
    assert_eq!(b.counter("drop_bad_icrc"), 0);
}

#[test]
fn two_queue_pairs_of_one_device_over_the_kernel() {
    let a = on([127, 0, 0, 33].into(), PORT);
    let (q1, q2) = (a.qp(QpType::Rc), a.qp(QpType::Rc));
    a.connect(q1, a.device.address(), q2);
    a.connect(q2, a.device.address(), q1);
    let buffer = a.buffer(8192);
    buffer.write(0, &pattern(4096, 7));
    a.recv(q2, 1, &[buffer.sge(4096, 4096)]);
    a.send(q1, 2, SendOp::Send, &[buffer.sge(0, 4096)]);
    assert_ok(&collect(&[(&a, 2)])[0]);
    assert_eq!(buffer.bytes(4096, 4096), pattern(4096, 7));
}

/// How many messages a WRITE of four packets is for the peer.
fn messages_of_a_write(config: DeviceConfig, last: u8) -> u64 {
    let open = |last| {
        let address = [127, 0, 0, last].into();
        Node::open(DeviceConfig {
            address,
            port: PORT + 4,
            progress_thread: false,
            ..config.clone()
        })
    };
    let (a, b) = (open(last), open(last + 1));
    let (qa, _) = rc_pair(&a, &b);
    let (from, to) = (a.buffer(4096), b.buffer(4096));
    from.write(0, &pattern(4096, 5));
    let (va, rkey) = (to.addr(), to.mr.rkey);
    a.send(qa, 1, SendOp::Write { va, rkey }, &[from.sge(0, 4096)]);
    assert_ok(&collect(&[(&a, 1), (&b, 0)]).concat());
    assert_eq!(to.bytes(0, 4096), pattern(4096, 5));
    b.counter("rdma_recvs")
}

#[test]
fn a_short_write_leaves_as_write_onlys_where_packets_form_gso_batches_and_nobody_objects() {
    let config = DeviceConfig::new([127, 0, 0, 1].into());
    assert_eq!(messages_of_a_write(config.clone(), 47), 4, "each packet is a WRITE ONLY");
    let whole = DeviceConfig { split_writes: false, ..config.clone() };
    assert_eq!(messages_of_a_write(whole, 49), 1, "FIRST, MIDDLE, MIDDLE, LAST");
    let rule = "tx op=write part=last -> delay=1us".parse().expect("a rule");
    let faults = Some(Faults::new(rule, Some(7)).expect("a seed is given"));
    let faulty = DeviceConfig { faults, ..config };
    assert_eq!(messages_of_a_write(faulty, 53), 1, "rules name parts of messages");
    let fabric = LoopbackFabric::new();
    let local = DeviceConfig::loopback([127, 0, 0, 1].into(), &fabric);
    assert_eq!(messages_of_a_write(local, 51), 1, "there is nothing to be gained in a process");
}

/// Payload of entries of odd lengths is under the ICRC as if it lay in one piece.
#[test]
fn b28_a_payload_in_pieces_of_odd_lengths_has_the_right_icrc() {
    let (a, b) = (on([127, 0, 0, 45].into(), PORT), on([127, 0, 0, 46].into(), PORT));
    let (qa, qb) = rc_pair(&a, &b);
    let (from, to) = (a.buffer(8192), b.buffer(8192));
    from.write(0, &pattern(8192, 3));
    for lengths in [[1, 2, 3, 5], [257, 1, 1023, 3], [4095, 1, 1, 1]] {
        let (mut sges, mut expected, mut offset) = (vec![], vec![], 1);
        for length in lengths {
            sges.push(from.sge(offset, length));
            expected.extend(from.bytes(offset as usize, length as usize));
            offset += u64::from(length) + 7;
        }
        b.recv(qb, 1, &[to.sge(0, 3), to.sge(3, 1000), to.sge(1003, 7000)]);
        a.send(qa, 2, SendOp::Send, &sges);
        assert_ok(&collect(&[(&a, 1), (&b, 1)]).concat());
        assert_eq!(to.bytes(0, expected.len()), expected, "{lengths:?}");
    }
    assert_eq!(b.counter("drop_bad_icrc"), 0);
}

/// The datapath has 8 source ports for all of them, so that most get another one than they ask for.
#[test]
fn r91_datagrams_of_queue_pairs_that_were_reset_arrive() {
    let node = on([127, 0, 0, 44].into(), PORT);
    let to = node.qp(QpType::Ud);
    node.activate_ud(to);
    let buffer = node.buffer(64 * 64);
    let senders: Vec<_> = (0..24).map(|_| node.qp(QpType::Ud)).collect();
    for (i, qpn) in senders.iter().enumerate() {
        node.recv(to, i as u64, &[buffer.sge(i as u64 * 64, 64)]);
        node.activate_ud(*qpn);
        node.step(*qpn, &QpAttr::default(), QpState::Reset, QpAttrMask::empty());
        node.activate_ud(*qpn);
        node.send_ud(*qpn, 100, (node.device.address(), to, QKEY), &[buffer.sge(0, 4)]);
    }
    assert_ok(&collect(&[(&node, 48)]).concat());
    assert_eq!(node.counter("drop_bad_icrc"), 0);
}

#[test]
fn ipv6_on_the_loopback_interface() {
    let home: IpAddr = "::1".parse().expect("an address");
    if !interfaces().iter().any(|i| i.address == home) {
        println!("skipped: this machine has no ::1");
        return;
    }
    let a = on(home, PORT + 1);
    let (q1, q2) = (a.qp(QpType::Rc), a.qp(QpType::Rc));
    a.connect(q1, home, q2);
    a.connect(q2, home, q1);
    let buffer = a.buffer(128);
    a.recv(q2, 1, &[buffer.sge(64, 64)]);
    a.send(q1, 2, SendOp::Send, &[buffer.sge(0, 64)]);
    assert_ok(&collect(&[(&a, 2)])[0]);
    assert!(a.counter("icrc_valid") > 0);
}

#[test]
fn errors_name_the_remedy() {
    let open = |address: &str| {
        let address = address.parse().expect("an address");
        Device::open(DeviceConfig { port: PORT + 2, ..DeviceConfig::new(address) })
    };
    assert!(matches!(open("0.0.0.0"), Err(OpenError::NotUnicast(_))));
    assert!(matches!(open("239.1.1.1"), Err(OpenError::NotUnicast(_))));
    let foreign = open("198.51.100.9").expect_err("not ours");
    assert!(foreign.to_string().contains("uroce devices"), "{foreign}");
    let first = std::net::UdpSocket::bind(("127.0.0.34", PORT + 2)).expect("free");
    let second = open("127.0.0.34").expect_err("taken");
    assert!(matches!(second, OpenError::Bind(_)), "{second}");
    drop(first);
    open("127.0.0.34").expect("free again");
}

#[test]
fn attributes_of_the_loopback_interface() {
    let a = on([127, 0, 0, 35].into(), PORT);
    assert_eq!(a.device.netdev(), "lo");
    assert_eq!(a.device.port_attr().active_mtu.bytes(), 4096);
    let gid = a.device.interface().gid(0).expect("entry 0");
    assert_eq!((gid.to_ip(), a.device.interface().gid(1)), (a.device.address(), Some(gid)));
    assert_eq!(a.device.interface().gid(2), None);
}

/// A peer whose IPv4 identifications are not those of a Linux UDP socket: the kernel shows us no
/// ID, so any that the peer used in its ICRC may be the true one (docs/wire.md).
#[test]
fn a_hidden_ip_id_is_solved_once_and_then_predicted() {
    let a = on([127, 0, 0, 36].into(), PORT);
    let peer: IpAddr = [127, 0, 0, 37].into();
    let qpn = a.qp(QpType::Rc);
    a.connect(qpn, peer, uroce_device::wire::Qpn::new(0x99));
    let socket = std::net::UdpSocket::bind((peer, 50_000)).expect("free");
    let send = |psn: u8, id: u16, damage: u8| {
        let [_, q1, q2, q3] = qpn.get().to_be_bytes();
        let mut packet = vec![0x04, 0x40, 0xff, 0xff, 0, q1, q2, q3, 0x80, 0, 0x10, psn];
        let (src, dst) = (peer, a.device.address());
        let flow = uroce_device::wire::Flow { src, dst, src_port: 50_000, dst_port: PORT };
        let crc = uroce_device::wire::icrc(&flow, id, &packet) ^ u32::from(damage);
        packet.extend_from_slice(&crc.to_le_bytes());
        socket.send_to(&packet, (dst, PORT)).expect("sent");
        let start = std::time::Instant::now();
        while !a.device.drive() && start.elapsed().as_secs() < 5 {}
        let names = ["icrc_predicted", "icrc_solved", "drop_bad_icrc"];
        names.map(|name| a.counter(name))
    };
    (0..8).for_each(|id| a.recv(qpn, id, &[]));
    assert_eq!(send(0, 0x1234, 0), [0, 1, 0], "the first ID is solved");
    assert_eq!(send(1, 0x1235, 0), [1, 1, 0], "the next is predicted");
    assert_eq!(send(2, 0x1236, 0), [2, 1, 0]);
    assert_eq!(send(3, 0, 0), [3, 1, 0], "zero is always tried");
    assert_eq!(send(4, 0x9999, 0), [3, 2, 0], "a jump is solved");
    assert_eq!(send(5, 0x999a, 1), [3, 2, 1], "a damaged packet is neither");
    assert_eq!(a.poll().len(), 5);
}

#[test]
fn e41_what_the_datapath_drops_reaches_the_counters() {
    let a = on([127, 0, 0, 41].into(), PORT);
    let socket = std::net::UdpSocket::bind(("127.0.0.42", 50_000)).expect("free");
    let dropped = |bytes: &[u8], name: &str| {
        socket.send_to(bytes, (a.device.address(), PORT)).expect("sent");
        let start = std::time::Instant::now();
        while a.counter(name) == 0 && start.elapsed().as_secs() < 5 {
            a.device.drive();
        }
        a.counter(name)
    };
    assert_eq!(dropped(&[0; 10_000], "drop_rx_truncated"), 1);
    assert_eq!(dropped(&[], "drop_too_short"), 1);
}

/// The bound of an iteration is one of the time for which it holds the lock.
#[test]
fn empty_datagrams_count_for_the_budget_of_a_poll_iteration() {
    const SENT: u64 = 4000;
    let a = on([127, 0, 0, 43].into(), PORT);
    let anybody = std::net::UdpSocket::bind(("127.0.0.44", 0)).expect("a port");
    let to = (a.device.address(), PORT);
    (0..SENT).for_each(|_| assert_eq!(anybody.send_to(&[], to).expect("sent"), 0));
    a.device.drive();
    let dropped = a.counter("drop_too_short");
    assert!(dropped <= 4 * RX_BUDGET as u64, "{dropped} datagrams under one lock");
}

#[test]
fn a_capture_shows_both_directions() {
    let path = std::env::temp_dir().join(format!("uroce-device-{}.pcapng", std::process::id()));
    let file = uroce_device::datapath::PcapFile::create(&path).expect("writable");
    let with = |last: u8| {
        let config = DeviceConfig::new([127, 0, 0, last].into());
        Node::open(DeviceConfig {
            port: PORT,
            pcap: Some(file.clone()),
            progress_thread: false,
            ..config
        })
    };
    let (a, b) = (with(38), with(39));
    exchange(&a, &b);
    let sent = a.counter("sent_pkts") + b.counter("sent_pkts");
    let received = a.counter("datapath_rx_packets") + b.counter("datapath_rx_packets");
    drop((a, b));
    file.flush().expect("written");
    let replay = uroce_device::datapath::PcapReplay::open(&path).expect("readable");
    let frames = replay.filter(Result::is_ok).count() as u64;
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(frames, sent + received);
}

#[test]
fn a7_a_seed_makes_numbers_repeatable_and_only_a_seed() {
    let first = |seed: Option<[u8; 32]>| {
        let config = DeviceConfig::new([127, 0, 0, 40].into());
        let node = Node::open(DeviceConfig { port: PORT, seed, progress_thread: false, ..config });
        (node.qp(QpType::Rc), node.buffer(64).mr.rkey.0)
    };
    assert_eq!(first(Some([1; 32])), first(Some([1; 32])));
    let (one, two) = (first(None), first(None));
    assert!(one.0 != two.0 && one.1 != two.1, "A7, A8: never a static seed");
}
