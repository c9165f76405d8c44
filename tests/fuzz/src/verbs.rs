//! Verbs in any order, with objects that exist, do not exist any more, or never did.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use uroce_device::datapath::LoopbackFabric;
use uroce_device::memory::{Access, Lkey, Mr, Mw, MwType, PdId, Region, Rereg, Rkey, Sge};
use uroce_device::transport::{
    AddressVector, CqId, Notify, QpAttr, QpAttrMask, QpCaps, QpState, QpType, RecvWr, SendData,
    SendFlags, SendOp, SendWr, SrqAttr, SrqId, UdDestination, Wc,
};
use uroce_device::wire::{Mtu, Qpn};
use uroce_device::{Device, QpRequest, VirtualClock};

use crate::input::Input;
use crate::nic::{self, host};

/// Calls of a run.
const MOST_STEPS: usize = 300;
/// Bytes of a region.
const BYTES: usize = 4096;
const TYPES: [QpType; 4] = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcIni];
const STATES: [QpState; 7] = [
    QpState::Reset,
    QpState::Init,
    QpState::Rtr,
    QpState::Rts,
    QpState::Sqd,
    QpState::Sqe,
    QpState::Err,
];

/// A device, and every object that it ever had.
struct User {
    device: Device,
    address: IpAddr,
    pds: Vec<PdId>,
    mrs: Vec<Mr>,
    mws: Vec<Mw>,
    cqs: Vec<CqId>,
    srqs: Vec<SrqId>,
    qps: Vec<Qpn>,
    /// Work requests that were taken and have not completed.
    open: HashMap<u64, Qpn>,
}

fn any<T: Copy>(list: &[T], input: &mut Input<'_>) -> Option<T> {
    let number = usize::from(input.u8());
    (!list.is_empty()).then(|| list[number % list.len()])
}

/// Two users of verbs call them in any order. Refusals are right; panics, work without end and completions of what is not open are not.
pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (fabric, clock) = (LoopbackFabric::new(), VirtualClock::new());
    let mut users = [1, 2].map(|last| User::open(&fabric, last, &clock));
    for number in 1..=MOST_STEPS as u64 {
        if input.is_empty() {
            break;
        }
        let who = usize::from(input.bool());
        let peers = users[1 - who].qps.clone();
        match input.below(8) {
            0 | 1 => users[who].make(&mut input),
            2 => users[who].unmake(&mut input),
            3 => users[who].modify(&peers, &mut input),
            4 => users[who].connect(&peers, &mut input),
            5 => users[who].post_recv(number, &mut input),
            6 => users[who].post_send(number, &peers, &mut input),
            _ => clock.advance(Duration::from_micros(u64::from(input.u16()) * 8)),
        }
        users.iter().for_each(User::drive);
        users.iter_mut().for_each(User::poll);
    }
}

impl User {
    fn open(fabric: &LoopbackFabric, last: u8, clock: &VirtualClock) -> User {
        let (device, address) = (nic::open(fabric, last, clock), host(last));
        let (pds, cqs, mrs, mws) = (vec![], vec![], vec![], vec![]);
        let (srqs, qps, open) = (vec![], vec![], HashMap::new());
        User { device, address, pds, mrs, mws, cqs, srqs, qps, open }
    }

    fn make(&mut self, input: &mut Input<'_>) {
        let device = &self.device;
        match input.below(6) {
            0 => self.pds.extend(device.memory().alloc_pd()),
            1 => self.cqs.extend(device.create_cq(1 + u32::from(input.u8()), None, 0)),
            2 => {
                let Some(pd) = any(&self.pds, input) else { return };
                let access = Access::from_bits_truncate(input.u32());
                let region = Region::alloc(BYTES).expect("memory");
                self.mrs.extend(device.memory().reg_mr(pd, region, input.u64(), access));
            }
            3 => {
                let Some(pd) = any(&self.pds, input) else { return };
                let mw_type = if input.bool() { MwType::Type1 } else { MwType::Type2B };
                self.mws.extend(device.memory().alloc_mw(pd, mw_type));
            }
            4 => {
                let Some(pd) = any(&self.pds, input) else { return };
                self.srqs.extend(device.create_srq(pd, &srq_attr(input)));
            }
            _ => self.make_qp(input),
        }
    }

    fn make_qp(&mut self, input: &mut Input<'_>) {
        let (Some(pd), Some(send_cq), Some(recv_cq)) =
            (any(&self.pds, input), any(&self.cqs, input), any(&self.cqs, input))
        else {
            return;
        };
        let qp_type = TYPES[usize::from(input.below(4))];
        let caps = QpCaps {
            max_send_wr: input.below(40).into(),
            max_recv_wr: input.below(40).into(),
            max_send_sge: input.below(5).into(),
            max_recv_sge: input.below(5).into(),
            max_inline: input.below(100).into(),
        };
        let srq = if input.bool() { any(&self.srqs, input) } else { None };
        let signal_all = input.bool();
        let request = QpRequest { qp_type, pd, send_cq, recv_cq, srq, caps, signal_all };
        self.qps.extend(self.device.create_qp(&request));
    }

    fn unmake(&mut self, input: &mut Input<'_>) {
        let memory = self.device.memory();
        match input.below(8) {
            0 => drop(any(&self.pds, input).map(|pd| memory.dealloc_pd(pd))),
            1 => drop(any(&self.cqs, input).map(|cq| self.device.destroy_cq(cq))),
            2 => drop(any(&self.mrs, input).map(|mr| memory.dereg_mr(mr.id))),
            3 => drop(any(&self.mws, input).map(|mw| memory.dealloc_mw(mw.id))),
            4 => drop(any(&self.srqs, input).map(|srq| self.device.destroy_srq(srq))),
            5 => self.rereg(input),
            6 => self.change_queue(input),
            _ => self.destroy_qp(input),
        }
    }

    fn rereg(&self, input: &mut Input<'_>) {
        let Some(mr) = any(&self.mrs, input) else { return };
        let pd = if input.bool() { any(&self.pds, input) } else { None };
        let access = input.bool().then(|| Access::from_bits_truncate(input.u32()));
        let region = input.bool().then(|| Region::alloc(BYTES).expect("memory"));
        let translation = region.map(|region| (region, input.u64()));
        let _ = self.device.memory().rereg_mr(mr.id, Rereg { pd, access, translation });
    }

    fn change_queue(&self, input: &mut Input<'_>) {
        let Some(cq) = any(&self.cqs, input) else { return };
        if input.bool() {
            let _ = self.device.resize_cq(cq, input.u16().into());
        } else {
            let notify = if input.bool() { Notify::Next } else { Notify::Solicited };
            let _ = self.device.req_notify(cq, notify);
        }
    }

    fn destroy_qp(&mut self, input: &mut Input<'_>) {
        let Some(qpn) = any(&self.qps, input) else { return };
        if self.device.destroy_qp(qpn).is_ok() {
            // Completions that wait in a queue stay there; what was open never completes.
            self.poll();
            self.open.retain(|_, of| *of != qpn);
        }
    }

    /// Any attributes, any mask.
    fn modify(&mut self, peers: &[Qpn], input: &mut Input<'_>) {
        let Some(qpn) = any(&self.qps, input) else { return };
        let attr = QpAttr {
            state: STATES[usize::from(input.below(7))],
            cur_state: STATES[usize::from(input.below(7))],
            access: Access::from_bits_truncate(input.u32()),
            pkey_index: input.below(2).into(),
            port: input.below(3),
            qkey: input.u32(),
            av: Some(AddressVector::new(self.address, host(input.below(4)))),
            path_mtu: Mtu::from_code(input.below(7)).unwrap_or(Mtu::M256),
            timeout: input.u8(),
            retry_cnt: input.u8(),
            rnr_retry: input.u8(),
            rq_psn: input.u32(),
            sq_psn: input.u32(),
            max_rd_atomic: input.u8(),
            max_dest_rd_atomic: input.u8(),
            min_rnr_timer: input.u8(),
            dest_qpn: any(peers, input).map_or(input.u32(), Qpn::get),
            ..QpAttr::default()
        };
        let mask = QpAttrMask::from_bits_truncate(input.u32());
        let is_reset = self.device.modify_qp(qpn, &attr, mask).is_ok()
            && mask.contains(QpAttrMask::STATE)
            && attr.state == QpState::Reset;
        if is_reset {
            self.poll();
            self.open.retain(|_, of| *of != qpn);
        }
    }

    /// One step from where the queue pair is towards RTS.
    fn connect(&mut self, peers: &[Qpn], input: &mut Input<'_>) {
        use QpAttrMask as M;
        let Some(qpn) = any(&self.qps, input) else { return };
        let Ok((now, _)) = self.device.query_qp(qpn) else { return };
        let peer = if self.address == host(1) { host(2) } else { host(1) };
        let all = M::all() - M::CUR_STATE - M::EN_SQD_ASYNC_NOTIFY;
        let (state, mask) = match now.state {
            QpState::Reset => (QpState::Init, M::PKEY_INDEX | M::PORT),
            QpState::Init => (QpState::Rtr, M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN),
            _ => (QpState::Rts, M::SQ_PSN),
        };
        let attr = QpAttr {
            state,
            access: Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC,
            av: Some(AddressVector::new(self.address, peer)),
            path_mtu: Mtu::M256,
            timeout: 8,
            retry_cnt: 3,
            rnr_retry: 3,
            max_rd_atomic: 2,
            max_dest_rd_atomic: 2,
            min_rnr_timer: 1,
            qkey: 7,
            dest_qpn: any(peers, input).map_or(5, Qpn::get),
            ..QpAttr::default()
        };
        let reliable = match state {
            QpState::Init => M::ACCESS_FLAGS,
            QpState::Rtr => M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER,
            _ => M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC,
        };
        // One of these is what the service wants; the others are refused.
        for more in [reliable, M::empty(), M::ACCESS_FLAGS, M::QKEY] {
            if self.device.modify_qp(qpn, &attr, all & (mask | more) | M::STATE).is_ok() {
                return;
            }
        }
        let datagram = if state == QpState::Init { mask | M::QKEY } else { mask & M::SQ_PSN };
        let _ = self.device.modify_qp(qpn, &attr, datagram | M::STATE);
    }

    fn sges(&self, input: &mut Input<'_>) -> Vec<Sge> {
        let count = input.below(4);
        let mut sges = Vec::new();
        for _ in 0..count {
            let (addr, length) = (input.u64(), u32::from(input.u16()));
            let lkey = any(&self.mrs, input).map_or(Lkey(input.u32()), |mr| Lkey(mr.lkey.0));
            sges.push(Sge { addr, length, lkey });
        }
        sges
    }

    fn post_recv(&mut self, wr_id: u64, input: &mut Input<'_>) {
        let sges = self.sges(input);
        let wr = RecvWr { wr_id, sges: &sges };
        if input.bool() {
            if let Some(srq) = any(&self.srqs, input) {
                // Who takes it is not known before it completes.
                let _ = self.device.post_srq_recv(srq, &[RecvWr { wr_id: 0, ..wr }]);
            }
            return;
        }
        let Some(qpn) = any(&self.qps, input) else { return };
        if self.device.post_recv(qpn, &[wr]).is_ok() {
            self.open.insert(wr_id, qpn);
        }
    }

    fn post_send(&mut self, wr_id: u64, peers: &[Qpn], input: &mut Input<'_>) {
        let Some(qpn) = any(&self.qps, input) else { return };
        let op = self.operation(input);
        let sges = self.sges(input);
        let inline = [input.piece()];
        let data = if input.bool() { SendData::Sges(&sges) } else { SendData::Inline(&inline) };
        let flags = SendFlags::from_bits_truncate(input.u8().into());
        let ud = input.bool().then(|| UdDestination {
            av: AddressVector::new(self.address, host(input.below(4))),
            qpn: any(peers, input).unwrap_or(Qpn::new(9)),
            qkey: input.u32(),
        });
        let srqn = input.bool().then(|| input.u32());
        let wr = SendWr { wr_id, op, flags, data, ud, srqn };
        if self.device.post_send(qpn, &[wr]).is_ok() {
            self.open.insert(wr_id, qpn);
        }
    }

    fn operation(&self, input: &mut Input<'_>) -> SendOp {
        let kind = input.below(12);
        let va = input.u64();
        let rkey = any(&self.mrs, input).map_or(Rkey(input.u32()), |mr| mr.rkey);
        match kind {
            0 => SendOp::Send,
            1 => SendOp::SendWithImm(9),
            2 => SendOp::SendWithInvalidate(rkey),
            3 => SendOp::Write { va, rkey },
            4 => SendOp::WriteWithImm { va, rkey, imm: 4 },
            5 => SendOp::Read { va, rkey },
            6 => SendOp::CompareSwap { va, rkey, compare: 0, swap: 1 },
            7 => SendOp::FetchAdd { va, rkey, add: 5 },
            8 => SendOp::AtomicWrite { va, rkey },
            9 => {
                let (length, placement) = (input.u32(), input.u8());
                SendOp::Flush { va, rkey, length, placement, selectivity: input.u8() }
            }
            10 => SendOp::LocalInvalidate(rkey),
            _ => match (any(&self.mws, input), any(&self.mrs, input)) {
                (Some(mw), Some(mr)) => SendOp::BindMw {
                    mw: mw.id,
                    new_rkey: Rkey(mw.rkey.0 & !0xff | u32::from(input.u8())),
                    mr: mr.lkey,
                    va,
                    length: input.u16().into(),
                    access: Access::from_bits_truncate(input.u32()),
                },
                _ => SendOp::Send,
            },
        }
    }

    fn drive(&self) {
        let is_done = (0..100_000).any(|_| !self.device.drive());
        assert!(is_done, "work without end");
    }

    /// Takes all completions: each work request of a queue completes once.
    fn poll(&mut self) {
        let mut out = [Wc::default(); 64];
        for cq in &self.cqs {
            while let Ok(count @ 1..) = self.device.poll_cq(*cq, &mut out) {
                for wc in &out[..count] {
                    let is_open = wc.wr_id == 0 || self.open.remove(&wc.wr_id).is_some();
                    assert!(is_open, "{wc:?} was not open");
                }
            }
        }
    }
}

fn srq_attr(input: &mut Input<'_>) -> SrqAttr {
    SrqAttr {
        max_wr: input.below(40).into(),
        max_sge: input.below(5).into(),
        limit: input.below(50).into(),
    }
}
