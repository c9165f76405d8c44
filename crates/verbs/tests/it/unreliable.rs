//! Every operation of UC and UD queue pairs, from post to completion.

use std::net::IpAddr;

use uroce_verbs::*;

use crate::common::{MOMENT, Net, QKEY, Side, datagram_pair, on_both, pair, pattern};

on_both!(
    uc_sends_and_writes,
    uc_write_with_immediate,
    uc_knows_no_read,
    ud_message_arrives_behind_40_bytes,
    ud_inline_with_immediate,
    ud_to_a_wrong_qkey_is_dropped_and_counted,
    ud_to_the_own_device,
);

fn uc_sends_and_writes(net: &Net) {
    let (a, b) = pair(net, QpType::Uc);
    a.mr.write(0, &pattern(20_000, 1)).unwrap();
    b.recv(1, 0..20_000);
    a.send(SendWr::send(2, &[a.mr.sge(..20_000)]).imm(5).signaled());
    a.done();
    let received = b.done();
    assert_eq!((received.byte_len, received.imm), (20_000, Some(5)));
    assert_eq!(b.bytes(0, 20_000), pattern(20_000, 1));

    // A write is silent; the send behind it says that it was there.
    b.recv(3, 0..64);
    a.send(SendWr::write(4, &[a.mr.sge(..20_000)], b.mr.remote().part(100_000..)).signaled());
    a.send(SendWr::send(5, &[]).inline(b"written").signaled());
    assert_eq!([a.done().wr_id, a.done().wr_id], [4, 5]);
    b.done();
    assert_eq!(b.bytes(100_000, 20_000), pattern(20_000, 1));
}

fn uc_write_with_immediate(net: &Net) {
    let (a, b) = pair(net, QpType::Uc);
    b.recv(1, 0..0);
    a.send(SendWr::write(2, &[], b.mr.remote()).inline(b"told").imm(6).signaled());
    a.done();
    let told = b.done();
    assert_eq!((told.opcode, told.imm, told.byte_len), (WcOpcode::RecvRdmaWithImm, Some(6), 4));
    assert_eq!(b.bytes(0, 4), b"told");
}

fn uc_knows_no_read(net: &Net) {
    let (a, b) = pair(net, QpType::Uc);
    a.send(SendWr::read(1, &[a.mr.sge(..8)], b.mr.remote()));
    let failed = a.next();
    assert_eq!(failed.status, WcStatus::LocQpOpErr);
    let text = failed.result().unwrap_err().to_string();
    assert!(text.contains("does not exist on a UC queue pair"), "{text}");
}

fn ud_message_arrives_behind_40_bytes(net: &Net) {
    let (a, b, ah) = datagram_pair(net);
    a.mr.write(0, &pattern(1000, 2)).unwrap();
    b.recv(1, 0..2000);
    a.send(SendWr::send(2, &[a.mr.sge(..1000)]).to(&ah, b.qp.qpn(), QKEY).signaled());
    a.done();
    let received = b.done();
    assert_eq!(received.byte_len as usize, GRH_AREA_LEN + 1000);
    assert_eq!(received.src_qpn, a.qp.qpn().get());
    assert_eq!(received.src_ip, Some(a.context.address()));
    assert!(received.flags.contains(WcFlags::GRH));
    assert_eq!(b.bytes(GRH_AREA_LEN, 1000), pattern(1000, 2));
}

fn ud_inline_with_immediate(net: &Net) {
    let (a, b, ah) = datagram_pair(net);
    b.recv(1, 0..64);
    a.send(SendWr::send(2, &[]).inline(b"hi").imm(77).to(&ah, b.qp.qpn(), QKEY).signaled());
    a.done();
    let received = b.done();
    assert_eq!((received.byte_len, received.imm), (42, Some(77)));
}

fn ud_to_a_wrong_qkey_is_dropped_and_counted(net: &Net) {
    let (a, b, ah) = datagram_pair(net);
    b.recv(1, 0..64);
    a.send(SendWr::send(2, &[]).inline(b"no").to(&ah, b.qp.qpn(), QKEY + 1).signaled());
    a.done();
    assert_eq!(b.cq.wait(&mut [WorkCompletion::default()], MOMENT), 0);
    assert_eq!(b.counter("drop_qkey_mismatch"), 1);
    a.send(SendWr::send(3, &[]).inline(b"yes").to(&ah, b.qp.qpn(), QKEY).signaled());
    assert_eq!(b.done().wr_id, 1, "the receive was not used up");
}

fn ud_to_the_own_device(net: &Net) {
    let a = Side::new(net, QpType::Ud);
    a.qp.activate(QKEY).unwrap();
    let ah = a.pd.create_ah(a.context.address()).unwrap();
    a.recv(1, 0..64);
    a.send(SendWr::send(2, &[]).inline(b"me").to(&ah, a.qp.qpn(), QKEY));
    assert_eq!(a.done().src_ip, Some(a.context.address()));
}

#[test]
fn b27_ud_multicast_reaches_all_members_and_nobody_else() {
    let net = Net::fabric();
    let group = IpAddr::from([239, 9, 9, 9]);
    let sides: Vec<_> = (0..4).map(|_| Side::new(&net, QpType::Ud)).collect();
    for side in &sides {
        side.qp.activate(QKEY).unwrap();
        side.recv(1, 0..64);
    }
    let [sender, members @ .., outsider] = &sides[..] else { unreachable!("four sides") };
    for member in members {
        member.qp.attach_mcast(group).unwrap();
    }
    let ah = sender.pd.create_ah(group).unwrap();
    let message = |id| SendWr::send(id, &[]).inline(b"all").to(&ah, Qpn::MULTICAST, QKEY);
    sender.send(message(2));
    for member in members {
        assert_eq!(member.done().src_qpn, sender.qp.qpn().get());
        member.qp.detach_mcast(group).unwrap();
        member.recv(1, 0..64);
    }
    sender.send(message(3));
    for deaf in members.iter().chain([outsider]) {
        assert_eq!(deaf.cq.wait(&mut [WorkCompletion::default()], MOMENT), 0);
    }
    let again = members[0].qp.detach_mcast(group).unwrap_err();
    assert!(again.to_string().contains("not attached"), "{again}");
}

#[test]
fn ud_message_beyond_the_mtu_is_refused_locally() {
    let net = Net::fabric();
    let (a, b, ah) = datagram_pair(&net);
    a.send(SendWr::send(1, &[a.mr.sge(..4097)]).to(&ah, b.qp.qpn(), QKEY));
    let failed = a.next();
    assert_eq!(failed.status, WcStatus::LocLenErr);
    assert!(failed.to_string().contains("4097"), "{failed}");
}
