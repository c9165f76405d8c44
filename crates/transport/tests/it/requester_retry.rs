//! R71 to R78: going back, and giving up after exactly as many tries as were allowed.

use uroce_transport::*;
use uroce_wire::{NakCode, Opcode, Syndrome, ack_timeout_ns, rnr_timer_us};

use crate::harness::*;

/// A pair in which side 0 has posted one WRITE of `length` bytes.
fn writing(setup: Setup, length: usize) -> Pair {
    let mut pair = Pair::new(setup);
    pair.nodes[0].fill(0, &pattern(3, length));
    let (va, rkey) = (pair.nodes[1].va(500_000), pair.nodes[1].rkey());
    let source = [pair.nodes[0].sge(0, length as u32)];
    pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, &source)).unwrap();
    pair
}

fn requests(pair: &Pair) -> Vec<(u64, u32)> {
    let start = 1_000_000_000;
    let seen = pair.trace.iter().filter(|seen| seen.from == 0);
    seen.map(|seen| (seen.at.as_nanos() - start, seen.psn)).collect()
}

#[test]
fn r75_every_try_waits_t_to_4t_and_retry_cnt_tries_follow_the_first() {
    for retry_cnt in 0..=7 {
        for timeout in [1, 8, 14] {
            let mut pair = writing(Setup { retry_cnt, timeout, ..Setup::default() }, 8);
            pair.filter(|_| Fate::Drop);
            pair.run();
            let ns = ack_timeout_ns(timeout).unwrap();
            // Tries go out at 0, T, 3T, 7T, 11T, ...
            let starts = [0, 1, 3, 7, 11, 15, 19, 23, 27].map(|n| n * ns);
            let count = usize::from(retry_cnt) + 1;
            let tries: Vec<_> = starts[..count].iter().map(|at| (*at, 0x100)).collect();
            assert_eq!(requests(&pair), tries);
            assert_eq!(pair.now.as_nanos() - 1_000_000_000, starts[count]);
            let done = pair.nodes[0].sends();
            assert_eq!((done.len(), done[0].status), (1, WcStatus::RetryExcErr));
            assert_eq!(pair.nodes[0].qp.state(), QpState::Err);
            assert_eq!(pair.nodes[0].counters.retry_exceeded_err, 1);
        }
    }
}

#[test]
fn r157_a_dead_peer_is_noticed_after_a_long_timeout_for_each_try() {
    for (timeout, heard) in [(17, true), (17, false), (18, true), (19, false)] {
        let retry_cnt = 5;
        let mut pair = Pair::new(Setup { retry_cnt, timeout, ..Setup::as_device() });
        let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
        let source = [pair.nodes[0].sge(0, 100)];
        let write = wr_sges(1, SendOp::Write { va, rkey }, &source);
        if heard {
            pair.nodes[0].send(&write).unwrap();
            pair.run();
            assert!(pair.nodes[0].sends()[0].is_ok());
        }
        pair.filter(|_| Fate::Drop);
        pair.nodes[0].send(&write).unwrap();
        let start = pair.now;
        pair.run();
        assert_eq!(pair.nodes[0].sends()[0].status, WcStatus::RetryExcErr);
        let promised = ack_timeout_ns(timeout).unwrap() * (1 + u64::from(retry_cnt));
        assert_eq!(pair.now.since(start), promised);
    }
}

#[test]
fn r75_retry_cnt_losses_pass_and_one_more_fails() {
    for retry_cnt in 0..=7u8 {
        for losses in [retry_cnt, retry_cnt + 1] {
            let mut pair = writing(Setup { retry_cnt, ..Setup::default() }, 8);
            let mut left = losses;
            pair.filter(move |seen| {
                if seen.from == 0 && left > 0 {
                    left -= 1;
                    return Fate::Drop;
                }
                Fate::Deliver
            });
            pair.run();
            let passed = pair.nodes[0].sends()[0].is_ok();
            assert_eq!(passed, losses == retry_cnt, "retry_cnt {retry_cnt}, {losses} losses");
        }
    }
}

#[test]
fn r75_progress_refills_the_retries() {
    // Each of 20 WRITEs loses its first packet once; one retry is enough for all of them.
    let setup = Setup { retry_cnt: 1, ..Setup::default() };
    let mut pair = writing(setup, 8);
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let mut lost = std::collections::HashSet::new();
    pair.filter(
        move |seen| {
            if seen.from == 0 && lost.insert(seen.psn) { Fate::Drop } else { Fate::Deliver }
        },
    );
    for id in 2..22 {
        pair.run();
        pair.nodes[0].send(&wr(id, SendOp::Write { va, rkey })).unwrap();
    }
    pair.run();
    let done = pair.nodes[0].sends();
    assert!(done.len() == 21 && done.iter().all(Wc::is_ok));
}

#[test]
fn r75_losses_behind_a_missing_response_cost_no_retry_as_long_as_the_peer_gets_on() {
    // The response of an atomic is lost as long as each of 12 WRITEs behind it takes another NAK.
    const WRITES: u32 = 12;
    let mut pair = Pair::rc();
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let result = [pair.nodes[0].sge(0, 8)];
    pair.nodes[0].send(&wr_sges(0, SendOp::FetchAdd { va, rkey, add: 1 }, &result)).unwrap();
    let source = [pair.nodes[0].sge(100, 8)];
    for id in 1..=u64::from(WRITES) {
        let write = SendOp::Write { va: va + 100, rkey };
        pair.nodes[0].send(&wr_sges(id, write, &source)).unwrap();
    }
    let (mut next_lost, mut may_lose) = (0x101, true);
    pair.filter(move |seen| {
        let losing = next_lost < 0x100 + WRITES;
        let is_answer = seen.opcode == Opcode::RC_ATOMIC_ACKNOWLEDGE;
        may_lose |= seen.from == 1 && !is_answer;
        if seen.from == 0 && seen.psn == next_lost && may_lose && losing {
            (next_lost, may_lose) = (next_lost + 1, false);
            return Fate::Drop;
        }
        if is_answer && losing { Fate::Drop } else { Fate::Deliver }
    });
    pair.run();
    let done = pair.nodes[0].sends();
    assert!(done.len() == 1 + WRITES as usize && done.iter().all(Wc::is_ok), "{done:?}");
    assert_eq!(pair.nodes[1].region.load_u64(0).unwrap(), 1, "R59: executed once");
}

/// The peer has executed everything, and answers no duplicate before a READ or an atomic (R57): the smallest window ends far
/// before those.
#[test]
fn r75_after_a_timeout_a_read_is_asked_for_again_whatever_is_before_it() {
    const LEN: u32 = 60 * 256;
    for setup in [Setup { retry_cnt: 1, ..Setup::default() }, Setup::as_device()] {
        let mut pair = Pair::new(Setup { timeout: 14, ..setup });
        let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
        let write = (SendOp::Write { va: va + 500_000, rkey }, LEN);
        let read = (SendOp::Read { va: va + 500_000, rkey }, LEN);
        let add = (SendOp::FetchAdd { va, rkey, add: 1 }, 8);
        let ends = pair.now.add_ns(ack_timeout_ns(14).unwrap());
        let is_lost = move |seen: &Seen| seen.from == 1 && seen.at < ends;
        pair.filter(move |seen| if is_lost(seen) { Fate::Drop } else { Fate::Deliver });
        for (id, (op, length)) in (0..).zip([write, read, write, add]) {
            let sge = pair.nodes[0].sge(0, length);
            pair.nodes[0].send(&wr_sges(id, op, &[sge])).unwrap();
        }
        pair.run();
        let done = pair.nodes[0].sends();
        assert!(done.len() == 4 && done.iter().all(Wc::is_ok), "{done:?}");
        assert_eq!(pair.nodes[0].counters.ack_timeout, 1);
        assert_eq!(pair.nodes[1].region.load_u64(0).unwrap(), 1, "R59: executed once");
    }
}

#[test]
fn r75_timeout_0_never_fires() {
    let mut pair = writing(Setup { timeout: 0, ..Setup::default() }, 8);
    pair.filter(|_| Fate::Drop);
    pair.run();
    assert_eq!(pair.nodes[0].qp.poll_timeout(), None);
    assert!(pair.nodes[0].sends().is_empty());
    assert_eq!(pair.nodes[0].qp.state(), QpState::Rts);
}

#[test]
fn r75_the_text_names_peer_psn_and_what_to_do() {
    let mut pair = writing(Setup { retry_cnt: 2, timeout: 14, ..Setup::default() }, 8);
    pair.filter(|_| Fate::Drop);
    pair.run();
    let text = pair.nodes[0].sends()[0].cause.to_string();
    for part in ["10.0.0.2", "0x100", "2 retries", "67 ms", "is it running", "UDP 4791"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn r75_the_text_says_if_the_peer_answered_before() {
    let mut pair = writing(Setup { retry_cnt: 1, ..Setup::default() }, 8);
    pair.run();
    pair.filter(|_| Fate::Drop);
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    pair.nodes[0].send(&wr(2, SendOp::Write { va, rkey })).unwrap();
    pair.run();
    let text = pair.nodes[0].sends()[1].cause.to_string();
    assert!(text.contains("answered earlier") && text.contains("0x101"), "{text}");
}

#[test]
fn r71_restart_exactly_at_the_nak() {
    let mut pair = writing(Setup::default(), 256 * 10);
    pair.lose_once(0, Opcode::RC_WRITE_MIDDLE, 3);
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    let psns: Vec<_> = requests(&pair).iter().map(|(_, psn)| psn - 0x100).collect();
    assert_eq!(psns, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 4, 5, 6, 7, 8, 9]);
    assert_eq!(pair.nodes[1].bytes(500_000, 2560), pattern(3, 2560));
}

#[test]
fn r71_sequence_naks_use_up_retry_cnt() {
    for retry_cnt in [0u8, 1, 3] {
        let mut pair = writing(Setup { retry_cnt, ..Setup::default() }, 256 * 4);
        pair.filter(|_| Fate::Drop);
        for round in 0..=retry_cnt {
            pair.run_for(10_000);
            assert_eq!(pair.nodes[0].qp.state(), QpState::Rts, "round {round}");
            pair.answer(0x100, Syndrome::nak(NakCode::PsnSequence));
        }
        let done = pair.nodes[0].sends();
        assert_eq!(done[0].status, WcStatus::RetryExcErr);
        let text = done[0].cause.to_string();
        for part in ["10.0.0.2", "0x100", "MTU"] {
            assert!(text.contains(part), "{text}");
        }
    }
}

#[test]
fn r78_a_restart_in_the_middle_has_the_right_opcode_and_no_second_reth() {
    let mut pair = writing(Setup::default(), 256 * 4);
    pair.lose_once(0, Opcode::RC_WRITE_MIDDLE, 0);
    pair.run();
    let names: Vec<_> = pair.trace.iter().filter(|s| s.from == 0).map(|s| s.opcode).collect();
    let again = [Opcode::RC_WRITE_MIDDLE, Opcode::RC_WRITE_MIDDLE, Opcode::RC_WRITE_LAST];
    assert_eq!(names[4..], again);
    assert!(pair.trace.iter().filter(|s| s.psn == 0x101 && s.from == 0).count() == 2);
    assert_eq!(pair.nodes[1].bytes(500_000, 1024), pattern(3, 1024));
}

#[test]
fn r72_a13_answers_outside_the_window_change_nothing() {
    let mut pair = writing(Setup::default(), 256 * 4);
    pair.filter(|_| Fate::Drop);
    pair.run_for(10_000);
    let before = pair.trace.len();
    for psn in [0xff, 0x80, 0x104, 0x105, 0x80_0100, 0x80_00ff] {
        for syndrome in [
            Syndrome::ack(31),
            Syndrome::rnr(1),
            Syndrome::nak(NakCode::PsnSequence),
            Syndrome::nak(NakCode::InvalidRequest),
            Syndrome::nak(NakCode::RemoteAccess),
            Syndrome::nak(NakCode::RemoteOperational),
        ] {
            pair.answer(psn, syndrome);
            pair.run_for(1_000);
        }
    }
    assert_eq!(pair.trace.len(), before);
    assert!(pair.nodes[0].sends().is_empty());
    assert_eq!(pair.nodes[0].qp.state(), QpState::Rts);
    let dropped: u64 = [
        uroce_wire::DropReason::NakOutsideWindow,
        uroce_wire::DropReason::GhostAck,
        uroce_wire::DropReason::UnexpectedResponse,
    ]
    .iter()
    .map(|reason| pair.nodes[0].dropped(*reason))
    .sum();
    assert_eq!(dropped, 36);
}

#[test]
fn r74_reserved_syndromes_are_counted_and_ignored() {
    let mut pair = writing(Setup::default(), 256 * 4);
    pair.filter(|_| Fate::Drop);
    pair.run_for(10_000);
    let mut count = 0;
    for syndrome in 0..=255u8 {
        let reserved_nak = syndrome >> 5 == 3 && syndrome & 0x1f > 4;
        if syndrome >> 5 == 2 || reserved_nak || syndrome >= 0x80 {
            pair.answer(0x101, Syndrome(syndrome));
            count += 1;
            assert_eq!(pair.nodes[0].qp.state(), QpState::Rts, "syndrome {syndrome:#x}");
        }
    }
    let ignored = pair.nodes[0].dropped(uroce_wire::DropReason::ReservedSyndrome);
    assert_eq!(ignored, count);
    assert!(pair.nodes[0].sends().is_empty());
}

#[test]
fn r73_fatal_naks_name_the_request_and_flush_what_follows() {
    let cases = [
        (NakCode::InvalidRequest, WcStatus::RemInvReqErr, "invalid request"),
        (NakCode::RemoteAccess, WcStatus::RemAccessErr, "check the rkey"),
        (NakCode::RemoteOperational, WcStatus::RemOpErr, "receive buffer"),
        (NakCode::InvalidRdRequest, WcStatus::RemInvReqErr, "RD"),
    ];
    for (code, status, word) in cases {
        let mut pair = writing(Setup::default(), 256 * 2);
        let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
        let source = [pair.nodes[0].sge(0, 600)];
        for id in 2..5 {
            let wr = wr_sges(id, SendOp::Write { va, rkey }, &source);
            pair.nodes[0].send(&SendWr { flags: SendFlags::empty(), ..wr }).unwrap();
        }
        pair.filter(|_| Fate::Drop);
        pair.run_for(10_000);
        // PSNs 0x100, 0x101 | 0x102..0x104 | 0x105.. : the second piece of request 3.
        pair.answer(0x106, Syndrome::nak(code));
        let done = pair.nodes[0].sends();
        let got: Vec<_> = done.iter().map(|wc| (wc.wr_id, wc.status)).collect();
        // Request 2 succeeded unsignalled: no completion. 3 and 4 report errors though unsignalled.
        let flush = WcStatus::WrFlushErr;
        assert_eq!(got, [(1, WcStatus::Success), (3, status), (4, flush)]);
        assert_eq!(pair.nodes[0].qp.state(), QpState::Err);
        let text = done[1].cause.to_string();
        for part in ["10.0.0.2", "0x106", word] {
            assert!(text.contains(part), "{text}");
        }
        let text = done[2].cause.to_string();
        assert!(text.contains("work request 3 failed"), "{text}");
    }
}

fn sending(rnr_retry: u8, min_rnr_timer: u8, timeout: u8) -> Pair {
    let setup = Setup { rnr_retry, min_rnr_timer, timeout, retry_cnt: 0, ..Setup::default() };
    let mut pair = Pair::new(setup);
    let parts: [&[u8]; 1] = [b"hello"];
    pair.nodes[0].send(&wr_inline(1, SendOp::Send, &parts)).unwrap();
    pair
}

#[test]
fn b16_r76_rnr_retry_0_1_6_run_out_and_name_the_peer() {
    for rnr_retry in [0u8, 1, 6] {
        let mut pair = sending(rnr_retry, 14, 20);
        pair.run();
        let done = pair.nodes[0].sends();
        assert_eq!(done[0].status, WcStatus::RnrRetryExcErr);
        assert_eq!(requests(&pair).len(), usize::from(rnr_retry) + 1);
        let text = done[0].cause.to_string();
        let tries = format!("{rnr_retry} retries");
        for part in ["10.0.0.2", "0x100", "post receives", &tries] {
            assert!(text.contains(part), "{text}");
        }
    }
}

#[test]
fn r76_a_read_whose_response_was_lost_does_not_fail_for_the_send_that_meets_no_receive() {
    for rnr_retry in [0, 2] {
        let setup = Setup { rnr_retry, retry_cnt: 3, ..Setup::default() };
        let mut pair = Pair::new(setup);
        pair.nodes[1].fill(500_000, &pattern(3, 64));
        let (va, rkey) = (pair.nodes[1].va(500_000), pair.nodes[1].rkey());
        let landing = [pair.nodes[0].sge(0, 64)];
        pair.nodes[0].send(&wr_sges(1, SendOp::Read { va, rkey }, &landing)).unwrap();
        let parts: [&[u8]; 1] = [b"hello"];
        pair.nodes[0].send(&wr_inline(2, SendOp::Send, &parts)).unwrap();
        let mut lost = false;
        pair.filter(move |seen| match seen.opcode {
            Opcode::RC_READ_RESPONSE_ONLY if !std::mem::replace(&mut lost, true) => Fate::Drop,
            _ => Fate::Deliver,
        });
        pair.run();
        let done = pair.nodes[0].sends();
        let is: Vec<_> = done.iter().map(|wc| (wc.wr_id, wc.status)).collect();
        assert_eq!(is, [(1, WcStatus::Success), (2, WcStatus::RnrRetryExcErr)], "{rnr_retry}");
        assert_eq!(pair.nodes[0].bytes(0, 64), pattern(3, 64));
    }
}

#[test]
fn r75_r76_a_read_whose_responses_are_all_lost_fails_although_rnr_naks_arrive() {
    let mut pair = Pair::new(Setup { rnr_retry: 0, retry_cnt: 3, ..Setup::default() });
    let (va, rkey) = (pair.nodes[1].va(500_000), pair.nodes[1].rkey());
    let landing = [pair.nodes[0].sge(0, 64)];
    pair.nodes[0].send(&wr_sges(1, SendOp::Read { va, rkey }, &landing)).unwrap();
    let parts: [&[u8]; 1] = [b"hello"];
    pair.nodes[0].send(&wr_inline(2, SendOp::Send, &parts)).unwrap();
    pair.filter(|seen| match seen.opcode {
        Opcode::RC_READ_RESPONSE_ONLY => Fate::Drop,
        _ => Fate::Deliver,
    });
    pair.run();
    let is: Vec<_> = pair.nodes[0].sends().iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(is, [(1, WcStatus::RetryExcErr), (2, WcStatus::WrFlushErr)]);
}

#[test]
fn b16_rnr_retry_7_waits_for_ever() {
    let mut pair = sending(7, 1, 20);
    pair.run_for(1_000 * 1_000_000);
    assert_eq!(pair.nodes[0].qp.state(), QpState::Rts);
    assert!(requests(&pair).len() > 10_000);
    let target = pair.nodes[1].sge(0, 64);
    pair.nodes[1].recv(9, &[target]).unwrap();
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert_eq!(pair.nodes[1].bytes(0, 5), b"hello");
}

#[test]
fn r76_the_wait_is_as_long_as_the_code_says_and_costs_no_retry() {
    for code in [1u8, 12, 25, 31, 0] {
        // retry_cnt is 0 and the ACK timeout shorter than the wait: it must not fire.
        let mut pair = sending(3, code, 3);
        pair.latency_ns = 1_000;
        pair.run();
        let wait = u64::from(rnr_timer_us(code)) * 1_000;
        let times: Vec<_> = requests(&pair).iter().map(|(at, _)| *at).collect();
        let due: Vec<_> = (0..4).map(|n| n * (wait + 2_000)).collect();
        assert_eq!(times, due, "code {code}");
        assert_eq!(pair.nodes[0].sends()[0].status, WcStatus::RnrRetryExcErr);
        assert_eq!(pair.nodes[0].counters.ack_timeout, 0);
    }
}

#[test]
fn b15_a_sequence_nak_does_not_shorten_the_wait() {
    let mut pair = sending(7, 31, 14);
    pair.run_for(50_000);
    let sent = pair.trace.len();
    pair.answer(0x100, Syndrome::nak(NakCode::PsnSequence));
    pair.run_for(400 * MS);
    assert_eq!(pair.trace.len(), sent);
    assert_eq!(pair.nodes[0].qp.state(), QpState::Rts);
}

#[test]
fn r76_a_copy_of_an_rnr_nak_counts_once() {
    let mut pair = sending(1, 31, 14);
    pair.run_for(50_000);
    let until = pair.nodes[0].qp.poll_timeout();
    for _ in 0..5 {
        pair.answer(0x100, Syndrome::rnr(31));
    }
    assert_eq!(pair.nodes[0].qp.state(), QpState::Rts);
    assert_eq!(pair.nodes[0].qp.poll_timeout(), until);
}

#[test]
fn r76_after_the_wait_a_try_has_its_full_timeout() {
    // A late ACK for an earlier packet arrives during the wait, longer ago than the ACK timeout.
    let mut pair = Pair::new(Setup { retry_cnt: 0, timeout: 8, ..Setup::default() });
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let parts: [&[u8]; 1] = [b"x"];
    for id in 0..3 {
        pair.nodes[0].send(&wr_inline(id, SendOp::Write { va, rkey }, &parts)).unwrap();
    }
    pair.filter(|seen| if seen.from == 0 { Fate::Drop } else { Fate::Deliver });
    pair.run_for(1_000);
    pair.answer(0x101, Syndrome::rnr(25));
    pair.answer(0x101, Syndrome::ack(31));
    pair.no_filter();
    pair.filter(|seen| if seen.psn == 0x102 { Fate::Delay(100_000) } else { Fate::Drop });
    let wait = u64::from(rnr_timer_us(25)) * 1_000;
    pair.run_for(wait + 500_000);
    assert_eq!(pair.nodes[0].qp.state(), QpState::Rts);
    assert_eq!(requests(&pair).last().map(|(_, psn)| *psn), Some(0x102));
}

#[test]
fn a16_rnr_naks_with_the_longest_timer_end_after_rnr_retry() {
    let mut pair = sending(6, 0, 14);
    pair.run();
    assert_eq!(pair.nodes[0].sends()[0].status, WcStatus::RnrRetryExcErr);
    let spent = pair.now.as_nanos() - 1_000_000_000;
    assert!(spent < 7 * 655_400_000, "{spent} ns");
}

#[test]
fn a17_a_nak_storm_sends_a_bounded_number_of_packets() {
    let mut pair = writing(Setup::default(), 256 * 60);
    pair.filter(|_| Fate::Drop);
    for round in 0..10_000u32 {
        pair.run_for(1_000);
        pair.answer(0x100 + round % 3, Syndrome::nak(NakCode::PsnSequence));
    }
    // retry_cnt 7, refilled by the two PSNs of progress that the storm contains.
    assert!(pair.trace.len() < 60 * 30, "{} packets", pair.trace.len());
    assert_eq!(pair.nodes[0].qp.state(), QpState::Err);
}

#[test]
fn a14_an_early_ack_inside_the_window_completes_early() {
    let mut pair = writing(Setup::default(), 256 * 4);
    pair.filter(|_| Fate::Drop);
    pair.run_for(1_000);
    pair.answer(0x103, Syndrome::ack(31));
    assert!(pair.nodes[0].sends()[0].is_ok());
    pair.run();
    assert_eq!(pair.nodes[0].qp.poll_timeout(), None);
}

#[test]
fn r70_ghost_acks_and_credit_updates_are_ignored() {
    let mut pair = writing(Setup::default(), 256 * 4);
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    for psn in [0x103, 0x100, 0x104] {
        pair.answer(psn, Syndrome::ack(5));
    }
    pair.run();
    assert!(pair.nodes[0].sends().is_empty());
    assert_eq!(pair.nodes[0].dropped(uroce_wire::DropReason::GhostAck), 2);
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    pair.nodes[0].send(&wr(2, SendOp::Write { va, rkey })).unwrap();
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
}

#[test]
fn r81_credit_0_blocks_nothing() {
    let mut pair = writing(Setup::default(), 256);
    pair.filter(|seen| if seen.from == 1 { Fate::Drop } else { Fate::Deliver });
    pair.run_for(100_000);
    pair.answer(0x100, Syndrome::ack(0));
    pair.no_filter();
    let target = pair.nodes[1].sge(0, 64);
    pair.nodes[1].recv(9, &[target]).unwrap();
    pair.nodes[0].send(&wr(2, SendOp::Send)).unwrap();
    pair.run();
    assert!(pair.nodes[0].sends().iter().all(Wc::is_ok));
}

#[test]
fn b18_windows_across_the_wrap_and_the_half_range() {
    for psn in [0xff_fff0, 0x7f_fff0, 0xff_ffff, 0x7f_ffff, 0] {
        let mut pair = writing(Setup { psn: [psn, psn], ..Setup::default() }, 256 * 400);
        let mut count = 0;
        pair.filter(move |_| {
            count += 1;
            if count % 17 == 0 { Fate::Drop } else { Fate::Deliver }
        });
        pair.run();
        assert!(pair.nodes[0].sends()[0].is_ok(), "start {psn:#x}");
        assert_eq!(pair.nodes[1].bytes(500_000, 102_400), pattern(3, 102_400));
        let end = pair.nodes[0].qp.attr().sq_psn;
        assert_eq!(end, (psn + 400) & 0xff_ffff);
    }
}

#[test]
fn a32_a_clock_that_jumps_ends_each_request_once_and_wraps_nowhere() {
    for jumps in [[u64::MAX; 9], [1 << 63, 0, u64::MAX, 1, 1 << 40, u64::MAX, 0, u64::MAX, 7]] {
        let mut pair = Pair::new(Setup { retry_cnt: 2, ..Setup::as_device() });
        pair.nodes[0].send(&wr(1, SendOp::Send)).unwrap();
        pair.filter(|_| Fate::Drop);
        pair.run_for(1_000);
        let mut done = vec![];
        let mut out = [0; limits::MAX_PACKET];
        for now in jumps.map(Instant::from_nanos) {
            let node = &mut pair.nodes[0];
            node.qp.handle_timeout(now, cx!(node));
            while node.qp.poll_transmit(now, &mut out, cx!(node)).is_some() {}
            done.extend(node.sends());
        }
        // What a jump takes for time that has passed uses up tries, and never more than there are.
        assert!(done.len() <= 1, "{done:?}");
        assert!(done.iter().all(|wc| wc.status == WcStatus::RetryExcErr), "{done:?}");
        pair.nodes[0].enter_state(QpState::Err).unwrap();
        done.extend(pair.nodes[0].sends());
        assert_eq!(done.len(), 1);
    }
}
