//! UC (R97, R98, R100).

use uroce_memory::{Access, Rkey, Sge};
use uroce_transport::*;
use uroce_wire::{DropReason, Opcode as O};

use crate::harness::forge::*;
use crate::harness::*;

fn uc() -> Pair {
    Pair::of(QpType::Uc)
}

/// A SEND in three packets from `psn` on.
fn long_send(psn: u32, fill: u8) -> [Forged; 3] {
    [
        Forged::data(O::UC_SEND_FIRST, psn, &[fill; 256]),
        Forged::data(O::UC_SEND_MIDDLE, psn + 1, &[fill; 256]),
        Forged::data(O::UC_SEND_LAST, psn + 2, &[fill; 100]),
    ]
}

#[test]
fn r97_a_message_with_a_gap_is_dropped_and_its_receive_used_again() {
    for lost in 0..3 {
        let mut pair = uc();
        pair.post(1, 0, 1024);
        pair.post(2, 4096, 1024);
        for (index, forged) in long_send(EPSN, 1).iter().enumerate() {
            if index != lost {
                assert_eq!(pair.reply(forged), []);
            }
        }
        assert_eq!(pair.received(), [], "lost {lost}");
        for forged in long_send(EPSN + 3, 2) {
            assert_eq!(pair.reply(&forged), []);
        }
        let wc = pair.nodes[1].recvs();
        assert_eq!((wc.len(), wc[0].wr_id, wc[0].byte_len), (1, 1, 612), "lost {lost}");
        assert_eq!(pair.nodes[1].bytes(0, 612), [2; 612]);
        assert_eq!(pair.state(), QpState::Rts);
    }
}

#[test]
fn r97_first_or_only_inside_a_message_starts_a_new_one() {
    let mut pair = uc();
    pair.post(1, 0, 1024);
    pair.give(&long_send(EPSN, 1)[0]);
    pair.give(&Forged::data(O::UC_SEND_ONLY, EPSN + 1, b"new"));
    assert_eq!(pair.received(), [(1, WcStatus::Success)]);
    assert_eq!(pair.nodes[1].bytes(0, 3), b"new");
}

#[test]
fn r97_middle_or_last_of_another_kind_drops_the_message() {
    let mut pair = uc();
    let (va, rkey) = pair.target(8192);
    pair.post(1, 0, 1024);
    pair.give(&long_send(EPSN, 1)[0]);
    pair.give(&Forged::data(O::UC_WRITE_LAST, EPSN + 1, b"odd"));
    pair.give(&long_send(EPSN, 1)[2]);
    assert_eq!((pair.received(), pair.dropped(DropReason::UcInvalid)), (vec![], 1));
    pair.give(&Forged::data(O::UC_WRITE_ONLY, EPSN + 3, b"next").reth(va, rkey, 4));
    assert_eq!(pair.nodes[1].bytes(8192, 4), b"next");
}

#[test]
fn r97_the_psn_of_a_new_message_is_taken_over() {
    let mut pair = uc();
    let (va, rkey) = pair.target(0);
    for psn in [EPSN + 1000, 0x7f_0000, 0xff_ffff, 0] {
        pair.give(&Forged::data(O::UC_WRITE_ONLY, psn, &[psn as u8]).reth(va, rkey, 1));
        assert_eq!(pair.nodes[1].bytes(0, 1), [psn as u8], "{psn:#x}");
        assert_eq!(pair.expected(), (psn + 1) & 0xff_ffff);
    }
}

#[test]
fn r97_first_or_only_begins_a_message_whatever_its_psn() {
    let mut pair = uc();
    for wr_id in 0..4 {
        pair.post(wr_id, 0, 64);
    }
    let send = |psn| Forged::data(O::UC_SEND_ONLY, psn, b"x");
    pair.give(&send(EPSN));
    pair.give(&send(EPSN));
    assert_eq!(pair.received().len(), 2, "nothing tells a repetition from a message of its own");
    pair.give(&send(EPSN + 1 + 0x40_0000));
    pair.give(&send(EPSN + 1));
    assert_eq!((pair.received().len(), pair.expected()), (2, EPSN + 2));
}

#[test]
fn r97_messages_that_overtake_each_other_all_arrive() {
    let mut pair = uc();
    for wr_id in 0..3 {
        pair.post(wr_id, wr_id as usize * 1024, 1024);
    }
    pair.give(&Forged::data(O::UC_SEND_ONLY, EPSN + 3, b"second"));
    for forged in long_send(EPSN, 1) {
        pair.give(&forged);
    }
    pair.give(&Forged::data(O::UC_SEND_ONLY, EPSN + 4, b"third"));
    assert_eq!(pair.received().len(), 3);
    assert_eq!(pair.nodes[1].bytes(1024, 612), [1; 612]);
    assert_eq!(pair.dropped(DropReason::UcOutOfSequence), 0);
}

/// Both ends have an SRQ with one receive.
fn one_shared_receive() -> Pair {
    let srq = Some(SrqAttr { max_wr: 4, max_sge: 2, limit: 0 });
    let mut pair = Pair::new(Setup { qp_type: QpType::Uc, srq, ..Setup::default() });
    pair.post(1, 0, 512);
    pair
}

fn waiting_receives(pair: &Pair) -> usize {
    let node = &pair.nodes[1];
    node.srqs.get(node.qp.srq().unwrap()).unwrap().len()
}

#[test]
fn r116_a_message_that_is_dropped_gives_its_receive_back_to_the_srq() {
    // Too long, cut short, refused in the middle.
    let ends = [
        Forged::data(O::UC_SEND_LAST, EPSN + 1, &[2; 256]),
        Forged::data(O::UC_SEND_LAST, EPSN + 2, &[2; 8]),
        Forged::data(O::UC_WRITE_LAST, EPSN + 1, &[2; 8]),
    ];
    for last in ends {
        let mut pair = one_shared_receive();
        pair.give(&Forged::data(O::UC_SEND_FIRST, EPSN, &[1; 256]));
        assert_eq!(waiting_receives(&pair), 0);
        if last.bth.opcode == O::UC_SEND_LAST && last.bth.psn.get() == EPSN + 1 {
            pair.give(&Forged::data(O::UC_SEND_MIDDLE, EPSN + 1, &[1; 256]));
            pair.give(&Forged::data(O::UC_SEND_LAST, EPSN + 2, &[1; 256]));
        } else {
            pair.give(&last);
        }
        assert_eq!((waiting_receives(&pair), pair.received()), (1, vec![]), "{:?}", last.bth);
        pair.give(&Forged::data(O::UC_SEND_ONLY, EPSN + 9, b"fits"));
        assert_eq!(pair.received(), [(1, WcStatus::Success)]);
    }
}

#[test]
fn r116_a_write_behind_a_send_that_was_cut_short_leaves_the_receive_to_the_srq() {
    // Its other packets were lost, or it ended there.
    for psn in [EPSN + 1, EPSN + 2] {
        let mut pair = one_shared_receive();
        let (va, rkey) = pair.target(8192);
        pair.give(&Forged::data(O::UC_SEND_FIRST, EPSN, &[1; 256]));
        assert_eq!(waiting_receives(&pair), 0);
        pair.give(&Forged::data(O::UC_WRITE_ONLY, psn, b"next").reth(va, rkey, 4));
        assert_eq!(pair.nodes[1].bytes(8192, 4), b"next");
        assert_eq!((waiting_receives(&pair), pair.received()), (1, vec![]));
    }
}

#[test]
fn r97_a_write_cut_short_does_not_complete() {
    let mut pair = uc();
    let (va, rkey) = pair.target(0);
    pair.post(1, 8192, 64);
    pair.give(&Forged::data(O::UC_WRITE_FIRST, EPSN, &[1; 256]).reth(va, rkey, 512));
    pair.give(&Forged::data(O::UC_WRITE_LAST_IMM, EPSN + 2, &[1; 256]).imm(1));
    assert_eq!(pair.received(), []);
    pair.give(&Forged::data(O::UC_WRITE_ONLY_IMM, EPSN + 3, b"x").reth(va, rkey, 1).imm(2));
    let wc = pair.nodes[1].recvs();
    assert_eq!((wc.len(), wc[0].wr_id, wc[0].imm, wc[0].byte_len), (1, 1, Some(2), 1));
}

#[test]
fn r97_no_receive_drops_the_message_silently() {
    let mut pair = uc();
    assert_eq!(pair.reply(&Forged::data(O::UC_SEND_ONLY, EPSN, b"x")), []);
    assert_eq!(pair.dropped(DropReason::UcNoReceive), 1);
    pair.post(1, 0, 64);
    pair.give(&Forged::data(O::UC_SEND_ONLY, EPSN + 1, b"y"));
    assert_eq!(pair.received(), [(1, WcStatus::Success)]);
}

#[test]
fn r97_too_long_for_the_receive_is_dropped_and_writes_nothing_behind_it() {
    let mut pair = uc();
    pair.post(1, 0, 8);
    pair.give(&Forged::data(O::UC_SEND_ONLY, EPSN, &[1; 9]));
    assert!(pair.memory().iter().all(|byte| *byte == 0));
    pair.give(&Forged::data(O::UC_SEND_ONLY, EPSN + 1, &[2; 8]));
    assert_eq!((pair.received(), pair.state()), (vec![(1, WcStatus::Success)], QpState::Rts));
}

#[test]
fn r90_r97_a_long_packet_does_not_say_that_the_srq_runs_low() {
    let srq = Some(SrqAttr { max_wr: 8, max_sge: 1, limit: 1 });
    for opcode in [O::UC_SEND_ONLY, O::UC_SEND_FIRST] {
        let mut pair = Pair::new(Setup { qp_type: QpType::Uc, srq, ..Setup::default() });
        pair.post(1, 0, 64);
        pair.give(&Forged::data(opcode, EPSN, &[1; 256]));
        assert_eq!((pair.dropped(DropReason::UcInvalid), pair.events()), (1, vec![]));
        pair.give(&Forged::data(O::UC_SEND_ONLY, EPSN + 1, &[2; 64]));
        let id = pair.nodes[1].qp.srq().unwrap();
        assert_eq!(pair.events(), [AsyncEvent::SrqLimitReached(id)], "when it is used up");
    }
}

#[test]
fn r98_a_bad_key_right_or_range_drops_the_write() {
    let mut pair = Pair::new(Setup {
        qp_type: QpType::Uc,
        mr_access: Access::LOCAL_WRITE | Access::REMOTE_READ,
        ..Setup::default()
    });
    let (va, rkey) = pair.target(0);
    let end = va + MR_LEN as u64;
    let tries = [(va, Rkey(1)), (va, rkey), (end, rkey), (u64::MAX - 1, rkey)];
    for (index, (at, key)) in tries.into_iter().enumerate() {
        let write = Forged::data(O::UC_WRITE_ONLY, EPSN + index as u32, b"data").reth(at, key, 4);
        assert_eq!(pair.reply(&write), []);
    }
    assert_eq!(pair.dropped(DropReason::UcAccess), 4);
    assert!(pair.memory().iter().all(|byte| *byte == 0));
    assert_eq!((pair.state(), pair.events()), (QpState::Rts, vec![]));
    // R29 holds here too.
    pair.give(&Forged::data(O::UC_WRITE_ONLY, EPSN + 4, b"").reth(1, Rkey(2), 0));
    assert_eq!(pair.nodes[1].counters.rdma_recvs, 1);
}

#[test]
fn r38_a_bad_lkey_is_the_receivers_own_error() {
    let mut pair = uc();
    let bad = Sge { lkey: uroce_memory::Lkey(5), ..pair.nodes[1].sge(0, 64) };
    pair.nodes[1].recv(1, &[bad]).unwrap();
    pair.post(2, 0, 64);
    assert_eq!(pair.reply(&Forged::data(O::UC_SEND_ONLY, EPSN, b"x")), []);
    assert_eq!(pair.received(), [(1, WcStatus::LocProtErr), (2, WcStatus::WrFlushErr)]);
    assert_eq!(pair.state(), QpState::Err);
}

#[test]
fn r20_uc_messages_across_the_wrap() {
    let setup = Setup { qp_type: QpType::Uc, psn: [0xff_fffe, 0x900], ..Setup::default() };
    let mut pair = Pair::new(setup);
    let data = pattern(4, 1000);
    pair.nodes[0].fill(0, &data);
    pair.post(1, 0, 1000);
    pair.post(2, 4096, 1000);
    let source = pair.nodes[0].sge(0, 1000);
    for wr_id in 0..2 {
        pair.nodes[0].send(&wr_sges(wr_id, SendOp::Send, &[source])).unwrap();
    }
    pair.run();
    assert_eq!(pair.received(), [(1, WcStatus::Success), (2, WcStatus::Success)]);
    assert_eq!(pair.nodes[1].bytes(4096, 1000), data);
    assert_eq!(pair.expected(), 6);
}
