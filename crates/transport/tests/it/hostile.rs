//! Attacks of docs/conformance.md at a queue pair (A1, A3, A9 to A13, A16, A17), and defects B1, B7.

use uroce_memory::{MwType, Rkey};
use uroce_transport::*;
use uroce_wire::{DropReason, Opcode, Packet, Position, Psn, Qpn};

use crate::harness::forge::*;
use crate::harness::*;

/// Every way in which a packet can end, summed up.
fn accounted(counters: &Counters) -> u64 {
    counters.drops().map(|(_, count)| count).sum::<u64>()
}

#[test]
fn a1_b1_every_opcode_length_pad_and_version_at_every_psn_distance() {
    // Of XRC the target is attacked, and the initiator.
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcIni, QpType::XrcTgt] {
        let mut pair = Pair::new(Setup { qp_type, timeout: 0, ..Setup::default() });
        let canary = pattern(0x5a, MR_LEN);
        pair.nodes[1].fill(0, &canary);
        for opcode in 0..=255u8 {
            for length in 0..=128usize {
                for shape in 0..6u8 {
                    let mut bytes = vec![0u8; length.max(12)];
                    bytes[0] = opcode;
                    bytes[1] = 0x40 | ((shape & 3) << 4) | shape.saturating_sub(3);
                    bytes[2..4].copy_from_slice(&[0xff, 0xff]);
                    bytes[7] = QPNS[1] as u8;
                    // Expected, ahead, or a duplicate.
                    let psn = EPSN - 1 + (length as u32 + u32::from(shape)) % 3;
                    bytes[9..12].copy_from_slice(&psn.to_be_bytes()[1..]);
                    pair.receive(1, &bytes[..length], 0);
                    if pair.state() != QpState::Rts || pair.expected() != EPSN {
                        assert!(pair.collect().len() <= 2);
                        pair.reconnect();
                    }
                }
            }
            pair.collect();
        }
        assert!(pair.memory() == canary, "{qp_type:?}: no key was given to the attacker");
        assert!(accounted(&pair.nodes[1].counters) > 100_000);
    }
}

#[test]
fn b1_an_undefined_opcode_to_the_multicast_qpn() {
    for qp_type in [QpType::Rc, QpType::Ud] {
        let mut pair = Pair::of(qp_type);
        let undefined = (0..=255u8).filter(|byte| Opcode(*byte).info().is_none());
        let mut count = 0;
        for opcode in undefined {
            for length in [16, 40, 48, 64] {
                let mut bytes = vec![0xff; length];
                bytes[0] = opcode;
                pair.receive(1, &bytes, 0);
                count += 1;
            }
        }
        assert_eq!(pair.dropped(DropReason::UnknownOpcode), count);
        assert_eq!(pair.collect().len(), 0);
    }
}

#[test]
fn a9_a_psn_scan_by_a_spoofed_peer_finds_nothing_and_hardly_an_answer() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let (mut naks, mut acks, mut sent) = (0, 0, 0u64);
    let mut forged = Forged::write(EPSN, va, rkey, b"evil");
    for psn in (EPSN + 1..EPSN + (1 << 24)).step_by(61) {
        forged.bth.psn = Psn::new(psn);
        sent += 1;
        for (_, answered, syndrome) in pair.reply(&forged) {
            match syndrome {
                Some(NAK_SEQUENCE) => naks += 1,
                _ => acks += 1,
            }
            assert!(answered == EPSN || answered == EPSN - 1);
        }
    }
    assert_eq!((naks, acks), (1, limits::REPLY_BUDGET - 1));
    assert_eq!(pair.nodes[1].bytes(0, 4), [0; 4]);
    assert_eq!((pair.state(), pair.expected()), (QpState::Rts, EPSN));
    assert_eq!(accounted(&pair.nodes[1].counters), sent);
    // The real peer goes on as if nothing had happened.
    pair.run_for(MS);
    forged.bth.psn = Psn::new(EPSN);
    assert_eq!(pair.reply(&forged), acknowledge(EPSN, ACK));
}

#[test]
fn a10_the_same_scan_from_elsewhere_draws_nothing() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let mut forged = Forged::write(EPSN, va, rkey, b"evil");
    let mut sent = 0;
    for psn in (EPSN..EPSN + (1 << 24)).step_by(997) {
        forged.bth.psn = Psn::new(psn);
        let bytes = forged.bytes();
        let mut arrival = pair.arrival(1, bytes.len(), 3);
        arrival.src = [10, 0, 0, 77].into();
        pair.receive_from(1, &arrival, &bytes);
        sent += 1;
    }
    assert_eq!((pair.dropped(DropReason::WrongPeer), pair.collect().len()), (sent, 0));
    assert_eq!((pair.expected(), pair.nodes[1].bytes(0, 4)), (EPSN, vec![0; 4]));
}

#[test]
fn a11_an_injected_write_reaches_its_region_and_the_real_packet_is_a_duplicate() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(64);
    let before = pair.memory();
    assert_eq!(pair.reply(&Forged::write(EPSN, va, rkey, b"evil")), acknowledge(EPSN, ACK));
    assert_eq!(pair.reply(&Forged::write(EPSN, va, rkey, b"good")), acknowledge(EPSN, ACK));
    assert_eq!(pair.nodes[1].bytes(64, 4), b"evil");
    let after = pair.memory();
    assert!(before[..64] == after[..64] && before[68..] == after[68..]);
}

#[test]
fn a12_a_malformed_packet_kills_its_qp_and_no_other() {
    let mut pair = Pair::rc();
    // A second QP on the same device, PD and CQs.
    let init = QpInit { qpn: Qpn::new(0x99), ..*pair.nodes[1].qp.init() };
    let mut other = QueuePair::new(&init).unwrap();
    let (now, node) = (pair.now, &mut pair.nodes[1]);
    let (attr, mask) = (
        QpAttr { state: QpState::Init, access: all_access(), ..QpAttr::default() },
        QpAttrMask::STATE | QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::ACCESS_FLAGS,
    );
    other.modify(now, &attr, mask, cx!(node)).unwrap();
    let (attr, mask) = pair.rtr_attr(1);
    let node = &mut pair.nodes[1];
    other.modify(now, &attr, mask, cx!(node)).unwrap();
    other.post_recv(&RecvWr { wr_id: 50, sges: &[] }, cx!(node)).unwrap();
    pair.post(1, 0, 64);
    let killer = Forged::data(Opcode::RC_SEND_MIDDLE, EPSN, &[1; 256]);
    assert_eq!(pair.reply(&killer), acknowledge(EPSN, NAK_INVALID));
    assert_eq!(pair.received(), [(1, WcStatus::WrFlushErr)]);
    assert_eq!(other.state(), QpState::Rtr);
    let bytes = Forged::send(EPSN, b"").bytes();
    let arrival = pair.arrival(1, bytes.len(), 0);
    let (packet, node) = (Packet::parse(&bytes).unwrap(), &mut pair.nodes[1]);
    let admitted = other.admits(&arrival, &packet).unwrap();
    other.handle_packet(now, &arrival, &packet, admitted, cx!(node));
    assert_eq!(pair.received(), [(50, WcStatus::Success)]);
    // And a reconnect helps.
    pair.reconnect();
    pair.post(2, 0, 64);
    assert_eq!(pair.reply(&Forged::send(EPSN, b"again")), acknowledge(EPSN, ACK));
}

/// A pair whose node 0 has sent a WRITE of three packets that nobody answered.
fn unanswered() -> Pair {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let source = pair.nodes[0].sge(0, 600);
    pair.filter(|_| Fate::Drop);
    pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, &[source])).unwrap();
    pair.run_for(1_000);
    assert_eq!(pair.trace.len(), 3);
    pair
}

/// An ACKNOWLEDGE for node 0.
fn aeth(pair: &Pair, psn: u32, syndrome: u8) -> Vec<u8> {
    let mut bytes = pair.forge(0, Opcode::RC_ACKNOWLEDGE, psn, |_, _| {}, &[]);
    bytes.splice(12..12, [syndrome, 0, 0, 1]);
    bytes
}

#[test]
fn a13_forged_acks_and_naks_outside_what_is_outstanding() {
    let mut pair = unanswered();
    let next = EPSN + 3;
    let mut sent = 0;
    for psn in [next, next + 1, EPSN - 1, EPSN + 0x7f_ffff, EPSN + 0x80_0000, 0] {
        for syndrome in [ACK, 0, NAK_SEQUENCE, NAK_INVALID, NAK_ACCESS, 0x20, 0x3f, 0x64] {
            let forged = aeth(&pair, psn, syndrome);
            pair.receive(0, &forged, 0);
            sent += 1;
        }
    }
    assert_eq!(accounted(&pair.nodes[0].counters), sent);
    assert_eq!((pair.nodes[0].sends().len(), pair.nodes[0].qp.state()), (0, QpState::Rts));
    assert_eq!(pair.nodes[0].counters.completer_retry_err, 0);
    let late = pair.nodes[0].dropped(DropReason::GhostAck);
    let early = pair.nodes[0].dropped(DropReason::UnexpectedResponse);
    let naks = pair.nodes[0].dropped(DropReason::NakOutsideWindow);
    assert!(late > 0 && early > 0 && naks > 0);
}

#[test]
fn a13_nothing_is_acknowledged_that_was_not_sent_even_when_nothing_is_outstanding() {
    let mut pair = Pair::rc();
    for psn in [EPSN - 1, EPSN, EPSN + 1] {
        let forged = aeth(&pair, psn, ACK);
        pair.receive(0, &forged, 0);
    }
    let (va, rkey) = pair.target(0);
    let source = pair.nodes[0].sge(0, 600);
    pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, &[source])).unwrap();
    assert_eq!(pair.nodes[0].sends().len(), 0);
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
}

#[test]
fn r51_reserved_syndromes_are_ignored_and_counted() {
    let mut pair = unanswered();
    let reserved = (0x40..=0x5f).chain(0x65..=0x7f).chain(0x80..=0xff);
    let mut sent = 0;
    for syndrome in reserved {
        let forged = aeth(&pair, EPSN, syndrome);
        pair.receive(0, &forged, 0);
        sent += 1;
    }
    assert_eq!(pair.nodes[0].dropped(DropReason::ReservedSyndrome), sent);
    assert_eq!((pair.nodes[0].sends().len(), pair.nodes[0].qp.state()), (0, QpState::Rts));
}

#[test]
fn a16_a_flood_of_rnr_naks_costs_one_retry_per_wait() {
    let mut pair = Pair::new(Setup { rnr_retry: 3, ..Setup::default() });
    let (va, rkey) = pair.target(0);
    pair.filter(|_| Fate::Drop);
    let source = pair.nodes[0].sge(0, 8);
    pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, &[source])).unwrap();
    pair.run_for(1_000);
    let longest = 655_360_000;
    for retry in 0..3 {
        let sent = pair.trace.len();
        let started = pair.now;
        for _ in 0..1000 {
            let forged = aeth(&pair, EPSN, 0x20);
            pair.receive(0, &forged, 0);
        }
        assert_eq!(pair.nodes[0].qp.state(), QpState::Rts, "wait {retry}");
        assert_eq!(pair.nodes[0].qp.poll_timeout(), Some(started.add_ns(longest)));
        pair.run_for(longest + 1_000);
        assert_eq!(pair.trace.len(), sent + 1);
    }
    let forged = aeth(&pair, EPSN, 0x20);
    pair.receive(0, &forged, 0);
    assert_eq!(pair.nodes[0].sends()[0].status, WcStatus::RnrRetryExcErr);
}

#[test]
fn a17_a_storm_of_sequence_naks_makes_a_bounded_number_of_packets() {
    let mut pair = unanswered();
    let mut naks = 0;
    while pair.nodes[0].qp.state() == QpState::Rts && naks < 100_000 {
        let forged = aeth(&pair, EPSN, NAK_SEQUENCE);
        pair.receive(0, &forged, 0);
        pair.run_for(10);
        naks += 1;
    }
    // retry_cnt is 7: the first transmission and 7 more.
    assert_eq!(pair.nodes[0].sends()[0].status, WcStatus::RetryExcErr);
    assert_eq!((naks, pair.trace.len()), (8, 3 * 8));
}

#[test]
fn a17_alternating_naks_inside_the_window_end_with_the_window() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.filter(|_| Fate::Drop);
    let source = pair.nodes[0].sge(0, 64 * 256);
    pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, &[source])).unwrap();
    pair.run_for(1_000);
    let first = pair.trace.len();
    let mut naks = 0;
    'storm: for step in 0..64 {
        for psn in [EPSN + step, EPSN, EPSN + step, EPSN + 63 - step] {
            let forged = aeth(&pair, psn, NAK_SEQUENCE);
            pair.receive(0, &forged, 0);
            pair.run_for(10);
            naks += 1;
            if pair.nodes[0].qp.state() != QpState::Rts {
                break 'storm;
            }
        }
    }
    // Each NAK sends at most what lies behind it again, and the window only shrinks.
    assert!(pair.trace.len() <= first + naks * 64, "{} for {naks}", pair.trace.len());
    assert!(pair.nodes[0].counters.retransmitted_pkts <= 8 * 64);
}

#[test]
fn a3_b7_a_window_that_wraps_is_not_bound() {
    for (va, length) in
        [(u64::MAX - 7, 8), (0xffff_ffff_ffff_fc00, 0x400), (u64::MAX, u64::MAX), (8, u64::MAX)]
    {
        let mut pair = Pair::rc();
        let node = &mut pair.nodes[1];
        let mw = node.mem.alloc_mw(node.pd, MwType::Type2B).unwrap();
        let new_rkey = Rkey((mw.rkey.0 & !0xff) | (mw.rkey.0.wrapping_add(1) & 0xff));
        let (mr, access) = (node.mr.lkey, uroce_memory::Access::REMOTE_WRITE);
        let bind = SendOp::BindMw { mw: mw.id, new_rkey, mr, va, length, access };
        node.send(&wr(1, bind)).unwrap();
        pair.run();
        assert_eq!(pair.nodes[1].sends()[0].status, WcStatus::MwBindErr, "{va:#x} + {length:#x}");
        pair.reconnect();
        let write = Forged::write(EPSN, va, new_rkey, b"x");
        assert_eq!(pair.reply(&write), acknowledge(EPSN, NAK_ACCESS));
    }
}

#[test]
fn a20_zero_length_of_everything_with_bogus_keys_touches_no_memory() {
    let mut pair = Pair::rc();
    let before = pair.memory();
    for round in 0..1000u32 {
        let (key, psn) = (Rkey(round.wrapping_mul(0x9e37_79b9)), EPSN + 3 * round);
        let va = u64::from(round).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        pair.post(1, 0, 64);
        let with_imm = Forged::data(Opcode::RC_WRITE_ONLY_IMM, psn + 1, b"").reth(va, key, 0);
        for forged in [
            Forged::write(psn, va, key, b""),
            with_imm.imm(round),
            Forged::read(psn + 2, va, key, 0),
        ] {
            assert_eq!(pair.hit(&forged)[0].syndrome(), Some(ACK));
        }
    }
    assert!(pair.memory() == before && pair.state() == QpState::Rts);
}

/// A linear congruential generator; the high bits are good enough here.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(limit)) as u32
    }

    /// Some request around PSN `expected`; most are sound, some are not.
    fn request(&mut self, expected: u32, va: u64, rkey: Rkey) -> Forged {
        let opcodes: Vec<_> = (0..=0x1d).map(Opcode).filter(|o| o.info().is_some()).collect();
        let mut opcode = opcodes[self.below(opcodes.len() as u32) as usize];
        if self.below(16) > 0 && opcode.info().unwrap().position != Position::Only {
            opcode = Opcode::RC_SEND_ONLY;
        }
        let info = opcode.info().unwrap();
        let near = [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, u32::MAX, u32::MAX - 1, u32::MAX - 3];
        let psn = expected.wrapping_add(near[self.below(13) as usize]);
        let length = match self.below(32) {
            0 => 257,
            _ if !info.ends() => 256,
            _ => self.below(257) as usize,
        };
        let mut forged = Forged::data(opcode, psn, &vec![0xa5; length]);
        let (at, key) = match self.below(60) {
            0 => (va.wrapping_sub(8), rkey),
            1 => (va, Rkey(rkey.0 ^ 1)),
            2 => (u64::MAX - 7, rkey),
            _ => (va + 8 * u64::from(self.below(8)), rkey),
        };
        let total = if info.ends() { length as u32 } else { 256 + self.below(512) };
        let placement = (1 + u8::from(self.below(16) == 0), self.below(3) as u8);
        match info.name {
            "RC_READ_REQUEST" => forged = Forged::read(psn, at, key, self.below(1500)),
            "RC_COMPARE_SWAP" => forged = Forged::compare_swap(psn, at, key, 0, 1),
            "RC_FETCH_ADD" => forged = Forged::fetch_add(psn, at, key, 1),
            "RC_FLUSH" => forged = Forged::flush(psn, at, key, 64, placement),
            "RC_ATOMIC_WRITE" => forged = Forged::atomic_write(psn, at, key, 8, &[0xa5; 8]),
            _ => {}
        }
        if info.name.starts_with("RC_WRITE") && info.starts() {
            forged = forged.reth(at, key, total);
        }
        forged.imm = info.has_imm().then_some(7);
        forged.inv = info.has_invalidate().then_some(rkey.0);
        if info.headers.contains(uroce_wire::HeaderSet::AETH) {
            forged.payload = [&[ACK, 0, 0, 1], &forged.payload[..]].concat();
        }
        if self.below(4) == 0 { forged.no_ack() } else { forged }
    }
}

#[test]
fn a1_r40_b26_random_requests_keep_every_receive_exactly_once() {
    let (mut random, mut executed) = (Random(42), 0);
    for _ in 0..150 {
        let mut pair = Pair::new(Setup { timeout: 0, ..Setup::default() });
        // The attacker's key covers 4096 bytes in the middle; the rest is a canary.
        let (node, offset) = (&mut pair.nodes[1], 8192);
        let window = node.mem.alloc_mw(node.pd, MwType::Type1).unwrap();
        let (mr, va) = (node.mr.lkey, node.va(offset));
        let bind = uroce_memory::MwBind {
            mw: window.id,
            mr,
            new_rkey: window.rkey,
            va,
            length: 4096,
            access: all_access()
                - uroce_memory::Access::MW_BIND
                - uroce_memory::Access::LOCAL_WRITE,
            pd: node.pd,
            qpn: QPNS[1],
        };
        let rkey = node.mem.bind_mw(&bind).unwrap();
        let mut posted = vec![];
        let mut done = vec![];
        let mut newest = 0;
        for wr_id in 0..200 {
            if random.below(3) == 0 {
                pair.post(wr_id, 16_384, 1024);
                posted.push(wr_id);
            }
            let forged = random.request(pair.expected(), va, rkey);
            pair.give(&forged);
            if random.below(3) == 0 {
                for answer in pair.collect() {
                    let ack = answer.opcode == Opcode::RC_ACKNOWLEDGE;
                    if ack && answer.syndrome() == Some(ACK) {
                        assert!(answer.psn + 1 >= newest, "R45");
                        newest = answer.psn + 1;
                    }
                }
            }
            done.extend(pair.received());
            if pair.state() == QpState::Err {
                break;
            }
        }
        pair.nodes[1].enter_state(QpState::Err).unwrap();
        done.extend(pair.received());
        let ids: Vec<_> = done.iter().map(|(wr_id, _)| *wr_id).collect();
        assert_eq!(ids, posted, "each receive once, in order");
        executed += pair.nodes[1].counters.rdma_recvs;
        let memory = pair.memory();
        let clean = |range: std::ops::Range<usize>| memory[range].iter().all(|byte| *byte == 0);
        assert!(clean(0..8192) && clean(12_288..16_384) && clean(17_408..MR_LEN));
    }
    assert!(executed > 250, "{executed}: most attacks shall get somewhere");
}

/// A guess of the peer's costs it the connection each time, and gives it nothing. That a lookup takes
/// as long for a key that almost exists as for one that does not is measured in the memory crate.
#[test]
fn a5_every_wrong_key_costs_a_connection() {
    let mut pair = Pair::rc();
    let (va, right) = pair.target(0);
    let before = pair.memory();
    let mut key = right.0;
    for guess in 0..2_000u32 {
        // Neighbours of the right key first, then keys all over the space.
        key = if guess < 64 {
            right.0 ^ (1 << (guess % 32))
        } else {
            key.wrapping_mul(0x9e37_79b1) | 1
        };
        if key == right.0 {
            continue;
        }
        let wrong = Forged::write(EPSN, va, Rkey(key), b"guess");
        assert_eq!(pair.reply(&wrong), acknowledge(EPSN, NAK_ACCESS), "key {key:#x}");
        assert_eq!(pair.state(), QpState::Err);
        assert_eq!(pair.nodes[1].event(), Some(AsyncEvent::QpAccessErr(Qpn::new(QPNS[1]))));
        pair.reconnect();
    }
    assert_eq!(pair.memory(), before);
}
