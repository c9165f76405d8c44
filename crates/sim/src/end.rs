//! One end of a pair: a queue pair, its memory, and what its application waits for.

mod xrc;

use std::collections::VecDeque;

use uroce_device::memory::{Access, Lkey, Mr, PdId, Rkey};
use uroce_device::transport::{
    AddressVector, CqId, QpAttr, QpAttrMask as M, QpState, QpType, RecvWr, SrqAttr, SrqId, Wc,
};
use uroce_device::wire::Qpn;
use uroce_device::{Device, QpRequest};

use self::xrc::XrcPart;
use crate::arena::{Arena, MAX_MESSAGE, SlotId};
use crate::random::Random;
use crate::request::{Message, Posted, PostedReceive, ReceiveMistake, SHORT};
use crate::scenario::PairPlan;
use crate::windows::Windows;

pub(crate) const QKEY: u32 = 0x1234_5678;
/// Bytes in front of a datagram.
pub(crate) const GRH: usize = 40;

/// One end of a pair.
pub(crate) struct End {
    pub(crate) node: usize,
    pub(crate) device: Device,
    pd: PdId,
    pub(crate) send_cq: CqId,
    pub(crate) recv_cq: CqId,
    srq: Option<SrqId>,
    xrc: Option<XrcPart>,
    pub(crate) qpn: Qpn,
    pub(crate) arena: Arena,
    /// Send work requests that are not known to be complete.
    pub(crate) sends: VecDeque<Posted>,
    /// Send work requests that have failed since the queue pair was connected.
    pub(crate) failed: Vec<Posted>,
    /// Receive work requests that are not complete.
    pub(crate) receives: VecDeque<PostedReceive>,
    /// Messages that the peer has sent to this end.
    pub(crate) awaited: VecDeque<Message>,
    /// Messages that this end has sent, since it was connected.
    pub(crate) sent: u32,
    /// Messages of this end whose completion was a success, since it was connected.
    pub(crate) acknowledged: u32,
    /// Messages that this end has received, since it was connected.
    pub(crate) received: u32,
    /// Slots of this arena that WRITEs of an unreliable service may have filled.
    pub(crate) uncertain: Vec<(SlotId, Vec<u8>)>,
    /// Windows over this arena.
    pub(crate) windows: Windows,
    /// What is wrong with receives that were posted since this end was connected.
    pub(crate) bad_receives: Vec<ReceiveMistake>,
    /// Receives that have failed since the connection was made.
    pub(crate) failed_receives: Vec<PostedReceive>,
    /// Keys that were taken back.
    pub(crate) stale_keys: Vec<Rkey>,
    /// Requests that are still to be posted.
    pub(crate) left: usize,
    pub(crate) next_wr: u64,
    /// When the application acts next; `None` while it waits for a completion.
    pub(crate) wake_ns: Option<u64>,
}

impl End {
    pub(crate) fn new(node: usize, device: &Device, plan: &PairPlan, random: &mut Random) -> End {
        let device = device.clone();
        let pd = device.memory().alloc_pd().expect("a protection domain");
        let cqe = entries(plan);
        let send_cq = device.create_cq(cqe, None, 0).expect("a CQ");
        let recv_cq = device.create_cq(cqe, None, 0).expect("a CQ");
        let xrc = plan.service.is_xrc().then(|| XrcPart::new(&device, pd, recv_cq));
        let srq = match &xrc {
            Some(xrc) => Some(xrc.create_srq(&device, pd, recv_cq, &srq_attr(plan))),
            None => plan.shared_receives.then(|| create_srq(&device, pd, plan)),
        };
        // Own landings, own receives, and targets of the peer.
        let slots = 2 * plan.caps.max_send_wr + plan.caps.max_recv_wr + 8;
        let arena = Arena::new(&device, pd, slots, random);
        let windows = Windows::new(&device, pd);
        let mut end = End {
            node,
            device,
            pd,
            send_cq,
            recv_cq,
            srq,
            xrc,
            qpn: Qpn::new(0),
            arena,
            sends: VecDeque::new(),
            failed: vec![],
            receives: VecDeque::new(),
            awaited: VecDeque::new(),
            sent: 0,
            acknowledged: 0,
            received: 0,
            uncertain: vec![],
            windows,
            bad_receives: vec![],
            failed_receives: vec![],
            stale_keys: vec![],
            left: plan.operations,
            next_wr: 1,
            wake_ns: Some(0),
        };
        end.qpn = end.create_qp(plan);
        end
    }

    fn create_qp(&self, plan: &PairPlan) -> Qpn {
        let request = QpRequest {
            qp_type: plan.service,
            pd: self.pd,
            send_cq: self.send_cq,
            recv_cq: self.recv_cq,
            // An initiator receives nothing.
            srq: self.srq.filter(|_| self.xrc.is_none()),
            caps: plan.caps,
            signal_all: plan.signal_all,
        };
        self.device.create_qp(&request).expect("a queue pair")
    }

    /// Another queue pair in place of this one, whose completions have been taken.
    pub(crate) fn recreate_qp(&mut self, plan: &PairPlan) {
        self.device.destroy_qp(self.qpn).expect("the queue pair exists");
        let mut left = vec![];
        self.poll(self.send_cq, &mut left);
        self.poll(self.recv_cq, &mut left);
        assert!(left.is_empty(), "all completions were taken, and destroying makes none: {left:?}");
        self.qpn = self.create_qp(plan);
        if let Some(xrc) = &mut self.xrc {
            xrc.renew_target(&self.device);
        }
    }

    /// RESET to RTS. `psns` are ours and the peer's.
    pub(crate) fn connect(&self, plan: &PairPlan, peer: &Peer, psns: [u32; 2]) {
        let access = Windows::ACCESS | Access::FLUSH_GLOBAL;
        let attr = QpAttr {
            access,
            qkey: QKEY,
            av: Some(AddressVector::new(self.device.address(), peer.address)),
            path_mtu: plan.mtu,
            timeout: plan.timeout,
            retry_cnt: plan.retry_cnt,
            rnr_retry: plan.rnr_retry,
            rq_psn: psns[1],
            sq_psn: psns[0],
            max_rd_atomic: plan.rd_atomic,
            max_dest_rd_atomic: plan.rd_atomic,
            min_rnr_timer: plan.min_rnr_timer,
            dest_qpn: peer.responder.get(),
            ..QpAttr::default()
        };
        self.bring_up(self.qpn, plan.service, &attr);
        if let Some(XrcPart { target, .. }) = self.xrc {
            let attr = QpAttr { dest_qpn: peer.qpn.get(), ..attr };
            self.bring_up(target, QpType::XrcTgt, &attr);
        }
    }

    fn bring_up(&self, qpn: Qpn, service: QpType, attr: &QpAttr) {
        let states = [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts];
        for step in states.windows(2) {
            let mask = M::required(service, step[0], step[1]);
            let attr = QpAttr { state: step[1], ..*attr };
            self.device.modify_qp(qpn, &attr, mask).expect("a lawful transition");
        }
    }

    /// Moves the queue pairs to a state that every state may be left for.
    pub(crate) fn leave(&self, state: QpState) {
        let attr = QpAttr { state, ..QpAttr::default() };
        for qpn in [Some(self.qpn), self.xrc.map(|xrc| xrc.target)].into_iter().flatten() {
            self.device.modify_qp(qpn, &attr, M::STATE).expect("a lawful transition");
        }
    }

    /// The queue pair that serves requests.
    pub(crate) fn responder(&self) -> Qpn {
        self.xrc.map_or(self.qpn, |xrc| xrc.target)
    }

    /// The number of the shared receive queue, where requests must name it.
    pub(crate) fn srqn(&self) -> Option<u32> {
        let srq = self.srq.filter(|_| self.xrc.is_some())?;
        Some(self.device.srq_number(srq).expect("the SRQ exists"))
    }

    /// How a peer reaches this end.
    pub(crate) fn peer(&self) -> Peer {
        Peer { address: self.device.address(), qpn: self.qpn, responder: self.responder() }
    }

    /// Posts receives until `depth` are posted, as far as there is memory.
    pub(crate) fn post_receives(
        &mut self,
        plan: &PairPlan,
        random: &mut Random,
    ) -> Result<(), String> {
        let depth = plan.caps.max_recv_wr as usize;
        while self.receives.len() < depth {
            let Some(slot) = self.arena.take() else { break };
            let wr_id = self.next_wr;
            self.next_wr += 1;
            let parts: &[usize] = if random.chance(30) { &[3, 700] } else { &[] };
            let mut sges = self.arena.scatter(slot, MAX_MESSAGE, parts);
            let mistake = draw_receive_mistake(plan, random);
            match mistake {
                Some(ReceiveMistake::Short) => {
                    sges.truncate(1);
                    sges[0].length = SHORT;
                }
                Some(ReceiveMistake::LocalKey) => sges[0].lkey = Lkey(sges[0].lkey.0 ^ 0xff),
                None => {}
            }
            self.bad_receives.extend(mistake);
            let wr = RecvWr::new(wr_id, &sges);
            let posted = match self.srq {
                Some(srq) => self.device.post_srq_recv(srq, &[wr]),
                None => self.device.post_recv(self.qpn, &[wr]),
            };
            posted.map_err(|(_, error)| format!("a receive was refused: {error}"))?;
            self.receives.push_back(PostedReceive { wr_id, slot, mistake });
        }
        Ok(())
    }

    /// True if a completion waits.
    pub(crate) fn has_completions(&self) -> bool {
        self.device.has_completions(&[self.send_cq, self.recv_cq])
    }

    /// Moves completions of a CQ behind `into`.
    pub(crate) fn poll(&self, cq: CqId, into: &mut Vec<Wc>) {
        let polled = self.device.poll_cq_each(cq, usize::MAX, |wc| into.push(*wc));
        polled.expect("the CQ exists");
    }

    /// Gives both completion queues other sizes, which are large enough.
    pub(crate) fn resize_cqs(&self, plan: &PairPlan, random: &mut Random) {
        for cq in [self.send_cq, self.recv_cq] {
            let cqe = entries(plan) + random.below(64) as u32;
            self.device.resize_cq(cq, cqe).expect("it is large enough");
        }
    }

    /// Registers the arena a second time.
    pub(crate) fn register_alias(&self) -> Mr {
        let (region, access) =
            self.device.memory().region_of(self.arena.mr.id).expect("registered");
        let base = self.arena.base();
        self.device.memory().reg_mr(self.pd, region, base, access).expect("a region")
    }

    /// Registers memory and takes the key back, so that it is a key which nothing may be reached by.
    pub(crate) fn make_stale_key(&mut self) {
        let mr = self.register_alias();
        self.device.memory().dereg_mr(mr.id).expect("not in use");
        self.stale_keys.push(mr.rkey);
    }

    /// One of our windows was invalidated by a request of ours.
    pub(crate) fn note_invalidated(&mut self, window: usize) {
        let rkey = self.windows.rkey(window);
        self.windows.note_invalidated(rkey);
        self.stale_keys.push(rkey);
    }

    /// Forgets what was posted and awaited.
    pub(crate) fn clear(&mut self) {
        self.sends.clear();
        self.failed.clear();
        self.receives.clear();
        self.awaited.clear();
        self.uncertain.clear();
        self.bad_receives.clear();
        self.failed_receives.clear();
        self.stale_keys.clear();
        self.windows.destroy(&self.device);
        self.windows = Windows::new(&self.device, self.pd);
        (self.sent, self.acknowledged, self.received) = (0, 0, 0);
        self.arena.reset();
    }

    /// Takes back the receives of a shared receive queue, which no queue pair flushes.
    pub(crate) fn renew_srq(&mut self, plan: &PairPlan) {
        let Some(srq) = self.srq else { return };
        self.device.destroy_qp(self.qpn).expect("the queue pair exists");
        self.device.destroy_srq(srq).expect("not in use");
        self.srq = Some(match &mut self.xrc {
            Some(xrc) => {
                xrc.renew_target(&self.device);
                xrc.create_srq(&self.device, self.pd, self.recv_cq, &srq_attr(plan))
            }
            None => create_srq(&self.device, self.pd, plan),
        });
        self.qpn = self.create_qp(plan);
    }

    pub(crate) fn has_shared_receives(&self) -> bool {
        self.srq.is_some()
    }

    /// Destroys everything.
    pub(crate) fn destroy(&mut self) -> Result<(), String> {
        let failed = |what: &str, error: String| format!("{what} cannot be destroyed: {error}");
        let device = &self.device;
        device.destroy_qp(self.qpn).map_err(|error| failed("a queue pair", error.to_string()))?;
        if let Some(xrc) = &self.xrc {
            xrc.destroy_target(device)?;
        }
        if let Some(srq) = self.srq {
            device.destroy_srq(srq).map_err(|error| failed("an SRQ", error.to_string()))?;
        }
        if let Some(xrc) = &self.xrc {
            xrc.close(device)?;
        }
        for cq in [self.send_cq, self.recv_cq] {
            device.destroy_cq(cq).map_err(|error| failed("a CQ", error.to_string()))?;
        }
        self.windows.destroy(device);
        let mr = self.arena.mr.id;
        device.memory().dereg_mr(mr).map_err(|error| failed("a region", error.to_string()))?;
        device
            .memory()
            .dealloc_pd(self.pd)
            .map_err(|error| failed("a protection domain", error.to_string()))
    }
}

/// Completions that can wait at a time.
fn entries(plan: &PairPlan) -> u32 {
    plan.caps.max_send_wr.max(plan.caps.max_recv_wr) + 1
}

/// What is wrong with a receive, now and then.
fn draw_receive_mistake(plan: &PairPlan, random: &mut Random) -> Option<ReceiveMistake> {
    if random.below(1000) >= plan.bad_receives {
        return None;
    }
    Some(random.pick(&[ReceiveMistake::Short, ReceiveMistake::LocalKey]))
}

fn create_srq(device: &Device, pd: PdId, plan: &PairPlan) -> SrqId {
    device.create_srq(pd, &srq_attr(plan)).expect("an SRQ")
}

fn srq_attr(plan: &PairPlan) -> SrqAttr {
    let (max_wr, max_sge) = (plan.caps.max_recv_wr, plan.caps.max_recv_sge);
    SrqAttr { max_wr, max_sge, limit: 0 }
}

/// How an end is reached.
pub(crate) struct Peer {
    pub(crate) address: std::net::IpAddr,
    pub(crate) qpn: Qpn,
    /// The queue pair that serves requests.
    pub(crate) responder: Qpn,
}
