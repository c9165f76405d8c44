//! One end of a pair: a queue pair, its memory, and what its application waits for.

mod rxe;
mod xrc;

use std::collections::VecDeque;

use uroce_device::memory::{Access, Lkey, Mr, PdId, Rkey};
use uroce_device::transport::{
    AddressVector, CqId, QpAttr, QpAttrMask as M, QpState, QpType, RecvWr, SendWr, SrqAttr, SrqId,
    Wc,
};
use uroce_device::wire::Qpn;
use uroce_device::{Device, QpRequest};

use self::rxe::post_rxe;
use self::xrc::XrcPart;
use crate::arena::{Arena, MAX_MESSAGE, SlotId};
use crate::nic::Nic;
use crate::random::Random;
use crate::request::{Message, Posted, PostedReceive, ReceiveMistake, SHORT};
use crate::scenario::PairPlan;
use crate::windows::{WindowState, Windows};

pub(crate) const QKEY: u32 = 0x1234_5678;
/// Bytes in front of a datagram.
pub(crate) const GRH: usize = 40;

/// What an end has on a NIC of ours.
#[derive(Debug, Clone, Copy)]
struct Objects {
    /// The engine of its queues, by its number.
    engine: u32,
    pd: PdId,
    send_cq: CqId,
    recv_cq: CqId,
}

/// Which completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompletionsOf {
    Sends,
    Receives,
}

/// One end of a pair.
pub(crate) struct End {
    pub(crate) node: usize,
    pub(crate) nic: Nic,
    /// What it has on a NIC of ours.
    own: Option<Objects>,
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
    /// The process with its NIC is no more: of it, only the memory is left to look at.
    pub(crate) is_lost: bool,
    /// Its completion queue of these has overflowed.
    pub(crate) overflowed: Option<CompletionsOf>,
    /// When the application acts next; `None` while it waits for a completion.
    pub(crate) wake_ns: Option<u64>,
}

impl End {
    pub(crate) fn new(node: usize, nic: &Nic, plan: &PairPlan, random: &mut Random) -> End {
        let nic = nic.clone();
        let own = match &nic {
            Nic::Uroce(device) => Some(Objects::new(device, plan, random)),
            Nic::Rxe(_) => None,
        };
        let xrc = own.filter(|_| plan.service.is_xrc());
        let xrc = xrc.map(|own| XrcPart::new(nic.device(), own.pd, own.recv_cq));
        let srq = own.and_then(|own| own.create_srq(nic.device(), xrc.as_ref(), plan));
        // Own landings, own receives, and targets of the peer.
        let slots = 2 * plan.caps.max_send_wr + plan.caps.max_recv_wr + 8;
        let owner = own.map(|own| (nic.device(), own.pd));
        let arena = Arena::new(owner, slots, random);
        let windows = owner
            .map(|(device, pd)| Windows::new(device, pd, plan.type_1_windows()))
            .unwrap_or_default();
        let mut end = End {
            node,
            nic,
            own,
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
            is_lost: false,
            overflowed: None,
            wake_ns: Some(0),
        };
        end.qpn = end.create_qp(plan);
        end
    }

    fn create_qp(&self, plan: &PairPlan) -> Qpn {
        let Some(Objects { pd, send_cq, recv_cq, .. }) = self.own else {
            return self.create_rxe_qp();
        };
        let request = QpRequest {
            qp_type: plan.service,
            pd,
            send_cq,
            recv_cq,
            // An initiator receives nothing.
            srq: self.srq.filter(|_| self.xrc.is_none()),
            caps: plan.caps,
            signal_all: plan.signal_all,
        };
        self.nic.device().create_qp(&request).expect("a queue pair")
    }

    /// Another queue pair in place of this one, whose completions have been taken.
    pub(crate) fn recreate_qp(&mut self, plan: &PairPlan) {
        self.destroy_qp();
        let mut left = vec![];
        self.poll(CompletionsOf::Sends, &mut left);
        self.poll(CompletionsOf::Receives, &mut left);
        assert!(left.is_empty(), "all completions were taken, and destroying makes none: {left:?}");
        self.qpn = self.create_qp(plan);
        if let Some(xrc) = &mut self.xrc {
            xrc.renew_target(self.nic.device());
        }
    }

    fn destroy_qp(&self) {
        match &self.nic {
            Nic::Uroce(device) => device.destroy_qp(self.qpn).expect("the queue pair exists"),
            Nic::Rxe(node) => node.borrow_mut().destroy_qp(self.qpn),
        }
    }

    /// RESET to RTS. `psns` are ours and the peer's.
    pub(crate) fn connect(&self, plan: &PairPlan, peer: &Peer, psns: [u32; 2]) {
        if self.own.is_none() {
            return self.connect_rxe(plan, peer, psns);
        }
        let access = Windows::ACCESS | Access::FLUSH_GLOBAL;
        let attr = QpAttr {
            access,
            qkey: QKEY,
            av: Some(AddressVector::new(self.nic.address(), peer.address)),
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
            self.nic.device().modify_qp(qpn, &attr, mask).expect("a lawful transition");
        }
    }

    /// Moves the queue pairs to a state that every state may be left for.
    pub(crate) fn leave(&self, state: QpState) {
        if self.is_lost {
            return;
        }
        let Nic::Uroce(device) = &self.nic else {
            return self.leave_rxe(state);
        };
        let attr = QpAttr { state, ..QpAttr::default() };
        for qpn in [Some(self.qpn), self.xrc.map(|xrc| xrc.target)].into_iter().flatten() {
            device.modify_qp(qpn, &attr, M::STATE).expect("a lawful transition");
        }
    }

    /// True if the queue pair can be moved to the error state: one that no call has reached is in RESET.
    pub(crate) fn can_fail(&self) -> bool {
        match &self.nic {
            _ if self.is_lost => false,
            Nic::Uroce(device) => {
                let (attr, _) = device.query_qp(self.qpn).expect("it exists");
                attr.state != QpState::Reset
            }
            Nic::Rxe(_) => true,
        }
    }

    /// The queue pair that serves requests.
    pub(crate) fn responder(&self) -> Qpn {
        self.xrc.map_or(self.qpn, |xrc| xrc.target)
    }

    /// The number of the shared receive queue, where requests must name it.
    pub(crate) fn srqn(&self) -> Option<u32> {
        let srq = self.srq.filter(|_| self.xrc.is_some())?;
        Some(self.nic.device().srq_number(srq).expect("the SRQ exists"))
    }

    /// How a peer reaches this end.
    pub(crate) fn peer(&self) -> Peer {
        Peer { address: self.nic.address(), qpn: self.qpn, responder: self.responder() }
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
            self.post_receive(&wr)?;
            self.receives.push_back(PostedReceive { wr_id, slot, mistake });
        }
        Ok(())
    }

    fn post_receive(&self, wr: &RecvWr<'_>) -> Result<(), String> {
        let posted = match (&self.nic, self.srq) {
            (Nic::Uroce(device), Some(srq)) => device.post_srq_recv(srq, &[*wr]),
            (Nic::Uroce(device), None) => device.post_recv(self.qpn, &[*wr]),
            (Nic::Rxe(node), _) => return post_rxe(node.borrow_mut().post_recv(self.qpn, wr)),
        };
        posted.map_err(|(_, error)| format!("a receive was refused: {error}"))
    }

    /// Posts a send work request.
    pub(crate) fn post_send(&self, wr: &SendWr<'_>) -> Result<(), String> {
        match &self.nic {
            Nic::Uroce(device) => {
                device.post_send(self.qpn, &[*wr]).map_err(|(_, error)| error.to_string())
            }
            Nic::Rxe(node) => post_rxe(node.borrow_mut().post_send(self.qpn, wr)),
        }
    }

    /// True if a completion waits.
    pub(crate) fn has_completions(&self) -> bool {
        self.has_completions_of(CompletionsOf::Sends)
            || self.has_completions_of(CompletionsOf::Receives)
    }

    /// True if a completion of this kind waits.
    pub(crate) fn has_completions_of(&self, what: CompletionsOf) -> bool {
        match (&self.nic, self.own) {
            _ if self.is_lost => false,
            (Nic::Uroce(device), Some(own)) => {
                device.query_cq(own.cq(what)).expect("the CQ exists").waiting > 0
            }
            (nic, _) => self.has_rxe_completions(nic, what),
        }
    }

    /// Moves completions behind `into`.
    pub(crate) fn poll(&self, what: CompletionsOf, into: &mut Vec<Wc>) {
        if self.is_lost {
            return;
        }
        let (Nic::Uroce(device), Some(own)) = (&self.nic, self.own) else {
            return self.poll_rxe(what, into);
        };
        let polled = device.poll_cq_each(own.cq(what), usize::MAX, |wc| into.push(*wc));
        polled.expect("the CQ exists");
    }

    /// A completion queue of a NIC of ours.
    pub(crate) fn cq(&self, what: CompletionsOf) -> Option<CqId> {
        self.own.map(|own| own.cq(what))
    }

    /// Gives both completion queues other sizes, which are large enough.
    pub(crate) fn resize_cqs(&self, plan: &PairPlan, random: &mut Random) {
        let Some(own) = self.own else { return };
        for cq in [own.send_cq, own.recv_cq] {
            let cqe = entries(plan) + random.below(64) as u32;
            self.nic.device().resize_cq(cq, cqe).expect("it is large enough");
        }
    }

    /// Registers the arena a second time. A model cannot do that.
    pub(crate) fn register_alias(&self) -> Option<Mr> {
        let (own, memory) = (self.own?, self.nic.device().memory());
        let (region, access) = memory.region_of(self.arena.mr()?).expect("registered");
        Some(memory.reg_mr(own.pd, region, self.arena.base(), access).expect("a region"))
    }

    /// Registers memory and takes the key back, so that it is a key which nothing may be reached by.
    pub(crate) fn make_stale_key(&mut self) {
        let key = match self.register_alias() {
            Some(mr) => {
                self.nic.device().memory().dereg_mr(mr.id).expect("not in use");
                mr.rkey
            }
            None => Rkey(self.arena.rkey().0 ^ 0xff),
        };
        self.stale_keys.push(key);
    }

    /// One of our windows was invalidated by a request of ours.
    pub(crate) fn note_invalidated(&mut self, window: usize) {
        let rkey = self.windows.rkey(window);
        self.windows.note_invalidated(rkey);
        self.stale_keys.push(rkey);
    }

    /// A bind of one of our windows has completed, which leaves it in this state. Of one of type 1, the key before is
    /// of no use any more, nor is the new one of a window that is not bound.
    pub(crate) fn note_bound(&mut self, window: usize, state: WindowState) {
        let is_type_1 = self.windows.is_type_1(window);
        self.stale_keys.extend(Some(self.windows.rkey(window)).filter(|_| is_type_1));
        self.windows.note_bound(window, state);
        if state == WindowState::Free {
            self.stale_keys.push(self.windows.rkey(window));
        }
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
        if let (Nic::Uroce(device), Some(own)) = (&self.nic, self.own) {
            self.windows.renew(device, own.pd);
        }
        (self.sent, self.acknowledged, self.received) = (0, 0, 0);
        self.arena.reset();
    }

    /// Takes back the receives of a shared receive queue, which no queue pair flushes.
    pub(crate) fn renew_srq(&mut self, plan: &PairPlan) {
        let (Some(srq), Some(own)) = (self.srq, self.own) else { return };
        let device = self.nic.device();
        device.destroy_qp(self.qpn).expect("the queue pair exists");
        device.destroy_srq(srq).expect("not in use");
        if let Some(xrc) = &mut self.xrc {
            xrc.renew_target(device);
        }
        self.srq = own.create_srq(device, self.xrc.as_ref(), plan);
        self.qpn = self.create_qp(plan);
    }

    /// Its process has ended, and there is a new one.
    pub(crate) fn lose(&mut self, nic: &Nic) {
        (self.nic, self.is_lost) = (nic.clone(), true);
    }

    /// The application of the new process begins where the old one has ended.
    pub(crate) fn revive(&mut self, plan: &PairPlan, random: &mut Random) {
        let left = self.left;
        *self = End { left, ..End::new(self.node, &self.nic, plan, random) };
    }

    pub(crate) fn has_shared_receives(&self) -> bool {
        self.srq.is_some()
    }

    /// Destroys everything.
    pub(crate) fn destroy(&mut self) -> Result<(), String> {
        if self.is_lost {
            return Ok(());
        }
        let failed = |what: &str, error: String| format!("{what} cannot be destroyed: {error}");
        let (Nic::Uroce(device), Some(own)) = (&self.nic, self.own) else {
            self.destroy_qp();
            return Ok(());
        };
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
        for cq in [own.send_cq, own.recv_cq] {
            device.destroy_cq(cq).map_err(|error| failed("a CQ", error.to_string()))?;
        }
        self.windows.destroy(device);
        if let Some(mr) = self.arena.mr() {
            let gone = device.memory().dereg_mr(mr);
            gone.map_err(|error| failed("a region", error.to_string()))?;
        }
        device
            .memory()
            .dealloc_pd(own.pd)
            .map_err(|error| failed("a protection domain", error.to_string()))
    }
}

impl Objects {
    fn new(device: &Device, plan: &PairPlan, random: &mut Random) -> Objects {
        let pd = device.memory().alloc_pd().expect("a protection domain");
        let engine = match device.attr().num_comp_vectors {
            1 => 0,
            engines => random.below(engines as usize) as u32,
        };
        let create_cq = || device.create_cq_on(engine, entries(plan), None, 0).expect("a CQ");
        Objects { engine, pd, send_cq: create_cq(), recv_cq: create_cq() }
    }

    /// The shared receive queue, if receives come from one.
    fn create_srq(&self, device: &Device, xrc: Option<&XrcPart>, plan: &PairPlan) -> Option<SrqId> {
        match xrc {
            Some(xrc) => Some(xrc.create_srq(device, self.pd, self.recv_cq, &srq_attr(plan))),
            None => plan.shared_receives.then(|| {
                let srq = device.create_srq_on(self.engine, self.pd, &srq_attr(plan));
                srq.expect("an SRQ")
            }),
        }
    }

    fn cq(&self, what: CompletionsOf) -> CqId {
        match what {
            CompletionsOf::Sends => self.send_cq,
            CompletionsOf::Receives => self.recv_cq,
        }
    }
}

/// Completions that can wait at a time.
pub(crate) fn entries(plan: &PairPlan) -> u32 {
    plan.caps.max_send_wr.max(plan.caps.max_recv_wr) + 1
}

/// What is wrong with a receive, now and then.
fn draw_receive_mistake(plan: &PairPlan, random: &mut Random) -> Option<ReceiveMistake> {
    if random.below(1000) >= plan.bad_receives {
        return None;
    }
    Some(random.pick(&[ReceiveMistake::Short, ReceiveMistake::LocalKey]))
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
