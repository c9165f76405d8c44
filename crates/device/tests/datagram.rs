//! UD: datagrams, Q_Keys, multicast.

mod common;

use std::net::{IpAddr, Ipv4Addr};

use common::{Node, QKEY, assert_ok, collect, ip, pattern, settle};
use uroce_device::McastError;
use uroce_device::datapath::LoopbackFabric;
use uroce_device::transport::{QpType, WcFlags};
use uroce_device::wire::Qpn;

const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(239, 7, 7, 7));
/// The GRH area in front of every UD payload.
const GRH: usize = 40;

fn ud(node: &Node) -> Qpn {
    let qpn = node.qp(QpType::Ud);
    node.activate_ud(qpn);
    qpn
}

#[test]
fn e12_a_datagram_arrives_behind_its_grh_area() {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Node::inline(&fabric, 1), Node::inline(&fabric, 2));
    let (qa, qb) = (ud(&a), ud(&b));
    let (from, to) = (a.buffer(4096), b.buffer(8192));
    from.write(0, &pattern(4096, 5));
    b.recv(qb, 1, &[to.sge(0, 8192)]);
    a.send_ud(qa, 2, (ip(2), qb, QKEY), &[from.sge(0, 4096)]);
    let done = collect(&[(&a, 1), (&b, 1)]);
    assert_ok(&done.concat());
    let recv = done[1][0];
    assert_eq!((recv.byte_len, recv.src_qpn), (4096 + GRH as u32, qa.get()));
    assert!(recv.flags.contains(WcFlags::GRH));
    assert_eq!(recv.src_ip, Some(ip(1)));
    assert_eq!(to.bytes(GRH, 4096), pattern(4096, 5));
    assert_eq!(to.bytes(20, 1)[0], 0x45, "an IPv4 header ends the GRH area");
}

#[test]
fn a34_a_wrong_qkey_is_counted_and_nothing_else() {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Node::inline(&fabric, 1), Node::inline(&fabric, 2));
    let (qa, qb) = (ud(&a), ud(&b));
    let (from, to) = (a.buffer(64), b.buffer(256));
    b.recv(qb, 1, &[to.sge(0, 256)]);
    a.send_ud(qa, 2, (ip(2), qb, QKEY ^ 1), &[from.sge(0, 64)]);
    settle(&[&a, &b]);
    assert!(b.poll().is_empty());
    assert_eq!(b.counter("drop_qkey_mismatch"), 1);
}

#[test]
fn b27_multicast_is_copied_to_each_member_and_loops_back() {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Node::inline(&fabric, 1), Node::inline(&fabric, 2));
    let (sender, stranger) = (ud(&a), ud(&b));
    let members = [(&a, ud(&a)), (&b, ud(&b)), (&b, ud(&b))];
    let (from, to_a, to_b) = (a.buffer(64), a.buffer(1024), b.buffer(1024));
    from.write(0, &pattern(64, 9));
    for (i, (node, qpn)) in members.iter().enumerate() {
        node.device.attach_mcast(*qpn, GROUP).expect("attached");
        node.device.attach_mcast(*qpn, GROUP).expect("twice is once");
        let to = if i == 0 { &to_a } else { &to_b };
        node.recv(*qpn, i as u64, &[to.sge(i as u64 * 256, 256)]);
    }
    b.recv(stranger, 99, &[to_b.sge(900, 124)]);
    a.send_ud(sender, 50, (GROUP, Qpn::MULTICAST, QKEY), &[from.sge(0, 64)]);
    let done = collect(&[(&a, 2), (&b, 2)]);
    assert_ok(&done.concat());
    settle(&[&a, &b]);
    assert!(a.poll().is_empty() && b.poll().is_empty());
    for (i, to) in [(0, &to_a), (1, &to_b), (2, &to_b)] {
        assert_eq!(to.bytes(i * 256 + GRH, 64), pattern(64, 9), "member {i}");
    }
}

#[test]
fn b27_a_detached_member_hears_nothing_and_destroy_detaches() {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Node::inline(&fabric, 1), Node::inline(&fabric, 2));
    let (sender, first, second) = (ud(&a), ud(&b), ud(&b));
    for member in [first, second] {
        b.device.attach_mcast(member, GROUP).expect("attached");
    }
    b.device.detach_mcast(first, GROUP).expect("detached");
    assert!(matches!(b.device.detach_mcast(first, GROUP), Err(McastError::NotAttached(_))));
    b.device.destroy_qp(second).expect("destroyed");
    let (from, to) = (a.buffer(64), b.buffer(256));
    b.recv(first, 1, &[to.sge(0, 256)]);
    a.send_ud(sender, 2, (GROUP, Qpn::MULTICAST, QKEY), &[from.sge(0, 64)]);
    settle(&[&a, &b]);
    assert!(b.poll().is_empty());
}

/// Three members, and each of them once the one that cannot take the datagram: the others get theirs whole, and it
/// is counted at the one. (Linux once handed the last member's failure to all.)
#[test]
fn b27_a_member_without_a_receive_costs_the_others_nothing() {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Node::inline(&fabric, 1), Node::inline(&fabric, 2));
    let sender = ud(&a);
    let members = [ud(&b), ud(&b), ud(&b)];
    let (from, to) = (a.buffer(64), b.buffer(1024));
    from.write(0, &pattern(64, 9));
    for member in members {
        b.device.attach_mcast(member, GROUP).expect("attached");
    }
    for (round, unready) in members.into_iter().enumerate() {
        to.write(0, &[0; 1024]);
        let ready = members.into_iter().filter(|member| *member != unready);
        for (place, member) in ready.enumerate() {
            b.recv(member, place as u64, &[to.sge(place as u64 * 256, 256)]);
        }
        a.send_ud(sender, 50, (GROUP, Qpn::MULTICAST, QKEY), &[from.sge(0, 64)]);
        assert_ok(&collect(&[(&a, 1), (&b, 2)]).concat());
        settle(&[&a, &b]);
        assert!(b.poll().is_empty());
        for place in 0..2 {
            assert_eq!(to.bytes(place * 256 + GRH, 64), pattern(64, 9), "round {round}");
        }
        assert_eq!(b.counter("drop_ud_no_receive"), round as u64 + 1);
    }
}

/// A member leaves while datagrams wait for it, and one is destroyed: what was on the way reaches those that stay.
#[test]
fn b27_members_leave_under_traffic() {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Node::inline(&fabric, 1), Node::inline(&fabric, 2));
    let (sender, leaver, dying, stayer) = (ud(&a), ud(&b), ud(&b), ud(&b));
    let (from, to) = (a.buffer(64), b.buffer(256));
    for member in [leaver, dying, stayer] {
        b.device.attach_mcast(member, GROUP).expect("attached");
        (0..16).for_each(|id| b.recv(member, id, &[to.sge(0, 256)]));
    }
    for _ in 0..8 {
        a.send_ud(sender, 1, (GROUP, Qpn::MULTICAST, QKEY), &[from.sge(0, 64)]);
    }
    b.device.detach_mcast(leaver, GROUP).expect("detached with datagrams on the way");
    b.device.destroy_qp(dying).expect("destroyed with datagrams on the way");
    for _ in 0..8 {
        a.send_ud(sender, 1, (GROUP, Qpn::MULTICAST, QKEY), &[from.sge(0, 64)]);
    }
    let done = collect(&[(&a, 16), (&b, 16)]);
    assert_ok(&done.concat());
    settle(&[&a, &b]);
    assert!(done[1].iter().all(|wc| wc.qpn == stayer.get()), "those that left get nothing");
    assert!(b.poll().is_empty());
}

#[test]
fn v111_only_ud_queue_pairs_and_real_groups() {
    let fabric = LoopbackFabric::new();
    let a = Node::inline(&fabric, 1);
    let (rc, ud) = (a.qp(QpType::Rc), ud(&a));
    assert!(matches!(a.device.attach_mcast(rc, GROUP), Err(McastError::NotUd)));
    assert!(matches!(a.device.attach_mcast(ud, ip(3)), Err(McastError::NotAGroup(_))));
    let v6 = "ff02::77".parse().expect("an address");
    assert!(matches!(a.device.attach_mcast(ud, v6), Err(McastError::NotAGroup(_))));
}
