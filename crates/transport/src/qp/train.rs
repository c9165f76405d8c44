//! Several packets of one length behind each other: a train that leaves, or is taken in, in one call.
//!
//! Behind a packet that [`QueuePair::poll_transmit`] has written, what comes next often is of the same length and goes
//! to the same place: the middle of a long message, or another small one. Such packets are written here, with one look at
//! the queue pair, one check of the memory of a long message, and one note of what has left. The bytes are those that
//! `poll_transmit` would write one after the other (`r19_a_train_has_the_packets_that_would_leave_one_by_one`); whatever is
//! not usual is left to it.
//!
//! Packets that arrived in one buffer are taken in likewise behind one that [`QueuePair::handle_packet`] has taken in. What they do
//! is what that would do with them one after the other (`r19_a_train_does_what_its_packets_do`).

use uroce_wire::{Packet, Psn, train_packets};

use crate::attr::QpType;
use crate::context::{Arrival, Context, Train, TrainLimits, Transmit};
use crate::qp::requester::{
    may_send_more, poll_small_train, take_response_train, until_ack_is_due,
};
use crate::qp::responder::train::take_train;
use crate::qp::{Admitted, QueuePair, counts_in_flight, note_sent};
use crate::time::Instant;

/// Packets that arrived behind each other, before they are looked at one by one.
#[derive(Debug, Clone, Copy)]
pub struct ArrivedTrain<'p> {
    /// The first of them.
    pub first: Packet<'p>,
    /// [`QueuePair::admits`] has let the first one pass.
    pub admitted: Admitted,
    /// How many there are.
    pub count: usize,
}

impl QueuePair {
    /// Takes in packets that arrived behind each other: the middle of a long SEND or WRITE, small SENDs and WRITEs, or READ
    /// responses. Returns how many have been taken in; the rest has changed nothing, and has to come one by one.
    ///
    /// `next` is asked for one packet after the other, the first included, with its PSN. It returns the packet if it is
    /// [alike](Packet::parse_alike) to the first, has this PSN, and its ICRC is right; then it is taken in.
    #[inline]
    pub fn handle_train<'p>(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        train: &ArrivedTrain<'_>,
        next: impl FnMut(Psn) -> Option<Packet<'p>>,
        cx: &mut Context<'_>,
    ) -> usize {
        let ArrivedTrain { first, admitted, count } = train;
        debug_assert!(admitted.is_for(self.config.init.qpn), "admitted by another queue pair");
        if arrival.is_congestion_marked() {
            return 0;
        }
        // As many as leave: of memory on demand, so much is known to be there.
        let most = train_packets(first.bytes().len()).min(*count) as u32;
        let taken = match first.info.is_request() {
            true => take_train(&mut self.responder, &self.config, now, first, most, next, cx),
            false => {
                take_response_train(&mut self.requester, &self.config, now, first, most, next, cx)
            }
        };
        if taken > 0 {
            let bytes = u64::from(taken) * first.bytes().len() as u64;
            cx.counters.rcvd_pkts += u64::from(taken);
            cx.counters.rcvd_bytes += bytes;
            self.traffic.rcvd_bytes += bytes;
            self.settle(cx);
        }
        taken as usize
    }

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
