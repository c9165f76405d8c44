//! A responder keeps what comes behind a gap, and executes it in its turn (R53, R55, ADR 17).

use uroce_memory::Rkey;
use uroce_transport::*;
use uroce_wire::{Aeth, Bth, DropReason, HeaderWriter, Mtu, NakCode, Opcode, Syndrome};

use crate::harness::forge::*;
use crate::harness::*;

fn keeping(setup: Setup) -> Pair {
    Pair::new(Setup { keeps: [false, true], ..setup })
}

fn pair() -> Pair {
    keeping(Setup::default())
}

/// One byte at the place of its PSN.
fn write(pair: &Pair, offset: u32) -> Forged {
    let (va, rkey) = pair.target(offset as usize);
    Forged::write(EPSN + offset, va, rkey, &[(offset as u8).wrapping_add(1)])
}

fn kept(pair: &Pair) -> u64 {
    pair.nodes[1].counters.kept_request
}

fn lent(pair: &Pair) -> usize {
    pair.nodes[1].reorder_buffers.lent()
}

#[test]
fn r53_r55_what_comes_behind_a_gap_has_no_effect_until_the_gap_is_closed() {
    let mut pair = pair();
    assert_eq!(pair.reply(&write(&pair, 1)), acknowledge(EPSN, NAK_SEQUENCE));
    for offset in [3, 2, 5, 4] {
        assert_eq!(pair.reply(&write(&pair, offset)), [], "one NAK per gap, then silence");
    }
    assert_eq!(pair.nodes[1].bytes(0, 8), [0; 8], "R55: nothing is executed");
    assert_eq!((pair.expected(), kept(&pair), lent(&pair)), (EPSN, 5, 1));
    let answers = pair.hit(&write(&pair, 0).no_ack());
    assert_eq!((said(&answers), msns(&answers)), (acknowledge(EPSN + 5, ACK), vec![6]));
    assert_eq!(pair.nodes[1].bytes(0, 8), [1, 2, 3, 4, 5, 6, 0, 0]);
    assert_eq!((pair.expected(), lent(&pair)), (EPSN + 6, 0));
    assert_eq!(pair.dropped(DropReason::PsnOutOfSequence), 0, "kept is not dropped");
    assert_eq!(pair.dropped(DropReason::PsnNakPending), 0);
}

#[test]
fn r53_a_further_gap_is_reported_at_once_and_acknowledges_what_came_before() {
    let mut pair = pair();
    for offset in [1, 2, 4, 7] {
        pair.hit(&write(&pair, offset));
    }
    assert_eq!(pair.reply(&write(&pair, 0)), acknowledge(EPSN + 3, NAK_SEQUENCE));
    assert_eq!(pair.reply(&write(&pair, 8)), []);
    assert_eq!(pair.reply(&write(&pair, 3)), acknowledge(EPSN + 5, NAK_SEQUENCE));
    assert_eq!(pair.reply(&write(&pair, 5)), acknowledge(EPSN + 6, NAK_SEQUENCE));
    assert_eq!(pair.reply(&write(&pair, 6)), acknowledge(EPSN + 8, ACK));
    assert_eq!(pair.nodes[1].bytes(0, 9), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(pair.nodes[1].counters.out_of_seq_request, 4);
}

#[test]
fn r57_what_was_kept_and_comes_again_is_a_duplicate_and_the_first_one_counts() {
    let mut pair = pair();
    let (va, rkey) = pair.target(0);
    pair.hit(&Forged::write(EPSN + 1, va, rkey, b"first"));
    assert_eq!(pair.reply(&Forged::write(EPSN + 1, va, rkey, b"other")), []);
    assert_eq!((kept(&pair), pair.dropped(DropReason::PsnNakPending)), (1, 1));
    assert_eq!(pair.reply(&Forged::write(EPSN, va, rkey, b"zero")), acknowledge(EPSN + 1, ACK));
    assert_eq!(pair.nodes[1].bytes(0, 5), *b"first");
    let answer = pair.reply(&Forged::write(EPSN + 1, va, rkey, b"again"));
    assert_eq!(answer, acknowledge(EPSN + 1, ACK));
    assert_eq!(pair.nodes[1].bytes(0, 5), *b"first");
}

#[test]
fn r55_a_kept_packet_never_overrules_the_one_at_the_expected_psn() {
    let mut pair = pair();
    let (va, rkey) = pair.target(0);
    pair.hit(&Forged::write(EPSN + 2, va, rkey, b"forged"));
    pair.hit(&Forged::write(EPSN, va, rkey, b"0"));
    // The forger's place is still ahead; what comes in sequence is executed as it comes.
    pair.hit(&Forged::write(EPSN + 1, va, rkey, b"1"));
    assert_eq!(pair.expected(), EPSN + 3);
    let (mut pair, psn) = (self::pair(), EPSN + 300);
    pair.hit(&Forged::write(psn, va, rkey, b"forged"));
    assert_eq!((kept(&pair), pair.dropped(DropReason::PsnOutOfSequence)), (0, 1), "out of reach");
}

#[test]
fn r45_one_window_is_kept_at_every_mtu_and_no_more() {
    for mtu in Mtu::ALL {
        let mut pair = keeping(Setup { mtu, ..Setup::default() });
        let window = (limits::SHORT_PATH_WINDOW_BYTES as usize / mtu.bytes()).min(256) as u32;
        for offset in (1..=window).rev() {
            pair.give(&write(&pair, offset));
        }
        assert_eq!((kept(&pair), lent(&pair)), (u64::from(window) - 1, 1), "{mtu}");
        pair.collect();
        assert_eq!(pair.reply(&write(&pair, 0)), acknowledge(EPSN + window - 1, ACK), "{mtu}");
    }
}

#[test]
fn r39_messages_and_their_receives_complete_in_order() {
    let mut pair = pair();
    pair.post(1, 0, 600);
    pair.post(2, 1000, 600);
    let first = Forged::data(Opcode::RC_SEND_FIRST, EPSN, &[1; 256]);
    let last = Forged::data(Opcode::RC_SEND_LAST, EPSN + 1, &[2; 44]);
    let only = Forged::data(Opcode::RC_SEND_ONLY_IMM, EPSN + 2, b"three").imm(9);
    pair.hit(&only);
    pair.hit(&last);
    assert_eq!(pair.received(), []);
    assert_eq!(pair.reply(&first), acknowledge(EPSN + 2, ACK));
    let done = pair.nodes[1].recvs();
    let seen: Vec<_> = done.iter().map(|wc| (wc.wr_id, wc.byte_len, wc.imm)).collect();
    assert_eq!(seen, [(1, 300, None), (2, 5, Some(9))]);
    assert_eq!(pair.nodes[1].bytes(1000, 5), *b"three");
}

#[test]
fn r28_a_kept_request_is_checked_when_it_is_executed() {
    let mut pair = pair();
    let behind = write(&pair, 1);
    pair.hit(&behind);
    pair.hit(&write(&pair, 2));
    let mr = pair.nodes[1].mr.id;
    pair.nodes[1].mem.dereg_mr(mr).unwrap();
    // Its key was good when it came, and is not any more.
    let empty = Forged::write(EPSN, 0, Rkey(0), b"");
    assert_eq!(pair.reply(&empty), acknowledge(EPSN + 1, NAK_ACCESS));
    assert_eq!((pair.state(), lent(&pair)), (QpState::Err, 0));
    assert_eq!(pair.events(), [AsyncEvent::QpAccessErr(pair.nodes[1].qp.qpn())]);
    assert_eq!(pair.nodes[1].bytes(0, 4), [0; 4]);
}

#[test]
fn r63_a_kept_request_that_is_wrong_draws_one_nak_in_its_turn() {
    let mut pair = pair();
    pair.hit(&Forged::data(Opcode::RC_WRITE_MIDDLE, EPSN + 1, &[1; 256]));
    pair.hit(&write(&pair, 2));
    assert_eq!((pair.state(), pair.events()), (QpState::Rts, vec![]), "not before");
    assert_eq!(pair.reply(&write(&pair, 0)), acknowledge(EPSN + 1, NAK_INVALID));
    assert_eq!((pair.state(), lent(&pair)), (QpState::Err, 0));
    assert_eq!(pair.nodes[1].bytes(0, 3), [1, 0, 0]);
}

#[test]
fn r37_r56_an_rnr_drops_what_is_kept_and_nothing_is_kept_behind_it() {
    let mut pair = pair();
    pair.hit(&Forged::send(EPSN + 1, b"x"));
    pair.hit(&write(&pair, 2));
    assert_eq!(pair.reply(&write(&pair, 0)), acknowledge(EPSN + 1, 0x2c));
    assert_eq!((lent(&pair), pair.expected()), (0, EPSN + 1));
    assert_eq!(pair.dropped(DropReason::RnrPending), 1, "the SEND");
    assert_eq!(pair.dropped(DropReason::KeptDiscarded), 1, "the WRITE behind it");
    pair.post(1, 64, 64);
    assert_eq!(pair.reply(&write(&pair, 3)), []);
    assert_eq!((kept(&pair), pair.dropped(DropReason::PsnNakPending)), (2, 1));
    assert_eq!(pair.reply(&Forged::send(EPSN + 1, b"x")), acknowledge(EPSN + 1, ACK));
    assert_eq!(pair.nodes[1].bytes(2, 2), [0; 2]);
}

#[test]
fn r20_reads_and_atomics_are_not_kept_but_seen() {
    let mut pair = pair();
    let (va, rkey) = pair.target(0);
    pair.hit(&write(&pair, 1));
    assert_eq!(pair.reply(&Forged::fetch_add(EPSN + 2, va + 64, rkey, 1)), []);
    pair.hit(&Forged::write(EPSN + 3, va + 3, rkey, b"d"));
    assert_eq!((kept(&pair), pair.dropped(DropReason::PsnNakPending)), (2, 1));
    assert_eq!(pair.reply(&write(&pair, 0)), acknowledge(EPSN + 2, NAK_SEQUENCE));
    let answers = pair.hit(&Forged::fetch_add(EPSN + 2, va + 64, rkey, 1));
    assert_eq!(answers.iter().map(|seen| seen.psn - EPSN).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(pair.nodes[1].region.load_u64(64).unwrap(), 1, "I5: once");
    assert_eq!(pair.nodes[1].bytes(0, 4), [1, 2, 0, b'd']);
}

#[test]
fn r18_a_read_at_the_gap_passes_by_what_lies_at_its_psns() {
    let mut pair = pair();
    let (va, rkey) = pair.target(0);
    // The first two would have PSNs of the READ's responses: no honest peer sends them.
    for offset in [1, 2, 3] {
        pair.hit(&write(&pair, offset));
    }
    let answers = pair.hit(&Forged::read(EPSN, va + 512, rkey, 700));
    let psns: Vec<_> = answers.iter().map(|seen| seen.psn - EPSN).collect();
    assert_eq!(psns, [0, 1, 2, 3]);
    assert_eq!(pair.nodes[1].bytes(0, 4), [0, 0, 0, 4]);
    assert_eq!((pair.expected(), lent(&pair)), (EPSN + 4, 0));
}

#[test]
fn r57_a_read_that_was_missing_is_not_acknowledged_beside_its_response() {
    let mut pair = pair();
    let (va, rkey) = pair.target(0);
    // A second READ is behind the first one, and is not kept.
    pair.hit(&Forged::read(EPSN + 4, va, rkey, 8));
    let answers = pair.hit(&Forged::read(EPSN, va, rkey, 1000));
    let (responses, ack) = answers.split_at(4);
    assert_eq!(responses.iter().map(|a| a.psn - EPSN).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(ack.iter().all(|ack| ack.psn.wrapping_sub(EPSN) & 0xff_ffff > 3), "{:?}", said(ack));
}

#[test]
fn r54_a_packet_that_was_only_late_draws_no_nak() {
    let mut pair = pair();
    pair.give(&write(&pair, 1));
    pair.give(&write(&pair, 2));
    pair.give(&write(&pair, 0).no_ack());
    assert_eq!(said(&pair.collect()), acknowledge(EPSN + 2, ACK));
}

/// A packet of a long message.
fn part(opcode: Opcode, offset: u32) -> Forged {
    Forged::data(opcode, EPSN + offset, &[7; 256])
}

/// A WRITE of four packets without its second one, of which the third asks for an ACK; and the packets from the second on.
fn with_a_missing_middle() -> (Pair, [Forged; 3]) {
    let mut pair = pair();
    let (va, rkey) = pair.target(0);
    let first = part(Opcode::RC_WRITE_FIRST, 0).reth(va, rkey, 1024).no_ack();
    let missing = part(Opcode::RC_WRITE_MIDDLE, 1).no_ack();
    let (asking, last) = (part(Opcode::RC_WRITE_MIDDLE, 2), part(Opcode::RC_WRITE_LAST, 3));
    for packet in [&first, &asking, &last] {
        pair.hit(packet);
    }
    (pair, [missing, asking, last])
}

/// A requester that goes back sends the end of the message again, too, and that draws the ACK: rxe would take an ACK before it for the
/// last one there will be. One that has heard of no gap sends nothing again.
#[test]
fn r57_the_middle_of_a_message_that_closes_a_gap_leaves_the_ack_to_its_end() {
    let begin = || {
        let mut pair = pair();
        let (va, rkey) = pair.target(0);
        pair.hit(&part(Opcode::RC_WRITE_FIRST, 0).reth(va, rkey, 768).no_ack());
        pair
    };
    let (middle, last) =
        (part(Opcode::RC_WRITE_MIDDLE, 1).no_ack(), part(Opcode::RC_WRITE_LAST, 2));
    let ack = acknowledge(EPSN + 2, ACK);
    let mut pair = begin();
    assert_eq!(pair.reply(&last), acknowledge(EPSN + 1, NAK_SEQUENCE));
    assert_eq!((pair.reply(&middle), pair.expected()), (vec![], EPSN + 3));
    assert_eq!((pair.nodes[1].bytes(0, 768), lent(&pair)), (vec![7; 768], 0));
    assert_eq!(pair.reply(&last), ack);
    for (reserved7, ack_req) in [(uroce_wire::TAKES_GAP_LISTS, false), (0, true)] {
        let mut pair = begin();
        pair.hit(&last);
        let mut middle = middle.clone();
        (middle.bth.reserved7, middle.bth.ack_req) = (reserved7, ack_req);
        assert_eq!(pair.reply(&middle), ack);
    }
    let mut pair = begin();
    pair.give(&last);
    pair.give(&middle);
    assert_eq!(said(&pair.collect()), ack, "it was only late");
}

/// It goes back to the first gap, and so closes those behind it before it has heard of them.
#[test]
fn r57_a_requester_that_goes_back_closes_all_gaps_before_its_ack() {
    let mut pair = pair();
    let (va, rkey) = pair.target(0);
    let middle = |offset| part(Opcode::RC_WRITE_MIDDLE, offset).no_ack();
    let first = part(Opcode::RC_WRITE_FIRST, 0).reth(va, rkey, 1280).no_ack();
    let last = part(Opcode::RC_WRITE_LAST, 4);
    for packet in [&first, &middle(2), &last] {
        pair.hit(packet);
    }
    for offset in 1..4 {
        pair.give(&middle(offset));
    }
    // In place of the NAK that the second gap would have drawn.
    assert_eq!(said(&pair.collect()), acknowledge(EPSN + 2, ACK));
    assert_eq!((pair.expected(), pair.reply(&last)), (EPSN + 5, acknowledge(EPSN + 4, ACK)));
}

/// A duplicate that asks for an ACK before the end comes again gets one that leaves the end out: no ACK has had its PSN yet, and rxe is
/// still sending it.
#[test]
fn r57_the_end_of_what_was_kept_is_acknowledged_when_it_comes_again() {
    let (mut pair, [missing, asking, last]) = with_a_missing_middle();
    assert_eq!((pair.reply(&missing), pair.expected()), (vec![], EPSN + 4));
    pair.now = pair.now.add_ns(limits::DELAYED_ACK_NS / 2);
    assert_eq!(
        (pair.reply(&asking), pair.after(limits::DELAYED_ACK_NS - 1)),
        (acknowledge(EPSN + 2, ACK), vec![])
    );
    for (packet, psn, msn) in [(&asking, 2, 0), (&last, 3, 1), (&asking, 3, 1)] {
        let answers = pair.hit(packet);
        assert_eq!((said(&answers), msns(&answers)), (acknowledge(EPSN + psn, ACK), vec![msn]));
    }
}

/// The missing packet comes behind others that were sent again with it, one of which has asked for an ACK: no other asks again. The end is
/// left out, since nobody can tell whether it is on its way once more, but not for long.
#[test]
fn r57_a_packet_that_comes_behind_what_was_sent_again_with_it_draws_an_ack() {
    let cases: [(&[usize], u64); 2] =
        [(&[1, 2], limits::DELAYED_ACK_SENT_AGAIN_NS), (&[1], limits::DELAYED_ACK_NS)];
    for (again, wait_ns) in cases {
        let (mut pair, packets) = with_a_missing_middle();
        for index in again {
            assert_eq!(pair.reply(&packets[*index]), [], "it is kept already");
        }
        let answers = pair.hit(&packets[0]);
        assert_eq!((said(&answers), msns(&answers)), (acknowledge(EPSN + 2, ACK), vec![0]));
        pair.now = pair.now.add_ns(wait_ns - 1);
        assert_eq!(pair.reply(&packets[0]), [], "the beginning of a repetition, or a copy");
        let ack = acknowledge(EPSN + 3, ACK);
        assert_eq!((pair.after(wait_ns - 1), pair.after(1)), (vec![], ack));
    }
    let (mut pair, [missing, asking, last]) = with_a_missing_middle();
    for packet in [&asking, &last, &missing] {
        pair.hit(packet);
    }
    assert_eq!(pair.reply(&last), acknowledge(EPSN + 3, ACK), "it was on its way");
}

/// The same between two queue pairs, the requester of which goes back: nothing is lost, and nobody waits for a timeout.
#[test]
fn r57_a_requester_that_goes_back_is_not_left_alone_when_packets_are_late() {
    const LATE: u32 = 0x105;
    let mut pair = pair();
    pair.latency_ns = 10_000;
    let mut delays = [25_000, 5_000].into_iter();
    pair.filter(move |seen| match (seen.from, seen.psn) {
        (0, LATE) => delays.next().map_or(Fate::Deliver, Fate::Delay),
        _ => Fate::Deliver,
    });
    let (va, rkey) = pair.target(0);
    let source = pair.nodes[0].sge(0, 5120);
    let start = pair.now;
    pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, &[source])).unwrap();
    while pair.nodes[0].qp.send_queue_len() > 0 && pair.step() {}
    let waited = pair.now.since(start);
    assert!(waited < 2 * limits::DELAYED_ACK_SENT_AGAIN_NS, "{waited} ns");
}

/// Each ACK that leaves the end out begins the time anew within which the end has to come.
#[test]
fn r57_the_end_of_a_long_message_may_take_as_long_as_its_packets_come() {
    const PACKETS: u32 = 12;
    let mut pair = pair();
    let (va, rkey) = pair.target(0);
    let packet = |offset| match offset {
        0 => part(Opcode::RC_WRITE_FIRST, 0).reth(va, rkey, PACKETS * 256).no_ack(),
        _ if offset + 1 == PACKETS => part(Opcode::RC_WRITE_LAST, offset),
        _ if offset % 3 == 0 => part(Opcode::RC_WRITE_MIDDLE, offset),
        _ => part(Opcode::RC_WRITE_MIDDLE, offset).no_ack(),
    };
    (0..PACKETS).filter(|offset| *offset != 1).for_each(|offset| drop(pair.hit(&packet(offset))));
    for offset in 1..PACKETS {
        let answer = match packet(offset).bth.ack_req {
            true if offset + 1 == PACKETS => acknowledge(EPSN + PACKETS - 1, ACK),
            true => acknowledge(EPSN + PACKETS - 2, ACK),
            false => vec![],
        };
        assert_eq!(pair.reply(&packet(offset)), answer, "{offset}");
        assert_eq!(pair.after(10_000_000), [], "{offset}");
    }
}

/// R44: a further gap for whose NAK there is no budget is no reason to say nothing of what came before it.
#[test]
fn r44_what_was_kept_before_a_gap_that_draws_no_nak_is_acknowledged_after_a_while() {
    let mut pair = pair();
    let (va, rkey) = pair.target(0);
    let middle = |offset| part(Opcode::RC_WRITE_MIDDLE, offset).no_ack();
    let first = part(Opcode::RC_WRITE_FIRST, 0).reth(va, rkey, 1280).no_ack();
    for packet in [&first, &middle(2), &part(Opcode::RC_WRITE_LAST, 4)] {
        pair.hit(packet);
    }
    let asking = first.ack_req();
    while pair.dropped(DropReason::ReplyBudget) == 0 {
        pair.hit(&asking);
    }
    assert_eq!((pair.reply(&middle(1)), pair.expected()), (vec![], EPSN + 3));
    assert_eq!(pair.after(limits::DELAYED_ACK_NS), acknowledge(EPSN + 2, ACK));
}

/// R44: it is said to send again all that comes behind a gap, but it may send no more than what it was told is missing.
#[test]
fn r44_what_was_kept_is_acknowledged_after_a_while_if_its_end_does_not_come_again() {
    let ack = acknowledge(EPSN + 3, ACK);
    let (mut pair, [missing, _, _]) = with_a_missing_middle();
    assert_eq!((pair.reply(&missing), pair.after(limits::DELAYED_ACK_NS - 1)), (vec![], vec![]));
    assert_eq!((pair.after(1), pair.after(limits::DELAYED_ACK_NS)), (ack.clone(), vec![]));
    assert_eq!(pair.nodes[1].counters.delayed_ack, 1);
    // Sent once more in vain, it is answered the next time.
    let (mut pair, [missing, _, _]) = with_a_missing_middle();
    let answers = [(); 3].map(|()| {
        pair.now = pair.now.add_ns(limits::DELAYED_ACK_COPY_NS);
        pair.reply(&missing)
    });
    assert_eq!(answers, [vec![], vec![], ack]);
}

/// R43: a message that was delivered is acknowledged, although its end will not be taken again.
#[test]
fn r43_what_was_kept_is_acknowledged_when_its_queue_pair_fails() {
    let (mut pair, [missing, _, _]) = with_a_missing_middle();
    pair.nodes[1].send(&wr_inline(9, SendOp::Send, &[b"x"])).unwrap();
    let own = pair.collect()[0].psn;
    assert_eq!(pair.reply(&missing), []);
    let syndrome = Syndrome::nak(NakCode::RemoteOperational);
    let write = |out: &mut HeaderWriter<'_>, _: &mut Bth| {
        out.put(&Aeth { syndrome, msn: 0 }).unwrap();
    };
    let nak = pair.forge(1, Opcode::RC_ACKNOWLEDGE, own, write, &[]);
    pair.receive(1, &nak, 0);
    assert_eq!(pair.state(), QpState::Err);
    assert_eq!(said(&pair.collect()), acknowledge(EPSN + 3, ACK));
}

/// A requester that takes gap lists sends only what is missing: its first repetition may be the first that tells so.
#[test]
fn r57_a_repetition_of_a_requester_that_takes_gap_lists_draws_the_ack_of_all() {
    let (mut pair, [missing, _, _]) = with_a_missing_middle();
    assert_eq!(pair.reply(&missing), [], "it was only late");
    let mut again = missing.ack_req();
    again.bth.reserved7 = uroce_wire::TAKES_GAP_LISTS;
    assert_eq!(pair.reply(&again), acknowledge(EPSN + 3, ACK));
}

/// I7: the MSN of an RNR NAK counts the message whose end is not acknowledged yet, and no later answer has a lower one.
#[test]
fn r50_an_rnr_nak_behind_what_was_kept_tells_of_its_end() {
    let (mut pair, [missing, asking, _]) = with_a_missing_middle();
    pair.hit(&missing);
    for (packet, psn) in [(Forged::send(EPSN + 4, b"x"), 4), (asking, 3)] {
        let answers = pair.hit(&packet);
        assert_eq!((answers[0].psn, msns(&answers)), (EPSN + psn, vec![1]));
    }
}

#[test]
fn r91_reset_error_and_another_path_forget_what_is_kept() {
    let forget: [fn(&mut Pair); 3] = [
        |pair| pair.nodes[1].enter_state(QpState::Err).unwrap(),
        |pair| pair.reconnect(),
        |pair| {
            pair.nodes[1].enter_state(QpState::Sqd).unwrap();
            let attr = pair.nodes[1].qp.attr();
            pair.nodes[1].modify(&attr, QpAttrMask::AV).unwrap();
        },
    ];
    for forget in forget {
        let mut pair = pair();
        pair.hit(&write(&pair, 1));
        pair.hit(&write(&pair, 2));
        assert_eq!(lent(&pair), 1);
        forget(&mut pair);
        assert_eq!((lent(&pair), pair.dropped(DropReason::KeptDiscarded)), (0, 2));
        if pair.state() != QpState::Err {
            pair.hit(&write(&pair, 0));
            assert_eq!((pair.expected(), pair.nodes[1].bytes(0, 2)), (EPSN + 1, vec![1, 0]));
        }
    }
    let mut pair = pair();
    pair.hit(&write(&pair, 1));
    let node = &mut pair.nodes[1];
    node.qp.release(cx!(node));
    assert_eq!(node.reorder_buffers.lent(), 0, "R93");
}

#[test]
fn r91_a_reset_leaves_it_switched_on() {
    let mut pair = pair();
    pair.reconnect();
    pair.hit(&write(&pair, 1));
    assert_eq!(pair.reply(&write(&pair, 0)), acknowledge(EPSN + 1, ACK));
}

#[test]
fn a9_packets_behind_the_expected_psn_draw_one_nak_and_change_nothing() {
    let mut pair = pair();
    let before = pair.memory();
    let mut answers = 0;
    // At random PSNs a forger has one block, and hits it seldom.
    let psns = (1..20_000u32).map(|index| 1 + index.wrapping_mul(0x9e37_79b9) % ((1 << 23) - 1));
    for offset in psns {
        let (va, rkey) = pair.target(0);
        answers += pair.hit(&Forged::write(EPSN + offset, va, rkey, b"forged")).len();
    }
    assert!(kept(&pair) < 10 && lent(&pair) == 1, "{} {}", kept(&pair), lent(&pair));
    let kept_before = kept(&pair);
    for offset in 1..20_000u32 {
        let (va, rkey) = pair.target(0);
        answers += pair.hit(&Forged::write(EPSN + offset, va, rkey, b"forged")).len();
    }
    assert_eq!(answers, 1);
    assert_eq!((pair.expected(), pair.state()), (EPSN, QpState::Rts));
    // Each follows the one before it, as in a window of 16 MiB.
    let most = u64::from(limits::MAX_WINDOW) - 1;
    assert!(kept_before < most);
    assert_eq!((kept(&pair), lent(&pair)), (most, limits::REORDER_BLOCKS_PER_QP - 1));
    assert!(pair.memory() == before);
}

/// The requester takes gap lists: it has asked for one in what it sent again. The next PSN is `EPSN + 2`.
fn with_lists() -> Pair {
    let mut pair = pair();
    pair.hit(&write(&pair, 1));
    let mut again = write(&pair, 0);
    again.bth.reserved7 = uroce_wire::TAKES_GAP_LISTS;
    assert_eq!(pair.reply(&again), acknowledge(EPSN + 1, ACK));
    pair
}

/// A packet of the requester that asks for a list.
fn asking(pair: &Pair, offset: u32) -> Forged {
    let mut packet = write(pair, offset).no_ack();
    packet.bth.reserved7 = uroce_wire::TAKES_GAP_LISTS;
    packet
}

#[test]
fn r53_a_requester_that_takes_lists_is_told_again_when_it_asks_behind_all_that_was_known() {
    let mut pair = with_lists();
    let nak = acknowledge(EPSN + 2, NAK_SEQUENCE);
    assert_eq!(pair.reply(&write(&pair, 5)), nak);
    assert_eq!(pair.reply(&asking(&pair, 4)), [], "known to be on its way when it was told");
    assert_eq!(pair.reply(&asking(&pair, 6)), nak);
    assert_eq!(pair.reply(&asking(&pair, 6)), [], "a copy");
    let far = 6 + limits::PSNS_UNTIL_TOLD_AGAIN;
    assert_eq!(pair.reply(&write(&pair, far)), [], "an ACK is asked for, and not a list");
    assert_eq!(pair.reply(&write(&pair, far + 1)), nak);
    // Others hear of a gap once.
    let mut pair = self::pair();
    pair.hit(&write(&pair, 1));
    assert_eq!(pair.reply(&asking(&pair, 2)), []);
    assert_eq!(pair.reply(&write(&pair, 200)), []);
}

/// A READ that was seen behind a gap is not kept, and gets a NAK of its own: no list names it, and no ACK says that it is on its
/// way (ADR 33), although there was another one before it.
#[test]
fn r53_a_list_ends_before_each_read_that_was_seen() {
    let mut pair = with_lists();
    let read = |pair: &Pair, offset| {
        let (va, rkey) = pair.target(0);
        Forged::read(EPSN + offset, va, rkey, 8)
    };
    assert_eq!(pair.reply(&write(&pair, 3)), acknowledge(EPSN + 2, NAK_SEQUENCE));
    for behind_the_gap in [read(&pair, 4), write(&pair, 6), read(&pair, 7), write(&pair, 9)] {
        assert_eq!(pair.reply(&behind_the_gap), []);
    }
    assert_eq!(pair.reply(&write(&pair, 2)), acknowledge(EPSN + 4, NAK_SEQUENCE));
    pair.hit(&read(&pair, 4));
    // What is told at 5 ends before the READ at 7.
    assert_eq!(pair.expected(), EPSN + 5);
    assert_eq!(pair.reply(&asking(&pair, 10)), acknowledge(EPSN + 5, NAK_SEQUENCE));
    assert_eq!(pair.reply(&write(&pair, 5)), acknowledge(EPSN + 7, NAK_SEQUENCE));
}

/// The last PSN that was seen only grows, and there is an end to what a reorder buffer reaches.
#[test]
fn a9_packets_that_ask_for_lists_out_of_reach_draw_no_nak() {
    let mut pair = with_lists();
    let mut answers = 0;
    let psns = (1..20_000u32).map(|index| 2 + index.wrapping_mul(0x9e37_79b9) % ((1 << 23) - 3));
    for offset in psns {
        answers += pair.hit(&asking(&pair, offset)).len();
    }
    assert!(answers < 10, "{answers}");
    assert_eq!((pair.expected(), pair.state()), (EPSN + 2, QpState::Rts));
}

#[test]
fn s9_without_a_buffer_to_borrow_packets_are_dropped_as_ever() {
    // The buffers of a device are lent to as many other queue pairs.
    let mut pair = pair();
    let mut hoard: Vec<Pair> = (0..limits::REORDER_BLOCKS).map(|_| self::pair()).collect();
    for other in &mut hoard {
        std::mem::swap(&mut other.nodes[1].reorder_buffers, &mut pair.nodes[1].reorder_buffers);
        other.hit(&write(other, 1));
        std::mem::swap(&mut other.nodes[1].reorder_buffers, &mut pair.nodes[1].reorder_buffers);
    }
    assert_eq!(lent(&pair), limits::REORDER_BLOCKS);
    assert_eq!(pair.reply(&write(&pair, 1)), acknowledge(EPSN, NAK_SEQUENCE));
    assert_eq!((kept(&pair), pair.dropped(DropReason::PsnOutOfSequence)), (0, 1));
    assert_eq!(pair.reply(&write(&pair, 0)), acknowledge(EPSN, ACK));
    assert_eq!(pair.reply(&write(&pair, 1)), acknowledge(EPSN + 1, ACK));
}
