//! The responder's in-order path: sequence, lengths, keys, receives (R21 to R42).

mod harness;
use harness::forge::*;
use harness::*;
use uroce_memory::{Access, MwBind, MwType, Region, Rkey, Sge};
use uroce_transport::*;
use uroce_wire::{Opcode, Qpn, rnr_timer_us};

const FIRST: Opcode = Opcode::RC_WRITE_FIRST;
const MIDDLE: Opcode = Opcode::RC_WRITE_MIDDLE;
const LAST: Opcode = Opcode::RC_WRITE_LAST;

/// A pair whose peer is in the middle of a SEND (`FIRST` has PSN [`EPSN`]) or WRITE of 768 bytes.
fn in_the_middle_of(write: bool) -> Pair {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.post(1, 4096, 4096);
    let first = if write {
        Forged::data(FIRST, EPSN, &[1; 256]).reth(va, rkey, 768)
    } else {
        Forged::data(Opcode::RC_SEND_FIRST, EPSN, &[1; 256])
    };
    assert_eq!(pair.reply(&first), acknowledge(EPSN, ACK));
    pair
}

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
    let cases: [(Access, Forge); 6] = [
        (Access::REMOTE_WRITE, |va, rkey| Forged::write(EPSN, va, rkey, &[1; 8])),
        (Access::REMOTE_WRITE, |va, rkey| Forged::atomic_write(EPSN, va, rkey, 8, &[1; 8])),
        (Access::REMOTE_READ, |va, rkey| Forged::read(EPSN, va, rkey, 8)),
        (Access::REMOTE_ATOMIC, |va, rkey| Forged::fetch_add(EPSN, va, rkey, 1)),
        (Access::FLUSH_GLOBAL, |va, rkey| Forged::flush(EPSN, va, rkey, 8, (1, 0))),
        (Access::FLUSH_PERSISTENT, |va, rkey| Forged::flush(EPSN, va, rkey, 8, (2, 0))),
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

/// Sends every operation with `(va, rkey)` for 8 bytes; all must be refused with NAK 0x62.
fn refused(pair: &mut Pair, va: u64, rkey: Rkey, why: &str) {
    let before = pair.memory();
    for forged in [
        Forged::write(EPSN, va, rkey, &[9; 8]),
        Forged::data(FIRST, EPSN, &[9; 256]).reth(va, rkey, 264),
        Forged::read(EPSN, va, rkey, 8),
        Forged::fetch_add(EPSN, va, rkey, 1),
        Forged::compare_swap(EPSN, va, rkey, 0, 1),
        Forged::atomic_write(EPSN, va, rkey, 8, &[9; 8]),
        Forged::flush(EPSN, va, rkey, 8, (1, 0)),
    ] {
        let opcode = forged.bth.opcode;
        assert_eq!(pair.reply(&forged), acknowledge(EPSN, NAK_ACCESS), "{opcode}: {why}");
        assert_eq!(pair.events(), [AsyncEvent::QpAccessErr(Qpn::new(QPNS[1]))], "{opcode}: {why}");
        assert_eq!(pair.state(), QpState::Err);
        pair.reconnect();
    }
    assert!(pair.memory() == before, "{why}");
}

#[test]
fn r28_r31_r34_keys_that_give_no_access() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    refused(&mut pair, va, Rkey(rkey.0 ^ 1), "wrong variant");
    refused(&mut pair, va, Rkey(0), "key 0");
    refused(&mut pair, va + MR_LEN as u64, rkey, "behind the region");
    refused(&mut pair, va + MR_LEN as u64 - 4 + 4, rkey, "at its very end");
    refused(&mut pair, va - 8, rkey, "in front of the region");
    let node = &mut pair.nodes[1];
    let stranger = node.mem.alloc_pd().unwrap();
    let region = node.region.clone();
    let foreign = node.mem.reg_mr(stranger, region.clone(), va, all_access()).unwrap();
    refused(&mut pair, va, foreign.rkey, "another protection domain");
    let node = &mut pair.nodes[1];
    let local = node.mem.reg_mr(node.pd, region, va, Access::LOCAL_WRITE).unwrap();
    refused(&mut pair, va, local.rkey, "no remote right");
    let gone = pair.nodes[1].mr;
    pair.nodes[1].mem.dereg_mr(gone.id).unwrap();
    refused(&mut pair, va, gone.rkey, "deregistered");
}

#[test]
fn r28_each_operation_needs_its_own_right() {
    let rights = [
        (Access::REMOTE_WRITE, 0x0a),
        (Access::REMOTE_WRITE, 0x1d),
        (Access::REMOTE_READ, 0x0c),
        (Access::REMOTE_ATOMIC, 0x14),
        (Access::FLUSH_GLOBAL, 0x1c),
    ];
    for (right, opcode) in rights {
        for (granted, syndrome) in [(right, ACK), (all_access() - right, NAK_ACCESS)] {
            let mr_access = granted | Access::LOCAL_WRITE;
            let mut pair = Pair::new(Setup { mr_access, ..Setup::default() });
            let (va, rkey) = pair.target(0);
            let forged = match opcode {
                0x0a => Forged::write(EPSN, va, rkey, &[1; 8]),
                0x1d => Forged::atomic_write(EPSN, va, rkey, 8, &[1; 8]),
                0x0c => Forged::read(EPSN, va, rkey, 8),
                0x14 => Forged::fetch_add(EPSN, va, rkey, 1),
                _ => Forged::flush(EPSN, va, rkey, 8, (1, 0)),
            };
            assert_eq!(pair.hit(&forged)[0].syndrome(), Some(syndrome), "{right:?} {granted:?}");
        }
    }
}

#[test]
fn r28_r31_ranges_at_the_edges_of_a_region() {
    let end = MR_LEN as u64;
    for (offset, length, good) in
        [(0, 256, true), (end - 256, 256, true), (end - 255, 256, false), (end - 1, 1, true)]
    {
        let mut pair = Pair::rc();
        let (va, rkey) = pair.target(0);
        let write = Forged::write(EPSN, va + offset, rkey, &vec![1; length]);
        let syndrome = if good { ACK } else { NAK_ACCESS };
        assert_eq!(pair.reply(&write), acknowledge(EPSN, syndrome), "{offset:#x} + {length}");
    }
    // R31: the first packet fits, the message does not: not one byte is written.
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(MR_LEN - 511);
    let first = Forged::data(FIRST, EPSN, &[1; 256]).reth(va, rkey, 512);
    assert_eq!(pair.reply(&first), acknowledge(EPSN, NAK_ACCESS));
    assert!(pair.memory().iter().all(|byte| *byte == 0));
}

#[test]
fn r29_a20_b10_zero_length_needs_no_key() {
    let mut pair = Pair::rc();
    let bogus = Rkey(0xdead_beef);
    pair.post(1, 0, 8);
    let zero = [
        Forged::write(EPSN, u64::MAX, bogus, b""),
        Forged::data(Opcode::RC_WRITE_ONLY_IMM, EPSN + 1, b"").reth(7, bogus, 0).imm(5),
        Forged::read(EPSN + 2, u64::MAX, bogus, 0),
    ];
    for forged in &zero {
        let answers = pair.hit(forged);
        assert_eq!((answers.len(), answers[0].syndrome()), (1, Some(ACK)));
        assert_eq!(answers[0].packet().payload(), b"");
    }
    let wc = pair.nodes[1].recvs()[0];
    assert_eq!((wc.opcode, wc.byte_len, wc.imm), (WcOpcode::RecvRdmaWithImm, 0, Some(5)));
    // B10: repeated, the key is still not looked at.
    assert_eq!(pair.reply(&zero[2]), [("RC_READ_RESPONSE_ONLY", EPSN + 2, Some(ACK))]);
    assert_eq!(pair.reply(&zero[0]), acknowledge(EPSN + 2, ACK));
    assert_eq!(pair.state(), QpState::Rts);
}

#[test]
fn r30_flush_is_always_validated() {
    let bogus = Rkey(0xdead_beef);
    for (length, rkey, kind, solicited, syndrome) in [
        (64, None, (1, 0), false, ACK),
        (64, None, (2, 0), false, ACK),
        (64, None, (3, 1), false, ACK),
        (0, None, (1, 0), false, ACK),
        (0, Some(bogus), (1, 0), false, NAK_ACCESS),
        (0, Some(bogus), (1, 1), false, NAK_ACCESS),
        (MR_LEN as u32 + 1, None, (1, 0), false, NAK_ACCESS),
        (MR_LEN as u32 + 1, None, (1, 1), false, ACK),
        (64, None, (0, 0), false, NAK_INVALID),
        (64, None, (1, 2), false, NAK_INVALID),
        (64, None, (1, 0), true, NAK_INVALID),
    ] {
        let mut pair = Pair::rc();
        let (va, own) = pair.target(0);
        let mut flush = Forged::flush(EPSN, va, rkey.unwrap_or(own), length, kind);
        flush.bth.solicited = solicited;
        let answer = pair.hit(&flush);
        assert_eq!(answer[0].syndrome(), Some(syndrome), "{length} {kind:?} {solicited}");
        let name = if syndrome == ACK { "RC_READ_RESPONSE_ONLY" } else { "RC_ACKNOWLEDGE" };
        assert_eq!((answer.len(), answer[0].name(), answer[0].psn), (1, name, EPSN));
    }
}

#[test]
fn r30_b4_an_atomic_write_has_exactly_8_bytes() {
    for (announced, payload, offset, syndrome) in [
        (8, 8, 0, ACK),
        (0, 8, 0, NAK_INVALID),
        (7, 8, 0, NAK_INVALID),
        (9, 8, 0, NAK_INVALID),
        (16, 8, 0, NAK_INVALID),
        (8, 0, 0, NAK_INVALID),
        (0, 0, 0, NAK_INVALID),
        (8, 4, 0, NAK_INVALID),
        (8, 12, 0, NAK_INVALID),
        (8, 8, 4, NAK_INVALID),
        (8, 8, 1, NAK_INVALID),
    ] {
        let mut pair = Pair::rc();
        let (va, rkey) = pair.target(offset);
        let forged = Forged::atomic_write(EPSN, va, rkey, announced, &vec![9; payload]);
        let got = pair.hit(&forged)[0].syndrome();
        assert_eq!(got, Some(syndrome), "{announced} {payload} {offset}");
        let written = pair.memory().iter().filter(|byte| **byte != 0).count();
        assert_eq!(written, if syndrome == ACK { 8 } else { 0 });
    }
}

#[test]
fn r32_b5_a3_ranges_that_wrap_at_2_64() {
    let mut pair = Pair::rc();
    let (_, rkey) = pair.target(0);
    for va in [0u64.wrapping_sub(8), 0xffff_ffff_ffff_fc00, 0u64.wrapping_sub(16)] {
        refused(&mut pair, va, rkey, "near 2^64");
    }
    let before = pair.memory();
    for (va, length) in [
        (0xffff_ffff_ffff_fc00, 0x400),
        (u64::MAX - 0x3fe, 0x400),
        (u64::MAX, 1),
        (u64::MAX, 2),
        (u64::MAX, 1 << 31),
        (pair.nodes[1].va(8), u32::MAX >> 1),
    ] {
        for forged in [
            Forged::read(EPSN, va, rkey, length),
            Forged::data(FIRST, EPSN, &[9; 256]).reth(va, rkey, length.max(257)),
            Forged::flush(EPSN, va, rkey, length, (1, 0)),
        ] {
            assert_eq!(pair.reply(&forged), acknowledge(EPSN, NAK_ACCESS), "{va:#x} + {length:#x}");
            pair.reconnect();
        }
    }
    assert!(pair.memory() == before);
}

#[test]
fn r33_a_misaligned_atomic_is_an_invalid_request() {
    for offset in 0..16 {
        for swap in [false, true] {
            let mut pair = Pair::rc();
            let (va, rkey) = pair.target(offset);
            let forged = if swap {
                Forged::compare_swap(EPSN, va, rkey, 0, u64::MAX)
            } else {
                Forged::fetch_add(EPSN, va, rkey, u64::MAX)
            };
            let good = offset % 8 == 0;
            let syndrome = if good { ACK } else { NAK_INVALID };
            assert_eq!(pair.hit(&forged)[0].syndrome(), Some(syndrome), "{offset}");
            let written = pair.memory().iter().filter(|byte| **byte != 0).count();
            assert_eq!(written, if good { 8 } else { 0 });
        }
    }
    // The region's memory is misaligned where its addresses are not.
    let mut pair = Pair::rc();
    let node = &mut pair.nodes[1];
    let odd = node.mem.reg_mr(node.pd, node.region.clone(), 0x10_0004, all_access()).unwrap();
    let atomic = Forged::fetch_add(EPSN, 0x10_0008, odd.rkey, 1);
    assert_eq!(pair.reply(&atomic), acknowledge(EPSN, NAK_INVALID));
}

#[test]
fn r34_an_atomic_is_big_endian_on_the_wire_and_native_in_memory() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.nodes[1].fill(0, &0x0102_0304_0506_0708u64.to_ne_bytes());
    let answers = pair.hit(&Forged::fetch_add(EPSN, va, rkey, 1));
    let bytes = &answers[0].bytes;
    assert_eq!(bytes[16..24], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(pair.nodes[1].bytes(0, 8), 0x0102_0304_0506_0709u64.to_ne_bytes());
}

#[test]
fn r35_one_read_more_than_max_dest_rd_atomic() {
    for depth in 0..5u8 {
        let mut pair = Pair::new(Setup { rd_atomic: depth, ..Setup::default() });
        let (va, rkey) = pair.target(0);
        let depth = u32::from(depth);
        for psn in EPSN..EPSN + depth {
            pair.give(&Forged::read(psn, va, rkey, 8));
        }
        pair.give(&Forged::read(EPSN + depth, va, rkey, 8));
        let answers = said(&pair.collect());
        assert_eq!(answers.len(), depth as usize + 1);
        assert_eq!(answers[depth as usize..], acknowledge(EPSN + depth, NAK_INVALID));
        assert_eq!(pair.state(), QpState::Err);
    }
}

#[test]
fn r35_repetitions_do_not_use_up_the_depth() {
    let mut pair = Pair::new(Setup { rd_atomic: 2, ..Setup::default() });
    let (va, rkey) = pair.target(0);
    let reads: Vec<_> = (0..4).map(|i| Forged::read(EPSN + i, va, rkey, 8)).collect();
    for read in &reads[..2] {
        assert_eq!(pair.hit(read).len(), 1);
    }
    // Both were answered, but late; the requester repeats them and, having the first answers,
    // goes on, all before we get to send anything.
    for read in [&reads[0], &reads[1], &reads[2], &reads[3]] {
        pair.give(read);
    }
    let psns: Vec<_> = pair.collect().iter().map(|answer| answer.psn).collect();
    assert_eq!(psns, [EPSN + 2, EPSN + 3]);
    assert_eq!(pair.state(), QpState::Rts);
}

#[test]
fn r37_no_receive_draws_rnr_with_the_timer_and_psn() {
    for timer in [0, 1, 12, 25, 31] {
        let mut pair = Pair::new(Setup { min_rnr_timer: timer, ..Setup::default() });
        let (va, rkey) = pair.target(0);
        let with_imm = Forged::data(Opcode::RC_WRITE_ONLY_IMM, EPSN, &[5; 8]);
        let with_imm = with_imm.reth(va, rkey, 8).imm(9);
        for forged in [Forged::send(EPSN, b"hello"), with_imm.clone()] {
            let answers = pair.hit(&forged);
            assert_eq!(said(&answers), acknowledge(EPSN, 0x20 | timer));
            assert_eq!((msns(&answers), pair.expected()), (vec![0], EPSN));
            assert!(pair.memory().iter().all(|byte| *byte == 0));
        }
        pair.post(1, 64, 64);
        assert_eq!(pair.reply(&with_imm), acknowledge(EPSN, ACK));
        let wc = pair.nodes[1].recvs()[0];
        assert_eq!((wc.wr_id, wc.byte_len, wc.imm), (1, 8, Some(9)));
        assert_eq!(pair.nodes[1].bytes(0, 8), [5; 8]);
    }
}

#[test]
fn r37_a_long_write_with_immediate_waits_at_its_last_packet() {
    let mut pair = in_the_middle_of(true);
    pair.nodes[1].recvs();
    let mut pair2 = Pair::rc();
    let (va, rkey) = pair2.target(0);
    pair2.give(&Forged::data(FIRST, EPSN, &[1; 256]).reth(va, rkey, 260).no_ack());
    let last = Forged::data(Opcode::RC_WRITE_LAST_IMM, EPSN + 1, &[2; 4]).imm(3);
    assert_eq!(pair2.reply(&last), acknowledge(EPSN + 1, 0x20 | 12));
    pair2.post(1, 4096, 4);
    assert_eq!(pair2.reply(&last), acknowledge(EPSN + 1, ACK));
    assert_eq!(pair2.nodes[1].recvs()[0].byte_len, 260);
    // And with a receive there is no wait.
    let middle = Forged::data(MIDDLE, EPSN + 1, &[2; 256]).no_ack();
    pair.give(&middle);
    let last = Forged::data(Opcode::RC_WRITE_LAST_IMM, EPSN + 2, &[2; 256]).imm(3);
    assert_eq!(pair.reply(&last), acknowledge(EPSN + 2, ACK));
}

#[test]
fn r38_a_receive_with_a_bad_lkey() {
    let mut pair = Pair::rc();
    let good = pair.nodes[1].sge(0, 4);
    let bad = Sge { lkey: uroce_memory::Lkey(good.lkey.0 ^ 1), ..pair.nodes[1].sge(64, 64) };
    pair.nodes[1].recv(1, &[good, bad]).unwrap();
    pair.post(2, 128, 64);
    assert_eq!(pair.reply(&Forged::send(EPSN, &[1; 8])), acknowledge(EPSN, NAK_OPERATIONAL));
    assert_eq!(pair.received(), [(1, WcStatus::LocProtErr), (2, WcStatus::WrFlushErr)]);
    assert!(pair.memory().iter().all(|byte| *byte == 0));
    assert_eq!(pair.events(), []);
}

#[test]
fn r38_a_receive_in_read_only_memory() {
    let mut pair = Pair::rc();
    let node = &mut pair.nodes[1];
    let (region, access) = (node.region.clone(), Access::REMOTE_READ);
    let read_only = node.mem.reg_mr(node.pd, region.clone(), region.addr(), access).unwrap();
    let sge = Sge { addr: region.addr(), length: 64, lkey: read_only.lkey };
    node.recv(1, &[sge]).unwrap();
    assert_eq!(pair.reply(&Forged::send(EPSN, b"x")), acknowledge(EPSN, NAK_OPERATIONAL));
    assert_eq!(pair.received(), [(1, WcStatus::LocProtErr)]);
}

#[test]
fn r38_the_buffers_of_an_srq_belong_to_the_srqs_domain() {
    let srq = Some(SrqAttr { max_wr: 8, max_sge: 2, limit: 0 });
    let mut pair = Pair::new(Setup { srq, ..Setup::default() });
    let node = &mut pair.nodes[1];
    let pd = node.mem.alloc_pd().unwrap();
    let region = node.region.clone();
    let mr = node.mem.reg_mr(pd, region.clone(), region.addr(), all_access()).unwrap();
    // The SRQ is of the QP's domain here: a buffer of another domain is refused.
    let sge = Sge { addr: region.addr(), length: 64, lkey: mr.lkey };
    node.recv(1, &[sge]).unwrap();
    assert_eq!(pair.reply(&Forged::send(EPSN, b"x")), acknowledge(EPSN, NAK_OPERATIONAL));
    // The other way round: an SRQ of domain `pd` under a QP of another domain.
    pair.reconnect();
    let id = pair.nodes[1].qp.srq().unwrap();
    let attr = SrqAttr { max_wr: 8, max_sge: 2, limit: 0 };
    *pair.nodes[1].srqs.get_mut(id).unwrap() = SharedReceiveQueue::new(pd, &attr).unwrap();
    pair.nodes[1].recv(2, &[sge]).unwrap();
    assert_eq!(pair.reply(&Forged::send(EPSN, b"y")), acknowledge(EPSN, ACK));
    assert_eq!(pair.nodes[1].bytes(0, 1), b"y");
}

#[test]
fn r39_r40_data_is_there_before_completion_and_ack_and_in_order() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.post(1, 1024, 64);
    pair.post(2, 2048, 64);
    pair.give(&Forged::write(EPSN, va, rkey, b"first"));
    assert_eq!(pair.received(), []);
    pair.give(&Forged::send(EPSN + 1, b"second"));
    assert_eq!(pair.nodes[1].bytes(1024, 6), b"second");
    let with_imm = Forged::data(Opcode::RC_WRITE_ONLY_IMM, EPSN + 2, b"third");
    pair.give(&with_imm.reth(va + 64, rkey, 5).imm(7));
    pair.give(&Forged::read(EPSN + 3, va, rkey, 69));
    let done: Vec<_> =
        pair.nodes[1].recvs().iter().map(|wc| (wc.wr_id, wc.opcode, wc.byte_len, wc.imm)).collect();
    let want = [(1, WcOpcode::Recv, 6, None), (2, WcOpcode::RecvRdmaWithImm, 5, Some(7))];
    assert_eq!(done, want);
    let answers = pair.collect();
    assert_eq!(said(&answers)[0], ("RC_ACKNOWLEDGE", EPSN + 2, Some(ACK)));
    let read = answers[1].packet().payload().to_vec();
    assert_eq!((&read[..5], &read[64..]), (&b"first"[..], &b"third"[..]));
}

/// What a SEND_WITH_INVALIDATE of `rkey` does to a fresh pair prepared by `make`.
fn invalidate(make: impl FnOnce(&mut Pair) -> Rkey) -> (u8, Vec<(u64, WcStatus)>) {
    let mut pair = Pair::rc();
    let rkey = make(&mut pair);
    pair.post(1, 0, 64);
    let answers = pair.hit(&Forged::send_inv(EPSN, rkey, b"data"));
    assert_eq!(answers.len(), 1);
    // After the data (R41): it is there in any case.
    assert_eq!(pair.nodes[1].bytes(0, 4), b"data");
    (answers[0].syndrome().unwrap(), pair.received())
}

fn bound(pair: &mut Pair, mw_type: MwType, qpn: u32) -> Rkey {
    let (va, mr) = (pair.nodes[1].va(4096), pair.nodes[1].mr.lkey);
    let node = &mut pair.nodes[1];
    let mw = node.mem.alloc_mw(node.pd, mw_type).unwrap();
    let new_rkey = Rkey((mw.rkey.0 & !0xff) | (mw.rkey.0.wrapping_add(1) & 0xff));
    let access = Access::REMOTE_WRITE;
    let bind = MwBind { mw: mw.id, mr, new_rkey, va, length: 4096, access, pd: node.pd, qpn };
    node.mem.bind_mw(&bind).unwrap()
}

#[test]
fn r41_b24_what_a_peer_may_invalidate() {
    let own = QPNS[1];
    assert_eq!(invalidate(|p| bound(p, MwType::Type2B, own)), (ACK, vec![(1, WcStatus::Success)]));
    let refused = (NAK_ACCESS, vec![(1, WcStatus::LocAccessErr)]);
    let node = |pair: &mut Pair| pair.nodes[1].mr;
    assert_eq!(invalidate(|p| node(p).rkey), refused, "a registered region");
    assert_eq!(invalidate(|p| Rkey(node(p).lkey.0)), refused, "its lkey");
    assert_eq!(invalidate(|p| Rkey(node(p).rkey.0 ^ 0x80)), refused, "a wrong variant");
    assert_eq!(invalidate(|_| Rkey(0)), refused, "key 0");
    assert_eq!(invalidate(|p| bound(p, MwType::Type1, own)), refused, "a type 1 window");
    assert_eq!(invalidate(|p| bound(p, MwType::Type2B, own + 1)), refused, "of another QP");
    let wrong = |p: &mut Pair| Rkey(bound(p, MwType::Type2B, own).0 ^ 1);
    assert_eq!(invalidate(wrong), refused, "a wrong variant of a window");
    let unbound = |p: &mut Pair| {
        let node = &mut p.nodes[1];
        node.mem.alloc_mw(node.pd, MwType::Type2B).unwrap().rkey
    };
    assert_eq!(invalidate(unbound), refused, "a window that is not bound");
}

#[test]
fn r41_an_invalidated_window_gives_no_access_and_a_repetition_does_no_harm() {
    let mut pair = Pair::rc();
    let rkey = bound(&mut pair, MwType::Type2B, QPNS[1]);
    pair.post(1, 0, 64);
    let va = pair.nodes[1].va(4096);
    let send = Forged::send_inv(EPSN + 1, rkey, b"data");
    assert_eq!(pair.reply(&Forged::write(EPSN, va, rkey, b"in")), acknowledge(EPSN, ACK));
    assert_eq!(pair.reply(&send), acknowledge(EPSN + 1, ACK));
    let wc = pair.nodes[1].recvs()[0];
    assert_eq!((wc.invalidated, wc.flags), (Some(rkey.0), WcFlags::GRH | WcFlags::WITH_INV));
    assert_eq!(pair.reply(&send), acknowledge(EPSN + 1, ACK));
    let late = Forged::write(EPSN + 2, va, rkey, b"no");
    assert_eq!(pair.reply(&late), acknowledge(EPSN + 2, NAK_ACCESS));
    assert_eq!(pair.nodes[1].bytes(4096, 2), b"in");
}

#[test]
fn r42_only_the_solicited_bit_of_the_last_packet_raises_a_solicited_event() {
    let mut pair = Pair::rc();
    for wr_id in 0..4 {
        pair.post(wr_id, 0, 512);
    }
    let cq = pair.nodes[1].recv_cq;
    pair.nodes[1].cqs.get_mut(cq).unwrap().arm(Notify::Solicited);
    pair.give(&Forged::data(Opcode::RC_SEND_FIRST, EPSN, &[1; 256]).solicited());
    pair.give(&Forged::data(Opcode::RC_SEND_LAST, EPSN + 1, b"x"));
    pair.give(&Forged::send(EPSN + 2, b"x"));
    assert_eq!(pair.nodes[1].cqs.pop_event(), None);
    let (va, rkey) = pair.target(0);
    pair.give(&Forged::write(EPSN + 3, va, rkey, b"x").solicited());
    assert_eq!(pair.nodes[1].cqs.pop_event(), None, "a plain WRITE completes nothing");
    pair.give(&Forged::send(EPSN + 4, b"x").solicited());
    assert_eq!(pair.nodes[1].cqs.pop_event(), Some(cq));
    pair.give(&Forged::send(EPSN + 5, b"x").solicited());
    assert_eq!(pair.nodes[1].cqs.pop_event(), None, "once per arming");
    // An error counts as solicited.
    pair.post(9, 0, 0);
    pair.nodes[1].cqs.get_mut(cq).unwrap().arm(Notify::Solicited);
    pair.give(&Forged::send(EPSN + 6, b"too long"));
    assert_eq!(pair.nodes[1].cqs.pop_event(), Some(cq));
}

#[test]
fn b29_rnr_timer_code_25_is_61440_us() {
    assert_eq!(rnr_timer_us(25), 61_440);
}
