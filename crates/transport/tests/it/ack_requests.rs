//! Messages whose completion nobody waits for ask for few ACKs (docs/adr/018-acks-nobody-waits-for.md).

use uroce_transport::*;
use uroce_wire::Opcode;

use crate::harness::*;

/// Time between two messages of a conversation.
const STEP: u64 = 10_000;

/// A pair that probes, and has just measured its round trip.
fn pair() -> Pair {
    let mut pair = Pair::rc();
    pair.set_features(0, |features| features.tail_probes = true);
    write(&mut pair, 1, SendFlags::SIGNALED);
    pair.run_for(STEP);
    assert!(pair.nodes[0].sends()[0].is_ok());
    pair.trace.clear();
    pair
}

fn write(pair: &mut Pair, wr_id: u64, flags: SendFlags) {
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let source = [pair.nodes[0].sge(0, 8)];
    let wr = SendWr { flags, ..wr_sges(wr_id, SendOp::Write { va, rkey }, &source) };
    pair.nodes[0].send(&wr).unwrap();
}

/// Posts so many messages without a completion, a step apart.
fn talk(pair: &mut Pair, count: u64) {
    for wr_id in 0..count {
        write(pair, 100 + wr_id, SendFlags::empty());
        pair.run_for(STEP);
    }
}

/// How many packets asked for an ACK.
fn asked(pair: &Pair) -> usize {
    pair.seen(0, "RC_WRITE_ONLY").iter().filter(|seen| seen.packet().bth.ack_req).count()
}

#[test]
fn r82_one_in_a_while_asks_and_none_is_sent_twice() {
    let mut pair = pair();
    talk(&mut pair, 40);
    assert_eq!(pair.seen(0, "RC_WRITE_ONLY").len(), 40, "nothing was sent twice");
    let acks = pair.seen(1, "RC_ACKNOWLEDGE").len();
    assert_eq!(acks, asked(&pair));
    assert!((3..=5).contains(&acks), "{acks} in 400 us");
}

#[test]
fn r82_the_end_of_a_conversation_is_acknowledged_by_a_tail_probe() {
    let mut pair = pair();
    talk(&mut pair, 3);
    assert_eq!(asked(&pair), 0);
    pair.run();
    assert_eq!(pair.nodes[0].qp.send_queue_len(), 0, "all three are done");
    assert_eq!(pair.seen(0, "RC_WRITE_ONLY").len(), 4);
    let counters = &pair.nodes[0].counters;
    assert_eq!((asked(&pair), counters.ack_timeout, counters.retransmitted_pkts), (1, 0, 1));
}

#[test]
fn r82_a_lost_message_is_repaired_long_before_the_timeout() {
    let mut pair = pair();
    pair.lose_once(0, Opcode::RC_WRITE_ONLY, 2);
    talk(&mut pair, 3);
    let start = pair.now;
    pair.run();
    let took = pair.trace.last().map_or(0, |seen| seen.at.since(start));
    assert!(took < 2 * MS, "{took} ns");
    assert_eq!(pair.nodes[0].qp.send_queue_len(), 0);
    assert_eq!(pair.nodes[0].counters.ack_timeout, 0);
}

#[test]
fn r82_whoever_waits_for_a_completion_asks_at_once() {
    let mut pair = pair();
    talk(&mut pair, 2);
    write(&mut pair, 2, SendFlags::SIGNALED);
    pair.run_for(STEP);
    assert_eq!(asked(&pair), 1);
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert_eq!(pair.nodes[0].qp.send_queue_len(), 0, "it acknowledges those before it");
}

#[test]
fn r82_a_message_after_a_pause_asks() {
    let mut pair = pair();
    pair.run_for(limits::ACK_REQUEST_INTERVAL_NS);
    talk(&mut pair, 1);
    assert_eq!(asked(&pair), 1);
}

#[test]
fn r82_without_tail_probes_every_message_asks() {
    let mut pair = pair();
    pair.set_features(0, |features| features.tail_probes = false);
    talk(&mut pair, 5);
    assert_eq!(asked(&pair), 5);
}

#[test]
fn r82_a_burst_asks_once_per_share_of_the_window() {
    let mut pair = pair();
    let share = limits::INITIAL_WINDOW / limits::ACKS_PER_WINDOW;
    for wr_id in 0..4 * u64::from(share) {
        write(&mut pair, 100 + wr_id, SendFlags::empty());
        if wr_id % 16 == 15 {
            pair.run_for(500);
        }
    }
    pair.run();
    assert_eq!(pair.nodes[0].qp.send_queue_len(), 0);
    assert!(asked(&pair) >= 3, "{}", asked(&pair));
    assert_eq!(pair.nodes[0].counters.ack_timeout, 0);
}
