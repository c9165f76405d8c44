//! RC: every operation once, with its bytes.

use uroce_memory::{Access, MwBind, MwType, Rkey};
use uroce_transport::*;
use uroce_wire::{Mtu, Opcode};

use crate::harness::*;

#[test]
fn send_write_read_at_every_interesting_length() {
    for length in [0, 1, 3, 4, 255, 256, 257, 511, 512, 513, 4096, 60_000] {
        let mut pair = Pair::rc();
        pair.move_bytes(length);
        assert_eq!(pair.nodes[0].counters.completer_retry_err, 0);
    }
}

#[test]
fn r34_atomics_return_the_original_in_host_order() {
    let mut pair = Pair::rc();
    let (va, rkey) = (pair.nodes[1].va(64), pair.nodes[1].rkey());
    pair.nodes[1].region.store_u64(64, 40).unwrap();
    let sges: Vec<_> = (0..3).map(|i| pair.nodes[0].sge(8 * i, 8)).collect();
    pair.nodes[0].send(&wr_sges(1, SendOp::FetchAdd { va, rkey, add: 2 }, &sges[..1])).unwrap();
    let swap = SendOp::CompareSwap { va, rkey, compare: 42, swap: 7 };
    pair.nodes[0].send(&wr_sges(2, swap, &sges[1..2])).unwrap();
    pair.nodes[0].send(&wr_sges(3, swap, &sges[2..])).unwrap();
    pair.run();
    assert!(pair.nodes[0].sends().iter().all(Wc::is_ok));
    let original = |at| pair.nodes[0].region.load_u64(at).unwrap();
    assert_eq!((original(0), original(8), original(16)), (40, 42, 7));
    assert_eq!(pair.nodes[1].region.load_u64(64).unwrap(), 7);
}

#[test]
fn atomic_write_and_flush() {
    let mut pair = Pair::rc();
    let (va, rkey) = (pair.nodes[1].va(64), pair.nodes[1].rkey());
    let word = [1, 2, 3, 4, 5, 6, 7, 8];
    let parts: [&[u8]; 1] = [&word];
    pair.nodes[0].send(&wr_inline(1, SendOp::AtomicWrite { va, rkey }, &parts)).unwrap();
    let flush = SendOp::Flush { va, rkey, length: 64, placement: 1, selectivity: 0 };
    pair.nodes[0].send(&wr(2, flush)).unwrap();
    pair.run();
    let done = pair.nodes[0].sends();
    assert!(done.len() == 2 && done.iter().all(Wc::is_ok), "{done:?}");
    assert_eq!(pair.nodes[1].bytes(64, 8), word);
    assert_eq!(pair.seen(1, "READ_RESPONSE_ONLY").len(), 2);
}

#[test]
fn window_bound_by_posting_is_used_and_invalidated_by_a_send() {
    let mut pair = Pair::rc();
    let pd = pair.nodes[1].pd;
    let mw = pair.nodes[1].mem.alloc_mw(pd, MwType::Type2B).unwrap();
    let new_rkey = Rkey((mw.rkey.0 & !0xff) | (mw.rkey.0.wrapping_add(1) & 0xff));
    let (va, mr) = (pair.nodes[1].va(4096), pair.nodes[1].mr.lkey);
    let access = Access::REMOTE_WRITE;
    let bind = SendOp::BindMw { mw: mw.id, new_rkey, mr, va, length: 4096, access };
    pair.nodes[1].send(&wr(9, bind)).unwrap();
    pair.run();
    assert!(pair.nodes[1].sends()[0].is_ok());
    let parts: [&[u8]; 1] = [b"through the window"];
    pair.nodes[0].send(&wr_inline(1, SendOp::Write { va, rkey: new_rkey }, &parts)).unwrap();
    let target = pair.nodes[1].sge(0, 64);
    pair.nodes[1].recv(5, &[target]).unwrap();
    pair.nodes[0].send(&wr_inline(2, SendOp::SendWithInvalidate(new_rkey), &parts)).unwrap();
    pair.run();
    assert!(pair.nodes[0].sends().iter().all(Wc::is_ok));
    assert_eq!(pair.nodes[1].bytes(4096, 18), b"through the window");
    assert_eq!(pair.nodes[1].recvs()[0].invalidated, Some(new_rkey.0));
    pair.nodes[0].send(&wr_inline(3, SendOp::Write { va, rkey: new_rkey }, &parts)).unwrap();
    pair.run();
    assert_eq!(pair.nodes[0].sends()[0].status, WcStatus::RemAccessErr);
    let _ = MwBind { mw: mw.id, mr, new_rkey, va, length: 1, access, pd, qpn: 0 };
}

#[test]
fn r24_opcodes_of_a_long_send_at_every_mtu() {
    for mtu in Mtu::ALL {
        let mut pair = Pair::new(Setup { mtu, ..Setup::default() });
        let length = mtu.bytes() * 3 + 5;
        let target = pair.nodes[1].sge(0, length as u32);
        pair.nodes[1].recv(1, &[target]).unwrap();
        let source = pair.nodes[0].sge(0, length as u32);
        pair.nodes[0].send(&wr_sges(1, SendOp::Send, &[source])).unwrap();
        pair.run();
        let opcodes: Vec<_> = pair.trace.iter().filter(|s| s.from == 0).map(|s| s.opcode).collect();
        assert_eq!(
            opcodes,
            [
                Opcode::RC_SEND_FIRST,
                Opcode::RC_SEND_MIDDLE,
                Opcode::RC_SEND_MIDDLE,
                Opcode::RC_SEND_LAST
            ]
        );
    }
}
