//! The state machine of a queue pair and its attribute table (docs/conformance.md).

use std::fmt;

use thiserror::Error;
use uroce_wire::Psn;

use crate::attr::{QpAttr, QpAttrMask, QpInit, QpType};
use crate::cause::FlushReason;
use crate::context::Context;
use crate::limits;
use crate::qp::QueuePair;
use crate::qp::config::QpConfig;
use crate::qp::requester::start_path;
use crate::qp_state::QpState;
use crate::time::Instant;

/// Why a modify was refused. Nothing was changed (R92).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ModifyQpError {
    /// There is no way from one state to the other.
    #[error("a QP cannot go from {} to {}", from.name(), to.name())]
    NoTransition {
        /// Current state.
        from: QpState,
        /// State asked for.
        to: QpState,
    },
    /// The transition needs attributes that were not given.
    #[error("{} to {} also needs {missing}", from.name(), to.name())]
    Missing {
        /// Current state.
        from: QpState,
        /// State asked for.
        to: QpState,
        /// What is missing.
        missing: QpAttrMask,
    },
    /// The transition does not take some of the attributes.
    #[error("{} to {} does not take {extra}", from.name(), to.name())]
    NotAllowed {
        /// Current state.
        from: QpState,
        /// State asked for.
        to: QpState,
        /// What is too much.
        extra: QpAttrMask,
    },
    /// The QP is not in the state that the caller named in `cur_state`.
    #[error("cur_state says {}, but the QP is in {}", named.name(), actual.name())]
    WrongCurrentState {
        /// What the caller named.
        named: QpState,
        /// What it is.
        actual: QpState,
    },
    /// An attribute has a value that cannot be.
    #[error("{what} = {value} is not valid: {range}")]
    BadValue {
        /// The attribute.
        what: &'static str,
        /// Its value.
        value: u64,
        /// What is valid.
        range: &'static str,
    },
    /// No such QP.
    #[error("no such QP: it was destroyed")]
    NoSuchQp,
}

type M = QpAttrMask;

/// As C programs name them: `IBV_QP_AV | IBV_QP_PATH_MTU`.
impl fmt::Display for QpAttrMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter_names().enumerate().try_for_each(|(index, (name, _))| {
            let between = if index == 0 { "" } else { " | " };
            write!(f, "{between}IBV_QP_{name}")
        })
    }
}

impl QpAttrMask {
    /// What a transition must name, [`STATE`](Self::STATE) included. ibv_modify_qp(3) has the same
    /// table. Of a transition that does not exist STATE alone, which is refused anyway.
    #[must_use]
    pub fn required(qp_type: QpType, from: QpState, to: QpState) -> Self {
        Self::STATE | table(qp_type, from, to).map_or(Self::empty(), |(required, _)| required)
    }
}

/// Required and optional attributes of a transition; `None` if there is no such transition.
fn table(qp_type: QpType, from: QpState, to: QpState) -> Option<(M, M)> {
    use QpState as S;
    let address = M::ALT_PATH | M::ACCESS_FLAGS | M::PKEY_INDEX;
    let none = M::empty();
    match (from, to) {
        (_, S::Reset) => Some((none, none)),
        (S::Reset, S::Err) => None,
        (_, S::Err) => Some((none, none)),
        (S::Reset, S::Init) => Some((init_attributes(qp_type), none)),
        (S::Init, S::Init) => Some((none, init_attributes(qp_type))),
        (S::Init, S::Rtr) => Some(match qp_type {
            QpType::Rc | QpType::XrcTgt => (
                M::AV
                    | M::PATH_MTU
                    | M::DEST_QPN
                    | M::RQ_PSN
                    | M::MAX_DEST_RD_ATOMIC
                    | M::MIN_RNR_TIMER,
                address,
            ),
            QpType::Uc | QpType::XrcIni => (M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN, address),
            QpType::Ud => (none, M::PKEY_INDEX | M::QKEY),
        }),
        (S::Rtr, S::Rts) => Some(to_rts(qp_type)),
        (S::Rts, S::Rts) | (S::Sqd, S::Rts) => Some((none, while_running(qp_type))),
        (S::Rts, S::Sqd) => Some((none, M::EN_SQD_ASYNC_NOTIFY)),
        (S::Sqd, S::Sqd) => Some((none, while_drained(qp_type))),
        (S::Sqe, S::Rts) => match qp_type {
            QpType::Rc | QpType::XrcIni | QpType::XrcTgt => None,
            QpType::Uc => Some((none, M::CUR_STATE | M::ACCESS_FLAGS)),
            QpType::Ud => Some((none, M::CUR_STATE | M::QKEY)),
        },
        _ => None,
    }
}

fn init_attributes(qp_type: QpType) -> M {
    M::PKEY_INDEX | M::PORT | if qp_type == QpType::Ud { M::QKEY } else { M::ACCESS_FLAGS }
}

fn to_rts(qp_type: QpType) -> (M, M) {
    let common = M::CUR_STATE | M::ALT_PATH | M::ACCESS_FLAGS | M::PATH_MIG_STATE;
    let requester = M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::SQ_PSN | M::MAX_QP_RD_ATOMIC;
    match qp_type {
        QpType::Rc => (requester, common | M::MIN_RNR_TIMER),
        QpType::XrcIni => (requester, common),
        QpType::XrcTgt => (M::TIMEOUT | M::SQ_PSN, common | M::MIN_RNR_TIMER),
        QpType::Uc => (M::SQ_PSN, common),
        QpType::Ud => (M::SQ_PSN, M::CUR_STATE | M::QKEY),
    }
}

fn while_running(qp_type: QpType) -> M {
    let common = M::CUR_STATE | M::ALT_PATH | M::ACCESS_FLAGS | M::PATH_MIG_STATE;
    match qp_type {
        QpType::Rc | QpType::XrcTgt => common | M::MIN_RNR_TIMER,
        QpType::Uc | QpType::XrcIni => common,
        QpType::Ud => M::CUR_STATE | M::QKEY,
    }
}

fn while_drained(qp_type: QpType) -> M {
    let common = M::AV | M::ALT_PATH | M::ACCESS_FLAGS | M::PKEY_INDEX | M::PATH_MIG_STATE;
    let reliable = common | M::PORT | M::TIMEOUT | M::MIN_RNR_TIMER;
    let requester = M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC;
    match qp_type {
        QpType::Rc => reliable | requester | M::MAX_DEST_RD_ATOMIC,
        QpType::XrcIni => reliable | requester,
        QpType::XrcTgt => reliable | M::MAX_DEST_RD_ATOMIC,
        QpType::Uc => common,
        QpType::Ud => M::PKEY_INDEX | M::QKEY,
    }
}

fn at_most(
    what: &'static str,
    value: u64,
    max: u64,
    range: &'static str,
) -> Result<(), ModifyQpError> {
    if value > max { Err(ModifyQpError::BadValue { what, value, range }) } else { Ok(()) }
}

fn check_values(attr: &QpAttr, mask: M) -> Result<(), ModifyQpError> {
    let rd = u64::from(limits::MAX_RD_ATOMIC);
    let checks: [(M, &'static str, u64, u64, &'static str); 9] = [
        (M::PKEY_INDEX, "pkey_index", attr.pkey_index.into(), 0, "the table has only index 0"),
        (M::TIMEOUT, "timeout", attr.timeout.into(), 31, "0 to 31"),
        (M::RETRY_CNT, "retry_cnt", attr.retry_cnt.into(), 7, "0 to 7"),
        (M::RNR_RETRY, "rnr_retry", attr.rnr_retry.into(), 7, "0 to 7"),
        (M::MIN_RNR_TIMER, "min_rnr_timer", attr.min_rnr_timer.into(), 31, "0 to 31"),
        (M::MAX_QP_RD_ATOMIC, "max_rd_atomic", attr.max_rd_atomic.into(), rd, "0 to 128"),
        (
            M::MAX_DEST_RD_ATOMIC,
            "max_dest_rd_atomic",
            attr.max_dest_rd_atomic.into(),
            rd,
            "0 to 128",
        ),
        (M::DEST_QPN, "dest_qpn", attr.dest_qpn.into(), 0xff_fffe, "24 bits, not multicast"),
        (M::ALT_PATH, "alternate path", 1, 0, "RoCE has no alternate path"),
    ];
    for (bit, what, value, max, range) in checks {
        if mask.contains(bit) {
            at_most(what, value, max, range)?;
        }
    }
    if mask.contains(M::PORT) && attr.port != 1 {
        let value = attr.port.into();
        return Err(ModifyQpError::BadValue {
            what: "port",
            value,
            range: "the device has port 1",
        });
    }
    if mask.contains(M::AV) {
        check_av(attr)?;
    }
    Ok(())
}

fn check_av(attr: &QpAttr) -> Result<(), ModifyQpError> {
    let bad = |range| ModifyQpError::BadValue { what: "address vector", value: 0, range };
    let av = attr.av.ok_or(bad("it is missing"))?;
    if av.local.is_ipv4() != av.remote.is_ipv4() {
        return Err(bad("the local GID and the peer's GID are not both IPv4 or both IPv6"));
    }
    if av.remote.is_unspecified() || av.remote.is_multicast() {
        return Err(bad("the peer's GID is not a unicast address; is its GID index right?"));
    }
    Ok(())
}

impl QpConfig {
    fn check_modify(
        &self,
        from: QpState,
        to: QpState,
        attr: &QpAttr,
        mask: M,
    ) -> Result<(), ModifyQpError> {
        if mask.contains(M::CUR_STATE) && attr.cur_state != from {
            let named = attr.cur_state;
            return Err(ModifyQpError::WrongCurrentState { named, actual: from });
        }
        let (required, optional) =
            table(self.init.qp_type, from, to).ok_or(ModifyQpError::NoTransition { from, to })?;
        let given = mask - M::STATE;
        let missing = required - given;
        if !missing.is_empty() {
            return Err(ModifyQpError::Missing { from, to, missing });
        }
        // CUR_STATE equal to the state we are in says nothing new.
        let extra = given - required - optional - M::CUR_STATE;
        if !extra.is_empty() {
            return Err(ModifyQpError::NotAllowed { from, to, extra });
        }
        check_values(attr, mask)
    }
}

impl QueuePair {
    /// Changes attributes and state (`ibv_modify_qp`). On an error nothing has changed (R92).
    pub fn modify(
        &mut self,
        now: Instant,
        attr: &QpAttr,
        mask: QpAttrMask,
        cx: &mut Context<'_>,
    ) -> Result<(), ModifyQpError> {
        let from = self.config.state;
        let to = if mask.contains(M::STATE) { attr.state } else { from };
        self.config.check_modify(from, to, attr, mask)?;
        self.apply(attr, mask);
        if mask.intersects(M::AV | M::RQ_PSN | M::PATH_MTU) {
            // What is kept came from another peer, or does not fit any more.
            self.responder.drop_reorder_buffer(cx);
            start_path(&mut self.requester, self.config.mtu_shift());
        }
        if mask.contains(M::TIMEOUT) {
            // B32: what is in flight waits as long as the new value says.
            self.requester.restart_ack_timer(&self.config, now);
        }
        if from != to {
            self.enter(from, to, cx);
        }
        self.requester.wake();
        // A queue that has nothing begun is drained now: it may wait for its turn, and is not polled before.
        self.settle(cx);
        Ok(())
    }

    fn apply(&mut self, new: &QpAttr, mask: M) {
        let attr = &mut self.config.attr;
        macro_rules! take {
            ($($bit:ident $field:ident),* $(,)?) => {
                $(if mask.contains(M::$bit) { attr.$field = new.$field; })*
            };
        }
        take!(
            EN_SQD_ASYNC_NOTIFY en_sqd_async_notify, ACCESS_FLAGS access, PKEY_INDEX pkey_index,
            PORT port, QKEY qkey, AV av, PATH_MTU path_mtu, TIMEOUT timeout, RETRY_CNT retry_cnt,
            RNR_RETRY rnr_retry, MAX_QP_RD_ATOMIC max_rd_atomic, MIN_RNR_TIMER min_rnr_timer,
            MAX_DEST_RD_ATOMIC max_dest_rd_atomic, PATH_MIG_STATE path_mig_state,
            DEST_QPN dest_qpn,
        );
        if mask.contains(M::RQ_PSN) {
            attr.rq_psn = Psn::new(new.rq_psn).get();
            self.responder.start(Psn::new(new.rq_psn));
        }
        if mask.contains(M::SQ_PSN) {
            attr.sq_psn = Psn::new(new.sq_psn).get();
            self.requester.start(Psn::new(new.sq_psn));
        }
        if mask.contains(M::MAX_DEST_RD_ATOMIC) {
            self.responder.set_depth(new.max_dest_rd_atomic);
        }
        if mask.intersects(M::RETRY_CNT | M::RNR_RETRY) {
            self.requester.set_retries(attr.retry_cnt, attr.rnr_retry);
        }
    }

    fn enter(&mut self, from: QpState, to: QpState, cx: &mut Context<'_>) {
        self.config.state = to;
        match to {
            QpState::Reset => self.clear(cx),
            QpState::Err => self.flush(FlushReason::ByModify, cx),
            QpState::Sqd => self.drained_reported = false,
            QpState::Rts if from == QpState::Sqe => {
                let next = self.requester.psns().next_new();
                self.requester.start(next);
            }
            _ => {}
        }
    }

    /// R91: forgets everything but how the device has set it up, completions that were not polled yet
    /// included.
    fn clear(&mut self, cx: &mut Context<'_>) {
        let QpInit { qpn, send_cq, recv_cq, xrcd, .. } = self.config.init;
        match xrcd {
            None => cx.cqs.forget_qp(qpn.get(), [send_cq, recv_cq]),
            // Its completions are in the CQs of the shared receive queues that its peer named.
            Some(_) => cx.cqs.forget_qp_everywhere(qpn.get()),
        }
        cx.events.forget_qp(qpn);
        self.responder.release(cx);
        let QpConfig { src_port, features, .. } = self.config;
        let counters = std::mem::take(&mut self.config.completion_counters);
        *self = super::blank(&self.config.init);
        (self.config.src_port, self.config.features) = (src_port, features);
        self.config.completion_counters = counters;
        self.requester.set_features(&features);
        self.responder.set_features(&features);
    }
}
