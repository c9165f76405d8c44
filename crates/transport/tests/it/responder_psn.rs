//! PSNs at the responder (R15 to R20, B18).

use uroce_memory::{Access, Region};
use uroce_transport::*;
use uroce_wire::{DropReason, Opcode};

use crate::harness::forge::*;
use crate::harness::*;

fn starting_at(psn: u32) -> Pair {
    Pair::new(Setup { psn: [psn, 0x900], ..Setup::default() })
}

/// Every interesting place for a wrap.
const STARTS: [u32; 8] = [0, 1, 0x7f_fff0, 0x7f_ffff, 0x80_0000, 0xff_fff0, 0xff_fffe, 0xff_ffff];

fn at(start: u32, offset: u32) -> u32 {
    start.wrapping_add(offset) & 0xff_ffff
}

#[test]
fn r15_r16_the_half_range_splits_duplicates_from_gaps() {
    for start in STARTS {
        for (offset, duplicate) in
            [(1, false), (0x7f_ffff, false), (0x80_0000, true), (0xff_ffff, true)]
        {
            let mut pair = starting_at(start);
            let (va, rkey) = pair.target(0);
            let forged = Forged::write(at(start, offset), va, rkey, b"data");
            let answer = if duplicate {
                acknowledge(at(start, 0xff_ffff), ACK)
            } else {
                acknowledge(start, NAK_SEQUENCE)
            };
            assert_eq!(pair.reply(&forged), answer, "{start:#x} + {offset:#x}");
            assert_eq!(pair.nodes[1].bytes(0, 4), [0; 4]);
            assert_eq!(pair.expected(), start);
            assert_eq!(pair.nodes[1].counters.duplicate_request, u64::from(duplicate));
        }
    }
}

#[test]
fn r16_only_the_expected_psn_is_executed() {
    for start in STARTS {
        let mut pair = starting_at(start);
        let (va, rkey) = pair.target(0);
        for offset in 0..4 {
            let forged = Forged::write(at(start, offset), va, rkey, &[offset as u8 + 1]);
            assert_eq!(pair.reply(&forged), acknowledge(at(start, offset), ACK));
            assert_eq!(pair.nodes[1].bytes(0, 1), [offset as u8 + 1]);
        }
    }
}

#[test]
fn r18_r19_how_many_psns_a_request_takes() {
    for start in STARTS {
        for (length, psns) in [(0, 1), (1, 1), (255, 1), (256, 1), (257, 2), (512, 2), (513, 3)] {
            let mut pair = starting_at(start);
            let (va, rkey) = pair.target(0);
            let answers = pair.hit(&Forged::read(start, va, rkey, length));
            let got: Vec<_> = answers.iter().map(|answer| answer.psn).collect();
            let want: Vec<_> = (0..psns).map(|offset| at(start, offset)).collect();
            assert_eq!(got, want, "READ of {length} at {start:#x}");
            assert_eq!(pair.expected(), at(start, psns));
        }
        let mut pair = starting_at(start);
        let (va, rkey) = pair.target(0);
        pair.post(1, 0, 8);
        let ones = [
            Forged::fetch_add(start, va, rkey, 1),
            Forged::send(at(start, 1), b""),
            Forged::write(at(start, 2), va, rkey, b""),
            Forged::atomic_write(at(start, 3), va, rkey, 8, &[0; 8]),
            Forged::flush(at(start, 4), va, rkey, 8, (1, 0)),
        ];
        for (index, forged) in ones.iter().enumerate() {
            assert_eq!(pair.hit(forged).len(), 1);
            assert_eq!(pair.expected(), at(start, index as u32 + 1));
        }
    }
}

#[test]
fn r18_a_read_of_2_31_bytes_takes_half_the_psn_space() {
    let mut pair = Pair::rc();
    let region = Region::alloc(1 << 31).unwrap();
    let (node, access) = (&mut pair.nodes[1], Access::REMOTE_READ);
    let mr = node.mem.reg_mr(node.pd, region.clone(), region.addr(), access).unwrap();
    pair.give(&Forged::read(EPSN, region.addr(), mr.rkey, 1 << 31));
    assert_eq!(pair.expected(), at(EPSN, 0x80_0000));
    let first = pair.next_answer().unwrap();
    assert_eq!((first.name(), first.psn), ("RC_READ_RESPONSE_FIRST", EPSN));
    // The last packet is still a duplicate, the one behind it is the next request.
    let last = Forged::read(at(EPSN, 0x7f_ffff), region.addr() + 0x7fff_ff00, mr.rkey, 256);
    pair.give(&last);
    assert_eq!(pair.nodes[1].counters.duplicate_request, 1);
    let answer = pair.next_answer().unwrap();
    assert_eq!((answer.name(), answer.psn), ("RC_READ_RESPONSE_ONLY", at(EPSN, 0x7f_ffff)));
}

#[test]
fn r18_r49_the_ack_behind_a_read_of_half_the_psn_space_waits_for_it() {
    let mut pair = Pair::rc();
    let region = Region::alloc(1 << 31).unwrap();
    let (node, access) = (&mut pair.nodes[1], Access::REMOTE_READ);
    let mr = node.mem.reg_mr(node.pd, region.clone(), region.addr(), access).unwrap();
    let (va, rkey) = pair.target(0);
    pair.give(&Forged::read(EPSN, region.addr(), mr.rkey, 1 << 31));
    pair.give(&Forged::write(at(EPSN, 0x80_0000), va, rkey, b"behind"));
    assert_eq!(pair.nodes[1].bytes(0, 6), b"behind");
    let first = pair.next_answer().unwrap();
    assert_eq!((first.name(), first.psn), ("RC_READ_RESPONSE_FIRST", EPSN));
}

#[test]
fn b18_a33_r59_an_atomic_one_lap_of_psns_ago_is_not_mistaken_for_a_new_one() {
    let mut pair = Pair::rc();
    let region = Region::alloc(1 << 31).unwrap();
    let (node, access) = (&mut pair.nodes[1], Access::REMOTE_READ);
    let mr = node.mem.reg_mr(node.pd, region.clone(), region.addr(), access).unwrap();
    let (va, rkey) = pair.target(0);
    pair.nodes[1].region.store_u64(0, 10).unwrap();
    let atomic = Forged::fetch_add(EPSN, va, rkey, 1);
    let original = |seen: &Seen| seen.packet().atomic_ack_eth().unwrap().original;
    assert_eq!(original(&pair.hit(&atomic)[0]), 10);
    // Two READs take all PSNs but one; who goes on then has their responses (R17).
    pair.give(&Forged::read(EPSN + 1, region.addr(), mr.rkey, (1 << 31) - 256));
    pair.give(&Forged::read(at(EPSN, 0x80_0000), region.addr(), mr.rkey, 1 << 31));
    assert_eq!(pair.expected(), EPSN);
    pair.give(&atomic);
    assert_eq!(pair.nodes[1].region.load_u64(0).unwrap(), 12);
    assert_eq!(original(&pair.next_answer().unwrap()), 11);
    // Repeated, it gives its own result and not that of the earlier lap.
    pair.give(&atomic);
    assert_eq!(pair.nodes[1].region.load_u64(0).unwrap(), 12);
    assert_eq!(original(&pair.next_answer().unwrap()), 11);
}

#[test]
fn r20_b18_every_operation_across_the_wrap() {
    for back in 0..12u32 {
        let start = at(0, back.wrapping_neg());
        let setup = Setup { psn: [start, start], ..Setup::default() };
        let mut pair = Pair::new(setup);
        let data = pattern(3, 1000);
        pair.nodes[0].fill(0, &data);
        pair.post(1, 0, 1000);
        pair.post(2, 0, 1000);
        let (va, rkey) = pair.target(4096);
        let source = pair.nodes[0].sge(0, 1000);
        let back_to = pair.nodes[0].sge(8192, 1000);
        let word = pair.nodes[0].sge(16_384, 8);
        let send = |pair: &mut Pair, wr: SendWr<'_>| pair.nodes[0].send(&wr).unwrap();
        send(&mut pair, wr_sges(1, SendOp::Send, &[source]));
        send(&mut pair, wr_sges(2, SendOp::WriteWithImm { va, rkey, imm: 5 }, &[source]));
        send(&mut pair, wr_sges(3, SendOp::Read { va, rkey }, &[back_to]));
        let (at_word, add) = (va + 4096, 7);
        send(&mut pair, wr_sges(4, SendOp::FetchAdd { va: at_word, rkey, add }, &[word]));
        pair.run();
        let done = pair.nodes[0].sends();
        assert!(done.len() == 4 && done.iter().all(Wc::is_ok), "{start:#x} {done:?}");
        assert_eq!(pair.nodes[0].bytes(8192, 1000), data);
        assert_eq!(pair.nodes[1].region.load_u64(8192).unwrap(), 7);
        assert_eq!(pair.expected(), at(start, 4 + 4 + 4 + 1));
        assert_eq!(pair.nodes[0].counters.completer_retry_err, 0);
    }
}

#[test]
fn b18_more_than_2_17_psns_behind_every_boundary() {
    for start in [0xff_fff0, 0x7f_fff0, 0xff_ffff] {
        let mut pair = starting_at(start);
        let (va, rkey) = pair.target(0);
        // 260 messages of 512 packets each, without ever waiting for an ACK.
        let mut psn = start;
        for _ in 0..260 {
            let first =
                Forged::data(Opcode::RC_WRITE_FIRST, psn, &[1; 256]).reth(va, rkey, 512 * 256);
            pair.give(&first.no_ack());
            for offset in 1..511 {
                let middle = Forged::data(Opcode::RC_WRITE_MIDDLE, at(psn, offset), &[2; 256]);
                pair.give(&middle.no_ack());
            }
            pair.give(&Forged::data(Opcode::RC_WRITE_LAST, at(psn, 511), &[3; 256]));
            psn = at(psn, 512);
        }
        assert_eq!(pair.expected(), psn);
        let answers = pair.collect();
        assert_eq!(said(&answers), acknowledge(at(psn, 0xff_ffff), ACK));
        assert_eq!(msns(&answers), [260]);
        assert_eq!(pair.dropped(DropReason::PsnOutOfSequence), 0);
    }
}

/// READs of 2^23 PSNs each, none of them answered before the next: a requester that keeps R17 does not need the older
/// answer any more, and none can be told from one that is ahead.
#[test]
fn r17_an_answer_half_of_all_psns_behind_the_newest_request_is_dropped() {
    const PSNS: u32 = 1 << 23;
    let mut pair = Pair::rc();
    let node = &mut pair.nodes[1];
    let region = Region::alloc(1 << 31).unwrap();
    let (va, access) = (region.addr(), Access::REMOTE_READ);
    let rkey = node.mem.reg_mr(node.pd, region, va, access).unwrap().rkey;
    pair.give(&Forged::read(EPSN, va, rkey, 1 << 31));
    pair.give(&Forged::read(EPSN + PSNS, va, rkey, 1 << 31));
    // The PSNs begin again.
    pair.give(&Forged::read(EPSN, va, rkey, 8));
    let answers: Vec<_> = std::iter::from_fn(|| pair.next_answer()).take(2).collect();
    assert_eq!(said(&answers), [("RC_READ_RESPONSE_ONLY", EPSN, Some(ACK))]);
    assert_eq!(pair.state(), QpState::Rts);
}
