//! A32: a clock that jumps, as after a suspended host, and one that comes near its end.

use uroce_transport::*;

use crate::harness::*;

const SECOND: u64 = 1_000_000_000;
/// Milliseconds in 32 bits, in nanoseconds: 49.7 days.
const U32_MILLISECONDS: u64 = (1 << 32) * 1_000_000;

/// A pair with one retry only, and a WRITE of three packets of which the first transmission is lost.
fn lost_once() -> Pair {
    let mut pair = Pair::new(Setup { retry_cnt: 1, timeout: 14, ..Setup::default() });
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let source = pair.nodes[0].sge(0, 700);
    pair.filter(|_| Fate::Drop);
    pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, &[source])).unwrap();
    pair.run_for(10_000);
    pair.no_filter();
    pair
}

#[test]
fn a32_a_jump_forward_is_one_timeout_and_no_more() {
    for jump in [SECOND, 3600 * SECOND, U32_MILLISECONDS, 100 * U32_MILLISECONDS] {
        let mut pair = lost_once();
        pair.now = pair.now.add_ns(jump);
        pair.run();
        let done = pair.nodes[0].sends();
        assert!(done.len() == 1 && done[0].is_ok(), "after {jump} ns: {done:?}");
        assert_eq!(pair.nodes[0].counters.ack_timeout, 1);
    }
}

#[test]
fn a32_a_jump_back_delays_and_loses_nothing() {
    for jump in [1, 50 * 1_000_000, 10 * SECOND] {
        let mut pair = lost_once();
        // The harness begins at zero.
        pair.now = Instant::from_nanos(pair.now.as_nanos().saturating_sub(jump));
        pair.run();
        let done = pair.nodes[0].sends();
        assert!(done.len() == 1 && done[0].is_ok(), "after {jump} ns: {done:?}");
    }
}

/// 585 years after the origin deadlines saturate. What arrives is still handled; what waits for a timer waits.
#[test]
fn a32_at_the_end_of_time_packets_are_still_handled() {
    let mut pair = Pair::rc();
    pair.now = Instant::from_nanos(u64::MAX - 20_000);
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let source = pair.nodes[0].sge(0, 700);
    pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, &[source])).unwrap();
    pair.run_for(1_000_000);
    assert!(pair.nodes[0].sends()[0].is_ok());
}
