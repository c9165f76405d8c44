//! Queue pairs.

use std::mem::zeroed;
use std::ptr::null_mut;
use std::rc::Rc;

use uroce_conform::{Kind, Link, State};
use uroce_verbs_abi::{ibv_gid, ibv_qp, ibv_qp_attr, ibv_qp_cap, ibv_qp_init_attr};
use uroce_wire::Gid;

use crate::access_flags::access_flags;
use crate::completion_queue::CompletionQueue;
use crate::device::PORT;
use crate::domain::Domain;
use crate::extended;
use crate::outcome::{Tried, done, failed};
use crate::shared_queue::SharedQueue;
use crate::xrc::XrcDomain;

/// `ibv_qp_attr_mask`.
mod mask {
    pub(super) const STATE: i32 = 1;
    pub(super) const ACCESS_FLAGS: i32 = 1 << 3;
    pub(super) const PKEY_INDEX: i32 = 1 << 4;
    pub(super) const PORT: i32 = 1 << 5;
    pub(super) const QKEY: i32 = 1 << 6;
    pub(super) const AV: i32 = 1 << 7;
    pub(super) const PATH_MTU: i32 = 1 << 8;
    pub(super) const TIMEOUT: i32 = 1 << 9;
    pub(super) const RETRY_CNT: i32 = 1 << 10;
    pub(super) const RNR_RETRY: i32 = 1 << 11;
    pub(super) const RQ_PSN: i32 = 1 << 12;
    pub(super) const MAX_QP_RD_ATOMIC: i32 = 1 << 13;
    pub(super) const MIN_RNR_TIMER: i32 = 1 << 15;
    pub(super) const SQ_PSN: i32 = 1 << 16;
    pub(super) const MAX_DEST_RD_ATOMIC: i32 = 1 << 17;
    pub(super) const DEST_QPN: i32 = 1 << 20;
}

/// What a queue pair uses beside its domain and its completion queue.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) shared: Option<Rc<SharedQueue>>,
    pub(crate) xrc: Option<Rc<XrcDomain>>,
}

pub(crate) struct QueuePair {
    domain: Rc<Domain>,
    pub(crate) qp: *mut ibv_qp,
    pub(crate) kind: Kind,
    pub(crate) completions: Rc<CompletionQueue>,
    /// Held, not used.
    _held: Held,
}

impl QueuePair {
    pub(crate) fn new(
        domain: &Rc<Domain>,
        kind: Kind,
        (send_wr, recv_wr): (u32, u32),
        held: Held,
        extended: bool,
    ) -> Tried<QueuePair> {
        let completions = Rc::new(CompletionQueue::new(domain.device(), send_wr + recv_wr)?);
        let cap = ibv_qp_cap {
            max_send_wr: send_wr,
            max_recv_wr: recv_wr,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        };
        let mut init = ibv_qp_init_attr {
            qp_context: null_mut(),
            send_cq: completions.cq,
            recv_cq: completions.cq,
            srq: held.shared.as_ref().map_or(null_mut(), |shared| shared.srq),
            cap,
            qp_type: match kind {
                Kind::Rc => 2,
                Kind::Uc => 3,
                Kind::Ud => 4,
                Kind::XrcSend => 9,
                Kind::XrcReceive => 10,
            },
            sq_sig_all: 0,
        };
        let qp = match &held.xrc {
            Some(xrc) => xrc.queue_pair()?,
            None if extended => extended::create(domain, &init)?,
            // SAFETY: a domain and queues that live.
            None => unsafe { (domain.device().library.ibv_create_qp)(domain.pd, &raw mut init) },
        };
        if qp.is_null() {
            return failed("ibv_create_qp");
        }
        Ok(QueuePair { domain: domain.clone(), qp, kind, completions, _held: held })
    }

    pub(crate) fn qpn(&self) -> u32 {
        // SAFETY: it lives.
        unsafe { (*self.qp).qp_num }
    }

    /// Moves it towards RTS, as far as `until`.
    pub(crate) fn connect(&self, link: &Link, until: State) -> Tried<()> {
        let steps = [(State::Init, 1), (State::Rtr, 2), (State::Rts, 3)];
        let until =
            steps.iter().find(|(state, _)| *state == until).map_or(0, |(_, number)| *number);
        for (state, number) in steps {
            if number <= until {
                let (mut attr, mask) = self.step(link, state);
                attr.qp_state = number;
                self.modify(attr, mask | mask::STATE)?;
            }
        }
        Ok(())
    }

    /// The attributes of one step, and which they are.
    fn step(&self, link: &Link, state: State) -> (ibv_qp_attr, i32) {
        let attr = self.attributes(link);
        let ud = self.kind == Kind::Ud;
        let asks = matches!(self.kind, Kind::Rc | Kind::XrcSend);
        let answers = matches!(self.kind, Kind::Rc | Kind::XrcReceive);
        let mask = match state {
            State::Init => {
                let own = if ud { mask::QKEY } else { mask::ACCESS_FLAGS };
                mask::PKEY_INDEX | mask::PORT | own
            }
            State::Rtr if ud => 0,
            State::Rtr => {
                let own = mask::MAX_DEST_RD_ATOMIC | mask::MIN_RNR_TIMER;
                let all = mask::AV | mask::PATH_MTU | mask::DEST_QPN | mask::RQ_PSN;
                all | if answers { own } else { 0 }
            }
            _ => {
                let own = mask::RETRY_CNT | mask::RNR_RETRY | mask::MAX_QP_RD_ATOMIC;
                let timeout = if asks || answers { mask::TIMEOUT } else { 0 };
                mask::SQ_PSN | timeout | if asks { own } else { 0 }
            }
        };
        (attr, mask)
    }

    fn attributes(&self, link: &Link) -> ibv_qp_attr {
        // SAFETY: integers.
        let mut attr: ibv_qp_attr = unsafe { zeroed() };
        attr.path_mtu = link.mtu.into();
        attr.qkey = link.qkey;
        attr.rq_psn = link.rq_psn;
        attr.sq_psn = link.sq_psn;
        attr.dest_qp_num = link.qpn;
        // Local writing is no right of a queue pair, but harmless there.
        attr.qp_access_flags = access_flags(link.access) as u32;
        attr.port_num = PORT;
        attr.timeout = link.timeout;
        attr.retry_cnt = link.retry_cnt;
        attr.rnr_retry = link.rnr_retry;
        attr.min_rnr_timer = link.min_rnr_timer;
        attr.max_rd_atomic = link.max_rd_atomic;
        attr.max_dest_rd_atomic = link.max_dest_rd_atomic;
        attr.ah_attr.is_global = 1;
        attr.ah_attr.port_num = PORT;
        attr.ah_attr.grh.dgid = ibv_gid::from_gid(Gid::from_ip(link.address));
        attr.ah_attr.grh.sgid_index = self.domain.device().gid_index;
        attr.ah_attr.grh.hop_limit = 64;
        attr
    }

    /// Moves it to a state that needs no attributes.
    pub(crate) fn move_to(&self, state: State) -> Tried<()> {
        // SAFETY: integers.
        let mut attr: ibv_qp_attr = unsafe { zeroed() };
        attr.qp_state = match state {
            State::Reset => 0,
            State::Init => 1,
            State::Rtr => 2,
            State::Rts => 3,
            State::Sqd => 4,
            State::Sqe => 5,
            State::Err => 6,
        };
        self.modify(attr, mask::STATE)
    }

    pub(crate) fn modify(&self, mut attr: ibv_qp_attr, mask: i32) -> Tried<()> {
        let modify = self.domain.device().library.ibv_modify_qp;
        // SAFETY: it lives.
        done("ibv_modify_qp", unsafe { modify(self.qp, &raw mut attr, mask) })
    }

    pub(crate) fn state(&self) -> Tried<State> {
        // SAFETY: integers and null pointers.
        let (mut attr, mut init): (ibv_qp_attr, ibv_qp_init_attr) = unsafe { zeroed() };
        let query = self.domain.device().library.ibv_query_qp;
        // SAFETY: it lives, and there is room for the answer.
        let status = unsafe { query(self.qp, &raw mut attr, mask::STATE, &raw mut init) };
        done("ibv_query_qp", status)?;
        Ok(match attr.qp_state {
            0 => State::Reset,
            1 => State::Init,
            2 => State::Rtr,
            3 => State::Rts,
            4 => State::Sqd,
            5 => State::Sqe,
            _ => State::Err,
        })
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: once; the queues that it uses go after it.
        unsafe { (self.domain.device().library.ibv_destroy_qp)(self.qp) };
    }
}
