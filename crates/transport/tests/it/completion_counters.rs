//! Completion counters: which operations they count at both ends, signalled or not, and when one is attached.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use uroce_memory::Rkey;
use uroce_transport::*;

use crate::harness::*;

const LENGTH: u32 = 700;

fn values(counter: &CompletionCounter) -> (u64, u64) {
    (counter.completed.load(Ordering::Acquire), counter.failed.load(Ordering::Acquire))
}

/// A counter for each kind of operation, at both ends of a pair that is not connected yet.
fn counted(qp_type: QpType, unit: CounterUnit) -> (Pair, [Vec<Arc<CompletionCounter>>; 2]) {
    let mut pair = Pair::unconnected(Setup { qp_type, ..Setup::default() });
    let counters = [0, 1].map(|end| {
        let each = CountedOps::all().iter().map(|op| {
            let counter = Arc::new(CompletionCounter::new(unit));
            assert_eq!(pair.nodes[end].qp.attach_counter(op, &counter), Ok(()));
            counter
        });
        each.collect()
    });
    pair.connect();
    (pair, counters)
}

/// What each of them says: SEND, RECV, READ, REMOTE_READ, WRITE, REMOTE_WRITE.
fn successes(counters: &[Arc<CompletionCounter>]) -> Vec<u64> {
    counters.iter().map(|counter| values(counter).0).collect()
}

fn failures(counters: &[Arc<CompletionCounter>]) -> Vec<u64> {
    counters.iter().map(|counter| values(counter).1).collect()
}

/// One of each operation from node 0 to node 1, none of them signalled.
fn one_of_each(pair: &mut Pair, signaled: SendFlags) {
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let (from, to) = (pair.nodes[0].sge(0, LENGTH), pair.nodes[1].sge(0, LENGTH));
    for wr_id in 0..2 {
        pair.nodes[1].recv(wr_id, &[to]).unwrap();
    }
    let word = pair.nodes[0].sge(0, 8);
    for (op, sge) in [
        (SendOp::Send, from),
        (SendOp::Write { va, rkey }, from),
        (SendOp::WriteWithImm { va, rkey, imm: 1 }, from),
        (SendOp::Read { va, rkey }, from),
        (SendOp::FetchAdd { va, rkey, add: 1 }, word),
    ] {
        let wr = SendWr { flags: signaled, ..wr_sges(7, op, std::slice::from_ref(&sge)) };
        pair.nodes[0].send(&wr).unwrap();
        pair.run();
    }
}

#[test]
fn each_operation_is_counted_once_at_each_end_signalled_or_not() {
    for flags in [SendFlags::empty(), SendFlags::SIGNALED] {
        let (mut pair, counters) = counted(QpType::Rc, CounterUnit::WorkRequests);
        one_of_each(&mut pair, flags);
        assert_eq!(successes(&counters[0]), [1, 0, 1, 0, 2, 0]);
        assert_eq!(successes(&counters[1]), [0, 2, 0, 1, 0, 2]);
        assert_eq!([&counters[0], &counters[1]].map(|end| failures(end)), [[0; 6], [0; 6]]);
    }
}

#[test]
fn bytes_are_those_of_the_payload() {
    let (mut pair, counters) = counted(QpType::Rc, CounterUnit::Bytes);
    one_of_each(&mut pair, SendFlags::SIGNALED);
    let length = u64::from(LENGTH);
    assert_eq!(successes(&counters[0]), [length, 0, length, 0, 2 * length, 0]);
    assert_eq!(successes(&counters[1]), [0, 2 * length, 0, length, 0, 2 * length]);
}

#[test]
fn a_small_write_is_counted_on_its_short_way_too() {
    let (mut pair, counters) = counted(QpType::Rc, CounterUnit::Bytes);
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let from = [pair.nodes[0].sge(0, 8)];
    for _ in 0..4 {
        pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, &from)).unwrap();
        pair.run();
    }
    assert_eq!((values(&counters[0][4]), values(&counters[1][5])), ((32, 0), (32, 0)));
}

#[test]
fn a_write_that_the_peer_has_split_is_one() {
    for (unit, expected) in [(CounterUnit::WorkRequests, 6), (CounterUnit::Bytes, 6 * 700)] {
        for (entries, arrives) in [(1, 0), (2, 0), (1, 64)] {
            let (mut pair, counters) = counted(QpType::Rc, unit);
            pair.set_features(0, |features| features.split_writes = true);
            (pair.setup.train, pair.setup.arrives) = (arrives, arrives);
            let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
            let whole = [pair.nodes[0].sge(0, LENGTH)];
            let parts = [pair.nodes[0].sge(0, 300), pair.nodes[0].sge(300, LENGTH - 300)];
            let sges = if entries == 1 { &whole[..] } else { &parts[..] };
            for wr_id in 0..6 {
                pair.nodes[0].send(&wr_sges(wr_id, SendOp::Write { va, rkey }, sges)).unwrap();
            }
            pair.run();
            assert_eq!(pair.seen(0, "RC_WRITE_ONLY").len(), 18);
            let both = (values(&counters[0][4]), values(&counters[1][5]));
            assert_eq!(both, ((expected, 0), (expected, 0)), "{unit:?} {entries} {arrives}");
        }
    }
}

#[test]
fn what_fails_and_what_is_flushed_are_errors_of_their_kind() {
    let (mut pair, counters) = counted(QpType::Rc, CounterUnit::Bytes);
    let (va, from) = (pair.nodes[1].va(0), [pair.nodes[0].sge(0, 8)]);
    let to = pair.nodes[1].sge(0, 8);
    pair.nodes[1].recv(1, &[to]).unwrap();
    let rkey = Rkey(pair.nodes[1].rkey().0 ^ 1);
    pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, &from)).unwrap();
    pair.nodes[0].send(&wr_sges(2, SendOp::Read { va, rkey }, &from)).unwrap();
    pair.nodes[0].send(&wr_sges(3, SendOp::Send, &from)).unwrap();
    pair.run();
    assert_eq!(failures(&counters[0]), [1, 0, 1, 0, 1, 0], "refused, and flushed behind it");
    assert_eq!(failures(&counters[1]), [0, 1, 0, 0, 0, 1], "its receive was flushed");
    assert_eq!(successes(&counters[0]), [0; 6]);
}

#[test]
fn datagrams_are_counted_as_the_completion_says() {
    let (mut pair, counters) = counted(QpType::Ud, CounterUnit::Bytes);
    let to = pair.nodes[1].sge(0, 140);
    pair.nodes[1].recv(1, &[to]).unwrap();
    let from = [pair.nodes[0].sge(0, 100)];
    let wr = SendWr { ud: pair.ud_to(1), ..wr_sges(1, SendOp::Send, &from) };
    pair.nodes[0].send(&wr).unwrap();
    pair.run();
    assert_eq!((values(&counters[0][0]).0, values(&counters[1][1]).0), (100, 140));
}

#[test]
fn a_counter_is_attached_before_anything_moves_and_outlives_a_reset() {
    let mut pair = Pair::unconnected(Setup::default());
    let counter = Arc::new(CompletionCounter::default());
    let send = CountedOps::SEND;
    let qp = &mut pair.nodes[0].qp;
    assert_eq!(
        qp.attach_counter(CountedOps::empty(), &counter),
        Err(AttachCounterError::NoOperation)
    );
    assert_eq!(qp.attach_counter(send, &counter), Ok(()));
    assert_eq!(
        qp.attach_counter(send | CountedOps::RECV, &counter),
        Err(AttachCounterError::Overlap)
    );
    pair.connect();
    let late = pair.nodes[0].qp.attach_counter(CountedOps::RECV, &counter);
    assert_eq!(late, Err(AttachCounterError::WrongState(QpState::Rts)));
    pair.nodes[0].enter_state(QpState::Reset).unwrap();
    assert_eq!(Arc::strong_count(&counter), 2, "it stays attached");
    assert_eq!(pair.nodes[0].qp.attach_counter(send, &counter), Err(AttachCounterError::Overlap));
    drop(pair);
    assert_eq!(Arc::strong_count(&counter), 1);
}
