//! R68, R69, R77, R79, R80: READs, atomics, fences, and answers that are not what was asked for.

use uroce_memory::{Access, MwType, Rkey};
use uroce_transport::*;
use uroce_wire::{Aeth, AtomicAckEth, DropReason, NakCode, Opcode, Syndrome};

use crate::harness::*;

/// A pair in which side 0 has posted one READ of `length` bytes whose answers are all lost.
fn reading(length: usize) -> Pair {
    let mut pair = Pair::rc();
    pair.nodes[1].fill(0, &pattern(9, length));
    pair.nodes[0].fill(0, &vec![0xee; 8192]);
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let target = [pair.nodes[0].sge(64, length as u32)];
    pair.nodes[0].send(&wr_sges(1, SendOp::Read { va, rkey }, &target)).unwrap();
    pair.filter(|_| Fate::Drop);
    pair.run_for(10_000);
    pair
}

fn respond(pair: &mut Pair, opcode: Opcode, psn: u32, payload: &[u8]) {
    let bytes = pair.forge(
        0,
        opcode,
        psn,
        |out, _| {
            if opcode != Opcode::RC_READ_RESPONSE_MIDDLE {
                out.put(&Aeth { syndrome: Syndrome::ack(31), msn: 1 }).unwrap();
            }
        },
        payload,
    );
    pair.receive(0, &bytes, 0);
}

#[test]
fn r69_a15_a_response_of_the_wrong_length_or_kind_fails_and_writes_nothing() {
    use Opcode as O;
    let cases: [(Opcode, usize); 8] = [
        (O::RC_READ_RESPONSE_ONLY, 256),
        (O::RC_READ_RESPONSE_ONLY, 0),
        (O::RC_READ_RESPONSE_LAST, 256),
        (O::RC_READ_RESPONSE_FIRST, 252),
        (O::RC_READ_RESPONSE_FIRST, 260),
        (O::RC_READ_RESPONSE_FIRST, 4096),
        (O::RC_READ_RESPONSE_MIDDLE, 255),
        (O::RC_READ_RESPONSE_LAST, 100),
    ];
    for (opcode, length) in cases {
        let mut pair = reading(600);
        respond(&mut pair, opcode, 0x100, &vec![1; length]);
        let done = pair.nodes[0].sends();
        assert_eq!(done[0].status, WcStatus::BadRespErr, "{opcode:?} {length}");
        let text = done[0].cause.to_string();
        assert!(text.contains("0x100"), "{text}");
        assert!(pair.nodes[0].bytes(0, 8192).iter().all(|byte| *byte == 0xee));
        assert_eq!(pair.nodes[0].qp.state(), QpState::Err);
    }
}

#[test]
fn r69_the_last_response_may_not_be_longer_than_what_is_left() {
    for length in [87, 89, 92, 256] {
        let mut pair = reading(600);
        respond(&mut pair, Opcode::RC_READ_RESPONSE_FIRST, 0x100, &[1; 256]);
        respond(&mut pair, Opcode::RC_READ_RESPONSE_MIDDLE, 0x101, &[1; 256]);
        respond(&mut pair, Opcode::RC_READ_RESPONSE_LAST, 0x102, &vec![1; length]);
        assert_eq!(pair.nodes[0].sends()[0].status, WcStatus::BadRespErr, "{length}");
        assert!(pair.nodes[0].bytes(64 + 512, 4096).iter().all(|byte| *byte == 0xee));
    }
}

#[test]
fn r69_after_completion_and_unasked_responses_touch_nothing() {
    let mut pair = reading(600);
    pair.no_filter();
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert_eq!(pair.nodes[0].bytes(64, 600), pattern(9, 600));
    for psn in [0x100, 0x101, 0x102, 0x103, 0x104] {
        respond(&mut pair, Opcode::RC_READ_RESPONSE_MIDDLE, psn, &[1; 256]);
    }
    assert_eq!(pair.nodes[0].bytes(64, 600), pattern(9, 600));
    assert_eq!(pair.nodes[0].dropped(DropReason::StaleResponse), 3);
    assert_eq!(pair.nodes[0].dropped(DropReason::UnexpectedResponse), 2);
    assert_eq!(pair.nodes[0].qp.state(), QpState::Rts);
}

#[test]
fn r68_a_read_response_for_a_write_changes_nothing() {
    let mut pair = Pair::rc();
    pair.filter(|_| Fate::Drop);
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let source = [pair.nodes[0].sge(0, 256)];
    pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, &source)).unwrap();
    pair.run_for(1_000);
    respond(&mut pair, Opcode::RC_READ_RESPONSE_ONLY, 0x100, &[1; 256]);
    let result = AtomicAckEth { original: 5 };
    let bytes = pair.forge(
        0,
        Opcode::RC_ATOMIC_ACKNOWLEDGE,
        0x100,
        |out, _| {
            out.put(&Aeth { syndrome: Syndrome::ack(31), msn: 0 }).unwrap();
            out.put(&result).unwrap();
        },
        &[],
    );
    pair.receive(0, &bytes, 0);
    assert_eq!(pair.nodes[0].dropped(DropReason::UnexpectedResponse), 2);
    assert!(pair.nodes[0].bytes(0, 256).iter().all(|byte| *byte == 0));
    assert!(pair.nodes[0].sends().is_empty());
}

#[test]
fn r68_an_ack_does_not_complete_a_read_but_starts_it_over_once() {
    let mut pair = reading(600);
    let (va, rkey) = (pair.nodes[1].va(4096), pair.nodes[1].rkey());
    pair.nodes[0].send(&wr(2, SendOp::Write { va, rkey })).unwrap();
    pair.run_for(10_000);
    let before = pair.trace.len();
    for _ in 0..5 {
        pair.answer(0x103, Syndrome::ack(31));
        pair.run_for(1_000);
    }
    // The READ once more, whatever number of ACKs says so; the WRITE is acknowledged.
    assert_eq!(pair.trace.len(), before + 1);
    assert!(pair.nodes[0].sends().is_empty());
    pair.no_filter();
    pair.run();
    assert!(pair.nodes[0].sends().iter().all(Wc::is_ok));
    assert_eq!(pair.nodes[0].bytes(64, 600), pattern(9, 600));
}

#[test]
fn r77_of_a_read_only_the_missing_responses_are_asked_for_again() {
    let mut pair = reading(256 * 6 + 10);
    pair.no_filter();
    pair.lose_once(1, Opcode::RC_READ_RESPONSE_MIDDLE, 2);
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert_eq!(pair.nodes[0].bytes(64, 1546), pattern(9, 1546));
    assert_eq!(pair.seen(0, "READ_REQUEST").len(), 3, "the first one was lost");
    assert_eq!(pair.seen(1, "READ_RESPONSE").len(), 8);
    let last = pair.seen(0, "READ_REQUEST").last().copied().unwrap().clone();
    let reth = last.packet().reth().unwrap();
    assert_eq!(last.psn, 0x103);
    assert_eq!(reth.va, pair.nodes[1].va(3 * 256));
    assert_eq!(reth.length, 256);
}

#[test]
fn r77_every_response_lost_once_in_turn_still_places_all_bytes_once() {
    for nth in 0..7 {
        let mut pair = reading(256 * 6 + 10);
        let mut count = 0;
        pair.filter(move |seen| {
            if seen.from == 0 {
                return Fate::Deliver;
            }
            count += 1;
            if count == nth + 1 { Fate::Drop } else { Fate::Deliver }
        });
        pair.run();
        assert!(pair.nodes[0].sends()[0].is_ok(), "response {nth}");
        assert_eq!(pair.nodes[0].bytes(64, 1546), pattern(9, 1546));
        assert!(pair.nodes[0].bytes(64 + 1546, 4096).iter().all(|byte| *byte == 0xee));
    }
}

/// Most requests that wait for an answer of their own at one time, as the wire shows it.
fn most_open(pair: &Pair) -> usize {
    let (mut open, mut most) = (0usize, 0);
    for seen in &pair.trace {
        let packet = seen.packet();
        match (seen.from, packet.info.ends()) {
            (0, _) if !seen.name().contains("WRITE_ONLY") => open += 1,
            (1, true) if seen.opcode != Opcode::RC_ACKNOWLEDGE => open -= 1,
            _ => {}
        }
        most = most.max(open);
    }
    most
}

#[test]
fn r79_the_read_depth_is_used_and_never_exceeded() {
    for rd_atomic in [1u8, 2, 3, 8] {
        let mut pair = Pair::new(Setup { rd_atomic, ..Setup::default() });
        let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
        let target = [pair.nodes[0].sge(0, 8)];
        for id in 0..20 {
            let op = match id % 4 {
                0 => SendOp::Read { va, rkey },
                1 => SendOp::FetchAdd { va, rkey, add: 1 },
                2 => SendOp::AtomicWrite { va, rkey },
                _ => SendOp::Flush { va, rkey, length: 8, placement: 1, selectivity: 0 },
            };
            pair.nodes[0].send(&wr_sges(id, op, &target)).unwrap();
        }
        pair.run();
        let done = pair.nodes[0].sends();
        assert_eq!(done.iter().map(|wc| wc.wr_id).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
        assert!(done.iter().all(Wc::is_ok));
        assert_eq!(most_open(&pair), usize::from(rd_atomic));
    }
}

#[test]
fn r79_max_rd_atomic_0_refuses_reads_and_says_so() {
    let mut pair = Pair::new(Setup { rd_atomic: 0, ..Setup::default() });
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    pair.nodes[0].send(&wr(1, SendOp::Read { va, rkey })).unwrap();
    pair.run();
    let done = pair.nodes[0].sends();
    assert_eq!(done[0].status, WcStatus::LocQpOpErr);
    assert!(done[0].cause.to_string().contains("max_rd_atomic 0"));
    assert!(pair.trace.is_empty());
}

#[test]
fn r80_a_fence_waits_for_reads_and_atomics() {
    let mut pair = Pair::rc();
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let target = [pair.nodes[0].sge(0, 8)];
    pair.nodes[0].send(&wr_sges(1, SendOp::Read { va, rkey }, &target)).unwrap();
    pair.nodes[0].send(&wr_sges(2, SendOp::FetchAdd { va, rkey, add: 1 }, &target)).unwrap();
    let fenced = SendFlags::SIGNALED | SendFlags::FENCE;
    let write = wr_sges(3, SendOp::Write { va, rkey }, &target);
    pair.nodes[0].send(&SendWr { flags: fenced, ..write }).unwrap();
    pair.run();
    let at = |name| pair.trace.iter().position(|s| s.name().contains(name)).unwrap();
    assert!(at("WRITE_ONLY") > at("ATOMIC_ACKNOWLEDGE"));
    assert!(at("FETCH_ADD") < at("READ_RESPONSE"));
}

#[test]
fn b38_a_fence_does_not_wait_for_sends_and_writes() {
    let mut pair = Pair::rc();
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let source = [pair.nodes[0].sge(0, 8)];
    for id in 1..3 {
        let write = wr_sges(id, SendOp::Write { va, rkey }, &source);
        let flags = SendFlags::SIGNALED | SendFlags::FENCE;
        pair.nodes[0].send(&SendWr { flags, ..write }).unwrap();
    }
    pair.run();
    let first_ack = pair.trace.iter().position(|s| s.from == 1).unwrap();
    assert_eq!(first_ack, 2, "both WRITEs leave before the first ACK");
}

#[test]
fn b38_an_unsignalled_local_operation_and_a_fenced_request_do_not_deadlock() {
    let mut pair = Pair::rc();
    let pd = pair.nodes[0].pd;
    let mw = pair.nodes[0].mem.alloc_mw(pd, MwType::Type2B).unwrap();
    let new_rkey = Rkey(mw.rkey.0 ^ 1);
    let (mr, here) = (pair.nodes[0].mr.lkey, pair.nodes[0].va(0));
    let access = Access::REMOTE_READ;
    let bind = SendOp::BindMw { mw: mw.id, new_rkey, mr, va: here, length: 64, access };
    let quiet = |op| SendWr { flags: SendFlags::empty(), ..wr(1, op) };
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let target = [pair.nodes[0].sge(64, 8)];
    pair.nodes[0].send(&quiet(bind)).unwrap();
    pair.nodes[0].send(&wr_sges(2, SendOp::Read { va, rkey }, &target)).unwrap();
    pair.nodes[0].send(&quiet(SendOp::LocalInvalidate(new_rkey))).unwrap();
    let flags = SendFlags::SIGNALED | SendFlags::FENCE;
    let last = wr_sges(4, SendOp::Write { va, rkey }, &target);
    pair.nodes[0].send(&SendWr { flags, ..last }).unwrap();
    pair.run();
    let ids: Vec<_> = pair.nodes[0].sends().iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(ids, [(2, WcStatus::Success), (4, WcStatus::Success)]);
}

#[test]
fn r80_a_local_invalidate_waits_for_everything_before_it() {
    let mut pair = Pair::rc();
    let pd = pair.nodes[0].pd;
    let mw = pair.nodes[0].mem.alloc_mw(pd, MwType::Type2B).unwrap();
    let new_rkey = Rkey(mw.rkey.0 ^ 1);
    let (mr, here) = (pair.nodes[0].mr.lkey, pair.nodes[0].va(0));
    let access = Access::REMOTE_READ;
    let bind = SendOp::BindMw { mw: mw.id, new_rkey, mr, va: here, length: 64, access };
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let source = [pair.nodes[0].sge(64, 8)];
    pair.nodes[0].send(&wr(1, bind)).unwrap();
    pair.nodes[0].send(&wr_sges(2, SendOp::Write { va, rkey }, &source)).unwrap();
    pair.nodes[0].send(&wr(3, SendOp::LocalInvalidate(new_rkey))).unwrap();
    pair.filter(|seen| if seen.from == 1 { Fate::Drop } else { Fate::Deliver });
    pair.run_for(20_000);
    // The WRITE is not acknowledged: the key still lives, its bind has completed.
    assert_eq!(pair.nodes[0].sends().iter().map(|wc| wc.wr_id).collect::<Vec<_>>(), [1]);
    let by = uroce_memory::Requirer { pd, qpn: QPNS[0] };
    assert!(pair.nodes[0].mem.check(new_rkey.0, by, access, here, 8).is_ok());
    pair.no_filter();
    pair.run();
    assert_eq!(pair.nodes[0].sends().iter().map(|wc| wc.wr_id).collect::<Vec<_>>(), [2, 3]);
    // R95: nothing gets in with the old key any more.
    assert!(pair.nodes[0].mem.check(new_rkey.0, by, access, here, 8).is_err());
}

#[test]
fn r95_a_window_is_bound_once_though_the_requester_goes_back_over_the_bind() {
    let mut pair = Pair::rc();
    let pd = pair.nodes[0].pd;
    let mw = pair.nodes[0].mem.alloc_mw(pd, MwType::Type2B).unwrap();
    let new_rkey = Rkey(mw.rkey.0 ^ 1);
    let (mr, here) = (pair.nodes[0].mr.lkey, pair.nodes[0].va(0));
    let access = Access::REMOTE_READ;
    let bind = SendOp::BindMw { mw: mw.id, new_rkey, mr, va: here, length: 64, access };
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    pair.nodes[0].send(&wr(1, SendOp::Write { va, rkey })).unwrap();
    pair.nodes[0].send(&wr(2, bind)).unwrap();
    pair.nodes[0].send(&wr(3, SendOp::Write { va, rkey })).unwrap();
    pair.lose_once(0, Opcode::RC_WRITE_ONLY, 0);
    pair.run_for(1_000);
    // The peer has been told of the key by other means, and gives it back already.
    pair.nodes[0].mem.invalidate(new_rkey, pd, QPNS[0], true).unwrap();
    pair.run();
    assert!(pair.nodes[0].sends().iter().all(Wc::is_ok));
    let by = uroce_memory::Requirer { pd, qpn: QPNS[0] };
    assert!(pair.nodes[0].mem.check(new_rkey.0, by, access, here, 8).is_err());
}

#[test]
fn b22_a_nak_under_the_atomic_opcode_is_understood() {
    for opcode in [Opcode::RC_ACKNOWLEDGE, Opcode::RC_ATOMIC_ACKNOWLEDGE] {
        let mut pair = Pair::rc();
        pair.filter(|_| Fate::Drop);
        let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
        let target = [pair.nodes[0].sge(0, 8)];
        pair.nodes[0].send(&wr_sges(1, SendOp::FetchAdd { va, rkey, add: 1 }, &target)).unwrap();
        pair.run_for(1_000);
        let bytes = pair.forge(
            0,
            opcode,
            0x100,
            |out, _| {
                out.put(&Aeth { syndrome: Syndrome::nak(NakCode::RemoteAccess), msn: 0 }).unwrap();
                if opcode == Opcode::RC_ATOMIC_ACKNOWLEDGE {
                    out.put(&AtomicAckEth { original: 7 }).unwrap();
                }
            },
            &[],
        );
        pair.receive(0, &bytes, 0);
        assert_eq!(pair.nodes[0].sends()[0].status, WcStatus::RemAccessErr);
        assert!(pair.nodes[0].bytes(0, 8).iter().all(|byte| *byte == 0));
    }
}

#[test]
fn b46_a_bad_lkey_under_an_atomic_is_reported_when_the_answer_comes() {
    let mut pair = Pair::rc();
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let mut target = pair.nodes[0].sge(0, 8);
    target.lkey.0 ^= 0x5555;
    pair.nodes[0].send(&wr_sges(1, SendOp::FetchAdd { va, rkey, add: 1 }, &[target])).unwrap();
    pair.run();
    let done = pair.nodes[0].sends();
    assert_eq!((done.len(), done[0].status), (1, WcStatus::LocProtErr));
    let text = done[0].cause.to_string();
    assert!(text.contains("entry 0") && text.contains(&format!("{:#x}", target.lkey.0)), "{text}");
}

#[test]
fn r18_a_read_longer_than_a_piece_is_asked_for_in_pieces_that_do_not_overlap() {
    for rd_atomic in [1, 4] {
        for flags in [SendFlags::SIGNALED, SendFlags::SIGNALED | SendFlags::FENCE] {
            let mtu = uroce_wire::Mtu::M1024;
            let mut pair = Pair::new(Setup { rd_atomic, mtu, ..Setup::default() });
            let length = 3 * limits::READ_SPLIT_BYTES as usize + 5;
            pair.nodes[1].fill(0, &pattern(9, length));
            let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
            let target = [pair.nodes[0].sge(64, length as u32)];
            let read = wr_sges(1, SendOp::Read { va, rkey }, &target);
            pair.nodes[0].send(&SendWr { flags, ..read }).unwrap();
            pair.run();
            assert!(pair.nodes[0].sends()[0].is_ok());
            assert_eq!(pair.nodes[0].bytes(64, length), pattern(9, length));
            let reths =
                pair.seen(0, "READ").iter().map(|s| s.packet().reth().unwrap()).collect::<Vec<_>>();
            assert_eq!(reths.len(), 4);
            assert_eq!(reths.iter().map(|r| r.length as usize).sum::<usize>(), length);
            assert_eq!(pair.nodes[0].qp.attr().sq_psn, 0x100 + 385);
        }
    }
}

#[test]
fn r35_a_repeated_read_beside_a_new_one_is_not_one_too_many() {
    let mut pair = Pair::new(Setup { rd_atomic: 1, ..Setup::default() });
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let target = [pair.nodes[0].sge(0, 8)];
    for id in 0..2 {
        pair.nodes[0].send(&wr_sges(id, SendOp::Read { va, rkey }, &target)).unwrap();
    }
    pair.run();
    assert!(pair.nodes[0].sends().iter().all(Wc::is_ok));
    // A copy of the last READ, which the network held back, arrives together with the next one.
    let held = pair.seen(0, "READ_REQUEST")[1].bytes.clone();
    pair.nodes[0].send(&wr_sges(2, SendOp::Read { va, rkey }, &target)).unwrap();
    pair.run_for(4_999);
    pair.receive(1, &held, 0);
    let fresh = pair.seen(0, "READ_REQUEST")[2].bytes.clone();
    pair.receive(1, &fresh, 0);
    pair.run();
    assert_eq!(pair.nodes[1].qp.state(), QpState::Rts);
    assert!(pair.nodes[0].sends()[0].is_ok());
}
