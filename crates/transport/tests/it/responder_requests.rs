//! Order, lengths and sums of request packets (R21 to R27).

use uroce_memory::{Access, Region};
use uroce_transport::*;
use uroce_wire::{Opcode, Qpn};

use crate::harness::forge::*;
use crate::harness::*;

const FIRST: Opcode = Opcode::RC_WRITE_FIRST;
const MIDDLE: Opcode = Opcode::RC_WRITE_MIDDLE;
const LAST: Opcode = Opcode::RC_WRITE_LAST;

/// Every request packet of RC with valid headers, PSN [`EPSN`] + 1.
fn every_request(pair: &Pair) -> Vec<Forged> {
    let (va, rkey) = pair.target(0);
    let psn = EPSN + 1;
    let data = |opcode| Forged::data(opcode, psn, &[2; 256]);
    vec![
        data(Opcode::RC_SEND_FIRST),
        data(Opcode::RC_SEND_MIDDLE),
        data(Opcode::RC_SEND_LAST),
        data(Opcode::RC_SEND_LAST_IMM).imm(1),
        Forged { inv: Some(rkey.0), ..data(Opcode::RC_SEND_LAST_INV) },
        data(Opcode::RC_SEND_ONLY),
        data(Opcode::RC_SEND_ONLY_IMM).imm(1),
        Forged::send_inv(psn, rkey, &[2; 256]),
        data(FIRST).reth(va, rkey, 512),
        data(MIDDLE),
        data(LAST),
        data(Opcode::RC_WRITE_LAST_IMM).imm(1),
        data(Opcode::RC_WRITE_ONLY).reth(va, rkey, 256),
        data(Opcode::RC_WRITE_ONLY_IMM).reth(va, rkey, 256).imm(1),
        Forged::read(psn, va, rkey, 8),
        Forged::fetch_add(psn, va, rkey, 1),
        Forged::compare_swap(psn, va, rkey, 0, 1),
        Forged::atomic_write(psn, va, rkey, 8, &[2; 8]),
        Forged::flush(psn, va, rkey, 8, (1, 0)),
    ]
}

#[test]
fn r21_nothing_but_its_own_middle_or_last_follows_first() {
    for write in [false, true] {
        let follows: &[Opcode] = if write {
            &[MIDDLE, LAST, Opcode::RC_WRITE_LAST_IMM]
        } else {
            use Opcode as O;
            &[O::RC_SEND_MIDDLE, O::RC_SEND_LAST, O::RC_SEND_LAST_IMM, O::RC_SEND_LAST_INV]
        };
        for forged in every_request(&in_the_middle_of(write)) {
            let opcode = forged.bth.opcode;
            if follows.contains(&opcode) {
                continue;
            }
            let mut pair = in_the_middle_of(write);
            let before = pair.memory();
            assert_eq!(pair.reply(&forged), acknowledge(EPSN + 1, NAK_INVALID), "{opcode}");
            assert_eq!(pair.state(), QpState::Err);
            assert!(pair.memory() == before, "{opcode}");
            // The receive that the SEND was using fails once; otherwise there is an event.
            let status = if write { WcStatus::WrFlushErr } else { WcStatus::RemInvReqErr };
            assert_eq!(pair.received(), [(1, status)], "{opcode}");
            let event = AsyncEvent::QpReqErr(Qpn::new(QPNS[1]));
            assert_eq!(pair.events(), if write { vec![event] } else { vec![] });
        }
    }
}

#[test]
fn r22_middle_or_last_without_first() {
    use Opcode as O;
    for opcode in [
        O::RC_SEND_MIDDLE,
        O::RC_SEND_LAST,
        O::RC_SEND_LAST_IMM,
        O::RC_SEND_LAST_INV,
        MIDDLE,
        LAST,
        O::RC_WRITE_LAST_IMM,
    ] {
        let mut pair = Pair::rc();
        pair.post(1, 0, 4096);
        let mut forged = Forged::data(opcode, EPSN, &[1; 256]);
        forged.imm = opcode.info().unwrap().has_imm().then_some(1);
        forged.inv = opcode.info().unwrap().has_invalidate().then_some(1);
        assert_eq!(pair.reply(&forged), acknowledge(EPSN, NAK_INVALID), "{opcode}");
        assert_eq!(pair.received(), [(1, WcStatus::WrFlushErr)]);
    }
}

#[test]
fn r23_r36_an_operation_that_the_qp_does_not_allow_is_an_invalid_request() {
    let cases: [(Access, Forge); 5] = [
        (Access::REMOTE_WRITE, |va, rkey| Forged::write(EPSN, va, rkey, &[1; 8])),
        (Access::REMOTE_WRITE, |va, rkey| Forged::atomic_write(EPSN, va, rkey, 8, &[1; 8])),
        (Access::REMOTE_READ, |va, rkey| Forged::read(EPSN, va, rkey, 8)),
        (Access::REMOTE_ATOMIC, |va, rkey| Forged::fetch_add(EPSN, va, rkey, 1)),
        (Access::FLUSH_GLOBAL, |va, rkey| Forged::flush(EPSN, va, rkey, 8, (1, 0))),
    ];
    for (right, forge) in cases {
        let mut only = Pair::new(Setup { access: right, ..Setup::default() });
        let (va, rkey) = only.target(0);
        let answers = only.hit(&forge(va, rkey));
        assert_eq!((answers.len(), answers[0].syndrome()), (1, Some(ACK)), "{right:?}");
        let mut without = Pair::new(Setup { access: all_access() - right, ..Setup::default() });
        let (va, rkey) = without.target(0);
        let before = without.memory();
        assert_eq!(without.reply(&forge(va, rkey)), acknowledge(EPSN, NAK_INVALID), "{right:?}");
        assert!(without.memory() == before);
    }
}

#[test]
fn r117_a_flush_to_persistence_is_never_acknowledged_as_done() {
    for (granted, answer) in
        [(Access::FLUSH_PERSISTENT, NAK_ACCESS), (Access::empty(), NAK_INVALID)]
    {
        let access = all_access() | granted;
        let mut pair = Pair::new(Setup { access, ..Setup::default() });
        let (va, rkey) = pair.target(0);
        let flush = Forged::flush(EPSN, va, rkey, 8, (2, 0));
        assert_eq!(pair.reply(&flush), acknowledge(EPSN, answer), "{granted:?}");
    }
}

/// One packet with `length` bytes at `position`, after what has to precede it.
fn payload_case(opcode: Opcode, length: usize) -> u8 {
    let info = opcode.info().unwrap();
    let starts = info.starts();
    let mut pair = if starts { Pair::rc() } else { in_the_middle_of(info.name.contains("WRITE")) };
    pair.post(2, 8192, 4096);
    let (va, rkey) = pair.target(0);
    let psn = if starts { EPSN } else { EPSN + 1 };
    let mut forged = Forged::data(opcode, psn, &vec![7; length]);
    if info.headers.contains(uroce_wire::HeaderSet::RETH) {
        let total = if info.ends() { length } else { 768 };
        forged = forged.reth(va, rkey, total as u32);
    }
    pair.reply(&forged)[0].2.unwrap()
}

#[test]
fn r24_b8_payload_lengths_at_the_edges_of_the_path_mtu() {
    use Opcode as O;
    for (opcode, length, good) in [
        (O::RC_SEND_FIRST, 252, false),
        (O::RC_SEND_FIRST, 256, true),
        (O::RC_SEND_FIRST, 260, false),
        (O::RC_SEND_FIRST, 0, false),
        (O::RC_SEND_MIDDLE, 255, false),
        (O::RC_SEND_MIDDLE, 256, true),
        (O::RC_SEND_MIDDLE, 260, false),
        (O::RC_SEND_LAST, 0, false),
        (O::RC_SEND_LAST, 1, true),
        (O::RC_SEND_LAST, 256, true),
        (O::RC_SEND_LAST, 257, false),
        (O::RC_SEND_ONLY, 0, true),
        (O::RC_SEND_ONLY, 256, true),
        (O::RC_SEND_ONLY, 257, false),
        (FIRST, 255, false),
        (FIRST, 256, true),
        (FIRST, 257, false),
        (MIDDLE, 252, false),
        (MIDDLE, 256, true),
        (O::RC_WRITE_ONLY, 0, true),
        (O::RC_WRITE_ONLY, 256, true),
        (O::RC_WRITE_ONLY, 257, false),
    ] {
        let syndrome = if good { ACK } else { NAK_INVALID };
        assert_eq!(payload_case(opcode, length), syndrome, "{opcode} with {length}");
    }
}

#[test]
fn r24_operations_without_payload_may_not_have_one() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    for mut forged in [
        Forged::read(EPSN, va, rkey, 8),
        Forged::fetch_add(EPSN, va, rkey, 1),
        Forged::compare_swap(EPSN, va, rkey, 0, 1),
        Forged::flush(EPSN, va, rkey, 8, (1, 0)),
    ] {
        forged.payload = vec![1; 4];
        assert_eq!(pair.reply(&forged), acknowledge(EPSN, NAK_INVALID));
        assert_eq!(pair.nodes[1].bytes(0, 8), [0; 8]);
        pair.reconnect();
    }
}

#[test]
fn r25_a4_dma_length_up_to_2_31() {
    let region = Region::alloc((1 << 31) + 4096).unwrap();
    let mut pair = Pair::rc();
    let node = &mut pair.nodes[1];
    let mr = node.mem.reg_mr(node.pd, region.clone(), region.addr(), all_access()).unwrap();
    let va = region.addr();
    for (length, syndrome) in [(1 << 31, ACK), ((1 << 31) + 1, NAK_INVALID)] {
        let write = Forged::data(FIRST, EPSN, &[1; 256]).reth(va, mr.rkey, length);
        assert_eq!(pair.reply(&write), acknowledge(EPSN, syndrome));
        pair.reconnect();
        pair.give(&Forged::read(EPSN, va, mr.rkey, length));
        assert_eq!(pair.next_answer().unwrap().syndrome(), Some(syndrome));
        pair.reconnect();
    }
}

#[test]
fn r26_a4_the_pieces_of_a_write_add_up() {
    for (announced, last, good) in [
        (512, 256, true),
        (512, 255, false),
        (511, 255, true),
        (511, 256, false),
        (513, 256, false),
        (257, 1, true),
        (257, 2, false),
        (256, 1, false),
        (0, 1, false),
        (u32::MAX, 256, false),
    ] {
        let mut pair = Pair::rc();
        let (va, rkey) = pair.target(0);
        let first = Forged::data(FIRST, EPSN, &[1; 256]).reth(va, rkey, announced);
        pair.give(&first.no_ack());
        let mut answer = pair.collect();
        if answer.is_empty() {
            answer = pair.hit(&Forged::data(LAST, EPSN + 1, &vec![2; last]));
        }
        let syndrome = answer[0].syndrome();
        assert_eq!(syndrome == Some(ACK), good, "{announced} = 256 + {last}");
        // Never a byte behind what was announced.
        let end = announced.min(4096) as usize;
        assert!(pair.nodes[1].bytes(end, 4096).iter().all(|byte| *byte == 0));
    }
}

#[test]
fn r26_a_write_that_ends_too_early_or_goes_on_too_long() {
    for (announced, pieces) in [(768, [MIDDLE, LAST]), (512, [MIDDLE, MIDDLE])] {
        let mut pair = Pair::rc();
        let (va, rkey) = pair.target(0);
        pair.give(&Forged::data(FIRST, EPSN, &[1; 256]).reth(va, rkey, announced + 256).no_ack());
        pair.give(&Forged::data(pieces[0], EPSN + 1, &[2; 256]).no_ack());
        let last = pair.reply(&Forged::data(pieces[1], EPSN + 2, &[3; 256]));
        let good = announced == 512 && pieces[1] == LAST;
        let syndrome = if good { ACK } else { NAK_INVALID };
        assert_eq!(last, acknowledge(EPSN + 2, syndrome));
    }
}

#[test]
fn r27_a_send_longer_than_its_receive() {
    for (posted, length, good) in [(8, 8, true), (8, 9, false), (0, 0, true), (0, 1, false)] {
        let mut pair = Pair::rc();
        pair.post(1, 64, posted);
        pair.post(2, 256, 64);
        let answer = pair.reply(&Forged::send(EPSN, &vec![1; length]));
        if good {
            assert_eq!(answer, acknowledge(EPSN, ACK));
            assert_eq!(pair.received(), [(1, WcStatus::Success)]);
            continue;
        }
        assert_eq!(answer, acknowledge(EPSN, NAK_INVALID));
        assert_eq!(pair.received(), [(1, WcStatus::LocLenErr), (2, WcStatus::WrFlushErr)]);
        assert!(pair.memory().iter().all(|byte| *byte == 0));
    }
}

#[test]
fn r27_a_long_send_writes_nothing_behind_its_receive() {
    let mut pair = Pair::rc();
    pair.post(1, 0, 300);
    pair.give(&Forged::data(Opcode::RC_SEND_FIRST, EPSN, &[1; 256]).no_ack());
    let last = Forged::data(Opcode::RC_SEND_LAST, EPSN + 1, &[1; 45]);
    assert_eq!(pair.reply(&last), acknowledge(EPSN + 1, NAK_INVALID));
    assert_eq!(pair.received(), [(1, WcStatus::LocLenErr)]);
    assert!(pair.nodes[1].bytes(256, 1024).iter().all(|byte| *byte == 0));
}
