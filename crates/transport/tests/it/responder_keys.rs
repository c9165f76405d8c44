//! Keys, rights, ranges, alignment and depth (R28 to R36, B4, B5, B10).

use uroce_memory::{Access, Rkey};
use uroce_transport::*;
use uroce_wire::{Opcode, Qpn};

use crate::harness::forge::*;
use crate::harness::*;

const FIRST: Opcode = Opcode::RC_WRITE_FIRST;

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
    assert_eq!(pair.reply(&zero[1]), []);
    assert_eq!(
        pair.reply(&Forged::write(EPSN + 3, u64::MAX, bogus, b"")),
        acknowledge(EPSN + 3, ACK)
    );
    assert_eq!(pair.reply(&zero[0]), acknowledge(EPSN + 3, ACK));
    assert_eq!(pair.state(), QpState::Rts);
}

#[test]
fn r30_flush_is_always_validated() {
    let bogus = Rkey(0xdead_beef);
    for (length, rkey, kind, solicited, syndrome) in [
        (64, None, (1, 0), false, ACK),
        (64, None, (1, 1), false, ACK),
        (64, None, (3, 1), false, NAK_INVALID),
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
