//! A requester sends only what is missing to a peer that keeps the rest (R71, ADR 17).

use uroce_transport::*;

use crate::harness::*;

const PACKET: u32 = 256;
/// First PSN of node 0.
const FIRST: u32 = 0x100;

/// Node 0 repairs; whether node 1 keeps is up to the test.
fn pair(keeps: bool) -> Pair {
    Pair::new(Setup { keeps: [false, keeps], ..Setup::as_device() })
}

/// A WRITE of so many packets, from PSN `FIRST` on if it is the first.
fn write(pair: &mut Pair, wr_id: u64, packets: u32) {
    let data = pattern(wr_id as u8, (packets * PACKET) as usize);
    pair.nodes[0].fill(0, &data);
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let source = pair.nodes[0].sge(0, packets * PACKET);
    pair.nodes[0].send(&wr_sges(wr_id, SendOp::Write { va, rkey }, &[source])).unwrap();
}

/// Runs one WRITE in which the packets `lost` (from 0) are lost once; they all arrive in the end.
/// Returns the packets that were sent again, in order, and how long it took.
fn run(pair: &mut Pair, wr_id: u64, packets: u32, lost: &[u32]) -> (Vec<u32>, u64) {
    run_if(pair, wr_id, packets, lost, true)
}

/// The same with a peer that sends no gap lists: it does not see that it is asked for them.
fn run_without_lists(pair: &mut Pair, wr_id: u64, packets: u32, lost: &[u32]) -> (Vec<u32>, u64) {
    run_if(pair, wr_id, packets, lost, false)
}

fn run_if(pair: &mut Pair, wr_id: u64, packets: u32, lost: &[u32], lists: bool) -> (Vec<u32>, u64) {
    let first = pair.nodes[0].qp.next_psn().get();
    let mut left: Vec<u32> = lost.iter().map(|index| first + index).collect();
    pair.filter(move |seen| match left.iter().position(|psn| *psn == seen.psn) {
        Some(at) if seen.from == 0 => {
            left.remove(at);
            Fate::Drop
        }
        _ if lists || seen.packet().bth.reserved7 == 0 => Fate::Deliver,
        _ => {
            let mut bytes = seen.bytes.clone();
            bytes[8] &= 0x80;
            Fate::Replace(bytes)
        }
    });
    pair.trace.clear();
    write(pair, wr_id, packets);
    let start = pair.now;
    pair.run();
    let done = pair.nodes[0].sends();
    assert_eq!(done.iter().map(|wc| (wc.wr_id, wc.is_ok())).collect::<Vec<_>>(), [(wr_id, true)]);
    let length = (packets * PACKET) as usize;
    assert_eq!(pair.nodes[1].bytes(0, length), pattern(wr_id as u8, length));
    let (mut seen, mut again) = (vec![], vec![]);
    for packet in pair.trace.iter().filter(|packet| packet.from == 0) {
        let index = packet.psn.wrapping_sub(first);
        let into = if seen.contains(&index) { &mut again } else { &mut seen };
        into.push(index);
    }
    (again, pair.trace.last().unwrap().at.since(start))
}

#[test]
fn r71_only_the_missing_packets_are_sent_again_to_a_peer_that_keeps() {
    let mut pair = pair(true);
    assert_eq!(run(&mut pair, 1, 60, &[20]).0, [20], "the first one already");
    assert_eq!(run(&mut pair, 2, 60, &[7, 30, 33, 59]).0, [7, 30, 33, 59]);
    let counters = &pair.nodes[0].counters;
    assert_eq!((counters.completer_retry_err, counters.ack_timeout), (0, 0));
    assert_eq!(counters.retransmitted_pkts, 5);
}

/// The packet is so late that it has been asked for, and comes before it is sent again: nothing is lost, so nothing is waited for.
#[test]
fn r71_a_packet_that_is_late_costs_no_probe_and_no_timeout() {
    let mut pair = pair(true);
    run(&mut pair, 1, 60, &[]);
    let late = pair.nodes[0].qp.next_psn().get() + 1;
    let (mut first, latency) = (true, pair.latency_ns);
    pair.filter(move |seen| match seen.from == 0 && seen.psn == late && first {
        true => {
            first = false;
            Fate::Delay(latency / 2)
        }
        false => Fate::Deliver,
    });
    write(&mut pair, 2, 4);
    pair.run_for(4 * latency);
    assert!(matches!(pair.nodes[0].sends()[..], [done] if done.is_ok()), "after two round trips");
}

#[test]
fn r71_a_peer_that_does_not_keep_costs_one_packet_once() {
    let mut pair = pair(false);
    let again = run(&mut pair, 1, 60, &[20]).0;
    assert_eq!(again, (20..60).collect::<Vec<_>>(), "the missing one, and then the rest");
    let alone = pair.trace.iter().filter(|seen| seen.from == 0).collect::<Vec<_>>();
    let waits = alone.windows(2).find(|two| two[0].psn == two[1].psn - 1 && two[1].at > two[0].at);
    assert_eq!(waits.map(|two| two[0].psn), Some(FIRST + 20), "it waited behind that one");
    // From now on at once.
    let retries = pair.nodes[0].counters.completer_retry_err;
    let again = run(&mut pair, 2, 60, &[20]).0;
    assert_eq!(again, (20..60).collect::<Vec<_>>());
    assert_eq!(pair.nodes[0].counters.completer_retry_err, retries + 1);
    let last = pair.trace.iter().rposition(|seen| seen.from == 0 && seen.psn == FIRST + 60 + 20);
    let behind = &pair.trace[last.unwrap()..][..2];
    assert_eq!(behind[0].at, behind[1].at, "no wait");
}

#[test]
fn r71_to_a_peer_that_keeps_new_packets_go_out_during_a_repair() {
    let mut pair = pair(true);
    run(&mut pair, 1, 60, &[20]);
    let (again, took) = run(&mut pair, 2, 400, &[20]);
    assert_eq!(again, [20]);
    let (_, slow_start) = run(&mut pair, 3, 400, &[]);
    assert!(took <= slow_start + 4 * pair.latency_ns, "{took} and {slow_start} ns");
}

#[test]
fn r71_a_long_gap_is_sent_again_in_one_go_after_two_tries() {
    let mut pair = pair(true);
    run_without_lists(&mut pair, 1, 60, &[20]);
    let burst: Vec<u32> = (10..30).collect();
    let again = run_without_lists(&mut pair, 2, 60, &burst).0;
    assert_eq!(again[..9], (10..19).collect::<Vec<_>>());
    assert_eq!(again[9], 19);
    assert_eq!(pair.nodes[0].counters.completer_retry_err, 1);
    // A few bursts are no reason to think that the peer does not keep.
    assert_eq!(run(&mut pair, 3, 60, &[5]).0, [5]);
}

#[test]
fn r71_a_gap_of_two_packets_at_first_shows_that_the_peer_keeps() {
    let mut pair = pair(true);
    let again = run(&mut pair, 1, 60, &[20, 21]).0;
    assert_eq!(again[..2], [20, 21]);
    assert_eq!(pair.nodes[0].counters.completer_retry_err, 0);
    assert_eq!(run(&mut pair, 2, 60, &[9]).0, [9]);
}

#[test]
fn r75_a_repair_that_is_lost_costs_no_timeout() {
    let mut pair = pair(true);
    run(&mut pair, 1, 60, &[20]);
    let (again, took) = run(&mut pair, 2, 60, &[20, 20, 20]);
    assert_eq!(again, [20, 20, 20]);
    assert!(took < MS, "{took} ns");
    assert_eq!(pair.nodes[0].counters.ack_timeout, 0);
}

#[test]
fn r75_a_lost_nak_costs_no_timeout_and_two_packets() {
    let mut pair = pair(true);
    run(&mut pair, 1, 60, &[20]);
    let (mut packets, mut naks) = (1, 1);
    pair.filter(move |seen| {
        let (left, hit) = match seen.from {
            0 => (&mut packets, seen.psn == FIRST + 60 + 20),
            _ => (&mut naks, seen.syndrome() == Some(0x60)),
        };
        let hit = hit && *left > 0;
        *left -= u32::from(hit);
        if hit { Fate::Drop } else { Fate::Deliver }
    });
    write(&mut pair, 2, 60);
    let (start, sent) = (pair.now, pair.trace.len());
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    let sent = pair.trace[sent..].iter().filter(|seen| seen.from == 0).count();
    // The oldest one, whose repetition draws an ACK up to the gap, and the missing one.
    assert_eq!(sent, 62);
    assert!(pair.trace.last().unwrap().at.since(start) < MS);
    assert_eq!(pair.nodes[0].counters.ack_timeout, 0);
}

#[test]
fn r75_a_peer_that_dies_during_a_repair_gets_a_few_probes_and_then_the_usual_retries() {
    let mut pair = pair(true);
    run(&mut pair, 1, 60, &[20]);
    let mut left = 30;
    pair.filter(move |seen| {
        left -= i32::from(seen.from == 0);
        if seen.from == 0 && (left < 0 || left == 20) { Fate::Drop } else { Fate::Deliver }
    });
    write(&mut pair, 2, 60);
    pair.run();
    assert_eq!(pair.nodes[0].sends()[0].status, WcStatus::RetryExcErr);
    // R71: the NAK has used up one of the retries.
    assert_eq!(pair.nodes[0].counters.ack_timeout, 7);
}

#[test]
fn r76_an_rnr_nak_ends_a_repair() {
    let mut pair = pair(true);
    let source = pair.nodes[0].sge(0, 100);
    for wr_id in 0..10 {
        pair.nodes[0].send(&wr_sges(wr_id, SendOp::Send, &[source])).unwrap();
    }
    let mut lost = 1;
    pair.filter(move |seen| {
        let hit = lost > 0 && seen.from == 0 && seen.psn == FIRST;
        lost -= i32::from(hit);
        if hit { Fate::Drop } else { Fate::Deliver }
    });
    pair.run_for(100_000);
    assert_eq!(pair.nodes[1].counters.send_rnr_err, 1);
    for wr_id in 0..10 {
        let sge = pair.nodes[1].sge(1000, 100);
        pair.nodes[1].recv(wr_id, &[sge]).unwrap();
    }
    pair.run();
    assert!(pair.nodes[0].sends().iter().map(|wc| wc.wr_id).eq(0..10));
    assert!(pair.nodes[1].recvs().iter().map(|wc| wc.wr_id).eq(0..10));
}

#[test]
fn r71_reads_and_atomics_behind_a_gap_are_asked_for_again_and_done_once() {
    for keeps in [false, true] {
        let mut pair = pair(keeps);
        let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
        let source = pair.nodes[0].sge(0, 3 * PACKET);
        let (word, back) = (pair.nodes[0].sge(8192, 8), pair.nodes[0].sge(9000, 600));
        let (counter, add) = (pair.nodes[1].va(4096), 1);
        pair.lose_once(0, uroce_wire::Opcode::RC_WRITE_FIRST, 0);
        let wrs: [(SendOp, &[_]); 4] = [
            (SendOp::Write { va, rkey }, &[source]),
            (SendOp::FetchAdd { va: counter, rkey, add }, &[word]),
            (SendOp::Read { va, rkey }, &[back]),
            (SendOp::Write { va, rkey }, &[source]),
        ];
        for (wr_id, (op, sges)) in wrs.iter().enumerate() {
            pair.nodes[0].send(&wr_sges(wr_id as u64, *op, sges)).unwrap();
        }
        pair.run();
        let done = pair.nodes[0].sends();
        assert!(done.iter().map(|wc| (wc.wr_id, wc.is_ok())).eq((0..4).map(|id| (id, true))));
        assert_eq!(pair.nodes[1].region.load_u64(4096).unwrap(), 1, "I5, keeps: {keeps}");
        assert_eq!(pair.nodes[0].counters.ack_timeout, 0);
    }
}

#[test]
fn r82_a_repair_goes_out_alone_and_asks_for_an_ack() {
    let mut pair = pair(true);
    run(&mut pair, 1, 60, &[20]);
    run(&mut pair, 2, 200, &[20]);
    let psn = FIRST + 60 + 20;
    let sent: Vec<_> = pair.trace.iter().filter(|seen| seen.from == 0).collect();
    let again = sent.iter().rposition(|seen| seen.psn == psn).unwrap();
    assert!(sent[again].packet().bth.ack_req);
    assert!(sent[again + 1].psn > psn + 20, "what was kept is not sent again");
}

/// Two NAKs, and then an ACK of a part of what they have asked for, before anything is sent.
#[test]
fn r71_what_is_acknowledged_before_it_is_sent_again_is_not_sent_again() {
    let mut pair = pair(true);
    run(&mut pair, 1, 60, &[20]);
    let first = pair.nodes[0].qp.next_psn().get();
    // The peer has all of them, and its answers are late.
    pair.filter(move |seen| if seen.from == 1 { Fate::Drop } else { Fate::Deliver });
    write(&mut pair, 2, 40);
    pair.run_for(1_000);
    pair.trace.clear();
    let nak = uroce_wire::Syndrome::nak(uroce_wire::NakCode::PsnSequence);
    let good = uroce_wire::Syndrome::ack(31);
    for (psn, syndrome) in [(first + 4, nak), (first + 5, nak), (first + 9, good)] {
        pair.answer(psn, syndrome);
        if psn == first + 4 {
            pair.run_for(1);
        }
    }
    pair.run_for(1_000);
    let again: Vec<u32> =
        pair.trace.iter().filter(|seen| seen.from == 0).map(|seen| seen.psn - first).collect();
    assert_eq!(again.first(), Some(&4));
    assert!(again[1..].iter().all(|psn| *psn > 9), "{again:?}");
}

#[test]
fn r75_a_single_loss_takes_little_of_the_window() {
    let spent = |keeps: bool| {
        let mut pair = pair(keeps);
        run(&mut pair, 1, 60, &[20]);
        run(&mut pair, 2, 1000, &[100, 300, 500, 700]);
        pair.trace.last().unwrap().at.since(pair.trace[0].at)
    };
    assert!(spent(true) < spent(false));
}

/// The first packet is lost, and each sequence NAK comes twice.
#[test]
fn r155_a_copy_of_a_sequence_nak_costs_no_retry() {
    for setup in [Setup::default(), Setup::as_device()] {
        let mut pair = Pair::new(Setup { retry_cnt: 1, ..setup });
        let mut lost = false;
        pair.filter(move |seen| {
            let first = seen.from == 0 && !std::mem::replace(&mut lost, true);
            let nak = seen.from == 1 && seen.syndrome().is_some_and(|syndrome| syndrome >> 5 == 3);
            match (first, nak) {
                (true, _) => Fate::Drop,
                (_, true) => Fate::Duplicate,
                _ => Fate::Deliver,
            }
        });
        write(&mut pair, 1, 16);
        pair.run();
        assert!(pair.nodes[0].sends()[0].is_ok());
        assert_eq!(pair.nodes[0].counters.rcvd_seq_err, 2);
    }
}

/// The peer keeps nothing, and the copy of its NAK comes when all that followed is under way again.
#[test]
fn r155_a_late_copy_of_a_sequence_nak_costs_no_retry_behind_going_back() {
    for late_ns in [500, 2_000] {
        let mut pair = Pair::new(Setup { retry_cnt: 1, probes: [true; 2], ..Setup::default() });
        write(&mut pair, 1, 16);
        pair.run();
        let mut lost = false;
        pair.filter(move |seen| {
            let first = seen.from == 0 && !std::mem::replace(&mut lost, true);
            match (first, seen.syndrome()) {
                (true, _) => Fate::Drop,
                (_, Some(NAK)) => Fate::DuplicateLate(late_ns),
                _ => Fate::Deliver,
            }
        });
        write(&mut pair, 2, 16);
        pair.run();
        assert!(pair.nodes[0].sends().iter().all(Wc::is_ok), "{late_ns}");
        assert_eq!(pair.nodes[0].counters.completer_retry_err, 1, "it goes back once");
    }
}

#[test]
fn r155_doubled_and_late_packets_kill_no_connection_with_one_retry() {
    for seed in 1..=300u64 {
        let mut pair = Pair::new(Setup { retry_cnt: 1, ..Setup::as_device() });
        (0..6).for_each(|id| write(&mut pair, id, 32));
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        pair.filter(move |_| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            match random % 1000 {
                0..20 => Fate::Duplicate,
                20..40 => Fate::Delay(3_000 + random % 30_000),
                _ => Fate::Deliver,
            }
        });
        pair.run();
        assert!(pair.nodes[0].sends().iter().all(Wc::is_ok), "seed {seed}");
    }
}

#[test]
fn r156_a_peer_that_did_not_keep_is_tried_again_after_a_while() {
    let mut pair = pair(false);
    assert_eq!(run(&mut pair, 1, 60, &[20]).0.len(), 40, "it goes back");
    // The peer has memory again.
    pair.set_features(1, |features| features.reorder_buffer = true);
    assert_eq!(run(&mut pair, 2, 60, &[20]).0.len(), 40, "it is not known yet");
    pair.run_for(limits::PEER_DISCARDS_NS);
    assert_eq!(run(&mut pair, 3, 60, &[20]).0, [20]);
}

#[test]
fn r71_gaps_that_are_known_are_told_together_and_closed_in_one_round_trip() {
    let mut pair = pair(true);
    run(&mut pair, 1, 60, &[20]);
    let lost = [7, 10, 11, 12, 30, 33, 58];
    let (again, took) = run(&mut pair, 2, 60, &lost);
    assert_eq!(again, lost);
    // The data, the gaps, and the ACK: a NAK for each would be four round trips more.
    assert!(took <= 4 * pair.latency_ns, "{took} ns");
    let took = run_without_lists(&mut self::pair(true), 1, 60, &lost).1;
    assert!(took >= 12 * pair.latency_ns, "{took} ns");
    let naks = pair.syndromes(1).iter().filter(|(_, syndrome)| *syndrome == NAK).count();
    assert_eq!(naks, 1);
    let counters = &pair.nodes[0].counters;
    assert_eq!((counters.completer_retry_err, counters.ack_timeout), (0, 0));
}

const NAK: u8 = 0x60;

/// Lengths of the lists behind sequence NAKs of node 1, in gaps. The last entry is no gap.
fn lists(pair: &Pair) -> Vec<usize> {
    let naks = pair.trace.iter().filter(|seen| seen.from == 1 && seen.syndrome() == Some(NAK));
    naks.map(|seen| (seen.packet().payload().len() / 4).saturating_sub(1)).collect()
}

#[test]
fn r1_r71_a_list_goes_only_to_a_requester_that_asks_for_it() {
    let mut pair =
        Pair::new(Setup { keeps: [false, true], repairs: [false; 2], ..Setup::as_device() });
    run(&mut pair, 1, 60, &[20, 30, 40]);
    assert!(lists(&pair).iter().all(|gaps| *gaps == 0));
    assert!(pair.trace.iter().all(|seen| seen.packet().bth.reserved7 == 0));
    let mut pair = self::pair(true);
    run(&mut pair, 1, 60, &[20, 30, 40]);
    assert_eq!(lists(&pair), [0, 2], "it asks with the first packet that it sends again");
    let asking: Vec<u32> = pair
        .trace
        .iter()
        .filter(|seen| seen.packet().bth.reserved7 != 0)
        .map(|seen| seen.psn)
        .collect();
    assert_eq!(asking, [FIRST + 20, FIRST + 30, FIRST + 40], "no other packet has reserved bits");
    run(&mut pair, 2, 60, &[20, 30, 40]);
    assert_eq!(lists(&pair), [3]);
}

#[test]
fn r75_lost_lists_and_packets_of_lists_cost_no_timeout() {
    for lost_again in [vec![30], vec![40], vec![30, 40, 50], vec![30, 31, 40, 41]] {
        let mut pair = pair(true);
        run(&mut pair, 1, 60, &[20]);
        let mut lost = vec![20, 30, 31, 40, 41, 50];
        lost.extend(&lost_again);
        let (again, took) = run(&mut pair, 2, 60, &lost);
        assert!(took < MS, "{lost_again:?}: {took} ns");
        assert!(again.len() <= lost.len() + 2, "{again:?}");
        assert_eq!(pair.nodes[0].counters.ack_timeout, 0);
    }
    // The NAK with the list is lost.
    let mut pair = pair(true);
    run(&mut pair, 1, 60, &[20]);
    let first = pair.nodes[0].qp.next_psn().get();
    let (mut gaps, mut naks) = (vec![first + 20, first + 30, first + 40], 0);
    pair.filter(move |seen| {
        if seen.from == 1 {
            naks += u32::from(seen.syndrome() == Some(NAK));
            let second = naks == 2 && seen.syndrome() == Some(NAK);
            return if second { Fate::Drop } else { Fate::Deliver };
        }
        match gaps.iter().position(|psn| *psn == seen.psn) {
            Some(at) => {
                gaps.remove(at);
                Fate::Drop
            }
            None => Fate::Deliver,
        }
    });
    write(&mut pair, 2, 60);
    let start = pair.now;
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert!(pair.trace.last().unwrap().at.since(start) < MS);
    assert_eq!(pair.nodes[0].counters.ack_timeout, 0);
}

/// Of a path on which a probe is late.
const LATENCY_NS: u64 = 20_000;

/// Two nodes on such a path that have repaired losses before, so that the round trip is known.
fn pair_on_long_path() -> Pair {
    let mut pair = pair(true);
    pair.latency_ns = LATENCY_NS;
    run(&mut pair, 1, 60, &[20]);
    run(&mut pair, 2, 1_500, &[20]);
    pair
}

/// The packets of node `from` with the bit that asks for lists, by their distance from `first`.
fn asking(pair: &Pair, first: u32) -> Vec<u32> {
    let of = pair.trace.iter().filter(|seen| seen.from == 0);
    let asking = of.filter(|seen| seen.packet().bth.reserved7 != 0);
    asking.map(|seen| seen.psn - first).collect()
}

/// The first new packet behind what was sent again draws the NAK once more if that was lost again: nobody waits for a probe.
#[test]
fn r75_what_is_lost_again_is_told_of_as_soon_as_something_behind_it_arrives() {
    let mut pair = pair_on_long_path();
    let once = run(&mut pair, 3, 1_500, &[20]).1;
    let first = pair.nodes[0].qp.next_psn().get();
    let (again, took) = run(&mut pair, 4, 1_500, &[20, 20, 20]);
    assert_eq!(again, [20, 20, 20]);
    let asking = asking(&pair, first);
    assert_eq!(asking.len(), 6, "each repair, and one behind each: {asking:?}");
    assert_eq!(pair.nodes[0].counters.ack_timeout, 0);
    assert!(took <= once + 2 * 2 * LATENCY_NS, "{took} ns, and {once} without");
}

/// Several gaps, of which some are lost again, others not, and new ones come behind.
#[test]
fn r75_of_several_gaps_those_that_are_lost_again_are_sent_again() {
    let mut pair = pair_on_long_path();
    let lost = [20, 21, 40, 60, 61, 62, 100, 21, 60, 100, 300, 310];
    let (mut again, _) = run(&mut pair, 3, 1_500, &lost);
    assert!(again.len() <= lost.len() + 2, "{again:?}");
    again.sort_unstable();
    again.dedup();
    assert_eq!(again, [20, 21, 40, 60, 61, 62, 100, 300, 310]);
    assert_eq!(pair.nodes[0].counters.ack_timeout, 0);
}

/// A NAK that is lost comes again when the requester asks for an ACK.
#[test]
fn r75_a_lost_nak_comes_again_when_an_ack_is_asked_for() {
    let mut pair = pair_on_long_path();
    let first = pair.nodes[0].qp.next_psn().get();
    let (mut packets, mut naks) = (1, 1);
    pair.filter(move |seen| {
        let (left, hit) = match seen.from {
            0 => (&mut packets, seen.psn == first + 20),
            _ => (&mut naks, seen.syndrome() == Some(NAK)),
        };
        let hit = hit && *left > 0;
        *left -= u32::from(hit);
        if hit { Fate::Drop } else { Fate::Deliver }
    });
    pair.trace.clear();
    write(&mut pair, 3, 30);
    pair.run_for(LATENCY_NS / 2);
    write(&mut pair, 4, 80);
    pair.run();
    assert!(pair.nodes[0].sends().iter().all(Wc::is_ok));
    assert_eq!(lists(&pair), [1, 1]);
    let sent = pair.trace.iter().filter(|seen| seen.from == 0).count();
    assert_eq!(sent, 111, "no probe");
}

/// A READ is asked for by going back, and what the peer says until it has that is no reason to do so again, nor costs a retry.
#[test]
fn r71_a_nak_from_before_going_back_is_no_news() {
    let mut pair = pair_on_long_path();
    let first = pair.nodes[0].qp.next_psn().get();
    let retries = pair.nodes[0].counters.completer_retry_err;
    pair.filter(|_| Fate::Drop);
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let target = pair.nodes[0].sge(0, PACKET);
    pair.nodes[0].send(&wr_sges(3, SendOp::Read { va, rkey }, &[target])).unwrap();
    write(&mut pair, 4, 40);
    pair.run_for(1_000);
    let list = |seen: u8| [0, 0, 0, 1, 0, seen, 0, 0];
    for seen in [20, 30, 41] {
        pair.nak_with_list(first, &list(seen));
        pair.run_for(2 * LATENCY_NS);
    }
    assert_eq!(pair.nodes[0].counters.completer_retry_err, retries + 1);
    // Something was sent behind that, and has arrived.
    write(&mut pair, 5, 2);
    pair.run_for(1_000);
    pair.nak_with_list(first, &list(42));
    assert_eq!(pair.nodes[0].counters.completer_retry_err, retries + 2);
}

/// What never gets through ends as it always did: by its timeouts, however often a NAK asks for it.
#[test]
fn r75_what_is_always_lost_ends_by_its_timeout() {
    let mut pair = pair_on_long_path();
    let before = pair.nodes[0].counters.ack_timeout;
    let first = pair.nodes[0].qp.next_psn().get();
    pair.filter(move |seen| match (seen.from, seen.psn - first) {
        (0, 20) => Fate::Drop,
        _ => Fate::Deliver,
    });
    (3..8).for_each(|wr_id| write(&mut pair, wr_id, 100));
    pair.run();
    assert_eq!(pair.nodes[0].sends()[0].status, WcStatus::RetryExcErr);
    let timeouts = pair.nodes[0].counters.ack_timeout - before;
    assert_eq!(timeouts, u64::from(pair.setup.retry_cnt), "the first NAK has used up one retry");
}

/// Somebody who forges such NAKs, or doubles them, does not have the same packets sent again for each.
#[test]
fn a9_a_nak_that_comes_again_counts_once_for_what_was_sent_behind() {
    let (mut pair, first) = unanswered();
    let list = |seen: u8| [0, 0, 0, 1, 0, seen, 0, 0];
    pair.nak_with_list(first, &list(40));
    pair.run_for(1_000);
    let lost_again = |pair: &mut Pair, seen: u8| {
        (0..3).for_each(|_| pair.nak_with_list(first, &list(seen)));
        pair.run_for(1_000);
    };
    lost_again(&mut pair, 40);
    assert_eq!(sent_behind(&pair, first), [0], "nothing has left behind it");
    lost_again(&mut pair, 41);
    assert_eq!(sent_behind(&pair, first), [0], "what has never been out cannot have arrived");
    write(&mut pair, 3, 2);
    pair.run_for(1_000);
    lost_again(&mut pair, 41);
    assert_eq!(sent_behind(&pair, first), [0, 40, 41, 0]);
    lost_again(&mut pair, 42);
    assert_eq!(sent_behind(&pair, first), [0, 40, 41, 0]);
    assert_eq!(asking(&pair, first), [0, 40, 0]);
}

/// A requester that has asked for lists and has 40 packets on their way, none of which is answered, and the PSN of the first.
fn unanswered() -> (Pair, u32) {
    let mut pair = pair(true);
    run(&mut pair, 1, 60, &[20]);
    let first = pair.nodes[0].qp.next_psn().get();
    pair.filter(move |seen| if seen.from == 1 { Fate::Drop } else { Fate::Deliver });
    write(&mut pair, 2, 40);
    pair.run_for(1_000);
    pair.trace.clear();
    (pair, first)
}

/// The packets that the requester has sent since, by their distance from `first`.
fn sent_behind(pair: &Pair, first: u32) -> Vec<u32> {
    pair.trace.iter().filter(|seen| seen.from == 0).map(|seen| seen.psn - first).collect()
}

/// A list, and then an ACK of a part of it, before anything is sent.
#[test]
fn r71_i7_what_a_list_tells_and_an_ack_has_covered_meanwhile_is_not_sent_again() {
    let (mut pair, first) = unanswered();
    let list = [0, 0, 0, 1, 0, 6, 0, 3, 0, 10, 0, 4, 0, 20, 0, 1];
    pair.nak_with_list(first + 4, &list);
    pair.answer(first + 15, uroce_wire::Syndrome::ack(31));
    pair.run_for(1_000);
    assert_eq!(sent_behind(&pair, first), [16, 17, 24]);
}

#[test]
fn a9_a_list_of_packets_that_are_not_on_their_way_is_ignored() {
    let (mut pair, first) = unanswered();
    // Packet 4, three that are on their way, and then others that are not.
    let list = [0, 0, 0, 1, 0, 6, 0, 3, 0x30, 0, 0xff, 0xff, 0, 8, 0, 1];
    pair.nak_with_list(first + 4, &list);
    pair.run_for(1_000);
    assert_eq!(sent_behind(&pair, first), [4, 10, 11, 12]);
}

/// The most packets that are outstanding at a time while WRITEs of 2,000 packets lose every hundredth.
fn most_outstanding(pair: &mut Pair) -> u32 {
    pair.traces = false;
    pair.latency_ns = 20_000;
    let mut count = 0;
    pair.filter(move |seen| {
        count += u32::from(seen.from == 0);
        if seen.from == 0 && count % 100 == 99 { Fate::Drop } else { Fate::Deliver }
    });
    (0..10).for_each(|wr_id| write(pair, wr_id, 200));
    let mut most = 0;
    while pair.step() {
        most = most.max(pair.nodes[0].qp.traffic().window.outstanding);
    }
    assert_eq!(pair.nodes[0].sends().len(), 10);
    most
}

#[test]
fn r71_while_a_packet_is_sent_again_what_the_peer_keeps_may_be_replaced() {
    let half = limits::SHORT_PATH_WINDOW / limits::KEPT_SHARE;
    let most = most_outstanding(&mut pair(true));
    assert!(most > limits::SHORT_PATH_WINDOW + half, "{most}");
    assert!(most <= 2 * limits::SHORT_PATH_WINDOW + limits::ASKS_BEYOND_WINDOW, "{most}");
    let most = most_outstanding(&mut pair(false));
    assert!(most <= limits::SHORT_PATH_WINDOW, "{most} to a peer that does not");
}
