//! One walk: set up from the seed, post at random moments, let the world turn, look at the end.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hash::Hasher;
use std::rc::Rc;

use uroce_transport::*;
use uroce_wire::Mtu;

use super::faults::{Faults, Witness, install};
use super::plan::{Awaited, Half, Plan, Posted};
use super::rng::Rng;
use crate::harness::*;

/// Do faults end, so that everything must succeed?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Liveness,
    Safety,
}

/// What one side has posted and seen.
#[derive(Default)]
struct Side {
    sends: VecDeque<Posted>,
    recvs: VecDeque<Awaited>,
    posted: Vec<Posted>,
    awaiting: Vec<Awaited>,
    sent: Vec<Wc>,
    received: Vec<Wc>,
}

pub struct Walk {
    mode: Mode,
    pair: Pair,
    rng: Rng,
    sides: [Side; 2],
    shadows: [Vec<u8>; 2],
    witness: Rc<RefCell<Witness>>,
    wire: Faults,
}

fn start_psn(rng: &mut Rng) -> u32 {
    match rng.below(4) {
        0 => (0x100_0000 - rng.range(1, 64) as u32) & 0xff_ffff,
        1 => 0x80_0000 - rng.below(64) as u32,
        _ => rng.next() as u32 & 0xff_ffff,
    }
}

fn draw_setup(mode: Mode, rng: &mut Rng) -> Setup {
    let safety = mode == Mode::Safety;
    let depth = |rng: &mut Rng| if rng.chance(25) { 1 } else { rng.range(2, 64) as u32 };
    let max_recv_wr = depth(rng);
    Setup {
        qp_type: if rng.chance(25) { QpType::XrcIni } else { QpType::Rc },
        mtu: rng.pick(&Mtu::ALL),
        psn: [start_psn(rng), start_psn(rng)],
        timeout: rng.range(6, 14) as u8,
        retry_cnt: if safety { rng.below(4) as u8 } else { 7 },
        rnr_retry: if safety { rng.below(8) as u8 } else { 7 },
        min_rnr_timer: rng.range(1, 18) as u8,
        rd_atomic: rng.range(1, 8) as u8,
        caps: QpCaps {
            max_send_wr: depth(rng),
            max_recv_wr,
            max_send_sge: 4,
            max_recv_sge: 4,
            max_inline: if rng.chance(20) { 0 } else { 256 },
        },
        srq: rng.chance(25).then_some(SrqAttr { max_wr: max_recv_wr, max_sge: 4, limit: 0 }),
        signal_all: rng.chance(20),
        keeps: [rng.chance(60), rng.chance(60)],
        repairs: [rng.chance(60), rng.chance(60)],
        probes: [rng.chance(50), rng.chance(50)],
        splits: [rng.chance(50), rng.chance(50)],
        ..Setup::default()
    }
}

fn draw_faults(mode: Mode, rng: &mut Rng) -> Faults {
    let most = if mode == Mode::Safety { 30 } else { 10 };
    let quiet = rng.chance(15);
    let mut upto = |percent: usize| if quiet { 0 } else { rng.below(percent + 1) };
    let (loss, duplicate, delay) = (upto(most), upto(most), upto(most));
    let losses_per_packet = if mode == Mode::Safety { usize::MAX } else { 2 };
    Faults { loss, duplicate, delay, delay_ns: rng.range(1, 300_000), losses_per_packet }
}

impl Walk {
    pub fn new(seed: u64, mode: Mode) -> Walk {
        let mut rng = Rng::new(seed);
        let mut pair = Pair::new(draw_setup(mode, &mut rng));
        pair.latency_ns = rng.range(500, 20_000) as u64;
        let count = rng.range(5, 40);
        let plan = Plan::new(&mut pair, &mut rng, count);
        let witness = Rc::new(RefCell::new(Witness::new(&pair)));
        let wire = draw_faults(mode, &mut rng);
        install(&mut pair, wire, Rng::new(rng.next()), witness.clone());
        let shadows = [plan.halves[0].shadow.clone(), plan.halves[1].shadow.clone()];
        let sides = plan.halves.map(|Half { sends, recvs, .. }| Side {
            sends: sends.into(),
            recvs: recvs.into(),
            ..Side::default()
        });
        Walk { mode, pair, rng, sides, shadows, witness, wire }
    }

    /// Runs to the end, checks, and returns a fingerprint of every packet.
    pub fn run(mut self) -> u64 {
        for _ in 0..100_000 {
            if !self.round() {
                break;
            }
        }
        // The faults end here; what is still under way must come through.
        let calm = Faults { loss: 0, duplicate: 0, delay: 0, ..self.wire };
        install(&mut self.pair, calm, Rng::new(0), self.witness.clone());
        self.finish();
        self.check();
        let witness = self.witness.borrow();
        witness.hash.finish()
    }

    /// Something at random. False when all is posted and the faults have had their time.
    fn round(&mut self) -> bool {
        let side = self.rng.below(2);
        match self.rng.below(12) {
            0..3 => self.post_sends(side),
            3..5 => self.post_recvs(side),
            5 if self.mode == Mode::Safety => self.disturb(side),
            _ => {
                for _ in 0..self.rng.range(1, 30) {
                    self.pair.step();
                }
            }
        }
        if self.rng.chance(20) {
            self.poll();
        }
        let posted = self.sides.iter().all(|s| s.sends.is_empty() && s.recvs.is_empty());
        !posted || self.rng.chance(90)
    }

    /// Once in a while an application kills its QP.
    fn disturb(&mut self, side: usize) {
        if self.rng.chance(1) {
            self.pair.nodes[side].enter_state(QpState::Err).unwrap();
        }
    }

    fn post_sends(&mut self, index: usize) {
        for _ in 0..self.rng.range(1, 8) {
            let side = &mut self.sides[index];
            let Some(next) = side.sends.front() else { return };
            let parts: Vec<&[u8]> = next.inline.iter().map(|bytes| &bytes[..]).collect();
            let data = match &next.inline {
                Some(_) => SendData::Inline(&parts),
                None => SendData::Sges(&next.sges),
            };
            let (wr_id, op, flags) = (next.wr_id, next.op, next.flags);
            match self.pair.nodes[index].send(&SendWr {
                wr_id,
                op,
                flags,
                data,
                ud: None,
                srqn: None,
            }) {
                Ok(()) => side.posted.extend(side.sends.pop_front()),
                Err(PostError::QueueFull { .. }) => return,
                Err(error) => panic!("post_send: {error}"),
            }
        }
    }

    fn post_recvs(&mut self, index: usize) {
        for _ in 0..self.rng.range(1, 4) {
            let side = &mut self.sides[index];
            let Some(next) = side.recvs.front() else { return };
            match self.pair.nodes[index].recv(next.wr_id, &next.sges) {
                Ok(()) => side.awaiting.extend(side.recvs.pop_front()),
                Err(PostError::QueueFull { .. }) => return,
                Err(error) => panic!("post_recv: {error}"),
            }
        }
    }

    fn poll(&mut self) {
        for (side, node) in self.sides.iter_mut().zip(&mut self.pair.nodes) {
            side.sent.extend(node.sends());
            side.received.extend(node.recvs());
        }
    }

    fn finish(&mut self) {
        for _ in 0..2_000_000 {
            for side in 0..2 {
                self.post_sends(side);
                self.post_recvs(side);
            }
            let moved = self.pair.step();
            let left = self.sides.iter().any(|s| !s.sends.is_empty() || !s.recvs.is_empty());
            if !moved && (!left || self.mode == Mode::Safety) {
                return self.poll();
            }
            assert!(moved || self.can_post(), "stuck with work requests that cannot be posted");
        }
        panic!("the pair does not come to rest");
    }

    fn can_post(&self) -> bool {
        (0..2).any(|i| {
            let node = &self.pair.nodes[i];
            let caps = self.pair.setup.caps;
            let send = node.qp.send_queue_len() < caps.max_send_wr as usize;
            send && !self.sides[i].sends.is_empty() || !self.sides[i].recvs.is_empty()
        })
    }

    fn check(&mut self) {
        for index in 0..2 {
            self.check_sends(index);
            self.check_receives(index);
        }
        match self.mode {
            Mode::Liveness => self.check_memory(),
            Mode::Safety => self.check_canaries(),
        }
    }

    /// I3: one completion per signalled request, in order; after an error one per request.
    fn check_sends(&self, index: usize) {
        let side = &self.sides[index];
        let node = &self.pair.nodes[index];
        let all = self.pair.setup.signal_all;
        let mut completions = side.sent.iter().peekable();
        let mut failed = false;
        for posted in &side.posted {
            let next = completions.peek();
            let mine = next.filter(|wc| wc.wr_id == posted.wr_id);
            match mine {
                Some(wc) if wc.is_ok() => {
                    let signalled = all || posted.flags.contains(SendFlags::SIGNALED);
                    assert!(signalled, "unsignalled success reported: {wc}");
                    assert!(!failed, "success after a failure: {wc}");
                }
                Some(wc) => {
                    let flush = wc.status == WcStatus::WrFlushErr;
                    assert!(flush || !failed, "two failures: {wc}");
                    failed = true;
                    assert_ne!(self.mode, Mode::Liveness, "{wc}");
                }
                None => {
                    let signalled = all || posted.flags.contains(SendFlags::SIGNALED);
                    assert!(!signalled && !failed, "no completion for {posted:?}, next {next:?}");
                }
            }
            if mine.is_some() {
                completions.next();
            }
        }
        assert!(completions.next().is_none(), "a completion too many");
        assert_eq!(node.qp.send_queue_len(), 0, "a send hangs on side {index}");
        assert_eq!(node.qp.poll_timeout(), None, "I10: a timer is armed at rest");
        if self.mode == Mode::Liveness {
            assert_eq!(node.reorder_buffers.lent(), 0, "I10: a buffer is lent at rest");
        }
    }

    /// I6: every message once, in order, in the next receive.
    fn check_receives(&self, index: usize) {
        let side = &self.sides[index];
        let mut failed = false;
        for (wc, awaited) in side.received.iter().zip(&side.awaiting) {
            assert_eq!(wc.wr_id, awaited.wr_id, "{wc}");
            if !wc.is_ok() {
                failed = true;
                assert_eq!(self.mode, Mode::Safety, "{wc}");
                continue;
            }
            assert!(!failed, "a receive succeeded after a failure: {wc}");
            assert_eq!(wc.byte_len as usize, awaited.length, "{wc}");
            assert_eq!((wc.imm, wc.invalidated), (awaited.imm, awaited.invalidated), "{wc}");
            let write = wc.opcode == WcOpcode::RecvRdmaWithImm;
            assert_eq!(write, awaited.write, "{wc}");
            self.check_landing(index, awaited);
        }
        let flushed = self.pair.nodes[index].qp.state() == QpState::Err && self.no_srq();
        if self.mode == Mode::Liveness || flushed {
            assert_eq!(side.received.len(), side.awaiting.len(), "receives of side {index}");
        }
    }

    fn no_srq(&self) -> bool {
        self.pair.setup.srq.is_none() && !self.pair.setup.qp_type.is_xrc()
    }

    /// I1, I4: a message that was reported is there.
    fn check_landing(&self, index: usize, awaited: &Awaited) {
        let node = &self.pair.nodes[index];
        let mut left = awaited.length;
        for sge in awaited.sges.iter().filter(|_| !awaited.write) {
            let take = left.min(sge.length as usize);
            let at = (sge.addr - node.va(0)) as usize;
            let same = node.bytes(at, take) == self.shadows[index][at..at + take];
            assert!(same, "bytes of receive {}", awaited.wr_id);
            left -= take;
        }
    }

    /// I1, I2, I5: every byte of both regions is as the model says.
    fn check_memory(&self) {
        for (index, shadow) in self.shadows.iter().enumerate() {
            let bytes = self.pair.nodes[index].bytes(0, MR_LEN);
            if bytes == *shadow {
                continue;
            }
            if let Some(at) = (0..MR_LEN).find(|at| bytes[*at] != shadow[*at]) {
                panic!("side {index}: byte {at} is {:#x}, not {:#x}", bytes[at], shadow[at]);
            }
        }
    }

    /// I2: where the model never writes, nothing has changed.
    fn check_canaries(&self) {
        for (index, shadow) in self.shadows.iter().enumerate() {
            let bytes = self.pair.nodes[index].bytes(0, MR_LEN);
            let source = super::plan::SOURCE;
            assert!(bytes[..source] == shadow[..source], "side {index}: the source changed");
            let landing = super::plan::WORDS + 64;
            let pairs = bytes[landing..].iter().zip(&shadow[landing..]);
            let other = pairs.clone().position(|(is, due)| is != due && *is != 0xee);
            assert_eq!(other, None, "side {index}: a byte behind {landing} is foreign");
        }
    }
}
