//! Several packets of one length behind each other: a train that leaves in one call.
//!
//! Behind a packet that [`QueuePair::poll_transmit`] has written, what comes next often is of the same length and goes
//! to the same place: the middle of a long message, or another small one. Such packets are written here, with one look at
//! the queue pair, one check of the memory of a long message, and one note of what has left. The bytes are those that
//! `poll_transmit` would write one after the other (`r19_a_train_has_the_packets_that_would_leave_one_by_one`); whatever is
//! not usual is left to it.

use uroce_wire::train_packets;

use crate::attr::QpType;
use crate::context::{Context, Train, TrainLimits, Transmit};
use crate::qp::requester::{may_send_more, poll_small_train, until_ack_is_due};
use crate::qp::{QueuePair, counts_in_flight, note_sent};
use crate::time::Instant;

impl QueuePair {
    /// Writes further packets of the length of `first`, which a poll has just written, behind each other into `out`. They go
    /// where `first` goes.
    #[inline]
    pub fn poll_train(
        &mut self,
        now: Instant,
        first: &Transmit,
        limits: TrainLimits,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Train {
        let may = may_send_more(&self.requester) || !self.responder.responses().is_empty();
        if may { write_train(self, now, first, limits, out, cx) } else { Train::default() }
    }
}

fn write_train(
    qp: &mut QueuePair,
    now: Instant,
    first: &Transmit,
    limits: TrainLimits,
    out: &mut [u8],
    cx: &mut Context<'_>,
) -> Train {
    let TrainLimits { most, allowance, crcs } = limits;
    let most = most.min(out.len() / first.len.max(1)).min(train_packets(first.len)) as u32;
    let rc = qp.config.init.qp_type == QpType::Rc;
    // A CNP goes another way.
    if most == 0 || !rc || first.path != qp.config.path() {
        return Train::default();
    }
    let answers = !qp.responder.responses().is_empty();
    let most = if answers { most } else { most.min(packets_within(qp, allowance)) };
    if answers || qp.requester.may_run() {
        return write_long(qp, now, first.len, (most, crcs), out, cx);
    }
    let most = (most as usize, crcs);
    let train = poll_small_train(&mut qp.requester, &qp.config, now, first.len, most, out, cx);
    note_sent(&mut qp.traffic, train.packets, first.len, cx);
    train
}

/// Packets of the middle of a long message.
fn write_long(
    qp: &mut QueuePair,
    now: Instant,
    len: usize,
    (most, crcs): (u32, bool),
    out: &mut [u8],
    cx: &mut Context<'_>,
) -> Train {
    let most = match qp.responder.responses() {
        responses if responses.is_one_ack() => 0,
        responses if responses.is_empty() => until_ack_is_due(&qp.requester, most),
        _ => most,
    };
    let Some(run) = qp.plan_run(most, u64::MAX) else { return Train::default() };
    let Some(crcs) = run.write(len, crcs, out, cx.mem) else { return Train::default() };
    qp.pass_run(now, &run, cx);
    Train { packets: run.packets() as usize, crcs }
}

/// Packets that begin while fewer than `allowance` bytes are in flight.
fn packets_within(qp: &QueuePair, allowance: u64) -> u32 {
    if !counts_in_flight(qp) {
        return u32::MAX;
    }
    let room = allowance.saturating_sub(qp.bytes_in_flight());
    u32::try_from(room.div_ceil(qp.config.mtu())).unwrap_or(u32::MAX)
}
