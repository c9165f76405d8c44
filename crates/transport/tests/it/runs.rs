//! Runs do what their packets do (docs/adr/020-one-copy.md).

use uroce_memory::{Access, Sge};
use uroce_transport::*;
use uroce_wire::Opcode;

use crate::harness::*;

/// Whatever a run would have to leave to packets stays as it was.
fn carry(pair: &mut Pair, from: usize, most: u32) -> u32 {
    let now = pair.now;
    let Some(run) = pair.nodes[from].qp.plan_run(most, u64::MAX) else { return 0 };
    let arrival = pair.arrival(1 - from, 0, pair.traffic_class);
    let [a, b] = &mut pair.nodes;
    let (sender, receiver) = if from == 0 { (a, b) } else { (b, a) };
    let Some(payload) = run.payload(&sender.mem) else { return 0 };
    let head = run.head().expect("a packet");
    let Ok(admitted) = receiver.qp.admits(&arrival, &head) else { return 0 };
    let context = cx!(receiver);
    if !receiver.qp.handle_run(now, &arrival, &run, &payload, admitted, context) {
        return 0;
    }
    sender.qp.pass_run(now, &run, cx!(sender));
    run.packets()
}

/// Moves packets without a wire: what leaves arrives, unless it is lost. With `most`, in runs of up to so many
/// packets where that is possible. Returns how many were in runs.
fn exchange(pair: &mut Pair, most: u32, lost: &mut dyn FnMut(&Seen) -> bool) -> u32 {
    let (mut carried, mut idle) = (0, 0);
    while idle < 2 {
        idle += 1;
        for from in 0..2 {
            let mut out = vec![0; limits::MAX_PACKET];
            for _ in 0..PACKETS_PER_TURN {
                let moved = if most > 0 { carry(pair, from, most) } else { 0 };
                carried += moved;
                if moved > 0 {
                    idle = 0;
                    continue;
                }
                let (now, node) = (pair.now, &mut pair.nodes[from]);
                let Some(sent) = node.qp.poll_transmit(now, &mut out, cx!(node)) else { break };
                idle = 0;
                let bytes = out[..sent.len].to_vec();
                let packet = uroce_wire::Packet::parse(&bytes).expect("ours");
                let (opcode, psn) = (packet.bth.opcode, packet.bth.psn.get());
                let at = pair.now;
                let seen = Seen { at, from, opcode, psn, bytes: bytes.clone(), path: sent.path };
                if !lost(&seen) {
                    pair.receive(1 - from, &bytes, 0);
                }
            }
        }
        // Nothing moves any more: only a timer can help.
        let timers = pair.nodes.iter().filter_map(|node| node.qp.poll_timeout());
        if let (2, Some(next)) = (idle, timers.min()) {
            pair.now = pair.now.max(next);
            for node in &mut pair.nodes {
                if node.qp.poll_timeout().is_some_and(|due| due <= next) {
                    node.qp.handle_timeout(next, cx!(node));
                }
            }
            idle = 0;
        }
    }
    carried
}

#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    memory: [Vec<u8>; 2],
    sends: Vec<Wc>,
    receives: Vec<Wc>,
    /// Packets that either end sent and accepted, and their bytes.
    counted: [(u64, u64); 2],
    psns: [u32; 4],
}

const LENGTH: u32 = 300 * 256 + 7;

fn messages(pair: &mut Pair, operation: usize) {
    let peer = &pair.nodes[1];
    let (va, rkey) = (peer.va(0), peer.rkey());
    let op = [SendOp::Send, SendOp::Write { va, rkey }, SendOp::Read { va, rkey }][operation];
    for id in 0..3 {
        let (own, there) = (pair.nodes[0].sge(0, LENGTH), pair.nodes[1].sge(0, LENGTH));
        pair.nodes[1].recv(id, &[there]).unwrap();
        pair.nodes[0].send(&wr_sges(id, op, &[own])).unwrap();
    }
}

fn outcome(setup: Setup, operation: usize, most: u32, nth_lost: Option<usize>) -> (Outcome, u32) {
    let mut pair = Pair::new(setup);
    for (node, seed) in pair.nodes.iter().zip(1..) {
        node.fill(0, &pattern(seed, LENGTH as usize));
    }
    messages(&mut pair, operation);
    let mut count = 0;
    let carried = exchange(&mut pair, most, &mut |seen| {
        let ends = seen.name().contains("LAST");
        count += usize::from(ends);
        ends && nth_lost == Some(count)
    });
    let [a, b] = &mut pair.nodes;
    let psn = |node: &Node| [node.qp.attr().sq_psn, node.qp.attr().rq_psn];
    let psns = [psn(a), psn(b)].concat().try_into().expect("four");
    let counted = [&*a, &*b].map(|n| (n.counters.sent_pkts, n.counters.rcvd_bytes));
    let memory = [&*a, &*b].map(|node| node.bytes(0, LENGTH as usize));
    (Outcome { memory, sends: a.sends(), receives: b.recvs(), counted, psns }, carried)
}

#[test]
fn r19_runs_do_what_their_packets_do() {
    for operation in 0..3 {
        let (mut packets, none) = outcome(Setup::default(), operation, 0, None);
        assert_eq!(none, 0);
        for most in [2, 7, 64, 1000] {
            let (mut runs, carried) = outcome(Setup::default(), operation, most, None);
            assert!(carried > 3 * 250, "{operation} {most}: only {carried}");
            // One ACK for a run: how many there are depends on its length. The rest is the same.
            for outcome in [&mut runs, &mut packets] {
                outcome.counted[1].0 = 0;
                outcome.counted[0].1 = 0;
            }
            assert!(runs.sends.iter().all(|wc| wc.is_ok()) && runs.sends.len() == 3);
            assert!(
                runs == packets,
                "{operation} {most}: {:?} {:?}",
                runs.counted,
                packets.counted
            );
        }
    }
}

#[test]
fn r53_what_is_lost_beside_runs_is_sent_again() {
    for setup in [Setup::default(), Setup::as_device()] {
        for operation in 0..3 {
            let (packets, _) = outcome(setup, operation, 0, Some(2));
            let (runs, carried) = outcome(setup, operation, 64, Some(2));
            assert!(carried > 500, "{operation}: only {carried}");
            assert!(runs.memory == packets.memory, "{operation}");
            assert_eq!((&runs.sends, &runs.receives), (&packets.sends, &packets.receives));
            assert_eq!(runs.psns, packets.psns);
        }
    }
}

/// A WRITE whose first packet has arrived, and whose middle is next.
fn begun(setup: Setup) -> Pair {
    let mut pair = Pair::new(setup);
    pair.nodes[0].fill(0, &pattern(9, LENGTH as usize));
    messages(&mut pair, 1);
    let mut out = vec![0; limits::MAX_PACKET];
    let (now, node) = (pair.now, &mut pair.nodes[0]);
    let first = node.qp.poll_transmit(now, &mut out, cx!(node)).expect("a FIRST");
    pair.receive(1, &out[..first.len], 0);
    pair
}

#[test]
fn r28_a_run_is_checked_like_its_packets() {
    let mut pair = begun(Setup::default());
    assert!(pair.nodes[0].qp.plan_run(64, u64::MAX).is_some());
    let id = pair.nodes[1].mr.id;
    pair.nodes[1].mem.dereg_mr(id).unwrap();
    let before = pair.nodes[1].bytes(256, 4096);
    assert_eq!(carry(&mut pair, 0, 64), 0, "the key is gone");
    assert_eq!(pair.nodes[1].bytes(256, 4096), before);
    exchange(&mut pair, 64, &mut |_| false);
    assert_eq!(pair.nodes[0].sends()[0].status, WcStatus::RemAccessErr);
}

#[test]
fn b12_the_sender_s_region_is_gone_before_the_run() {
    let mut pair = begun(Setup::default());
    let run = pair.nodes[0].qp.plan_run(64, u64::MAX).expect("a run");
    let id = pair.nodes[0].mr.id;
    pair.nodes[0].mem.dereg_mr(id).unwrap();
    assert!(run.payload(&pair.nodes[0].mem).is_none());
    exchange(&mut pair, 64, &mut |_| false);
    assert_eq!(pair.nodes[0].sends()[0].status, WcStatus::LocProtErr);
}

#[test]
fn r16_a_run_out_of_order_changes_nothing() {
    let mut pair = begun(Setup::as_device());
    let mut out = vec![0; limits::MAX_PACKET];
    let (now, node) = (pair.now, &mut pair.nodes[0]);
    // A middle packet that never arrives.
    node.qp.poll_transmit(now, &mut out, cx!(node)).expect("a MIDDLE");
    let rq_psn = pair.nodes[1].qp.attr().rq_psn;
    assert_eq!(carry(&mut pair, 0, 64), 0);
    assert_eq!(pair.nodes[1].qp.attr().rq_psn, rq_psn);
    exchange(&mut pair, 64, &mut |_| false);
    assert_eq!(pair.nodes[1].bytes(0, LENGTH as usize), pattern(9, LENGTH as usize));
}

#[test]
fn what_is_sent_again_and_what_has_no_room_is_no_run() {
    let pair = begun(Setup::default());
    assert!(pair.nodes[0].qp.plan_run(1, u64::MAX).is_none(), "one packet is none");
    assert!(pair.nodes[0].qp.plan_run(64, 256).is_none(), "no room for two");
    let run = pair.nodes[0].qp.plan_run(64, 5 * 256).expect("room for five");
    assert_eq!(run.packets(), 5);
    assert_eq!(run.head().expect("a packet").bth.opcode, Opcode::RC_WRITE_MIDDLE);
}

#[test]
fn other_services_and_other_path_mtus_take_no_runs() {
    for qp_type in [QpType::Uc, QpType::XrcIni] {
        let pair = begun(Setup { qp_type, ..Setup::default() });
        assert!(pair.nodes[0].qp.plan_run(64, u64::MAX).is_none());
    }
}

#[test]
fn r27_a_run_does_not_go_beyond_a_receive() {
    let mut pair = Pair::rc();
    let small: Sge = pair.nodes[1].sge(0, 20 * 256);
    pair.nodes[1].recv(1, &[small]).unwrap();
    let own = pair.nodes[0].sge(0, LENGTH);
    pair.nodes[0].fill(0, &pattern(3, LENGTH as usize));
    pair.nodes[0].send(&wr_sges(1, SendOp::Send, &[own])).unwrap();
    exchange(&mut pair, 64, &mut |_| false);
    assert_eq!(pair.nodes[0].sends()[0].status, WcStatus::RemInvReqErr);
    assert_eq!(pair.nodes[1].recvs()[0].status, WcStatus::LocLenErr);
    assert_eq!(pair.nodes[1].bytes(20 * 256, 4096), vec![0; 4096], "nothing beyond it");
}

#[test]
fn r36_without_the_right_to_write_a_run_writes_nothing() {
    let access = all_access() - Access::REMOTE_WRITE;
    let mut pair = Pair::new(Setup { access, ..Setup::default() });
    pair.nodes[0].fill(0, &pattern(3, LENGTH as usize));
    messages(&mut pair, 1);
    exchange(&mut pair, 64, &mut |_| false);
    assert_eq!(pair.nodes[0].sends()[0].status, WcStatus::RemInvReqErr);
    assert_eq!(pair.nodes[1].bytes(0, 8192), vec![0; 8192]);
}
