//! The responder's errors: gaps, RNR, class A and C, CQ overrun (R53 to R56, R63 to R66).

use uroce_memory::{Access, Region, Rkey};
use uroce_transport::*;
use uroce_wire::{Aeth, Bth, DropReason, HeaderWriter, NakCode, Opcode, Packet, Qpn, Syndrome};

use crate::harness::forge::*;
use crate::harness::*;

const QPN: Qpn = Qpn::new(QPNS[1]);

#[test]
fn r53_r55_one_nak_per_gap_then_silence() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let write = |offset: u32| Forged::write(EPSN + offset, va, rkey, &[1; 8]);
    let answers = pair.hit(&write(2));
    assert_eq!((said(&answers), msns(&answers)), (acknowledge(EPSN, NAK_SEQUENCE), vec![0]));
    for offset in [3, 4, 2, 1, 100] {
        assert_eq!(pair.reply(&write(offset)), []);
    }
    assert!(pair.nodes[1].bytes(0, 8) == [0; 8], "R55: nothing is executed");
    assert_eq!(pair.dropped(DropReason::PsnOutOfSequence), 1);
    assert_eq!(pair.dropped(DropReason::PsnNakPending), 5);
    // The expected packet ends the silence; the next gap draws one more NAK.
    assert_eq!(pair.reply(&write(0)), acknowledge(EPSN, ACK));
    assert_eq!(pair.reply(&write(3)), acknowledge(EPSN + 1, NAK_SEQUENCE));
    assert_eq!(pair.reply(&write(4)), []);
    assert_eq!((pair.state(), pair.expected()), (QpState::Rts, EPSN + 1));
}

#[test]
fn r53_a_duplicate_does_not_end_the_silence() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let write = |offset: u32| Forged::write(EPSN + offset, va, rkey, b"x");
    pair.hit(&write(0));
    assert_eq!(pair.reply(&write(2)), acknowledge(EPSN + 1, NAK_SEQUENCE));
    assert_eq!(pair.reply(&write(0)), acknowledge(EPSN, ACK));
    assert_eq!(pair.reply(&write(2)), []);
}

#[test]
fn r54_a_nak_is_taken_back_if_the_packet_was_only_late() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let write = |offset: u32| Forged::write(EPSN + offset, va, rkey, b"x");
    pair.give(&write(0).no_ack());
    pair.give(&write(2));
    pair.give(&write(1).no_ack());
    // What the NAK would have acknowledged is acknowledged.
    assert_eq!(said(&pair.collect()), acknowledge(EPSN, ACK));
    assert_eq!(pair.reply(&write(2)), acknowledge(EPSN + 2, ACK));
    // One that has left cannot be taken back.
    assert_eq!(pair.reply(&write(4)), acknowledge(EPSN + 3, NAK_SEQUENCE));
    assert_eq!(pair.reply(&write(3)), acknowledge(EPSN + 3, ACK));
}

#[test]
fn r54_a_nak_that_is_taken_back_behind_a_read_leaves_no_ack() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.give(&Forged::read(EPSN, va, rkey, 300));
    pair.give(&Forged::write(EPSN + 3, va, rkey, b"x"));
    pair.give(&Forged::write(EPSN + 2, va, rkey, b"x").no_ack());
    let answers = pair.collect();
    assert_eq!(answers.iter().map(|a| a.psn - EPSN).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn r54_a_nak_goes_out_behind_what_was_answered_before() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.give(&Forged::read(EPSN, va, rkey, 300));
    pair.give(&Forged::write(EPSN + 3, va, rkey, b"x"));
    let psns: Vec<_> = pair.collect().iter().map(|a| (a.psn - EPSN, a.syndrome())).collect();
    assert_eq!(psns, [(0, Some(ACK)), (1, Some(ACK)), (2, Some(NAK_SEQUENCE))]);
}

/// A queue pair that has executed one SEND, and was given these as well, when the peer refused a request of its own.
fn failed_behind(others: &[Forged]) -> Pair {
    let mut pair = Pair::rc();
    pair.post(1, 64, 64);
    pair.nodes[1].send(&wr_inline(9, SendOp::Send, &[b"x"])).unwrap();
    let own = pair.collect()[0].psn;
    pair.give(&Forged::send(EPSN, b"y"));
    others.iter().for_each(|other| pair.give(other));
    let syndrome = Syndrome::nak(NakCode::RemoteOperational);
    let write = |out: &mut HeaderWriter<'_>, _: &mut Bth| {
        out.put(&Aeth { syndrome, msn: 0 }).unwrap();
    };
    let nak = pair.forge(1, Opcode::RC_ACKNOWLEDGE, own, write, &[]);
    pair.receive(1, &nak, 0);
    assert_eq!(pair.state(), QpState::Err);
    pair
}

/// What this end has executed before it failed itself: the peer must not take it for lost.
#[test]
fn a_delivered_message_is_acknowledged_although_a_request_of_this_end_fails_behind_it() {
    let mut pair = failed_behind(&[]);
    assert_eq!(pair.received(), [(1, WcStatus::Success)]);
    assert_eq!(said(&pair.collect()), acknowledge(EPSN, ACK));
    assert_eq!(pair.reply(&Forged::send(EPSN + 1, b"z")), [], "the state takes nothing more");
}

/// What is missing would not be taken any more.
#[test]
fn a_queue_pair_that_has_failed_asks_for_nothing_that_is_missing() {
    let mut pair = failed_behind(&[Forged::send(EPSN + 2, b"z")]);
    assert_eq!(said(&pair.collect()), acknowledge(EPSN, ACK));
}

#[test]
fn r56_b15_no_sequence_nak_while_rnr_is_outstanding() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    assert_eq!(pair.reply(&Forged::send(EPSN, b"x")), acknowledge(EPSN, 0x2c));
    for offset in 1..5 {
        assert_eq!(pair.reply(&Forged::write(EPSN + offset, va, rkey, b"x")), []);
    }
    // Still nothing posted: the request itself draws RNR again, and silence follows again.
    assert_eq!(pair.reply(&Forged::send(EPSN, b"x")), acknowledge(EPSN, 0x2c));
    assert_eq!(pair.reply(&Forged::write(EPSN + 1, va, rkey, b"x")), []);
    pair.post(1, 64, 64);
    assert_eq!(pair.reply(&Forged::send(EPSN, b"x")), acknowledge(EPSN, ACK));
    assert_eq!(pair.nodes[1].bytes(0, 1), [0]);
}

#[test]
fn r64_gap_and_rnr_leave_the_state_alone() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    for _ in 0..100 {
        pair.hit(&Forged::send(EPSN, b"x"));
        pair.hit(&Forged::write(EPSN + 9, va, rkey, b"x"));
    }
    assert_eq!((pair.state(), pair.events()), (QpState::Rts, vec![]));
    assert_eq!(pair.received(), []);
    assert_eq!(pair.nodes[1].counters.send_rnr_err, 100);
}

#[test]
fn b17_a_storm_of_rnr_naks_holds_nothing() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let with_imm = Forged::data(Opcode::RC_WRITE_ONLY_IMM, EPSN, &[1; 8]).reth(va, rkey, 8).imm(1);
    for _ in 0..1000 {
        pair.hit(&with_imm);
    }
    let mr = pair.nodes[1].mr.id;
    pair.nodes[1].mem.dereg_mr(mr).unwrap();
    pair.post(1, 0, 0);
    assert_eq!(pair.reply(&with_imm), acknowledge(EPSN, NAK_ACCESS));
}

/// A class C error: exactly one NAK, the event or the failed receive, the flush, then nothing.
fn fails_once(pair: &mut Pair, forged: &Forged, syndrome: u8, in_use: Option<WcStatus>) {
    let next = forged.bth.psn.get() + 1;
    pair.post(7, 0, 64);
    pair.post(8, 0, 64);
    let before = pair.memory();
    let name = forged.bth.opcode;
    assert_eq!(pair.reply(forged), acknowledge(forged.bth.psn.get(), syndrome), "{name}");
    assert_eq!(pair.state(), QpState::Err);
    let first = in_use.unwrap_or(WcStatus::WrFlushErr);
    assert_eq!(pair.received(), [(7, first), (8, WcStatus::WrFlushErr)], "{name}");
    let event = match (in_use, syndrome) {
        (Some(_), _) => vec![],
        (None, NAK_ACCESS) => vec![AsyncEvent::QpAccessErr(QPN)],
        _ => vec![AsyncEvent::QpReqErr(QPN)],
    };
    assert_eq!(pair.events(), event, "{name}");
    // B26: the same packet, and others, again and again: nothing more happens.
    for _ in 0..1000 {
        pair.give(forged);
        pair.give(&Forged::send(next, b"late"));
    }
    assert_eq!((pair.collect().len(), pair.received()), (0, vec![]));
    assert_eq!(pair.events(), []);
    assert_eq!(pair.dropped(DropReason::ErrorState), 2000);
    assert!(pair.memory() == before);
    // R87: receives posted later flush.
    pair.post(9, 0, 64);
    assert_eq!(pair.received(), [(9, WcStatus::WrFlushErr)]);
}

#[test]
fn r63_b14_b25_b26_errors_without_a_receive_in_use() {
    let bogus = Rkey(0x1234);
    let cases: [(Forge, u8); 8] = [
        (|va, _| Forged::write(EPSN, va, Rkey(0x1234), b"x"), NAK_ACCESS),
        (|va, _| Forged::read(EPSN, va, Rkey(0x1234), 8), NAK_ACCESS),
        (|va, _| Forged::fetch_add(EPSN, va, Rkey(0x1234), 8), NAK_ACCESS),
        (|va, _| Forged::flush(EPSN, va, Rkey(0x1234), 8, (1, 0)), NAK_ACCESS),
        (|va, rkey| Forged::fetch_add(EPSN, va + 1, rkey, 8), NAK_INVALID),
        (|va, rkey| Forged::atomic_write(EPSN, va, rkey, 9, &[0; 8]), NAK_INVALID),
        (|_, _| Forged::data(Opcode::RC_WRITE_MIDDLE, EPSN, &[1; 256]), NAK_INVALID),
        (|va, rkey| Forged::read(EPSN, va, rkey, u32::MAX), NAK_INVALID),
    ];
    for (forge, syndrome) in cases {
        let mut pair = Pair::rc();
        let (va, rkey) = pair.target(0);
        assert_ne!(rkey, bogus);
        fails_once(&mut pair, &forge(va, rkey), syndrome, None);
    }
}

#[test]
fn r63_b26_errors_with_a_receive_in_use() {
    let mut pair = Pair::rc();
    let (va, _) = pair.target(0);
    let with_imm = Forged::data(Opcode::RC_WRITE_ONLY_IMM, EPSN, b"x").reth(va, Rkey(3), 1).imm(1);
    fails_once(&mut pair, &with_imm, NAK_ACCESS, Some(WcStatus::LocAccessErr));
    let mut pair = Pair::rc();
    let long = Forged::send(EPSN, &[1; 65]);
    fails_once(&mut pair, &long, NAK_INVALID, Some(WcStatus::LocLenErr));
    let mut pair = Pair::rc();
    let odd = Forged::send(EPSN, &[1; 3]).pad(2);
    fails_once(&mut pair, &odd, NAK_INVALID, Some(WcStatus::RemInvReqErr));
}

#[test]
fn r63_an_error_in_the_middle_of_a_message_with_an_srq() {
    let srq = Some(SrqAttr { max_wr: 8, max_sge: 1, limit: 0 });
    let mut pair = Pair::new(Setup { srq, ..Setup::default() });
    pair.post(1, 0, 1024);
    pair.post(2, 4096, 1024);
    pair.give(&Forged::data(Opcode::RC_SEND_FIRST, EPSN, &[1; 256]).no_ack());
    let bad = Forged::data(Opcode::RC_SEND_MIDDLE, EPSN + 1, &[1; 252]);
    assert_eq!(pair.reply(&bad), acknowledge(EPSN + 1, NAK_INVALID));
    assert_eq!(pair.received(), [(1, WcStatus::RemInvReqErr)]);
    assert_eq!(pair.events(), [AsyncEvent::QpLastWqeReached(QPN)]);
    let id = pair.nodes[1].qp.srq().unwrap();
    assert_eq!(pair.nodes[1].srqs.get(id).unwrap().len(), 1);
}

#[test]
fn r63_b26_a_disconnect_in_the_middle_of_a_message_completes_once() {
    let mut pair = Pair::rc();
    pair.post(1, 0, 1024);
    pair.post(2, 4096, 1024);
    pair.give(&Forged::data(Opcode::RC_SEND_FIRST, EPSN, &[1; 256]).no_ack());
    pair.nodes[1].enter_state(QpState::Err).unwrap();
    let last = Forged::data(Opcode::RC_SEND_LAST, EPSN + 1, &[1; 252]);
    for _ in 0..1000 {
        assert_eq!(pair.reply(&last), []);
    }
    assert_eq!(pair.received(), [(1, WcStatus::WrFlushErr), (2, WcStatus::WrFlushErr)]);
}

#[test]
fn r63_answers_of_earlier_requests_still_go_out_before_the_nak() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.give(&Forged::read(EPSN, va, rkey, 300));
    pair.give(&Forged::write(EPSN + 2, va, rkey, b"x"));
    pair.give(&Forged::write(EPSN + 3, va, Rkey(1), b"x"));
    let psns: Vec<_> = pair.collect().iter().map(|a| (a.psn - EPSN, a.syndrome())).collect();
    assert_eq!(psns, [(0, Some(ACK)), (1, Some(ACK)), (3, Some(NAK_ACCESS))]);
}

/// Starts a READ of `packets` packets from a region of its own, sends `sent` of them, and takes
/// the region away.
fn read_loses_its_memory(packets: u32, sent: u32) -> Pair {
    let mut pair = Pair::rc();
    let node = &mut pair.nodes[1];
    let region = Region::alloc(4096).unwrap();
    let access = Access::REMOTE_READ;
    let mr = node.mem.reg_mr(node.pd, region.clone(), region.addr(), access).unwrap();
    pair.give(&Forged::read(EPSN, region.addr(), mr.rkey, packets * 256));
    for _ in 0..sent {
        pair.next_answer().unwrap();
    }
    pair.nodes[1].mem.dereg_mr(mr.id).unwrap();
    pair
}

#[test]
fn b12_a_region_that_goes_away_while_it_is_read() {
    for sent in 0..4 {
        let mut pair = read_loses_its_memory(4, sent);
        let nak = acknowledge(EPSN + sent, NAK_ACCESS);
        assert_eq!(said(&pair.collect()), nak, "{sent} packets had gone out");
        assert_eq!(pair.events(), [AsyncEvent::QpAccessErr(QPN)]);
        assert_eq!(pair.state(), QpState::Err);
    }
    // Once all has been sent the QP does not notice.
    let mut pair = read_loses_its_memory(4, 4);
    assert_eq!((pair.collect().len(), pair.state()), (0, QpState::Rts));
}

#[test]
fn b12_b14_a_read_that_fails_behind_another_error_draws_one_nak_and_one_event() {
    let mut pair = read_loses_its_memory(2, 1);
    let (va, _) = pair.target(0);
    pair.give(&Forged::write(EPSN + 2, va, Rkey(1), b"x"));
    assert_eq!(said(&pair.collect()), acknowledge(EPSN + 1, NAK_ACCESS));
    assert_eq!(pair.events(), [AsyncEvent::QpAccessErr(QPN)]);
}

#[test]
fn b12_the_requester_completes_with_an_error_exactly_once() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let into = pair.nodes[0].sge(0, 60_000);
    pair.nodes[0].send(&wr_sges(1, SendOp::Read { va, rkey }, &[into])).unwrap();
    pair.nodes[0].send(&wr_sges(2, SendOp::Read { va, rkey }, &[into])).unwrap();
    while pair.seen(1, "READ_RESPONSE").len() < 100 {
        assert!(pair.step());
    }
    let mr = pair.nodes[1].mr.id;
    pair.nodes[1].mem.dereg_mr(mr).unwrap();
    pair.run();
    let done: Vec<_> = pair.nodes[0].sends().iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(done, [(1, WcStatus::RemAccessErr), (2, WcStatus::WrFlushErr)]);
    assert_eq!(pair.syndromes(1).len(), 1);
}

#[test]
fn b13_every_lost_response_packet_is_recovered_byte_for_byte() {
    for lost in 0..12 {
        let mut pair = Pair::rc();
        let data = pattern(5, 12 * 256 - 7);
        pair.nodes[1].fill(0, &data);
        let (va, rkey) = pair.target(0);
        let into = pair.nodes[0].sge(64, data.len() as u32);
        let mut count = 0;
        pair.filter(move |seen| {
            let response = seen.name().contains("READ_RESPONSE");
            count += usize::from(response);
            if response && count == lost + 1 { Fate::Drop } else { Fate::Deliver }
        });
        pair.nodes[0].send(&wr_sges(1, SendOp::Read { va, rkey }, &[into])).unwrap();
        pair.run();
        assert!(pair.nodes[0].sends()[0].is_ok());
        assert_eq!(pair.nodes[0].bytes(64, data.len()), data, "lost {lost}");
        assert_eq!(pair.nodes[0].bytes(64 + data.len(), 64), [0; 64]);
    }
}

#[test]
fn b21_an_executed_atomic_holds_nothing() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.hit(&Forged::fetch_add(EPSN, va, rkey, 1));
    pair.give(&Forged::fetch_add(EPSN + 1, va, rkey, 1));
    let node = &mut pair.nodes[1];
    node.qp.release(cx!(node));
    node.mem.dereg_mr(node.mr.id).unwrap();
    assert_eq!((pair.state(), pair.collect().len()), (QpState::Reset, 0));
}

#[test]
fn b32_changing_max_dest_rd_atomic_while_reads_are_answered() {
    for depth in [0, 1, 2, 4, 128] {
        let mut pair = Pair::rc();
        let (va, rkey) = pair.target(0);
        let reads: Vec<_> =
            (0..4).map(|i| Forged::read(EPSN + 3 * i, va + 8 * u64::from(i), rkey, 600)).collect();
        reads.iter().for_each(|read| pair.give(read));
        pair.next_answer().unwrap();
        pair.nodes[1].enter_state(QpState::Sqd).unwrap();
        let attr = QpAttr { max_dest_rd_atomic: depth, ..QpAttr::default() };
        pair.nodes[1].modify(&attr, QpAttrMask::MAX_DEST_RD_ATOMIC).unwrap();
        // What was granted is answered; afterwards the newest `depth` can be repeated.
        assert_eq!(pair.collect().len(), 11);
        for (index, read) in reads.iter().enumerate() {
            let kept = index + usize::from(depth) >= 4;
            assert_eq!(pair.hit(read).len(), if kept { 3 } else { 0 }, "{depth} {index}");
        }
        let next = pair.hit(&Forged::read(EPSN + 12, va, rkey, 8));
        let syndrome = if depth == 0 { NAK_INVALID } else { ACK };
        assert_eq!(next[0].syndrome(), Some(syndrome));
    }
}

#[test]
fn r65_class_d_is_silent() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let mut foreign_key = Forged::write(EPSN, va, rkey, b"x");
    foreign_key.bth.pkey = 1;
    let mut other_service = Forged::write(EPSN, va, rkey, b"x");
    other_service.bth.opcode = Opcode::UC_WRITE_ONLY;
    for forged in [foreign_key, other_service] {
        assert_eq!(pair.reply(&forged), []);
    }
    assert_eq!((pair.state(), pair.expected(), pair.events()), (QpState::Rts, EPSN, vec![]));
}

#[test]
fn r66_a_cq_that_overruns_takes_the_qp_down() {
    let mut pair = Pair::new(Setup { cqe: 2, ..Setup::default() });
    for wr_id in 0..5 {
        pair.post(wr_id, 0, 64);
    }
    for offset in 0..2 {
        assert_eq!(pair.reply(&Forged::send(EPSN + offset, b"x")), acknowledge(EPSN + offset, ACK));
    }
    // The third completion has no place: its message is not acknowledged.
    assert_eq!(pair.reply(&Forged::send(EPSN + 2, b"x")), []);
    let cq = pair.nodes[1].recv_cq;
    assert_eq!(pair.events(), [AsyncEvent::CqErr(cq)]);
    assert_eq!(pair.state(), QpState::Err);
    assert_eq!(pair.received(), [(0, WcStatus::Success), (1, WcStatus::Success)]);
    assert_eq!(pair.reply(&Forged::send(EPSN + 2, b"x")), []);
    assert!(pair.nodes[1].counters.lost_completions >= 1);
}

#[test]
fn b16_rnr_retry_counts_and_7_is_for_ever() {
    for rnr_retry in [0, 1, 6] {
        let mut pair = Pair::new(Setup { rnr_retry, ..Setup::default() });
        pair.nodes[0].send(&wr(1, SendOp::Send)).unwrap();
        pair.run();
        assert_eq!(pair.nodes[0].sends()[0].status, WcStatus::RnrRetryExcErr);
        assert_eq!(pair.syndromes(1).len(), usize::from(rnr_retry) + 1);
    }
    let mut pair = Pair::rc();
    pair.nodes[0].send(&wr(1, SendOp::Send)).unwrap();
    pair.run_for(1000 * MS);
    assert!(pair.syndromes(1).len() > 1000);
    pair.post(1, 0, 0);
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
}

/// A request with a mistake, and what becomes of it.
struct Mistake {
    /// The class of the error and what is wrong.
    name: &'static str,
    request: Forged,
    /// The key of the receive is wrong.
    bad_receive: bool,
    /// The syndrome of the answer, if there is one.
    answer: Option<u8>,
    /// How the receive completes, if it does.
    receive: Option<WcStatus>,
}

fn mistakes(va: u64) -> [Mistake; 7] {
    use WcStatus::{LocLenErr, LocProtErr, WrFlushErr};
    let mistake = |name, request, answer, receive| Mistake {
        name,
        request,
        bad_receive: false,
        answer,
        receive,
    };
    let middle = |psn| Forged::data(Opcode::RC_SEND_MIDDLE, psn, &[1; 256]);
    let (long, foreign) = (Forged::send(EPSN, &[1; 100]), Forged::write(EPSN, va, Rkey(1), b"x"));
    let (early, unknown) = (Forged::send(EPSN + 1, b"x"), Forged::data(Opcode(0x1f), EPSN, b"x"));
    let unusable = Forged::send(EPSN, &[1; 100]);
    [
        mistake("A: too short a receive", long, Some(NAK_INVALID), Some(LocLenErr)),
        Mistake {
            bad_receive: true,
            ..mistake("A: no usable receive", unusable, Some(NAK_OPERATIONAL), Some(LocProtErr))
        },
        mistake("B: out of sequence", early, Some(NAK_SEQUENCE), None),
        mistake("C: out of order", middle(EPSN), Some(NAK_INVALID), Some(WrFlushErr)),
        mistake("F: no access", foreign, Some(NAK_ACCESS), Some(WrFlushErr)),
        mistake("D: undefined", unknown, None, None),
        mistake("D: a duplicate that makes no sense", middle(EPSN - 1), Some(ACK), None),
    ]
}

#[test]
fn r120_each_class_of_error_has_its_answer_and_its_effect() {
    for index in 0..7 {
        let mut pair = Pair::rc();
        let Mistake { name, request, bad_receive, answer, receive } =
            mistakes(pair.target(0).0).into_iter().nth(index).unwrap();
        let mut target = pair.nodes[1].sge(0, if bad_receive { 256 } else { 64 });
        target.lkey.0 ^= if bad_receive { 0x100 } else { 0 };
        pair.nodes[1].recv(1, &[target]).unwrap();
        let before = pair.memory();
        // What is undefined does not reach a queue pair.
        let reaches = Packet::parse(&request.bytes()).is_ok();
        let answers = if reaches { pair.reply(&request) } else { vec![] };
        let syndromes: Vec<_> = answers.iter().filter_map(|(_, _, syndrome)| *syndrome).collect();
        assert_eq!(syndromes, Vec::from_iter(answer), "{name}");
        let completed: Vec<_> = pair.received().iter().map(|(_, status)| *status).collect();
        assert_eq!(completed, Vec::from_iter(receive), "{name}");
        assert_eq!(pair.state() == QpState::Err, receive.is_some(), "{name}");
        assert!(pair.memory()[256..] == before[256..], "{name}");
    }
}
