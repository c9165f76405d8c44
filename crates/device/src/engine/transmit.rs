//! Transmit path: queue pairs write their packets into the datapath's buffer, one queue pair after
//! the other.

use std::net::SocketAddr;
use std::time::Duration;

use uroce_datapath::{Datapath, IcrcTx, Recipient, Route};
use uroce_transport::{
    Context, Instant, Path, QueuePair, Retransmission, Train, TrainLimits, Transmit,
};
use uroce_wire::{CrcMethod, DropReason, Flow, FlowIcrc, ICRC_LEN, Qpn, crc_method};

use super::schedule::TurnEnd;
use super::{Engine, Nic};
use crate::limits::{LAST_POLLS, TX_BUDGET, TX_QP_BUDGET, TX_RETRY_NS};

/// When a pure ACK leaves: one of a queue pair that has nothing else to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AckPolicy {
    /// With the next poll iteration. It costs a system call of its own, and the response of the application may go out with it.
    NextPoll,
    /// At once.
    Now,
}

/// What one queue pair may send in its turn.
#[derive(Clone, Copy)]
struct Turn {
    now: Instant,
    /// Most packets.
    budget: usize,
    acks: AckPolicy,
    /// The turn ends as soon as what is next may be copied in bulk.
    copies_in_bulk: bool,
}

impl Engine {
    /// Sends what a command has just made ready, and the ACKs that waited for something.
    pub(crate) fn send_ready(&mut self, now: Instant) -> usize {
        self.nic.schedule.release_pure_acks();
        self.transmit(now, TX_BUDGET, AckPolicy::Now)
    }

    /// Sends what all queue pairs would answer, before all else, as far as the datapath takes it within a few milliseconds: the process
    /// ends.
    pub(crate) fn send_last_answers(&mut self) {
        self.nic.take_last_answers(self.clock.now());
        for _ in 0..LAST_POLLS {
            let progressed = self.poll_once();
            if !self.has_prepared() {
                return;
            }
            if !progressed {
                std::thread::sleep(Duration::from_nanos(TX_RETRY_NS));
            }
        }
    }

    /// Lets the ready queue pairs send, round robin, up to `budget` packets. Returns how many.
    #[inline]
    pub(super) fn transmit(&mut self, now: Instant, budget: usize, acks: AckPolicy) -> usize {
        if self.retry_at.is_none() && !self.has_work() {
            return 0;
        }
        self.transmit_ready(now, budget, acks)
    }

    fn transmit_ready(&mut self, now: Instant, budget: usize, acks: AckPolicy) -> usize {
        if self.retry_at.is_some_and(|at| at > now.as_nanos()) {
            return 0;
        }
        let mut left = budget - self.send_prepared(budget, now);
        while left > 0 {
            let Nic { schedule, qps, .. } = &mut self.nic;
            let Some(qpn) = schedule.next_sender(qps) else {
                break;
            };
            let (sent, end) = self.send_from(qpn, now, left.min(TX_QP_BUDGET), acks);
            debug_assert!(sent <= left, "{sent} packets of {left}");
            left -= sent;
            self.nic.schedule.queue_again(qpn, &end);
            if matches!(end, TurnEnd::Blocked) {
                break;
            }
        }
        self.nic.schedule.assert_invariants(&self.nic.qps);
        if left < budget || self.retry_at.is_some() {
            self.flush(now);
        }
        budget - left
    }

    /// There is something to send that is not of a queue pair in the schedule.
    pub(super) fn has_prepared(&self) -> bool {
        !self.nic.last_answers.is_empty() || self.gsi.wants_transmit()
    }

    /// Sends the answers of queue pairs that have ended, and then what the connection manager has to say, up to `budget`
    /// packets. Returns how many.
    fn send_prepared(&mut self, budget: usize, now: Instant) -> usize {
        for sent in 0..budget {
            if !self.has_prepared() {
                return sent;
            }
            if self.datapath.tx_space().is_none() {
                self.flush(now);
            }
            let Some(space) = self.datapath.tx_space() else { return sent };
            let answer = self.nic.last_answers.poll_transmit(space);
            if answer.is_none()
                && let Some(qpn) = self.gsi.pop_probe()
            {
                self.nic.send_liveness_probe(qpn, &mut *self.datapath);
                continue;
            }
            let Some(out) = answer.or_else(|| self.gsi.poll_transmit(space)) else { return sent };
            let (local, icrc_tx) = (self.nic.local, self.nic.icrc_caps.tx);
            commit(
                &mut *self.datapath,
                &out,
                Train::default(),
                local,
                icrc_tx,
                &mut FlowIcrc::default(),
            );
        }
        budget
    }

    fn send_from(
        &mut self,
        qpn: Qpn,
        now: Instant,
        budget: usize,
        acks: AckPolicy,
    ) -> (usize, TurnEnd) {
        let mut turn = Turn { now, budget, acks, copies_in_bulk: self.local.copies_in_bulk };
        let mut blocked = false;
        // Each round sends something, or is the last of its kind.
        loop {
            let (more, end) = self.nic.fill(qpn, turn, &mut *self.datapath);
            turn.budget -= more;
            match end {
                None => {
                    let copied = self.bulk_copy(qpn, now, turn.budget);
                    turn.copies_in_bulk = copied > 0;
                    turn.budget -= copied;
                }
                Some(TurnEnd::Blocked) if !blocked => {
                    blocked = true;
                    self.flush(now);
                }
                Some(end) => return (budget - turn.budget, end),
            }
        }
    }

    /// Sends the committed packets. Those that the kernel refuses stay queued and are tried again a
    /// little later.
    pub(super) fn flush(&mut self, now: Instant) {
        let blocked = match self.datapath.flush() {
            Ok(flush) => flush.blocked,
            Err(error) => {
                tracing::debug!(%error, "send failed");
                true
            }
        };
        self.local.collect_pending(&mut self.datapath);
        self.retry_at = blocked.then(|| now.add_ns(TX_RETRY_NS).as_nanos());
    }
}

impl Nic {
    /// Writes packets of `qpn`, as far as the datapath has room. Returns how many, and why no more;
    /// `None`: what is next may be copied in bulk.
    fn fill(
        &mut self,
        qpn: Qpn,
        turn: Turn,
        datapath: &mut dyn Datapath,
    ) -> (usize, Option<TurnEnd>) {
        let (qps, in_place) = (&self.qps, &self.in_place);
        let of_this = |sole: &Recipient| {
            qps.get(qpn).is_some_and(|entry| entry.qp.acknowledging_peer() == Some(sole.address))
        };
        let Some(recipient) = in_place.destination(turn.now).filter(of_this) else {
            return self.write_packets(qpn, turn, datapath);
        };
        self.in_place.forget_acknowledged(&self.qps);
        datapath.tx_only_to(Some(recipient));
        let written = self.write_packets(qpn, turn, datapath);
        datapath.tx_only_to(None);
        written
    }

    /// [`fill`](Self::fill), but for what the datapath is told before.
    fn write_packets(
        &mut self,
        qpn: Qpn,
        turn: Turn,
        datapath: &mut dyn Datapath,
    ) -> (usize, Option<TurnEnd>) {
        let Nic { qps, tables, schedule, gso_black_holes, in_place, local, icrc_caps, .. } = self;
        let Some(entry) = qps.get_mut(qpn) else {
            return (0, Some(TurnEnd::Idle));
        };
        entry.end_coalescing();
        let allowance = schedule.allowance(entry);
        let mut sent = 0;
        while sent < turn.budget {
            if turn.copies_in_bulk && entry.qp.may_run() {
                schedule.account(entry);
                return (sent, None);
            }
            let room = datapath.tx_packets().max(1);
            let Some(space) = datapath.tx_space() else {
                schedule.account(entry);
                return (sent, Some(TurnEnd::Blocked));
            };
            let allowed = entry.qp.bytes_in_flight() < allowance
                || entry.qp.wants_repair()
                || entry.qp.ask_for_ack();
            let next_psn = entry.qp.next_psn();
            let context = &mut tables.context();
            let Some(out) = next_packet(&mut entry.qp, turn, allowed, space, context) else {
                return (sent, Some(schedule.end_idle_turn(entry, sent, allowed)));
            };
            let (dst, doubts) = (out.path.dst, entry.qp.doubts_trains());
            let parted = gso_black_holes.needs_break(dst, doubts, turn.now);
            let mut train = Train::default();
            if allowed && !parted && !turn.copies_in_bulk && schedule.has_one_sender() {
                let (most, crcs) = (room.min(turn.budget - sent) - 1, uses_crcs(icrc_caps.tx));
                let limits = TrainLimits { most, allowance, crcs };
                let (_, behind) = space.split_at_mut(out.len);
                train = entry.qp.poll_train(turn.now, &out, limits, behind, &mut tables.context());
            }
            let packets = 1 + train.packets;
            sent += packets;
            if out.path.dst.is_ipv4() == local.is_ipv4() {
                let in_place = in_place.allows(&entry.qp, (next_psn, packets, out.len), turn.now);
                let repeated = tables.counters.take_latest_retransmission();
                let breaks = Breaks { parted, doubts };
                announce(datapath, breaks, if in_place { packets } else { 0 }, repeated);
                commit(datapath, &out, train, *local, icrc_caps.tx, &mut entry.tx_icrc);
            } else {
                // A UD request with a path of the other IP version; RC and UC are refused earlier.
                tables.counters.drop(DropReason::TxFailed);
            }
            if let Some(end) = schedule.ends_turn(entry, out.step, sent) {
                return (sent, Some(end));
            }
        }
        (turn.budget, Some(schedule.end_turn(entry, turn.budget)))
    }

    /// Asks the peer of a queue pair for a sign of life, unless what is in flight does so.
    fn send_liveness_probe(&mut self, qpn: Qpn, datapath: &mut dyn Datapath) {
        let Some(entry) = self.qps.get_mut(qpn) else { return };
        // A datapath without room loses it, as the network may; it is sent again.
        let Some(space) = datapath.tx_space() else { return };
        let Some(out) = entry.qp.write_liveness_probe(space) else { return };
        commit(datapath, &out, Train::default(), self.local, self.icrc_caps.tx, &mut entry.tx_icrc);
    }
}

/// Writes the next packet of a queue pair: an answer only, where its requests are not `allowed`.
#[inline]
fn next_packet(
    qp: &mut QueuePair,
    turn: Turn,
    allowed: bool,
    space: &mut [u8],
    context: &mut Context<'_>,
) -> Option<Transmit> {
    match turn.acks {
        acks if !allowed => qp.poll_answer(turn.now, acks == AckPolicy::Now, space, context),
        AckPolicy::NextPoll => qp.poll_pressing(turn.now, space, context),
        AckPolicy::Now => qp.poll_transmit(turn.now, space, context),
    }
}

/// Whether the next packet starts a GSO batch.
#[derive(Clone, Copy)]
struct Breaks {
    /// It does.
    parted: bool,
    /// Because batches of its queue pair are lost.
    doubts: bool,
}

/// Tells the datapath what it cannot see of the packets that are committed next: where batches break, how many may leave
/// `in_place`, and why the first is `repeated`, which a capture says.
fn announce(
    datapath: &mut dyn Datapath,
    Breaks { parted, doubts }: Breaks,
    in_place: usize,
    repeated: Option<Retransmission>,
) {
    if parted {
        datapath.tx_break();
    }
    if doubts {
        datapath.tx_distrust();
    }
    if in_place > 0 {
        datapath.tx_in_place(in_place);
    }
    if let Some(why) = repeated {
        datapath.tx_comment(why.comment());
    }
}

/// CRCs of payloads that come of copying them save time: they are used, and instructions make them.
fn uses_crcs(icrc_tx: IcrcTx) -> bool {
    icrc_tx == IcrcTx::Seal && crc_method() == CrcMethod::Instructions
}

/// Makes the packets in the datapath's buffer ready to leave: `out`, and those of a train behind it.
fn commit(
    datapath: &mut dyn Datapath,
    out: &Transmit,
    train: Train,
    local: SocketAddr,
    icrc_tx: IcrcTx,
    icrc: &mut FlowIcrc,
) {
    debug_assert!(out.len > ICRC_LEN && out.len.is_multiple_of(4), "a packet of {} bytes", out.len);
    let route = route(&out.path, local);
    let flow = Flow {
        src: route.src.ip(),
        dst: route.dst.ip(),
        src_port: route.src.port(),
        dst_port: route.dst.port(),
    };
    let mut seal = |ip_id: u16, packet: &mut [u8], knows_payload: bool| {
        let Some((covered, trailer)) = packet.split_last_chunk_mut::<ICRC_LEN>() else {
            return;
        };
        let icrc = match icrc_tx {
            IcrcTx::Seal if knows_payload => {
                icrc.icrc_around(&flow, ip_id, covered, u32::from_le_bytes(*trailer))
            }
            IcrcTx::Seal => icrc.icrc(&flow, ip_id, covered),
            _ => 0,
        };
        *trailer = icrc.to_le_bytes();
    };
    datapath.tx_commit(&route, out.len, &mut |ip_id, packet| seal(ip_id, packet, false));
    for _ in 0..train.packets {
        let seal = &mut |ip_id: u16, packet: &mut [u8]| seal(ip_id, packet, train.crcs);
        datapath.tx_commit(&route, out.len, seal);
    }
}

/// The source is always this device: a queue pair cannot choose another one.
pub(super) fn route(path: &Path, local: SocketAddr) -> Route {
    Route {
        src: SocketAddr::new(local.ip(), path.src_port),
        dst: SocketAddr::new(path.dst, local.port()),
        hop_limit: path.hop_limit,
        traffic_class: path.traffic_class,
    }
}
