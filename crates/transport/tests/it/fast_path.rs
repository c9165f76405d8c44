//! The fast path through the middle of a message does what the slow path does.

use uroce_transport::*;
use uroce_wire::Opcode;

use crate::harness::*;

/// All that left node 0, and what node 1 holds afterwards, for messages of one or of two entries.
///
/// Only messages of one entry take the fast path.
fn sent(qp_type: QpType, operation: usize, entries: usize, lost: Option<usize>) -> Outcome {
    let mut pair = Pair::of(qp_type);
    let length = 100 * 256 + 7;
    pair.nodes[0].fill(0, &pattern(3, length));
    if let Some(nth) = lost {
        let middle = [Opcode::RC_SEND_MIDDLE, Opcode::RC_WRITE_MIDDLE][operation];
        pair.lose_once(0, middle.of_service(qp_type.service()), nth);
    }
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let op = [SendOp::Send, SendOp::Write { va, rkey }][operation];
    let target = pair.nodes[1].sge(0, length as u32);
    pair.nodes[1].recv(1, &[target]).unwrap();
    let cut = 1000;
    let whole = [pair.nodes[0].sge(0, length as u32)];
    let parts = [pair.nodes[0].sge(0, cut), pair.nodes[0].sge(cut as usize, length as u32 - cut)];
    let sges = if entries == 1 { &whole[..] } else { &parts[..] };
    pair.nodes[0].send(&wr_sges(1, op, sges)).unwrap();
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    let packets = pair.trace.iter().map(|seen| (seen.at.as_nanos(), seen.bytes.clone()));
    Outcome { packets: packets.collect(), memory: pair.nodes[1].bytes(0, length) }
}

#[derive(PartialEq, Eq)]
struct Outcome {
    packets: Vec<(u64, Vec<u8>)>,
    memory: Vec<u8>,
}

#[test]
fn r19_the_fast_path_writes_what_the_slow_path_writes() {
    for operation in [0, 1] {
        for lost in [None, Some(1), Some(50), Some(98)] {
            let short = sent(QpType::Rc, operation, 1, lost);
            assert!(short == sent(QpType::Rc, operation, 2, lost), "RC {operation} {lost:?}");
            assert_eq!(short.memory, pattern(3, 100 * 256 + 7));
            let short = sent(QpType::XrcIni, operation, 1, lost);
            assert!(short == sent(QpType::XrcIni, operation, 2, lost), "XRC {operation} {lost:?}");
        }
        assert!(sent(QpType::Uc, operation, 1, None) == sent(QpType::Uc, operation, 2, None));
    }
}

#[test]
fn b12_a_region_lost_in_mid_message_fails_the_fast_path_too() {
    let mut pair = Pair::rc();
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let source = pair.nodes[0].sge(0, 100 * 256);
    let op = SendOp::Write { va, rkey };
    pair.nodes[0].send(&wr_sges(1, op, &[source])).unwrap();
    pair.run_for(1);
    let id = pair.nodes[0].mr.id;
    pair.nodes[0].mem.dereg_mr(id).unwrap();
    pair.run();
    assert_eq!(pair.nodes[0].sends()[0].status, WcStatus::LocProtErr);
}

/// Many messages of one packet each, one of which is lost on its way.
fn small(
    qp_type: QpType,
    operation: usize,
    entries: usize,
    lost: Option<usize>,
) -> (Outcome, Vec<Wc>, [u64; 2]) {
    let mut pair = Pair::of(qp_type);
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    pair.nodes[0].fill(0, &pattern(5, 40 * 256));
    if let Some(nth) = lost {
        pair.lose_once(0, [Opcode::RC_SEND_ONLY, Opcode::RC_WRITE_ONLY][operation], nth);
    }
    for index in 0..40 {
        let (at, length) = (index * 256, 1 + index as u32 * 53 % 256);
        let target = pair.nodes[1].sge(at, length);
        pair.nodes[1].recv(index as u64, &[target]).unwrap();
        let cut = length / 2;
        let whole = [pair.nodes[0].sge(at, length)];
        let parts =
            [pair.nodes[0].sge(at, cut), pair.nodes[0].sge(at + cut as usize, length - cut)];
        let sges = if entries == 1 { &whole[..] } else { &parts[..] };
        let op = [SendOp::Send, SendOp::Write { va: va + at as u64, rkey }][operation];
        pair.nodes[0].send(&wr_sges(index as u64, op, sges)).unwrap();
    }
    pair.run();
    assert_eq!(pair.nodes[0].sends().iter().filter(|wc| wc.is_ok()).count(), 40);
    let packets = pair.trace.iter().map(|seen| (seen.at.as_nanos(), seen.bytes.clone()));
    let outcome = Outcome { packets: packets.collect(), memory: pair.nodes[1].bytes(0, 40 * 256) };
    let counts = [pair.nodes[0].counters.rdma_sends, pair.nodes[1].counters.rdma_recvs];
    (outcome, pair.nodes[1].recvs(), counts)
}

#[test]
fn r19_the_fast_path_of_a_small_message_writes_what_the_slow_path_writes() {
    for (operation, lost) in [None, Some(1), Some(20), Some(40)].into_iter().flat_map(both) {
        let (short, received, counts) = small(QpType::Rc, operation, 1, lost);
        let (long, _, counts_of_long) = small(QpType::Rc, operation, 2, lost);
        assert!(short == long, "{operation} {lost:?}");
        assert_eq!(counts, counts_of_long, "{operation} {lost:?}");
        // The responder of a UC queue pair takes the slow path.
        let (uc, expected, counts_of_uc) = small(QpType::Uc, operation, 1, None);
        assert!(short.memory == uc.memory, "{operation} {lost:?}");
        assert_eq!(received, expected);
        assert_eq!((counts, received.len()), (counts_of_uc, [40, 0][operation]), "{operation}");
    }
}

/// SEND and WRITE.
fn both(lost: Option<usize>) -> [(usize, Option<usize>); 2] {
    [(0, lost), (1, lost)]
}
