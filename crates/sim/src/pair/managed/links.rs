//! What an exchange settles for the queue pairs of both ends (R115), reckoned from what the applications have asked for.

use uroce_device::transport::{QpAttr, QpState};

use super::{CmTurn, Managed};
use crate::violation::{Check, Invariant, ensure};

impl Managed {
    /// READs and atomics that an end may have in flight: what it wants, as far as the peer serves it.
    pub(super) fn rd_atomic(&self, index: usize) -> u8 {
        self.plan.depths[index][1].min(self.plan.depths[1 - index][0])
    }

    /// READs and atomics of the peer that an end serves.
    fn dest_rd_atomic(&self, index: usize) -> u8 {
        self.rd_atomic(1 - index)
    }
}

impl CmTurn<'_> {
    /// The called end is ready: from now on, packets of the connection may be seen.
    pub(super) fn note_link(&mut self, managed: &Managed) {
        let depths = [managed.rd_atomic(0), managed.rd_atomic(1)];
        let connection = self.pair.monitored(0, 1, managed.psns, depths);
        self.pair.new_connections = vec![connection];
    }

    /// Both ends have the values of the exchange.
    pub(super) fn check_link(&self, managed: &Managed, index: usize) -> Check {
        let (end, peer) = (&self.pair.ends[index], &self.pair.ends[1 - index]);
        let (is, _) = end.nic.device().query_qp(end.qpn).expect("the queue pair exists");
        let due = QpAttr {
            state: QpState::Rts,
            path_mtu: self.pair.plan.mtu,
            dest_qpn: peer.qpn.get(),
            rq_psn: managed.psns[1 - index],
            sq_psn: managed.psns[index],
            timeout: self.pair.plan.timeout,
            retry_cnt: self.pair.plan.retry_cnt,
            rnr_retry: self.pair.plan.rnr_retry_of(index),
            max_rd_atomic: managed.rd_atomic(index),
            max_dest_rd_atomic: managed.dest_rd_atomic(index),
            ..is
        };
        let due = if self.pair.plan.service.is_reliable() { due } else { of_unreliable(&due, &is) };
        ensure(is == due, Invariant::Sequence, || {
            format!("a queue pair is connected with {is:?}, not {due:?}")
        })
    }
}

/// Without what an unreliable connection does not have.
fn of_unreliable(due: &QpAttr, is: &QpAttr) -> QpAttr {
    QpAttr {
        state: due.state,
        path_mtu: due.path_mtu,
        dest_qpn: due.dest_qpn,
        rq_psn: due.rq_psn,
        sq_psn: due.sq_psn,
        ..*is
    }
}
