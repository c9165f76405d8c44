//! What the responder acknowledges, and in which order (R43 to R52, B19, B23).

use uroce_memory::Sge;
use uroce_transport::*;
use uroce_wire::Opcode;

use crate::harness::forge::*;
use crate::harness::*;

#[test]
fn r43_every_request_is_acknowledged_one_way_or_the_other() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.post(1, 4096, 64);
    let requests = [
        (Forged::send(EPSN, b"x"), "RC_ACKNOWLEDGE"),
        (Forged::write(EPSN + 1, va, rkey, b"x"), "RC_ACKNOWLEDGE"),
        (Forged::read(EPSN + 2, va, rkey, 8), "RC_READ_RESPONSE_ONLY"),
        (Forged::fetch_add(EPSN + 3, va, rkey, 1), "RC_ATOMIC_ACKNOWLEDGE"),
        (Forged::compare_swap(EPSN + 4, va, rkey, 0, 1), "RC_ATOMIC_ACKNOWLEDGE"),
        (Forged::atomic_write(EPSN + 5, va, rkey, 8, &[0; 8]), "RC_READ_RESPONSE_ONLY"),
        (Forged::flush(EPSN + 6, va, rkey, 8, (1, 0)), "RC_READ_RESPONSE_ONLY"),
    ];
    for (index, (request, name)) in requests.into_iter().enumerate() {
        let psn = EPSN + index as u32;
        assert_eq!(pair.reply(&request), [(name, psn, Some(ACK))]);
    }
}

#[test]
fn r43_responses_do_not_depend_on_the_ack_request_bit() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    assert_eq!(pair.hit(&Forged::read(EPSN, va, rkey, 8).no_ack()).len(), 1);
    assert_eq!(pair.hit(&Forged::fetch_add(EPSN + 1, va, rkey, 8).no_ack()).len(), 1);
    assert_eq!(pair.hit(&Forged::write(EPSN + 2, va, rkey, b"x").no_ack()).len(), 0);
}

#[test]
fn r43_r44_r45_one_ack_for_a_batch_with_the_newest_psn() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    for offset in 0..10 {
        let forged = Forged::write(EPSN + offset, va, rkey, b"x");
        pair.give(&if offset % 3 == 0 { forged } else { forged.no_ack() });
    }
    let answers = pair.collect();
    // The last packet that asked for an ACK was number 9.
    assert_eq!((said(&answers), msns(&answers)), (acknowledge(EPSN + 9, ACK), vec![10]));
    assert_eq!(pair.nodes[1].counters.ack_deferred, 3);
    assert!(!pair.nodes[1].qp.wants_request() && !pair.nodes[1].qp.wants_answer());
}

#[test]
fn r44_an_ack_in_the_middle_of_a_message() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let first = Forged::data(Opcode::RC_WRITE_FIRST, EPSN, &[1; 256]).reth(va, rkey, 768);
    assert_eq!(pair.hit(&first.no_ack()).len(), 0);
    let answers = pair.hit(&Forged::data(Opcode::RC_WRITE_MIDDLE, EPSN + 1, &[1; 256]));
    // The message has not ended, so the MSN has not moved.
    assert_eq!((said(&answers), msns(&answers)), (acknowledge(EPSN + 1, ACK), vec![0]));
    let answers = pair.hit(&Forged::data(Opcode::RC_WRITE_LAST, EPSN + 2, &[1; 256]));
    assert_eq!((said(&answers), msns(&answers)), (acknowledge(EPSN + 2, ACK), vec![1]));
}

#[test]
fn r45_ack_psns_never_decrease_however_much_is_lost() {
    for seed in 1..6u32 {
        let mut pair = Pair::rc();
        let mut random = seed;
        pair.filter(move |_| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match random >> 28 {
                0 => Fate::Drop,
                1 => Fate::Duplicate,
                2 => Fate::Delay(40_000),
                _ => Fate::Deliver,
            }
        });
        let (va, rkey) = pair.target(0);
        let source = pair.nodes[0].sge(0, 3000);
        for wr_id in 0..30 {
            let op =
                if wr_id % 5 == 4 { SendOp::Read { va, rkey } } else { SendOp::Write { va, rkey } };
            pair.nodes[0].send(&wr_sges(wr_id, op, &[source])).unwrap();
        }
        pair.run();
        assert_eq!(pair.nodes[0].sends().iter().filter(|wc| wc.is_ok()).count(), 30);
        let (acks, naks): (Vec<_>, Vec<_>) =
            pair.syndromes(1).into_iter().partition(|(_, syndrome)| *syndrome == ACK);
        assert!(acks.len() > 3);
        // A NAK also acknowledges READs, which the ACK of a duplicate leaves to their responses (R57).
        for kind in [acks, naks] {
            assert!(kind.windows(2).all(|two| two[0].0 <= two[1].0), "{kind:?}");
        }
    }
}

#[test]
fn r46_r49_an_ack_does_not_overtake_a_response() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.give(&Forged::write(EPSN, va, rkey, b"x"));
    pair.give(&Forged::read(EPSN + 1, va, rkey, 600));
    pair.give(&Forged::write(EPSN + 4, va, rkey, b"x"));
    pair.give(&Forged::fetch_add(EPSN + 5, va, rkey, 1));
    pair.give(&Forged::write(EPSN + 6, va, rkey, b"x"));
    let names: Vec<_> = pair.collect().iter().map(|a| (a.name(), a.psn - EPSN)).collect();
    assert_eq!(
        names,
        [
            ("RC_ACKNOWLEDGE", 0),
            ("RC_READ_RESPONSE_FIRST", 1),
            ("RC_READ_RESPONSE_MIDDLE", 2),
            ("RC_READ_RESPONSE_LAST", 3),
            ("RC_ACKNOWLEDGE", 4),
            ("RC_ATOMIC_ACKNOWLEDGE", 5),
            ("RC_ACKNOWLEDGE", 6)
        ]
    );
}

#[test]
fn r49_a_duplicates_ack_waits_behind_the_train_that_is_going_out() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.hit(&Forged::write(EPSN, va, rkey, b"x"));
    pair.give(&Forged::read(EPSN + 1, va, rkey, 600));
    pair.next_answer().unwrap();
    pair.give(&Forged::write(EPSN + 4, va, rkey, b"y").no_ack());
    pair.give(&Forged::write(EPSN, va, rkey, b"x"));
    let psns: Vec<_> = pair.collect().iter().map(|a| (a.name(), a.psn - EPSN)).collect();
    let rest = [("RC_READ_RESPONSE_MIDDLE", 2), ("RC_READ_RESPONSE_LAST", 3)];
    assert_eq!(psns[..2], rest);
    assert_eq!(psns[2..], [("RC_ACKNOWLEDGE", 4)]);
}

#[test]
fn r47_r48_read_responses_have_aeth_and_lengths_as_they_should() {
    for (length, want) in [
        (0, vec![("RC_READ_RESPONSE_ONLY", 0)]),
        (1, vec![("RC_READ_RESPONSE_ONLY", 1)]),
        (256, vec![("RC_READ_RESPONSE_ONLY", 256)]),
        (257, vec![("RC_READ_RESPONSE_FIRST", 256), ("RC_READ_RESPONSE_LAST", 1)]),
        (512, vec![("RC_READ_RESPONSE_FIRST", 256), ("RC_READ_RESPONSE_LAST", 256)]),
        (
            515,
            vec![
                ("RC_READ_RESPONSE_FIRST", 256),
                ("RC_READ_RESPONSE_MIDDLE", 256),
                ("RC_READ_RESPONSE_LAST", 3),
            ],
        ),
    ] {
        let mut pair = Pair::rc();
        let (va, rkey) = pair.target(3);
        pair.nodes[1].fill(3, &pattern(9, length as usize));
        let answers = pair.hit(&Forged::read(EPSN, va, rkey, length));
        let got: Vec<_> = answers.iter().map(|a| (a.name(), a.packet().payload().len())).collect();
        assert_eq!(got, want);
        assert_eq!(payloads(&answers), pattern(9, length as usize));
        for answer in &answers {
            let middle = answer.name().ends_with("MIDDLE");
            assert_eq!(answer.packet().aeth().is_none(), middle);
            assert!(!answer.packet().bth.ack_req);
            let (bytes, packet) = (&answer.bytes, answer.packet());
            let pad = usize::from(packet.bth.pad);
            assert_eq!((packet.payload().len() + pad) % 4, 0);
            assert!(bytes[bytes.len() - 4 - pad..bytes.len() - 4].iter().all(|byte| *byte == 0));
        }
    }
}

#[test]
fn r50_b19_the_msn_counts_new_messages_only() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.post(1, 4096, 64);
    let mut got = vec![];
    for forged in [
        Forged::send(EPSN, b"x"),
        Forged::write(EPSN + 1, va, rkey, b"x"),
        Forged::write(EPSN + 1, va, rkey, b"x"),
        Forged::read(EPSN + 2, va, rkey, 600),
        Forged::fetch_add(EPSN + 5, va, rkey, 1),
        Forged::fetch_add(EPSN + 5, va, rkey, 1),
        Forged::read(EPSN + 2, va, rkey, 600),
        Forged::flush(EPSN + 6, va, rkey, 8, (1, 0)),
        Forged::atomic_write(EPSN + 7, va, rkey, 8, &[0; 8]),
        Forged::send(EPSN + 8, b"not ready"),
        Forged::write(EPSN + 9, va, rkey, b"behind"),
    ] {
        got.extend(msns(&pair.hit(&forged)).last().copied());
    }
    assert_eq!(got, [1, 2, 2, 3, 4, 4, 3, 5, 6, 6]);
}

#[test]
fn r50_the_msn_starts_at_0_again_after_reset() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    for _ in 0..2 {
        assert_eq!(msns(&pair.hit(&Forged::write(EPSN, va, rkey, b"x"))), [1]);
        pair.reconnect();
    }
}

#[test]
fn r51_r52_r130_ack_syndromes_carry_unlimited_credits_with_and_without_srq() {
    for srq in [None, Some(SrqAttr { max_wr: 8, max_sge: 1, limit: 0 })] {
        let mut pair = Pair::new(Setup { srq, ..Setup::default() });
        let (va, rkey) = pair.target(0);
        pair.post(1, 0, 64);
        let requests = [
            Forged::send(EPSN, b"x"),
            Forged::read(EPSN + 1, va, rkey, 8),
            Forged::fetch_add(EPSN + 2, va, rkey, 1),
        ];
        for request in &requests {
            assert_eq!(pair.hit(request)[0].syndrome(), Some(31));
        }
    }
}

#[test]
fn b22_a_nak_for_an_atomic_is_a_plain_ack_packet_and_is_taken_in_either_form() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(4);
    let nak = pair.reply(&Forged::fetch_add(EPSN, va, rkey, 1));
    assert_eq!(nak, acknowledge(EPSN, NAK_INVALID));
    for opcode in [Opcode::RC_ACKNOWLEDGE, Opcode::RC_ATOMIC_ACKNOWLEDGE] {
        let mut pair = Pair::rc();
        let (va, rkey) = pair.target(0);
        let word = pair.nodes[0].sge(0, 8);
        pair.filter(|_| Fate::Drop);
        pair.nodes[0].send(&wr_sges(1, SendOp::FetchAdd { va, rkey, add: 2 }, &[word])).unwrap();
        pair.run_for(1000);
        let nak = pair.forge(0, opcode, EPSN, |_, _| {}, &[NAK_ACCESS, 0, 0, 1]);
        let mut nak = nak;
        nak.resize(if opcode == Opcode::RC_ACKNOWLEDGE { 20 } else { 28 }, 0);
        pair.receive(0, &nak, 0);
        assert_eq!(pair.nodes[0].sends()[0].status, WcStatus::RemAccessErr);
    }
}

/// Programs that wait on one completion queue take it for granted that their own request completes before the peer's
/// reply comes, since the ACK of a NIC is on its way before its application has seen anything.
#[test]
fn r160_the_ack_of_a_request_leaves_before_the_reply_to_it() {
    let mut pair = Pair::rc();
    pair.post(1, 4096, 64);
    pair.receive(1, &Forged::send(EPSN, b"question").bytes(), 0);
    let reply = [&b"answer"[..]];
    pair.nodes[1].send(&wr_inline(2, SendOp::Send, &reply)).unwrap();
    let names: Vec<_> = pair.collect().iter().map(|seen| seen.name()).collect();
    assert_eq!(names, ["RC_ACKNOWLEDGE", "RC_SEND_ONLY"]);
}

/// What node 1 sends that has taken in a WRITE and has posted these operations of `length` bytes since.
fn sent_behind_a_write(ops: &[SendOp], length: u32) -> Vec<&'static str> {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.give(&Forged::write(EPSN, va, rkey, b"ping"));
    let source = pair.nodes[1].sge(64, length);
    for (wr_id, op) in (0..).zip(ops) {
        pair.nodes[1].send(&wr_sges(wr_id, *op, &[source])).unwrap();
    }
    pair.collect().iter().map(|seen| seen.name()).collect()
}

/// A WRITE completes nothing at the peer, so the order cannot be told there; the ACK, which is shorter, can end its GSO batch.
#[test]
fn r160_one_short_write_passes_an_ack_and_nothing_else_does() {
    let peer = Pair::rc().nodes[0].va(0);
    let rkey = Pair::rc().nodes[0].rkey();
    let write = SendOp::Write { va: peer, rkey };
    let with_imm = SendOp::WriteWithImm { va: peer, rkey, imm: 1 };
    let (ack, only) = ("RC_ACKNOWLEDGE", "RC_WRITE_ONLY");
    assert_eq!(sent_behind_a_write(&[write], 8), [only, ack]);
    assert_eq!(sent_behind_a_write(&[write], 256), [only, ack]);
    assert_eq!(sent_behind_a_write(&[write], 257), [ack, "RC_WRITE_FIRST", "RC_WRITE_LAST"]);
    assert_eq!(sent_behind_a_write(&[write, write], 8), [only, ack, only]);
    assert_eq!(sent_behind_a_write(&[write, SendOp::Send], 8), [only, ack, "RC_SEND_ONLY"]);
    assert_eq!(sent_behind_a_write(&[SendOp::Send, write], 8), [ack, "RC_SEND_ONLY", only]);
    assert_eq!(sent_behind_a_write(&[with_imm], 8), [ack, "RC_WRITE_ONLY_IMM"]);
    let read = SendOp::Read { va: peer, rkey };
    assert_eq!(sent_behind_a_write(&[read], 8), [ack, "RC_READ_REQUEST"]);
}

/// A WRITE of 8 bytes from node 1 to node 0, and where they come from.
fn write_back(pair: &Pair) -> (SendOp, Sge) {
    let peer = &pair.nodes[0];
    (SendOp::Write { va: peer.va(0), rkey: peer.rkey() }, pair.nodes[1].sge(64, 8))
}

/// The peer's reply comes with the ACK of the request. That ACK leaves nothing to send, so the ACK of the reply waits for what
/// the application sends next.
#[test]
fn r160_an_ack_waits_also_behind_an_ack_that_came_with_the_request() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let (write, source) = write_back(&pair);
    let psn = pair.nodes[1].qp.next_psn().get();
    pair.nodes[1].send(&wr_sges(1, write, &[source])).unwrap();
    assert_eq!(pair.next_answer().unwrap().name(), "RC_WRITE_ONLY");
    pair.give(&Forged::write(EPSN, va, rkey, b"reply"));
    let ack = pair.forge(1, Opcode::RC_ACKNOWLEDGE, psn, |_, _| {}, &[ACK, 0, 0, 1]);
    pair.receive(1, &ack, 0);
    assert!(pair.next_pressing().is_none());
    assert_eq!(pair.nodes[1].sends().len(), 1, "the ACK was taken in");
    pair.nodes[1].send(&wr_sges(2, write, &[source])).unwrap();
    let names: Vec<_> = pair.collect().iter().map(|seen| seen.name()).collect();
    assert_eq!(names, ["RC_WRITE_ONLY", "RC_ACKNOWLEDGE"]);
}

/// A NAK, the answer to a READ and the ACK of a READ that is answered with it are waited for; no request passes them.
#[test]
fn r160_a_write_passes_no_nak_and_no_response() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let (op, source) = write_back(&pair);
    let requests = [
        (Forged::read(EPSN, va, rkey, 8), "RC_READ_RESPONSE_ONLY"),
        (Forged::fetch_add(EPSN + 1, va, rkey, 1), "RC_ATOMIC_ACKNOWLEDGE"),
        (Forged::write(EPSN + 9, va, rkey, b"x"), "RC_ACKNOWLEDGE"),
    ];
    for (request, answer) in requests {
        pair.give(&request);
        pair.nodes[1].send(&wr_sges(1, op, &[source])).unwrap();
        let names: Vec<_> = pair.collect().iter().map(|seen| seen.name()).collect();
        assert_eq!(names, [answer, "RC_WRITE_ONLY"]);
    }
}

#[test]
fn b23_r100_only_reliable_services_ask_for_acks_and_answer() {
    let types =
        [(QpType::Rc, true), (QpType::XrcIni, true), (QpType::Uc, false), (QpType::Ud, false)];
    for (qp_type, answers) in types {
        let mut pair = Pair::of(qp_type);
        pair.post(1, 0, 1024);
        let source = pair.nodes[0].sge(0, 600);
        let ud = (qp_type == QpType::Ud).then(|| pair.ud_to(1)).flatten();
        let sges = [source];
        pair.nodes[0].send(&SendWr { ud, ..wr_sges(1, SendOp::Send, &sges) }).unwrap();
        pair.run();
        assert_eq!(pair.received(), [(1, WcStatus::Success)]);
        assert_eq!(pair.trace.iter().any(|seen| seen.packet().bth.ack_req), answers);
        assert_eq!(pair.trace.iter().any(|seen| seen.from == 1), answers);
        // The bit set by a peer draws nothing either.
        pair.post(2, 0, 1024);
        let forged = match qp_type {
            QpType::Rc | QpType::XrcIni | QpType::XrcTgt => continue,
            QpType::Uc => Forged::data(Opcode::UC_SEND_ONLY, 0x103, b"x"),
            QpType::Ud => Forged::ud(0x1111, b"x").ack_req(),
        };
        assert!(forged.bth.ack_req);
        assert_eq!(pair.reply(&forged), []);
        assert_eq!(pair.received(), [(2, WcStatus::Success)]);
    }
}

/// R82: the last packet of each message asks, and a long one asks several times per window.
#[test]
fn r82_acks_are_asked_for_often_enough_to_keep_the_window_open() {
    let mut pair = Pair::rc();
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let source = pair.nodes[0].sge(0, 100 * 256);
    for wr_id in 0..3 {
        let op = SendOp::Write { va, rkey };
        pair.nodes[0].send(&wr_sges(wr_id, op, &[source])).unwrap();
    }
    pair.run();
    let asks: Vec<_> =
        pair.trace.iter().filter(|s| s.from == 0).map(|s| s.packet().bth.ack_req).collect();
    assert_eq!(asks.len(), 300);
    assert!(asks[99] && asks[199] && asks[299], "the end of each message");
    // The window grows meanwhile.
    let share = (limits::SHORT_PATH_WINDOW / limits::ACKS_PER_WINDOW) as usize;
    for run in asks.split(|ask| *ask) {
        assert!(run.len() < share, "{} packets without asking", run.len());
    }
    assert_eq!(pair.nodes[0].counters.ack_timeout, 0);
}
