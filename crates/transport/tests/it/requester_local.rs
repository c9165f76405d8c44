//! R83, R84, R88, B13, B30 to B36: what the requester finds wrong itself, posting, inline data, and
//! messages of 2 GiB.

use uroce_memory::{Access, Region, Sge};
use uroce_transport::*;
use uroce_wire::{Mtu, Opcode};

use crate::harness::*;

#[test]
fn r83_a_bad_lkey_fails_with_nothing_on_the_wire_and_flushes_what_follows() {
    let mut pair = Pair::rc();
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let good = pair.nodes[0].sge(0, 100);
    let mut bad = good;
    bad.lkey.0 ^= 0x100;
    pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, &[good])).unwrap();
    pair.nodes[0].send(&wr_sges(2, SendOp::Write { va, rkey }, &[good, bad])).unwrap();
    pair.nodes[0].send(&wr_sges(3, SendOp::Write { va, rkey }, &[good])).unwrap();
    pair.run();
    let done = pair.nodes[0].sends();
    let got: Vec<_> = done.iter().map(|wc| (wc.wr_id, wc.status)).collect();
    use WcStatus as S;
    assert_eq!(got, [(1, S::Success), (2, S::LocProtErr), (3, S::WrFlushErr)]);
    let text = done[1].cause.to_string();
    assert!(text.contains("entry 1") && text.contains(&format!("{:#x}", bad.lkey.0)), "{text}");
    assert_eq!(pair.seen(0, "WRITE").len(), 1);
}

#[test]
fn r83_a_buffer_that_ends_inside_the_message_stops_it_where_it_ends() {
    let mut pair = Pair::rc();
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let source = [pair.nodes[0].sge(0, 512), pair.nodes[0].sge(MR_LEN - 100, 512)];
    pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, &source)).unwrap();
    pair.run();
    assert_eq!(pair.nodes[0].sends()[0].status, WcStatus::LocProtErr);
    assert_eq!(pair.seen(0, "WRITE").len(), 2);
}

#[test]
fn b35_operations_that_the_qp_cannot_do_complete_with_an_error() {
    for (qp_type, state) in [(QpType::Uc, QpState::Sqe), (QpType::Ud, QpState::Sqe)] {
        let mut ops = vec![
            SendOp::Read { va: 0, rkey: uroce_memory::Rkey(1) },
            SendOp::FetchAdd { va: 0, rkey: uroce_memory::Rkey(1), add: 1 },
            SendOp::AtomicWrite { va: 0, rkey: uroce_memory::Rkey(1) },
            SendOp::SendWithInvalidate(uroce_memory::Rkey(1)),
        ];
        if qp_type == QpType::Ud {
            ops.push(SendOp::Write { va: 0, rkey: uroce_memory::Rkey(1) });
            ops.push(SendOp::LocalInvalidate(uroce_memory::Rkey(1)));
        }
        for op in ops {
            let mut pair = Pair::of(qp_type);
            let ud = pair.ud_to(1);
            pair.nodes[0].send(&SendWr { ud, flags: SendFlags::empty(), ..wr(1, op) }).unwrap();
            pair.run();
            let done = pair.nodes[0].sends();
            assert_eq!((done.len(), done[0].status), (1, WcStatus::LocQpOpErr), "{op:?}");
            assert!(done[0].cause.to_string().contains(qp_type.name()));
            assert_eq!(pair.nodes[0].qp.state(), state);
            assert!(pair.trace.is_empty());
        }
    }
}

#[test]
fn r83_atomics_need_8_local_bytes() {
    for length in [0, 7, 9] {
        let mut pair = Pair::rc();
        let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
        let target = [pair.nodes[0].sge(0, length)];
        pair.nodes[0].send(&wr_sges(1, SendOp::FetchAdd { va, rkey, add: 1 }, &target)).unwrap();
        pair.run();
        let done = pair.nodes[0].sends();
        assert_eq!(done[0].status, WcStatus::LocLenErr);
        assert!(done[0].cause.to_string().contains("exactly 8"));
    }
}

#[test]
fn r84_a_ud_message_above_the_port_mtu_is_an_error_and_one_at_it_is_not() {
    for (length, status) in [(4096, WcStatus::Success), (4097, WcStatus::LocLenErr)] {
        let mut pair = Pair::of(QpType::Ud);
        let source = [pair.nodes[0].sge(0, length)];
        let ud = pair.ud_to(1);
        pair.nodes[0].send(&SendWr { ud, ..wr_sges(1, SendOp::Send, &source) }).unwrap();
        pair.run();
        let done = pair.nodes[0].sends();
        assert_eq!(done[0].status, status);
        if length == 4097 {
            assert!(pair.trace.is_empty());
            let text = done[0].cause.to_string();
            assert!(text.contains("4097") && text.contains("4096"), "{text}");
        }
    }
}

#[test]
fn b36_a_bad_request_in_a_chain_does_not_hold_up_the_good_ones() {
    let mut pair = Pair::rc();
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let many = [pair.nodes[0].sge(0, 8); 5];
    let chain = [&many[..1], &many[..1], &many[..], &many[..1]];
    let mut refused = None;
    for (id, sges) in chain.iter().enumerate() {
        let wr = wr_sges(id as u64, SendOp::Write { va, rkey }, sges);
        if let Err(error) = pair.nodes[0].send(&wr) {
            refused = Some((id, error));
            break;
        }
    }
    assert_eq!(refused, Some((2, PostError::TooManySges { count: 5, max: 4 })));
    pair.run();
    assert!(pair.nodes[0].sends().iter().map(|wc| wc.wr_id).eq([0, 1]));
}

#[test]
fn b34_inline_bytes_may_be_reused_at_once_and_survive_retransmission() {
    for length in [0usize, 1, 255, 256] {
        let mut pair = Pair::rc();
        let mut buffer = pattern(5, length);
        let target = pair.nodes[1].sge(0, 512);
        pair.nodes[1].recv(1, &[target]).unwrap();
        let parts: [&[u8]; 1] = [&buffer];
        pair.nodes[0].send(&wr_inline(1, SendOp::Send, &parts)).unwrap();
        buffer.fill(0);
        pair.lose_once(0, Opcode::RC_SEND_ONLY, 0);
        pair.run();
        assert_eq!(pair.nodes[1].recvs()[0].byte_len as usize, length);
        assert_eq!(pair.nodes[1].bytes(0, length), pattern(5, length));
    }
    let mut pair = Pair::rc();
    let long = [0u8; 257];
    let parts: [&[u8]; 1] = [&long];
    let error = pair.nodes[0].send(&wr_inline(1, SendOp::Send, &parts));
    assert_eq!(error, Err(PostError::InlineTooLong { length: 257, max: 256 }));
}

#[test]
fn b13_a_packet_lost_at_every_position_leaves_the_same_bytes() {
    for nth in 0..12 {
        let mut pair = Pair::rc();
        pair.nodes[0].fill(0, &pattern(1, 8000));
        // Entries of unequal length, with ends inside of packets (B33).
        let pieces = [(0, 1), (10, 700), (3000, 0), (4000, 1999)];
        let source: Vec<_> = pieces.iter().map(|(at, len)| pair.nodes[0].sge(*at, *len)).collect();
        let due: Vec<u8> =
            pieces.iter().flat_map(|(at, len)| pair.nodes[0].bytes(*at, *len as usize)).collect();
        let (va, rkey) = (pair.nodes[1].va(100), pair.nodes[1].rkey());
        pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, &source)).unwrap();
        let mut count = 0;
        pair.filter(move |_| {
            count += 1;
            if count == nth + 1 { Fate::Drop } else { Fate::Deliver }
        });
        pair.run();
        assert!(pair.nodes[0].sends()[0].is_ok());
        assert_eq!(pair.nodes[1].bytes(100, due.len()), due, "packet {nth}");
        assert!(pair.nodes[1].bytes(100 + due.len(), 4096).iter().all(|byte| *byte == 0));
    }
}

#[test]
fn r88_unsignalled_requests_report_errors_and_nothing_else() {
    let mut pair = Pair::rc();
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let quiet = |id, op| SendWr { flags: SendFlags::empty(), ..wr(id, op) };
    for id in 0..5 {
        pair.nodes[0].send(&quiet(id, SendOp::Write { va, rkey })).unwrap();
    }
    pair.run();
    assert!(pair.nodes[0].sends().is_empty());
    let bad = uroce_memory::Rkey(rkey.0 ^ 0x700);
    let source = [pair.nodes[0].sge(0, 8)];
    let write = SendOp::Write { va, rkey: bad };
    pair.nodes[0].send(&SendWr { data: SendData::Sges(&source), ..quiet(5, write) }).unwrap();
    pair.nodes[0].send(&quiet(6, SendOp::Write { va, rkey })).unwrap();
    pair.run();
    let got: Vec<_> = pair.nodes[0].sends().iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(got, [(5, WcStatus::RemAccessErr), (6, WcStatus::WrFlushErr)]);
}

/// A node with `length` bytes of registered memory, of which the wire sees only what it needs.
fn long_entries(pair: &mut Pair, length: u64) -> Vec<Sge> {
    const PIECE: u64 = 1 << 29;
    let node = &mut pair.nodes[0];
    let region = Region::alloc(PIECE as usize).unwrap();
    let mr = node.mem.reg_mr(node.pd, region.clone(), region.addr(), Access::LOCAL_WRITE).unwrap();
    let whole = Sge { addr: region.addr(), length: PIECE as u32, lkey: mr.lkey };
    let mut sges = vec![whole; (length / PIECE) as usize];
    if !length.is_multiple_of(PIECE) {
        sges.push(Sge { length: (length % PIECE) as u32, ..whole });
    }
    sges
}

#[test]
fn r25_the_first_packet_announces_2_gib() {
    two_gib(Mtu::M256);
}

#[test]
#[ignore = "makes 2^19 packets, which takes ten seconds without optimisation"]
fn r25_a_message_of_2_gib_is_numbered_to_its_last_packet() {
    two_gib(Mtu::M4096);
}

fn two_gib(mtu: Mtu) {
    let mut pair = Pair::new(Setup { mtu, qp_type: QpType::Uc, ..Setup::default() });
    let sges = long_entries(&mut pair, 1 << 31);
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, &sges)).unwrap();
    let mut out = vec![0; limits::MAX_PACKET];
    let (mut count, mut last) = (0u32, None);
    loop {
        let node = &mut pair.nodes[0];
        let Some(sent) = node.qp.poll_transmit(pair.now, &mut out, cx!(node)) else { break };
        if count == 0 {
            let first = uroce_wire::Packet::parse(&out[..sent.len]).unwrap();
            assert_eq!(first.bth.opcode, Opcode::UC_WRITE_FIRST);
            assert_eq!(first.reth().unwrap().length, 1 << 31);
        }
        count += 1;
        if mtu == Mtu::M256 && count == 3 {
            break;
        }
        last = Some(out[..sent.len].to_vec());
    }
    if mtu == Mtu::M256 {
        // 2^23 packets: the first few are enough here.
        return;
    }
    assert_eq!(count, 1 << 19);
    let last = last.unwrap();
    let packet = uroce_wire::Packet::parse(&last).unwrap();
    assert_eq!(packet.bth.opcode, Opcode::UC_WRITE_LAST);
    assert_eq!(packet.bth.psn.get(), (0x100 + (1 << 19) - 1) & 0xff_ffff);
    assert_eq!(packet.payload().len(), 4096);
    assert!(pair.nodes[0].sends()[0].is_ok());
}

#[test]
fn r25_one_byte_above_2_gib_is_refused_when_posted() {
    let mut pair = Pair::rc();
    let mut sges = long_entries(&mut pair, (1 << 31) - 4);
    let last = sges.len() - 1;
    sges[last].length += 5;
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let error = pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, &sges));
    assert_eq!(error, Err(PostError::MessageTooLong { length: (1 << 31) + 1 }));
}

#[test]
fn r25_a_read_of_2_gib_takes_its_psns_and_announces_them_in_pieces() {
    let mut pair = Pair::rc();
    let sges = long_entries(&mut pair, 1 << 31);
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    pair.nodes[0].send(&wr_sges(1, SendOp::Read { va, rkey }, &sges)).unwrap();
    pair.filter(|_| Fate::Drop);
    pair.run_for(1_000);
    let seen = pair.seen(0, "READ");
    assert_eq!(seen.len(), 1, "the first window holds one piece");
    assert_eq!(seen[0].packet().reth().unwrap().length, 256 * limits::SHORT_PATH_WINDOW / 2);
    assert_eq!(pair.nodes[0].qp.attr().sq_psn, 0x100 + limits::SHORT_PATH_WINDOW / 2);
}

#[test]
fn r82_who_has_to_stop_in_the_middle_of_a_message_asks_for_an_ack() {
    let mut pair = Pair::new(Setup { mtu: uroce_wire::Mtu::M1024, ..Setup::default() });
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let data = [pair.nodes[0].sge(0, 20 * 1024)];
    pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, &data)).unwrap();
    let node = &mut pair.nodes[0];
    assert!(!node.qp.ask_for_ack(), "nothing is on its way");
    let mut out = [0; limits::MAX_PACKET];
    let mut asks = |stop: bool| {
        let uncovered = stop && node.qp.ask_for_ack();
        let sent = node.qp.poll_transmit(pair.now, &mut out, cx!(node)).unwrap();
        let packet = uroce_wire::Packet::parse(&out[..sent.len]).unwrap();
        (uncovered, packet.bth.ack_req, node.qp.bytes_in_flight())
    };
    assert_eq!(asks(false), (false, false, 1024));
    assert_eq!(asks(false), (false, false, 2048));
    assert_eq!(asks(true), (true, true, 3072));
    assert_eq!(asks(true), (false, false, 4096), "all before it is covered");
}

#[test]
fn v93_a_local_invalidate_that_is_refused_is_a_memory_management_error() {
    for of_region in [true, false] {
        let mut pair = Pair::rc();
        let key = if of_region { pair.nodes[0].rkey() } else { uroce_memory::Rkey(0) };
        pair.nodes[0].send(&wr(1, SendOp::LocalInvalidate(key))).unwrap();
        pair.run();
        let done = pair.nodes[0].sends();
        assert_eq!((done.len(), done[0].status), (1, WcStatus::MwBindErr), "{}", done[0]);
        assert_eq!(pair.nodes[0].qp.state(), QpState::Err);
    }
}

#[test]
fn b30_a_work_request_is_read_once_when_it_is_posted() {
    for queue in ["send", "receive"] {
        let mut pair = Pair::rc();
        pair.nodes[0].fill(0, b"as posted");
        let (mut from, mut to) = ([pair.nodes[0].sge(0, 9)], [pair.nodes[1].sge(0, 64)]);
        pair.nodes[1].recv(1, &to).unwrap();
        pair.nodes[0].send(&wr_sges(2, SendOp::Send, &from)).unwrap();
        // The program uses its list for something else at once.
        for sge in if queue == "send" { &mut from } else { &mut to } {
            (sge.addr, sge.length, sge.lkey) = (0, u32::MAX, uroce_memory::Lkey(0));
        }
        pair.run();
        assert!(pair.nodes[0].sends().iter().all(Wc::is_ok), "{queue}");
        assert_eq!(pair.nodes[1].recvs()[0].byte_len, 9);
        assert_eq!(pair.nodes[1].bytes(0, 9), b"as posted");
    }
}

#[test]
fn b31_no_more_entries_than_the_queue_was_made_for() {
    let mut pair = Pair::rc();
    let max = pair.setup.caps.max_send_sge;
    pair.nodes[1].recv(1, &vec![pair.nodes[1].sge(0, 64); max as usize]).unwrap();
    for (count, due) in [(max, None), (max + 1, Some(())), (limits::MAX_SGE + 1, Some(()))] {
        let sges = vec![pair.nodes[0].sge(0, 8); count as usize];
        let refused = PostError::TooManySges { count: count as usize, max };
        let posted = pair.nodes[0].send(&wr_sges(1, SendOp::Send, &sges));
        assert_eq!(posted, due.map_or(Ok(()), |()| Err(refused)), "{count}");
        let posted = pair.nodes[1].recv(1, &sges);
        assert_eq!(posted, due.map_or(Ok(()), |()| Err(refused)), "{count}");
    }
    pair.run();
    let done = pair.nodes[0].sends();
    assert!(done.len() == 1 && done[0].is_ok(), "{done:?}");
    assert_eq!(pair.nodes[1].recvs()[0].byte_len, 8 * max);
}

/// Table of 9.5: what is posted later sees what was posted before, where no fence is asked for.
#[test]
fn r119_operations_of_a_connection_take_effect_in_order() {
    let mut pair = Pair::new(Setup { signal_all: true, ..Setup::default() });
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    pair.nodes[0].fill(0, &5u64.to_ne_bytes());
    let at = |pair: &Pair, offset| [pair.nodes[0].sge(offset, 8)];
    let post = |pair: &mut Pair, op, offset| {
        let sges = at(pair, offset);
        pair.nodes[0].send(&wr_sges(offset as u64, op, &sges)).unwrap();
    };
    post(&mut pair, SendOp::Write { va, rkey }, 0);
    post(&mut pair, SendOp::FetchAdd { va, rkey, add: 1 }, 8);
    post(&mut pair, SendOp::FetchAdd { va, rkey, add: 1 }, 16);
    let flush = SendOp::Flush { va, rkey, length: 8, placement: 1, selectivity: 0 };
    pair.nodes[0].send(&wr(17, flush)).unwrap();
    post(&mut pair, SendOp::Read { va, rkey }, 24);
    pair.run();
    let seen: Vec<_> = [8, 16, 24].map(|o| pair.nodes[0].region.load_u64(o).unwrap()).to_vec();
    assert_eq!(seen, [5, 6, 7]);
    let ids: Vec<_> = pair.nodes[0].sends().iter().map(|wc| wc.wr_id).collect();
    assert_eq!(ids, [0, 8, 16, 17, 24]);
}
