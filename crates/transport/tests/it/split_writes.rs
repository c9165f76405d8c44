//! A short WRITE leaves as a WRITE ONLY for each packet (ADR 36).

use uroce_transport::limits::SPLIT_WRITE_BYTES;
use uroce_transport::*;
use uroce_wire::{Bth, MORE_PARTS, Opcode, Packet, Psn, Reth};

use crate::harness::*;

const MTU: usize = 256;

fn splitting(setup: Setup) -> Pair {
    let pair = Pair::new(Setup { splits: [true, false], ..setup });
    pair.nodes[0].fill(0, &pattern(3, 64 * MTU));
    pair
}

/// Posts a WRITE of `length` bytes in `entries` entries.
fn write(pair: &mut Pair, wr_id: u64, length: usize, entries: usize, flags: SendFlags) {
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let cut = length - 100 * (entries - 1);
    let sges = [pair.nodes[0].sge(0, cut as u32), pair.nodes[0].sge(cut, (length - cut) as u32)];
    let wr = wr_sges(wr_id, SendOp::Write { va, rkey }, &sges[..entries]);
    pair.nodes[0].send(&SendWr { flags, ..wr }).unwrap();
}

fn requests(pair: &Pair) -> Vec<&Seen> {
    pair.trace.iter().filter(|seen| seen.from == 0).collect()
}

fn opcodes(pair: &Pair) -> Vec<Opcode> {
    requests(pair).iter().map(|seen| seen.packet().bth.opcode).collect()
}

fn reth(packet: &Packet<'_>) -> Reth {
    packet.reth().expect("a RETH")
}

/// What of the peer's memory a request names, from its start: where, and how many bytes; whether it asks for an ACK, and its
/// reserved bits.
fn ranges(pair: &Pair) -> Vec<(u64, u32, bool, u8)> {
    let start = pair.nodes[1].va(0);
    let range = |seen: &&Seen| {
        let packet = seen.packet();
        let Bth { ack_req, reserved7, .. } = packet.bth;
        (reth(&packet).va - start, reth(&packet).length, ack_req, reserved7)
    };
    requests(pair).iter().map(range).collect()
}

#[test]
fn r19_each_packet_of_a_short_write_is_a_write_only() {
    for entries in [1, 2] {
        let mut pair = splitting(Setup::default());
        write(&mut pair, 1, 3 * MTU + 5, entries, SendFlags::SIGNALED);
        pair.run();
        assert_eq!(opcodes(&pair), [Opcode::RC_WRITE_ONLY; 4]);
        let part = |at, length| (at, length, false, MORE_PARTS);
        let expected = [part(0, 256), part(256, 256), part(512, 256), (768, 5, true, 0)];
        assert_eq!(ranges(&pair), expected);
        let done = pair.nodes[0].sends();
        assert!(done.len() == 1 && done[0].is_ok(), "{done:?}");
        assert_eq!(pair.nodes[1].bytes(0, 3 * MTU + 5), pattern(3, 3 * MTU + 5));
        assert_eq!(pair.nodes[0].counters.rdma_sends, 1, "it is one work request");
        assert_eq!(pair.nodes[1].counters.rdma_recvs, 4, "and four messages");
    }
}

#[test]
fn r19_which_writes_are_split() {
    let longest = SPLIT_WRITE_BYTES as usize;
    let opcodes_of = |setup: Setup, length| {
        let mut pair = splitting(setup);
        pair.nodes[0].fill(0, &pattern(3, length));
        write(&mut pair, 1, length, 1, SendFlags::SIGNALED);
        pair.run();
        assert!(pair.nodes[0].sends()[0].is_ok());
        assert_eq!(pair.nodes[1].bytes(0, length), pattern(3, length));
        opcodes(&pair)
    };
    let rc = Setup::default();
    assert_eq!(opcodes_of(rc, MTU), [Opcode::RC_WRITE_ONLY], "one packet");
    assert_eq!(opcodes_of(rc, MTU + 1), [Opcode::RC_WRITE_ONLY; 2]);
    assert_eq!(opcodes_of(rc, longest), [Opcode::RC_WRITE_ONLY; 256]);
    assert_eq!(opcodes_of(rc, longest + 1)[..2], [Opcode::RC_WRITE_FIRST, Opcode::RC_WRITE_MIDDLE]);
    let xrc = Opcode::RC_WRITE_ONLY.of_service(QpType::XrcIni.service());
    assert_eq!(opcodes_of(Setup::xrc(), 2 * MTU), [xrc; 2]);
    let uc = opcodes_of(Setup { qp_type: QpType::Uc, ..rc }, 2 * MTU);
    assert_eq!(uc, [Opcode::UC_WRITE_FIRST, Opcode::UC_WRITE_LAST], "its parts may be lost singly");
}

#[test]
fn r19_a_send_and_a_read_are_not_split() {
    let mut pair = splitting(Setup::default());
    let target = pair.nodes[1].sge(0, 600);
    pair.nodes[1].recv(1, &[target]).unwrap();
    let source = pair.nodes[0].sge(0, 600);
    pair.nodes[0].send(&wr_sges(1, SendOp::Send, &[source])).unwrap();
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    pair.nodes[0].send(&wr_sges(2, SendOp::Read { va, rkey }, &[source])).unwrap();
    pair.run();
    assert_eq!(pair.nodes[0].sends().len(), 2);
    let expected = [
        Opcode::RC_SEND_FIRST,
        Opcode::RC_SEND_MIDDLE,
        Opcode::RC_SEND_LAST,
        Opcode::RC_READ_REQUEST,
    ];
    assert_eq!(opcodes(&pair), expected);
}

#[test]
fn r19_a_write_with_immediate_data_is_not_split() {
    let mut pair = splitting(Setup::default());
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    pair.nodes[1].recv(7, &[]).unwrap();
    let source = [pair.nodes[0].sge(0, 3 * MTU as u32)];
    let op = SendOp::WriteWithImm { va, rkey, imm: 0xfeed };
    pair.nodes[0].send(&wr_sges(1, op, &source)).unwrap();
    pair.run();
    assert_eq!(opcodes(&pair)[0], Opcode::RC_WRITE_FIRST);
    let received = pair.nodes[1].recvs();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].byte_len as usize, 3 * MTU, "the completion tells the whole length");
}

#[test]
fn r19_the_parts_of_an_inline_write_have_its_bytes() {
    let caps = QpCaps { max_inline: 700, ..Setup::default().caps };
    let mut pair = splitting(Setup { caps, ..Setup::default() });
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let data = pattern(9, 700);
    pair.nodes[0].send(&wr_inline(1, SendOp::Write { va, rkey }, &[&data])).unwrap();
    pair.run();
    assert_eq!(opcodes(&pair), [Opcode::RC_WRITE_ONLY; 3]);
    assert_eq!(pair.nodes[1].bytes(0, 700), data);
}

/// All that left where a part is lost once.
fn with_a_loss(setup: Setup, entries: usize, nth: usize) -> Vec<(u64, Vec<u8>)> {
    let mut pair = splitting(setup);
    pair.lose_once(0, Opcode::RC_WRITE_ONLY, nth);
    for wr_id in 1..=3 {
        write(&mut pair, wr_id, 6 * MTU + 9, entries, SendFlags::SIGNALED);
    }
    pair.run();
    let done: Vec<_> = pair.nodes[0].sends().iter().map(|wc| (wc.wr_id, wc.is_ok())).collect();
    assert_eq!(done, [(1, true), (2, true), (3, true)]);
    assert_eq!(pair.nodes[1].bytes(0, 6 * MTU + 9), pattern(3, 6 * MTU + 9));
    assert!(opcodes(&pair).iter().all(|opcode| *opcode == Opcode::RC_WRITE_ONLY));
    pair.trace.iter().map(|seen| (seen.at.as_nanos(), seen.bytes.clone())).collect()
}

/// This part of three WRITEs of seven parts each, counted from 0: AckReq and reserved bits may differ when it comes again.
fn is_part(bytes: &[u8], index: u32) -> bool {
    let packet = Packet::parse(bytes).expect("a packet");
    packet.bth.psn == Psn::new(0x100 + index)
        && packet.bth.opcode == Opcode::RC_WRITE_ONLY
        && packet.payload().len() == if index % 7 == 6 { 9 } else { MTU }
}

#[test]
fn r19_parts_that_are_lost_come_again_as_they_were() {
    for setup in [Setup::default(), Setup::as_device()] {
        for nth in [0, 3, 6, 7, 19, 20] {
            let fast = with_a_loss(setup, 1, nth);
            assert!(fast == with_a_loss(setup, 2, nth), "fast and slow path differ, {nth} lost");
            let again = fast.iter().filter(|(_, bytes)| is_part(bytes, nth as u32)).count();
            assert_eq!(again, 2, "how often part {nth} left");
        }
    }
}

/// What the comparison of two pairs rests on, wherever their memory lies.
#[test]
fn two_pairs_with_the_same_requests_send_the_same_bytes() {
    let mut pairs = [splitting(Setup::default()), splitting(Setup::default())];
    let [first, second] = pairs.each_mut().map(|pair| {
        write(pair, 1, 3 * MTU, 1, SendFlags::SIGNALED);
        pair.run();
        pair.trace.iter().map(|seen| seen.bytes.clone()).collect::<Vec<_>>()
    });
    assert_eq!(first.len(), 4, "three parts and their ACK");
    assert!(first == second);
}

#[test]
fn r28_r31_a_part_outside_the_region_fails_the_whole_write_and_touches_nothing_there() {
    for entries in [1, 2] {
        let mut pair = splitting(Setup::default());
        let window = pair.nodes[1].region.len() - 2 * MTU;
        let (va, rkey) = (pair.nodes[1].va(window), pair.nodes[1].rkey());
        let sges = [pair.nodes[0].sge(0, 400), pair.nodes[0].sge(400, 4 * MTU as u32 - 400)];
        let whole = [pair.nodes[0].sge(0, 4 * MTU as u32)];
        let sges = if entries == 1 { &whole[..] } else { &sges[..] };
        pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, sges)).unwrap();
        pair.run();
        let done = pair.nodes[0].sends();
        assert_eq!(done.len(), 1, "{done:?}");
        assert_eq!(done[0].status, WcStatus::RemAccessErr);
        // Each part is checked by itself: those inside the region are written (ADR 36).
        assert_eq!(pair.nodes[1].bytes(window, 2 * MTU), pattern(3, 2 * MTU));
        assert_eq!(pair.nodes[1].qp.state(), QpState::Err);
    }
}

/// Two WRITEs of 40 packets, of which the window lets 64 out.
fn in_the_second() -> Pair {
    let mut pair = splitting(Setup::default());
    for wr_id in [1, 2] {
        write(&mut pair, wr_id, 40 * MTU, 1, SendFlags::SIGNALED);
    }
    pair.run_for(1);
    assert_eq!(requests(&pair).len(), 64);
    pair
}

#[test]
fn b12_a_source_lost_between_two_parts_fails_the_write() {
    let mut pair = in_the_second();
    let id = pair.nodes[0].mr.id;
    pair.nodes[0].mem.dereg_mr(id).unwrap();
    pair.run();
    let done: Vec<_> = pair.nodes[0].sends().iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(done, [(1, WcStatus::Success), (2, WcStatus::LocProtErr)]);
}

#[test]
fn r19_a_write_that_has_begun_ends_as_it_began() {
    let mut pair = in_the_second();
    pair.set_features(0, |features| features.split_writes = false);
    write(&mut pair, 3, 2 * MTU, 1, SendFlags::SIGNALED);
    pair.run();
    assert_eq!(pair.nodes[0].sends().len(), 3);
    let opcodes = opcodes(&pair);
    assert_eq!(opcodes[..80], [Opcode::RC_WRITE_ONLY; 80]);
    assert_eq!(opcodes[80..], [Opcode::RC_WRITE_FIRST, Opcode::RC_WRITE_LAST]);
}

#[test]
fn r19_parts_of_several_writes_leave_in_one_call() {
    let mut pair = splitting(Setup { train: 64, arrives: 64, ..Setup::as_device() });
    for wr_id in 0..8 {
        write(&mut pair, wr_id, 4 * MTU, 1, SendFlags::SIGNALED);
    }
    pair.run();
    assert_eq!(pair.nodes[0].sends().len(), 8);
    assert_eq!(opcodes(&pair), [Opcode::RC_WRITE_ONLY; 32]);
    assert!(pair.in_trains >= 28, "{} packets left behind another one", pair.in_trains);
}
