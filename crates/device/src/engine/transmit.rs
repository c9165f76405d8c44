//! Transmit path: queue pairs write their packets into the datapath's buffer, one queue pair after
//! the other.

use std::net::SocketAddr;

use uroce_datapath::{Datapath, IcrcTx, Route};
use uroce_transport::{Instant, Path, Step, Transmit};
use uroce_wire::{DropReason, Flow, FlowIcrc, ICRC_LEN, Qpn};

use super::send_scheduler::ROUND;
use super::{Engine, Nic};
use crate::limits::{TX_QP_BUDGET, TX_RETRY_NS};

/// What happens to an ACK when there is nothing else to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AckPolicy {
    /// Delayed ACK: sent with the next poll iteration. An ACK costs a system call of its own, and
    /// the response of the application may go out with it.
    Delay,
    /// Sent at once.
    Flush,
}

/// Why the service of a queue pair ended.
enum TurnEnd {
    /// Nothing to send now.
    Idle,
    /// Only a delayed ACK is left.
    AckDelayed,
    /// The budget is used up, or a request has ended while others are in progress.
    More,
    /// The first packet of a request was sent, in the header phase of a round.
    HeaderSent,
    /// The datapath takes no more packets.
    Blocked,
}

impl Engine {
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
        let mut left = budget - self.send_mads(budget, now);
        while left > 0 {
            let Some(qpn) = self.nic.next_sender() else {
                break;
            };
            let (sent, end) = self.send_from(qpn, now, left.min(TX_QP_BUDGET), acks);
            left -= sent;
            match end {
                TurnEnd::Idle => {}
                TurnEnd::AckDelayed => self.nic.delayed_acks.push_back(qpn),
                TurnEnd::More => self.nic.scheduler.push(qpn),
                TurnEnd::HeaderSent => self.nic.scheduler.defer_body(qpn),
                TurnEnd::Blocked => {
                    self.nic.scheduler.resume(qpn);
                    break;
                }
            }
        }
        if left < budget || self.retry_at.is_some() {
            self.flush(now);
        }
        budget - left
    }

    fn send_from(
        &mut self,
        qpn: Qpn,
        now: Instant,
        budget: usize,
        acks: AckPolicy,
    ) -> (usize, TurnEnd) {
        let (mut sent, mut blocked, mut runs) = (0, false, self.local.copies_in_bulk);
        // Each round sends something, or is the last of its kind.
        loop {
            let (more, end) = self.fill(qpn, now, budget - sent, acks, runs);
            sent += more;
            match end {
                None => {
                    let copied = self.bulk_copy(qpn, now, budget - sent);
                    runs = copied > 0;
                    sent += copied;
                }
                Some(TurnEnd::Blocked) if !blocked => {
                    blocked = true;
                    self.flush(now);
                }
                Some(end) => return (sent, end),
            }
        }
    }

    /// Writes up to `budget` packets of `qpn`, as far as the datapath has room. With `runs`,
    /// returns `None` as soon as what is next may be copied in bulk.
    fn fill(
        &mut self,
        qpn: Qpn,
        now: Instant,
        budget: usize,
        acks: AckPolicy,
        runs: bool,
    ) -> (usize, Option<TurnEnd>) {
        let Engine { nic, datapath, .. } = self;
        let Nic {
            qps,
            tables,
            timers,
            in_flight,
            gso_black_holes,
            scheduler,
            local,
            icrc_caps,
            ..
        } = nic;
        let Some(entry) = qps.get_mut(qpn) else {
            return (0, Some(TurnEnd::Idle));
        };
        entry.coalesced = 0;
        let allowance = in_flight.allowance(entry);
        for sent in 0..budget {
            if runs && entry.qp.may_run() {
                in_flight.account(entry);
                return (sent, None);
            }
            let Some(space) = datapath.tx_space() else {
                in_flight.account(entry);
                return (sent, Some(TurnEnd::Blocked));
            };
            let allowed = entry.qp.bytes_in_flight() < allowance
                || entry.qp.wants_repair()
                || entry.qp.ask_for_ack();
            let context = &mut tables.context();
            let out = match acks {
                _ if !allowed => {
                    entry.qp.poll_answer(now, acks == AckPolicy::Flush, space, context)
                }
                AckPolicy::Delay => entry.qp.poll_pressing(now, space, context),
                AckPolicy::Flush => entry.qp.poll_transmit(now, space, context),
            };
            let Some(out) = out else {
                timers.arm(qpn.get(), entry.qp.poll_timeout(), &mut entry.armed);
                in_flight.finish_turn(entry, sent, !allowed && entry.qp.wants_request());
                entry.ready = entry.has_work();
                let end = if entry.ready { TurnEnd::AckDelayed } else { TurnEnd::Idle };
                return (sent, Some(end));
            };
            if out.path.dst.is_ipv4() == local.is_ipv4() {
                if gso_black_holes.needs_break(out.path.dst, entry.qp.doubts_trains(), now) {
                    datapath.tx_break();
                }
                if let Some(why) = tables.counters.take_latest_retransmission() {
                    datapath.tx_comment(why.comment());
                }
                commit(&mut **datapath, &out, *local, icrc_caps.tx, &mut entry.tx_icrc);
            } else {
                // A UD request with a path of the other IP version; RC and UC are refused earlier.
                tables.counters.drop(DropReason::TxFailed);
            }
            match out.step {
                Step::Leads if scheduler.in_header_phase() => {
                    in_flight.account(entry);
                    return (sent + 1, Some(TurnEnd::HeaderSent));
                }
                Step::Ends if scheduler.in_body_phase() => {
                    in_flight.finish_turn(entry, sent + 1, false);
                    return (sent + 1, Some(TurnEnd::More));
                }
                _ => {}
            }
        }
        in_flight.finish_turn(entry, budget, false);
        (budget, Some(TurnEnd::More))
    }

    /// Sends the committed packets. Those that the kernel refuses stay queued and are tried again a
    /// little later.
    pub(crate) fn flush(&mut self, now: Instant) {
        let blocked = match self.datapath.flush() {
            Ok(flush) => flush.blocked,
            Err(error) => {
                tracing::debug!(%error, "send failed");
                true
            }
        };
        self.collect_pending_peers();
        self.retry_at = blocked.then(|| now.add_ns(TX_RETRY_NS).as_nanos());
    }
}

impl Nic {
    /// The queue pair to serve next. Those that have waited for room at their destination join the
    /// next round, as far as there is room now.
    fn next_sender(&mut self) -> Option<Qpn> {
        if self.scheduler.round_is_empty() {
            for _ in self.scheduler.waiting()..ROUND {
                if !self.grant() {
                    break;
                }
            }
        }
        let qps = &self.qps;
        self.scheduler.pop(|qpn| qps.get(qpn).map_or(0, |entry| entry.qp.source_port()))
    }

    /// Schedules a queue pair that has waited for room at its destination, if there is room now.
    fn grant(&mut self) -> bool {
        let granted = self.in_flight.grant(&mut self.qps).and_then(|qpn| self.qps.get_mut(qpn));
        let Some(entry) = granted else {
            return false;
        };
        if !entry.ready {
            entry.ready = true;
            self.scheduler.push(entry.init.qpn);
        }
        true
    }
}

/// Makes the packet in the datapath's buffer ready to leave.
pub(super) fn commit(
    datapath: &mut dyn Datapath,
    out: &Transmit,
    local: SocketAddr,
    icrc_tx: IcrcTx,
    icrc: &mut FlowIcrc,
) {
    let route = route(&out.path, local);
    let flow = Flow {
        src: route.src.ip(),
        dst: route.dst.ip(),
        src_port: route.src.port(),
        dst_port: route.dst.port(),
    };
    let sealed = icrc_tx == IcrcTx::Seal;
    datapath.tx_commit(&route, out.len, &mut |ip_id, packet| {
        let Some((covered, trailer)) = packet.split_last_chunk_mut::<ICRC_LEN>() else {
            return;
        };
        let icrc = if sealed { icrc.icrc(&flow, ip_id, covered) } else { 0 };
        *trailer = icrc.to_le_bytes();
    });
}

/// The source is always this device: a queue pair cannot choose another one.
pub(crate) fn route(path: &Path, local: SocketAddr) -> Route {
    Route {
        src: SocketAddr::new(local.ip(), path.src_port),
        dst: SocketAddr::new(path.dst, local.port()),
        hop_limit: path.hop_limit,
        traffic_class: path.traffic_class,
    }
}
