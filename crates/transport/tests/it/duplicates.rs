//! Requests that arrive a second time (R57 to R62), and their abuse (A18, A19).

use uroce_memory::{Access, Region, Rkey};
use uroce_transport::*;
use uroce_wire::{DropReason, Opcode};

use crate::harness::forge::*;
use crate::harness::*;

#[test]
fn r57_a_duplicate_send_or_write_is_acknowledged_and_not_executed() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.post(1, 4096, 64);
    pair.post(2, 8192, 64);
    pair.hit(&Forged::send(EPSN, b"once"));
    pair.hit(&Forged::write(EPSN + 1, va, rkey, b"once"));
    pair.hit(&Forged::write(EPSN + 2, va + 64, rkey, b"more"));
    pair.nodes[1].fill(0, b"mine");
    for repeat in [Forged::send(EPSN, b"once"), Forged::write(EPSN + 1, va, rkey, b"once")] {
        let answers = pair.hit(&repeat.no_ack());
        // C9-105: the newest PSN, whether or not an ACK was asked for; the MSN does not move.
        assert_eq!((said(&answers), msns(&answers)), (acknowledge(EPSN + 2, ACK), vec![3]));
    }
    assert_eq!(pair.nodes[1].bytes(0, 4), b"mine");
    assert_eq!(pair.received(), [(1, WcStatus::Success)]);
    assert_eq!(pair.nodes[1].counters.duplicate_request, 2);
}

/// rxe completes a READ when an ACK has its last PSN, or comes between two of its responses, whatever PSN the ACK has.
#[test]
fn r57_a_duplicate_before_a_read_or_an_atomic_draws_no_ack() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let write = Forged::write(EPSN, va, rkey, b"once");
    pair.hit(&write);
    pair.hit(&Forged::read(EPSN + 1, va, rkey, 1000));
    assert_eq!(pair.reply(&write), []);
    pair.hit(&Forged::fetch_add(EPSN + 5, va, rkey, 1));
    assert_eq!(pair.reply(&write), []);
    pair.hit(&Forged::write(EPSN + 6, va, rkey, b"more").no_ack());
    assert_eq!(pair.reply(&write), acknowledge(EPSN + 6, ACK));
}

/// The answer to the READ says all that a delayed ACK would.
#[test]
fn r44_r57_no_ack_is_delayed_until_behind_a_read() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let part = |opcode, offset| Forged::data(opcode, EPSN + offset, &[7; 256]);
    let first = part(Opcode::RC_WRITE_FIRST, 0).reth(va, rkey, 512).no_ack();
    for packet in [&first, &part(Opcode::RC_WRITE_LAST, 1), &Forged::read(EPSN + 2, va, rkey, 1000)]
    {
        pair.hit(packet);
    }
    assert_eq!((pair.reply(&first), pair.after(2 * limits::DELAYED_ACK_NS)), (vec![], vec![]));
    assert_eq!(pair.nodes[1].counters.delayed_ack, 0, "none has left");
}

/// rxe takes an ACK with the last PSN of a message for the last ACK there will be, although it has not sent all of the message again
/// yet: if the rest of it is lost then, it neither completes the message nor sends anything any more.
#[test]
fn r57_the_beginning_of_a_duplicate_leaves_the_ack_to_its_end() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let part = |opcode, psn| Forged::data(opcode, psn, &[7; 256]);
    let first = part(Opcode::RC_WRITE_FIRST, EPSN).reth(va, rkey, 768).no_ack();
    let middle = part(Opcode::RC_WRITE_MIDDLE, EPSN + 1).no_ack();
    let last = part(Opcode::RC_WRITE_LAST, EPSN + 2);
    pair.hit(&first);
    // Nothing is behind it.
    assert_eq!(pair.reply(&first), acknowledge(EPSN, ACK));
    for packet in [&middle, &last] {
        pair.hit(packet);
    }
    for beginning in [&first, &middle] {
        assert_eq!(pair.reply(beginning), []);
        assert_eq!(pair.reply(&beginning.clone().ack_req()), acknowledge(EPSN + 2, ACK));
    }
    assert_eq!(pair.reply(&last.no_ack()), acknowledge(EPSN + 2, ACK));
    assert_eq!(pair.nodes[1].counters.duplicate_request, 6);
}

/// A card that asks for an ACK at the end of a message only sends the whole of it again, faster than answers may leave.
#[test]
fn r57_a_duplicate_that_draws_no_answer_uses_up_no_reply_budget() {
    const PACKETS: u32 = limits::REPLY_BUDGET + 100;
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let data = |opcode, offset| Forged::data(opcode, EPSN + offset, &[7; 256]);
    let part = |offset| match offset {
        0 => data(Opcode::RC_WRITE_FIRST, 0).reth(va, rkey, PACKETS * 256).no_ack(),
        _ if offset + 1 == PACKETS => data(Opcode::RC_WRITE_LAST, offset).ack_req(),
        _ => data(Opcode::RC_WRITE_MIDDLE, offset).no_ack(),
    };
    let send = |pair: &mut Pair| -> Vec<Said> {
        (0..PACKETS).flat_map(|offset| pair.reply(&part(offset))).collect()
    };
    let ack = acknowledge(EPSN + PACKETS - 1, ACK);
    assert_eq!(send(&mut pair), ack);
    assert_eq!(send(&mut pair), ack, "within the same period");
    assert_eq!(pair.dropped(DropReason::ReplyBudget), 0);
}

/// R44: a requester that sends one packet again and nothing behind it is acknowledged in time, and at once when it begins again.
#[test]
fn r44_r57_a_duplicate_whose_message_does_not_go_on_is_acknowledged_after_a_while() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let part = |opcode, offset| Forged::data(opcode, EPSN + offset, &[7; 256]).no_ack();
    let first = part(Opcode::RC_WRITE_FIRST, 0).reth(va, rkey, 768);
    let middle = part(Opcode::RC_WRITE_MIDDLE, 1);
    for packet in [&first, &middle, &part(Opcode::RC_WRITE_LAST, 2)] {
        pair.hit(packet);
    }
    let ack = acknowledge(EPSN + 2, ACK);
    assert_eq!(pair.reply(&first), []);
    pair.now = pair.now.add_ns(limits::DELAYED_ACK_NS / 2);
    assert_eq!(pair.reply(&middle), [], "it goes on");
    assert_eq!(pair.after(limits::DELAYED_ACK_NS - 1), []);
    assert_eq!(pair.after(1), ack);
    assert_eq!(pair.after(10 * limits::DELAYED_ACK_NS), [], "once");
    assert_eq!((pair.reply(&middle), pair.reply(&middle)), (vec![], vec![]), "a copy");
    pair.now = pair.now.add_ns(limits::DELAYED_ACK_COPY_NS);
    assert_eq!(pair.reply(&middle), ack, "it begins anew");
    assert_eq!(pair.reply(&first), []);
    let steps = (0..).map(|_| {
        pair.now = pair.now.add_ns(limits::DELAYED_ACK_NS - 1);
        pair.reply(&middle)
    });
    assert_eq!(steps.take_while(Vec::is_empty).count(), 2, "it is not put off for ever");
}

/// A requester with nothing in flight asks by that whether its peer is there, whatever was executed last.
#[test]
fn r112_a_liveness_probe_is_answered_behind_a_read_and_an_atomic() {
    for op in ["write", "read", "atomic"] {
        let mut pair = Pair::rc();
        let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
        let op = match op {
            "write" => SendOp::Write { va, rkey },
            "read" => SendOp::Read { va, rkey },
            _ => SendOp::FetchAdd { va, rkey, add: 1 },
        };
        let place = pair.nodes[0].sge(0, 8);
        pair.nodes[0].send(&wr_sges(1, op, &[place])).unwrap();
        pair.run();
        assert!(pair.nodes[0].sends()[0].is_ok());
        pair.trace.clear();
        let mut out = vec![0; limits::MAX_PACKET];
        let probe = pair.nodes[0].qp.write_liveness_probe(&mut out).expect("nothing is in flight");
        pair.receive(1, &out[..probe.len], 0);
        pair.run();
        assert_eq!(pair.syndromes(1), [(0x100, ACK)], "{op:?}");
    }
}

/// A response has left, and the rest of the READ is asked for anew: no ACK comes between the old and the new responses.
#[test]
fn r57_a_read_that_is_asked_for_again_has_no_ack_among_its_responses() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let (write, read) =
        (Forged::write(EPSN, va, rkey, b"once"), Forged::read(EPSN + 1, va, rkey, 1000));
    pair.hit(&write);
    pair.give(&read);
    let first = pair.next_answer();
    for request in [write, read] {
        pair.give(&request);
    }
    let answers: Vec<_> =
        first.into_iter().chain(pair.collect()).map(|answer| answer.psn - EPSN).collect();
    assert_eq!(answers, [1, 1, 2, 3, 4]);
}

/// The answer between two ACKs is not sent when its requester must have it already.
#[test]
fn r49_acks_around_an_answer_that_nobody_waits_for_any_more_are_one() {
    let mut pair = Pair::new(Setup { rd_atomic: 1, ..Setup::default() });
    let (va, rkey) = pair.target(0);
    let write = Forged::write(EPSN, va, rkey, b"once");
    let read = Forged::read(EPSN + 1, va, rkey, 100);
    pair.hit(&write);
    pair.hit(&read);
    for request in [write, read, Forged::write(EPSN + 2, va, rkey, b"more")] {
        pair.give(&request);
    }
    // One at a time may be outstanding: who asks for this has the answer to the READ.
    let answers = pair.hit(&Forged::fetch_add(EPSN + 3, va, rkey, 1));
    let is: Vec<_> = answers.iter().map(|answer| (answer.name(), answer.psn)).collect();
    assert_eq!(is, [("RC_ACKNOWLEDGE", EPSN + 2), ("RC_ATOMIC_ACKNOWLEDGE", EPSN + 3)]);
}

/// Nor is the answer to a part of a READ, when more of it is asked for.
#[test]
fn r49_acks_around_a_response_that_a_newer_one_replaces_are_one() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let write = Forged::write(EPSN, va, rkey, b"once");
    pair.hit(&write);
    pair.hit(&Forged::read(EPSN + 1, va, rkey, 1000));
    for request in [write.clone(), Forged::read(EPSN + 3, va + 512, rkey, 488), write] {
        pair.give(&request);
    }
    let answers = pair.hit(&Forged::read(EPSN + 1, va, rkey, 1000));
    let is: Vec<_> = answers.iter().map(|answer| answer.psn).collect();
    assert_eq!(is, [EPSN + 1, EPSN + 2, EPSN + 3, EPSN + 4]);
}

#[test]
fn r58_a_duplicate_read_is_executed_again_from_current_memory() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.nodes[1].fill(0, &pattern(1, 1000));
    let read = Forged::read(EPSN, va, rkey, 1000);
    let first = pair.hit(&read);
    assert_eq!(payloads(&first), pattern(1, 1000));
    pair.nodes[1].fill(0, &pattern(2, 1000));
    let again = pair.hit(&read);
    assert_eq!((payloads(&again), said(&again)), (pattern(2, 1000), said(&first)));
    assert_eq!((msns(&again), pair.expected()), (msns(&first), EPSN + 4));
}

#[test]
fn r58_a_part_of_the_read_may_be_asked_for() {
    for (skip, length, good) in [
        (0, 1000, true),
        (1, 744, true),
        (3, 232, true),
        (1, 256, true),
        (0, 1, true),
        (3, 233, false),
        (0, 1001, false),
        (1, 745, false),
        (2, u32::MAX, false),
        (1, 0, false),
    ] {
        let mut pair = Pair::rc();
        let (va, rkey) = pair.target(0);
        let data = pattern(1, 1000);
        pair.nodes[1].fill(0, &data);
        pair.hit(&Forged::read(EPSN, va, rkey, 1000));
        let offset = 256 * skip as usize;
        let answers = pair.hit(&Forged::read(EPSN + skip, va + offset as u64, rkey, length));
        if !good {
            assert_eq!(said(&answers), [], "{skip} {length}");
            assert_eq!(pair.dropped(DropReason::DuplicateReadInvalid), 1);
            continue;
        }
        assert_eq!(payloads(&answers), data[offset..offset + length as usize]);
        let psns: Vec<_> = answers.iter().map(|answer| answer.psn).collect();
        let count = length.div_ceil(256);
        assert_eq!(psns, (EPSN + skip..EPSN + skip + count).collect::<Vec<_>>());
        let name = answers[0].name();
        assert_eq!(name == "RC_READ_RESPONSE_ONLY", count == 1, "{name}");
    }
}

#[test]
fn r58_b6_a_duplicate_read_of_anything_else_is_dropped() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(4096);
    pair.hit(&Forged::read(EPSN, va, rkey, 1000));
    let before = pair.memory();
    for (psn, at, key, length) in [
        (EPSN, va + 1, rkey, 999),
        (EPSN, va - 1, rkey, 1000),
        (EPSN + 1, va, rkey, 744),
        (EPSN + 1, va + 512, rkey, 488),
        (EPSN, va, Rkey(rkey.0 ^ 1), 1000),
        (EPSN, 0u64.wrapping_sub(500), rkey, 1000),
        (EPSN, 0xffff_ffff_ffff_fc00, rkey, 0x400),
        (EPSN + 1, u64::MAX, rkey, 744),
        (EPSN - 1, va, rkey, 1000),
    ] {
        assert_eq!(pair.reply(&Forged::read(psn, at, key, length)), [], "{psn:#x} {at:#x}");
    }
    assert_eq!(pair.dropped(DropReason::DuplicateReadInvalid), 9);
    assert!(pair.memory() == before && pair.state() == QpState::Rts);
}

#[test]
fn r58_b11_a_duplicate_read_after_deregistration_is_dropped() {
    let mut pair = Pair::rc();
    let node = &mut pair.nodes[1];
    let region = Region::alloc(4096).unwrap();
    let access = Access::REMOTE_READ;
    let mr = node.mem.reg_mr(node.pd, region.clone(), region.addr(), access).unwrap();
    let read = Forged::read(EPSN, region.addr(), mr.rkey, 700);
    assert_eq!(pair.hit(&read).len(), 3);
    pair.nodes[1].mem.dereg_mr(mr.id).unwrap();
    assert_eq!(pair.reply(&read), []);
    assert_eq!(pair.dropped(DropReason::DuplicateReadInvalid), 1);
    // A new registration at the same address has another key.
    let node = &mut pair.nodes[1];
    node.mem.reg_mr(node.pd, region.clone(), region.addr(), access).unwrap();
    assert_eq!(pair.reply(&read), []);
    assert_eq!((pair.state(), pair.events()), (QpState::Rts, vec![]));
}

/// The region goes between the duplicate and its answer.
#[test]
fn r60_a_duplicate_read_whose_region_goes_before_it_is_answered_is_dropped() {
    let mut pair = Pair::rc();
    let node = &mut pair.nodes[1];
    let region = Region::alloc(4096).unwrap();
    let access = Access::REMOTE_READ;
    let mr = node.mem.reg_mr(node.pd, region.clone(), region.addr(), access).unwrap();
    let (va, rkey) = pair.target(0);
    let read = Forged::read(EPSN, region.addr(), mr.rkey, 700);
    assert_eq!(pair.hit(&read).len(), 3);
    pair.give(&read);
    pair.give(&Forged::read(EPSN + 3, va, rkey, 10));
    pair.nodes[1].mem.dereg_mr(mr.id).unwrap();
    let answers: Vec<_> = pair.collect().iter().map(|answer| answer.psn).collect();
    assert_eq!(answers, [EPSN + 3], "the other READ is answered");
    assert_eq!(pair.dropped(DropReason::DuplicateReadInvalid), 1);
    assert_eq!((pair.state(), pair.events()), (QpState::Rts, vec![]));
}

#[test]
fn r58_a_duplicate_read_needs_the_qps_right_as_the_first_one_did() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let read = Forged::read(EPSN, va, rkey, 700);
    assert_eq!(pair.hit(&read).len(), 3);
    let attr = QpAttr { access: all_access() - Access::REMOTE_READ, ..QpAttr::default() };
    pair.nodes[1].modify(&attr, QpAttrMask::ACCESS_FLAGS).unwrap();
    assert_eq!(pair.reply(&read), []);
    assert_eq!(pair.state(), QpState::Rts);
}

#[test]
fn r59_b20_a_duplicate_atomic_gets_the_saved_result() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.nodes[1].region.store_u64(0, 5).unwrap();
    let add = Forged::fetch_add(EPSN, va, rkey, 10);
    let swap = Forged::compare_swap(EPSN + 1, va, rkey, 15, 1);
    let first = [pair.hit(&add), pair.hit(&swap)];
    for _ in 0..5 {
        for (request, answer) in [&add, &swap].into_iter().zip(&first) {
            assert_eq!(pair.hit(request)[0].bytes, answer[0].bytes);
        }
    }
    assert_eq!(pair.nodes[1].region.load_u64(0).unwrap(), 1);
}

#[test]
fn b20_a_lost_atomic_acknowledge_n_times() {
    for losses in 1..5 {
        let mut pair = Pair::rc();
        let (va, rkey) = pair.target(0);
        pair.nodes[1].region.store_u64(0, 40).unwrap();
        let mut lost = 0;
        pair.filter(move |seen| {
            if seen.opcode == Opcode::RC_ATOMIC_ACKNOWLEDGE && lost < losses {
                lost += 1;
                return Fate::Drop;
            }
            Fate::Deliver
        });
        let word = pair.nodes[0].sge(0, 8);
        pair.nodes[0].send(&wr_sges(1, SendOp::FetchAdd { va, rkey, add: 2 }, &[word])).unwrap();
        pair.run();
        assert!(pair.nodes[0].sends()[0].is_ok());
        assert_eq!(pair.nodes[0].region.load_u64(0).unwrap(), 40);
        assert_eq!(pair.nodes[1].region.load_u64(0).unwrap(), 42);
    }
}

#[test]
fn r59_duplicate_flush_and_atomic_write_are_answered_but_not_done_again() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let write = Forged::atomic_write(EPSN, va, rkey, 8, &[1; 8]);
    let flush = Forged::flush(EPSN + 1, va, rkey, 8, (1, 0));
    let first = [pair.reply(&write), pair.reply(&flush)];
    pair.nodes[1].fill(0, &[2; 8]);
    assert_eq!([pair.reply(&write), pair.reply(&flush)], first);
    assert_eq!(pair.nodes[1].bytes(0, 8), [2; 8]);
}

#[test]
fn r59_a19_only_max_dest_rd_atomic_results_are_kept() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let adds: Vec<_> = (0..6).map(|i| Forged::fetch_add(EPSN + i, va, rkey, 1)).collect();
    for add in &adds {
        pair.hit(add);
    }
    for (index, add) in adds.iter().enumerate() {
        let kept = index >= 2;
        assert_eq!(pair.hit(add).len(), usize::from(kept), "{index}");
    }
    for _ in 0..1000 {
        pair.give(&adds[0]);
    }
    assert_eq!(pair.nodes[1].region.load_u64(0).unwrap(), 6);
    assert_eq!(pair.dropped(DropReason::DuplicateAtomicUnknown), 1002);
    assert_eq!(pair.collect().len(), 0);
}

#[test]
fn r59_r60_an_atomic_where_something_else_was_is_dropped() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.hit(&Forged::write(EPSN, va, rkey, b""));
    pair.hit(&Forged::read(EPSN + 1, va, rkey, 700));
    pair.hit(&Forged::fetch_add(EPSN + 4, va, rkey, 1));
    let after = pair.memory();
    for forged in [
        Forged::fetch_add(EPSN, va, rkey, 1),
        Forged::fetch_add(EPSN + 1, va, rkey, 1),
        Forged::fetch_add(EPSN + 2, va, rkey, 1),
        Forged::compare_swap(EPSN + 4, va, rkey, 1, 9),
        Forged::flush(EPSN + 4, va, rkey, 8, (1, 0)),
        Forged::read(EPSN + 4, va, rkey, 8),
    ] {
        assert_eq!(pair.reply(&forged), []);
    }
    assert!(pair.memory() == after);
}

#[test]
fn r60_errors_in_duplicates_are_never_naked() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.hit(&Forged::write(EPSN, va, rkey, b"data"));
    let bogus = Rkey(1);
    for forged in [
        Forged::data(Opcode::RC_SEND_MIDDLE, EPSN, &[1; 300]),
        Forged::data(Opcode::RC_WRITE_ONLY, EPSN, &[1; 8]).reth(va, bogus, 1 << 31),
        Forged::read(EPSN, va, bogus, 8),
        Forged::fetch_add(EPSN, va + 1, bogus, 8),
        Forged::atomic_write(EPSN, va, rkey, 0, &[1; 4]),
        Forged::flush(EPSN, va, bogus, 8, (0, 7)),
        Forged::send(EPSN, &[1; 600]),
    ] {
        let name = forged.bth.opcode;
        for (_, _, syndrome) in pair.reply(&forged) {
            assert_eq!(syndrome, Some(ACK), "{name}");
        }
    }
    assert_eq!((pair.state(), pair.expected()), (QpState::Rts, EPSN + 1));
    assert_eq!(pair.nodes[1].bytes(0, 8), *b"data\0\0\0\0");
}

#[test]
fn r61_a_duplicate_older_than_what_is_saved_is_dropped() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let reads: Vec<_> = (0..5).map(|i| Forged::read(EPSN + i, va, rkey, 8)).collect();
    for read in &reads {
        pair.hit(read);
    }
    assert_eq!(pair.reply(&reads[0]), []);
    assert_eq!(pair.hit(&reads[1]).len(), 1);
    assert_eq!(pair.dropped(DropReason::DuplicateReadInvalid), 1);
}

#[test]
fn r62_a_duplicate_read_rewinds_its_own_train() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let read = Forged::read(EPSN, va, rkey, 1024);
    pair.give(&read);
    let started: Vec<_> = (0..2).map(|_| pair.next_answer().unwrap().psn).collect();
    assert_eq!(started, [EPSN, EPSN + 1]);
    pair.give(&read);
    let rest = said(&pair.collect());
    let names: Vec<_> = rest.iter().map(|(name, psn, _)| (*name, psn - EPSN)).collect();
    assert_eq!(
        names,
        [
            ("RC_READ_RESPONSE_FIRST", 0),
            ("RC_READ_RESPONSE_MIDDLE", 1),
            ("RC_READ_RESPONSE_MIDDLE", 2),
            ("RC_READ_RESPONSE_LAST", 3)
        ]
    );
}

#[test]
fn r62_two_trains_never_interleave() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let early = Forged::read(EPSN, va, rkey, 512);
    let late = Forged::read(EPSN + 2, va, rkey, 768);
    pair.hit(&early);
    pair.give(&late);
    assert_eq!(pair.next_answer().unwrap().name(), "RC_READ_RESPONSE_FIRST");
    pair.give(&early);
    let rest = said(&pair.collect());
    let names: Vec<_> = rest.iter().map(|(name, psn, _)| (*name, psn - EPSN)).collect();
    assert_eq!(
        names,
        [
            ("RC_READ_RESPONSE_FIRST", 0),
            ("RC_READ_RESPONSE_LAST", 1),
            ("RC_READ_RESPONSE_FIRST", 2),
            ("RC_READ_RESPONSE_MIDDLE", 3),
            ("RC_READ_RESPONSE_LAST", 4)
        ]
    );
}

#[test]
fn r62_a_read_split_on_retry_is_answered_part_by_part() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.hit(&Forged::read(EPSN, va, rkey, 1024));
    let parts = [Forged::read(EPSN, va, rkey, 512), Forged::read(EPSN + 2, va + 512, rkey, 512)];
    let psns = |answers: Vec<Seen>| answers.iter().map(|a| a.psn - EPSN).collect::<Vec<_>>();
    parts.iter().for_each(|part| pair.give(part));
    assert_eq!(psns(pair.collect()), [0, 1, 2, 3]);
    // Again, in the other order, and each of them twice.
    parts.iter().rev().chain(&parts).for_each(|part| pair.give(part));
    let names: Vec<_> = said(&pair.collect()).iter().map(|a| (a.0, a.1 - EPSN)).collect();
    let [first, last] = ["RC_READ_RESPONSE_FIRST", "RC_READ_RESPONSE_LAST"];
    assert_eq!(names, [(first, 0), (last, 1), (first, 2), (last, 3)]);
}

#[test]
fn r150_a_hole_is_answered_at_once_and_the_train_goes_on_where_it_was() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.nodes[1].fill(0, &pattern(3, 2048));
    pair.give(&Forged::read(EPSN, va, rkey, 1024));
    pair.give(&Forged::read(EPSN + 4, va + 1024, rkey, 1024));
    let begun: Vec<_> = (0..6).map(|_| pair.next_answer().unwrap().psn - EPSN).collect();
    assert_eq!(begun, [0, 1, 2, 3, 4, 5]);
    pair.give(&Forged::read(EPSN + 1, va + 256, rkey, 256));
    pair.give(&Forged::read(EPSN + 4, va + 1024, rkey, 256));
    let rest = pair.collect();
    assert_eq!(rest.iter().map(|a| a.psn - EPSN).collect::<Vec<_>>(), [1, 4, 6, 7]);
    assert_eq!(rest[0].name(), "RC_READ_RESPONSE_ONLY");
    assert_eq!(rest[0].packet().payload(), &pattern(3, 2048)[256..512]);
}

#[test]
fn a18_a_storm_of_duplicate_reads_queues_one_train() {
    let mut pair = Pair::rc();
    let region = Region::alloc(1 << 30).unwrap();
    let (node, access) = (&mut pair.nodes[1], Access::REMOTE_READ);
    let mr = node.mem.reg_mr(node.pd, region.clone(), region.addr(), access).unwrap();
    let read = Forged::read(EPSN, region.addr(), mr.rkey, 1 << 30);
    pair.give(&read);
    for round in 0..5000u32 {
        pair.give(&read);
        let part = round % 4096;
        let va = region.addr() + 256 * u64::from(part);
        pair.give(&Forged::read(EPSN + part, va, mr.rkey, (1 << 30) - 256 * part));
        let sent = pair.next_answer().unwrap();
        assert!(sent.bytes.len() <= 256 + 20);
    }
    // Budget: what is beyond it in this period is counted and forgotten (A26).
    let answered = pair.dropped(DropReason::DuplicateRequest);
    assert_eq!(answered, u64::from(limits::REPLY_BUDGET));
    assert_eq!(pair.dropped(DropReason::ReplyBudget), 10_000 - answered);
    let psns: Vec<_> = (0..1000).map(|_| pair.next_answer().unwrap().psn).collect();
    assert!(psns.windows(2).all(|pair| pair[1] == pair[0] + 1), "one train");
}

#[test]
fn s6_the_budget_of_replies_is_refilled() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let write = Forged::write(EPSN, va, rkey, b"x");
    pair.hit(&write);
    let storm = |pair: &mut Pair| (0..2000).filter(|_| !pair.hit(&write).is_empty()).count();
    assert_eq!(storm(&mut pair), limits::REPLY_BUDGET as usize);
    pair.run_for(limits::REPLY_BUDGET_PERIOD_NS);
    assert_eq!(storm(&mut pair), limits::REPLY_BUDGET as usize);
}
