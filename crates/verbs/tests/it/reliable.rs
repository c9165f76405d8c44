//! Every operation of an RC queue pair, from post to completion.

use uroce_verbs::*;

use crate::common;
use crate::common::{MR_LEN, Net, Side, all, on_both, pair, pattern};

on_both!(
    send_fills_a_receive,
    send_with_immediate,
    inline_data_may_go_at_once,
    write_and_read_a_large_message,
    write_with_immediate_tells_the_peer,
    empty_messages,
    several_entries_on_both_sides,
    atomics_return_the_old_value,
    atomic_write_and_flush,
    a_fenced_send_comes_after_the_read,
    a_long_list_arrives_in_order,
    windows_of_both_types,
    send_with_invalidate_ends_a_window,
);

fn send_fills_a_receive(net: &Net) {
    let (a, b) = pair(net, QpType::Rc);
    a.mr.write(0, &pattern(10_000, 1)).unwrap();
    b.recv(7, 100..20_000);
    a.send(SendWr::send(8, &[a.mr.sge(..10_000)]).signaled());
    let (sent, received) = (a.done(), b.done());
    assert_eq!((sent.wr_id, sent.opcode), (8, WcOpcode::Send));
    assert_eq!((received.wr_id, received.opcode, received.byte_len), (7, WcOpcode::Recv, 10_000));
    assert_eq!((received.qpn, received.imm), (b.qp.qpn().get(), None));
    assert_eq!(b.bytes(100, 10_000), pattern(10_000, 1));
}

fn send_with_immediate(net: &Net) {
    let (a, b) = pair(net, QpType::Rc);
    b.recv(1, 0..64);
    a.send(SendWr::send(2, &[a.mr.sge(..5)]).imm(0xdead_beef).signaled());
    a.done();
    let received = b.done();
    assert_eq!((received.imm, received.byte_len), (Some(0xdead_beef), 5));
    assert!(received.flags.contains(WcFlags::WITH_IMM));
}

fn inline_data_may_go_at_once(net: &Net) {
    let (a, b) = pair(net, QpType::Rc);
    for length in [0, 1, 255, 256] {
        let bytes = pattern(length, length);
        b.recv(1, 0..256);
        a.send(SendWr::send(2, &[]).inline(&bytes).signaled());
        drop(bytes);
        a.done();
        assert_eq!(b.done().byte_len as usize, length);
        assert_eq!(b.bytes(0, length), pattern(length, length));
    }
    let refused = a.qp.post_send(&[SendWr::send(3, &[]).inline(&[0; 257])]).unwrap_err();
    assert_eq!(refused.index, 0);
    assert!(refused.to_string().contains("257 inline bytes"), "{refused}");
}

fn write_and_read_a_large_message(net: &Net) {
    let (a, b) = pair(net, QpType::Rc);
    let half = MR_LEN / 2;
    a.mr.write(0, &pattern(half, 2)).unwrap();
    a.send(SendWr::write(1, &[a.mr.sge(..half)], b.mr.remote()).signaled());
    assert_eq!(a.done().opcode, WcOpcode::RdmaWrite);
    assert_eq!(b.bytes(0, half), pattern(half, 2));
    a.send(SendWr::read(2, &[a.mr.sge(half..)], b.mr.remote()).signaled());
    let read = a.done();
    assert_eq!((read.opcode, read.byte_len as usize), (WcOpcode::RdmaRead, half));
    assert_eq!(a.bytes(half, half), pattern(half, 2));
    assert!(b.cq.poll_one().is_none(), "one-sided: the peer sees nothing");
}

fn write_with_immediate_tells_the_peer(net: &Net) {
    let (a, b) = pair(net, QpType::Rc);
    b.recv(9, 0..0);
    a.mr.write(0, b"told").unwrap();
    a.send(SendWr::write(1, &[a.mr.sge(..4)], b.mr.remote().part(64..)).imm(7).signaled());
    a.done();
    let told = b.done();
    assert_eq!((told.wr_id, told.opcode), (9, WcOpcode::RecvRdmaWithImm));
    assert_eq!((told.imm, told.byte_len), (Some(7), 4));
    assert_eq!(b.bytes(64, 4), b"told");
}

fn empty_messages(net: &Net) {
    let (a, b) = pair(net, QpType::Rc);
    b.qp.post_recv(&[RecvWr::new(1, &[])]).unwrap();
    let nowhere = RemoteSlice::new(0, Rkey(0), 0);
    a.send(SendWr::send(2, &[]).signaled());
    a.send(SendWr::write(3, &[], nowhere).signaled());
    a.send(SendWr::read(4, &[], nowhere).signaled());
    assert_eq!([a.done().wr_id, a.done().wr_id, a.done().wr_id], [2, 3, 4]);
    assert_eq!(b.done().byte_len, 0);
}

fn several_entries_on_both_sides(net: &Net) {
    let (a, b) = pair(net, QpType::Rc);
    a.mr.write(0, &pattern(6_000, 3)).unwrap();
    let to = [b.mr.sge(0..1), b.mr.sge(1000..1000), b.mr.sge(2000..4500), b.mr.sge(9000..13_000)];
    b.qp.post_recv(&[RecvWr::new(1, &to)]).unwrap();
    let from = [a.mr.sge(0..3000), a.mr.sge(3000..3001), a.mr.sge(3001..6000)];
    a.send(SendWr::send(2, &from).signaled());
    a.done();
    assert_eq!(b.done().byte_len, 6_000);
    let got = [b.bytes(0, 1), b.bytes(2000, 2500), b.bytes(9000, 3499)].concat();
    assert_eq!(got, pattern(6_000, 3));
}

fn atomics_return_the_old_value(net: &Net) {
    let (a, b) = pair(net, QpType::Rc);
    let word = b.mr.remote().part(8..16);
    b.mr.store_u64(8, u64::MAX).unwrap();
    a.send(SendWr::fetch_add(1, &[a.mr.sge(..8)], word, 3).signaled());
    assert_eq!((a.done().opcode, a.mr.load_u64(0).unwrap()), (WcOpcode::FetchAdd, u64::MAX));
    assert_eq!(b.mr.load_u64(8).unwrap(), 2, "modulo 2^64");
    a.send(SendWr::compare_swap(2, &[a.mr.sge(..8)], word, 9, 100).signaled());
    assert_eq!((a.done().opcode, a.mr.load_u64(0).unwrap()), (WcOpcode::CompSwap, 2));
    assert_eq!(b.mr.load_u64(8).unwrap(), 2, "it was not 9");
    a.send(SendWr::compare_swap(3, &[a.mr.sge(..8)], word, 2, 100).signaled());
    a.done();
    assert_eq!(b.mr.load_u64(8).unwrap(), 100);
}

fn atomic_write_and_flush(net: &Net) {
    let (a, b) = pair(net, QpType::Rc);
    a.mr.store_u64(0, 0x0102_0304_0506_0708).unwrap();
    a.send(SendWr::atomic_write(1, &[a.mr.sge(..8)], b.mr.remote().part(16..24)).signaled());
    assert_eq!(a.done().opcode, WcOpcode::AtomicWrite);
    assert_eq!(b.mr.load_u64(16).unwrap(), 0x0102_0304_0506_0708);
    a.send(SendWr::flush(2, b.mr.remote(), Access::FLUSH_GLOBAL).signaled());
    assert_eq!(a.done().opcode, WcOpcode::Flush);
    a.send(SendWr::flush_region(3, b.mr.remote(), Access::FLUSH_GLOBAL).signaled());
    assert_eq!(a.done().opcode, WcOpcode::Flush);
}

fn a_fenced_send_comes_after_the_read(net: &Net) {
    let (a, b) = pair(net, QpType::Rc);
    b.mr.write(0, &pattern(50_000, 4)).unwrap();
    b.recv(1, 100_000..200_000);
    // What is read is sent back: only right if the SEND waits for the READ.
    let sges = [a.mr.sge(..50_000)];
    a.qp.post_send(&[
        SendWr::read(2, &sges, b.mr.remote()),
        SendWr::send(3, &sges).fence().signaled(),
    ])
    .unwrap();
    assert_eq!(a.done().wr_id, 3);
    assert_eq!(b.done().byte_len, 50_000);
    assert_eq!(b.bytes(100_000, 50_000), pattern(50_000, 4));
}

fn a_long_list_arrives_in_order(net: &Net) {
    let (a, b) = pair(net, QpType::Rc);
    let into = b.mr.sge(..8);
    let receives: Vec<_> =
        (0..100).map(|id| RecvWr::new(id, std::slice::from_ref(&into))).collect();
    b.qp.post_recv(&receives).unwrap();
    let sends: Vec<_> =
        (0..100).map(|id| SendWr::send(id, &[]).inline(b"x").imm(id as u32).signaled()).collect();
    a.qp.post_send(&sends).unwrap();
    for id in 0..100 {
        assert_eq!(a.done().wr_id, id);
        let received = b.done();
        assert_eq!((received.wr_id, received.imm), (id, Some(id as u32)));
    }
}

fn windows_of_both_types(net: &Net) {
    for mw_type in [MwType::Type1, MwType::Type2B] {
        let (a, b) = pair(net, QpType::Rc);
        let window = b.pd.alloc_mw(mw_type).unwrap();
        let wanted = window.next_rkey();
        b.send(SendWr::bind_mw(1, &window, &b.mr, 4096..8192, Access::REMOTE_WRITE).signaled());
        assert_eq!(b.done().opcode, WcOpcode::BindMw);
        if mw_type == MwType::Type2B {
            assert_eq!(window.rkey(), wanted);
        }
        let remote = window.remote(b.mr.addr() + 4096, 4096);
        a.send(SendWr::write(2, &[], remote).inline(b"through the window").signaled());
        a.done();
        assert_eq!(b.bytes(4096, 18), b"through the window");
        a.send(SendWr::read(3, &[a.mr.sge(..8)], remote));
        assert_eq!(a.next().status, WcStatus::RemAccessErr, "the window grants writing only");
    }
}

fn send_with_invalidate_ends_a_window(net: &Net) {
    let (a, b) = pair(net, QpType::Rc);
    let window = b.pd.alloc_mw(MwType::Type2B).unwrap();
    let bind = |id| SendWr::bind_mw(id, &window, &b.mr, .., Access::REMOTE_WRITE).signaled();
    b.send(bind(1));
    b.done();
    let remote = window.remote(b.mr.addr(), MR_LEN as u64);
    b.recv(2, 0..64);
    a.send(SendWr::send(3, &[]).inline(b"bye").invalidate(remote.rkey).signaled());
    a.done();
    let received = b.done();
    assert_eq!(received.invalidated, Some(remote.rkey.0));
    // It can be bound again, and invalidated by its owner.
    b.send(bind(4));
    b.done();
    b.send(SendWr::local_invalidate(5, window.rkey()).signaled());
    assert_eq!(b.done().opcode, WcOpcode::LocalInv);
    let again = window.remote(b.mr.addr(), 8);
    a.send(SendWr::write(6, &[], again).inline(b"too late"));
    assert_eq!(a.next().status, WcStatus::RemAccessErr);
}

#[test]
fn two_queue_pairs_of_one_device() {
    let net = Net::fabric();
    let a = Side::new(&net, QpType::Rc);
    let other = a.pd.qp_builder(QpType::Rc, &a.cq, &a.cq).build().unwrap();
    common::connect(&a.qp, &other, &ConnectOptions::default());
    a.mr.write(0, b"to myself").unwrap();
    let remote = a.mr.remote().part(64..);
    a.send(SendWr::write(1, &[a.mr.sge(..9)], remote).signaled());
    a.done();
    assert_eq!(a.bytes(64, 9), b"to myself");
    assert!(a.mr.access().contains(all()));
}
