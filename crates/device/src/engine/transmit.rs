//! Walk two: queue pairs write their packets into the datapath's buffer, each in its turn.

use super::ready::ROW;
use super::{Engine, Nic};
use crate::limits::{TX_PACKETS_PER_QP, TX_RETRY_NS};
use std::net::SocketAddr;
use uroce_datapath::{Datapath, IcrcTx, Route};
use uroce_transport::{Instant, Path, Step, Transmit};
use uroce_wire::{DropReason, Flow, FlowIcrc, ICRC_LEN, Qpn};

/// What happens to a plain ACK that waits alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acks {
    /// It waits for the next turn: it costs a system call, and what the application answers to the
    /// request may go out with it.
    Wait,
    /// It leaves.
    Leave,
}

/// How a queue pair's turn ended.
enum Turn {
    /// It has nothing to send now.
    Idle,
    /// Only an ACK is left, which may wait.
    Patient,
    /// It used up its share, or its request ended while others are under way.
    More,
    /// It has sent the first packet of a request, as others do now.
    Led,
    /// The datapath takes no more.
    Blocked,
}

impl Engine {
    /// Lets the ready queue pairs send, round robin, up to `budget` packets. Returns how many.
    #[inline]
    pub(super) fn transmit(&mut self, now: Instant, budget: usize, acks: Acks) -> usize {
        if self.retry_at.is_none() && !self.wants_turn() {
            return 0;
        }
        self.transmit_ready(now, budget, acks)
    }

    fn transmit_ready(&mut self, now: Instant, budget: usize, acks: Acks) -> usize {
        if self.retry_at.is_some_and(|at| at > now.as_nanos()) {
            return 0;
        }
        let mut left = budget - self.send_mads(budget, now);
        while left > 0 {
            let Some(qpn) = self.nic.next_sender() else {
                break;
            };
            let (sent, turn) = self.send_from(qpn, now, left.min(TX_PACKETS_PER_QP), acks);
            left -= sent;
            match turn {
                Turn::Idle => {}
                Turn::Patient => self.nic.patient.push_back(qpn),
                Turn::More => self.nic.ready.push(qpn),
                Turn::Led => self.nic.ready.follow(qpn),
                Turn::Blocked => {
                    self.nic.ready.resume(qpn);
                    break;
                }
            }
        }
        if left < budget || self.retry_at.is_some() {
            self.flush(now);
        }
        budget - left
    }

    fn send_from(&mut self, qpn: Qpn, now: Instant, share: usize, acks: Acks) -> (usize, Turn) {
        let (mut sent, mut blocked, mut runs) = (0, false, self.carries);
        // Each round sends something, or is the last of its kind.
        loop {
            let (more, turn) = self.fill(qpn, now, share - sent, acks, runs);
            sent += more;
            match turn {
                None => {
                    let carried = self.carry(qpn, now, share - sent);
                    runs = carried > 0;
                    sent += carried;
                }
                Some(Turn::Blocked) if !blocked => {
                    blocked = true;
                    self.flush(now);
                }
                Some(turn) => return (sent, turn),
            }
        }
    }

    /// Packets of `qpn`, up to `share`, as far as the datapath has room. With `runs`, the turn has not ended when
    /// what is next may go past the datapath.
    fn fill(
        &mut self,
        qpn: Qpn,
        now: Instant,
        share: usize,
        acks: Acks,
        runs: bool,
    ) -> (usize, Option<Turn>) {
        let Engine { nic, datapath, .. } = self;
        let Nic { qps, tables, timers, flight, trains, ready, local, icrc_caps, .. } = nic;
        let Some(entry) = qps.get_mut(qpn) else {
            return (0, Some(Turn::Idle));
        };
        entry.kept = 0;
        let allowance = flight.allowance(entry);
        for sent in 0..share {
            if runs && entry.qp.may_run() {
                flight.account(entry);
                return (sent, None);
            }
            let Some(space) = datapath.tx_space() else {
                flight.account(entry);
                return (sent, Some(Turn::Blocked));
            };
            let allowed = entry.qp.bytes_in_flight() < allowance
                || entry.qp.wants_repair()
                || entry.qp.ask_for_ack();
            let context = &mut tables.context();
            let out = match acks {
                _ if !allowed => entry.qp.poll_answer(now, acks == Acks::Leave, space, context),
                Acks::Wait => entry.qp.poll_pressing(now, space, context),
                Acks::Leave => entry.qp.poll_transmit(now, space, context),
            };
            let Some(out) = out else {
                timers.arm(qpn.get(), entry.qp.poll_timeout(), &mut entry.armed);
                flight.pass(entry, sent, !allowed && entry.qp.wants_request());
                entry.ready = entry.wants_turn();
                let turn = if entry.ready { Turn::Patient } else { Turn::Idle };
                return (sent, Some(turn));
            };
            if out.path.dst.is_ipv4() == local.is_ipv4() {
                if trains.part(out.path.dst, entry.qp.doubts_trains(), now) {
                    datapath.tx_part();
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
                Step::Leads if ready.leads() => {
                    flight.account(entry);
                    return (sent + 1, Some(Turn::Led));
                }
                Step::Ends if ready.follows() => {
                    flight.pass(entry, sent + 1, false);
                    return (sent + 1, Some(Turn::More));
                }
                _ => {}
            }
        }
        flight.pass(entry, share, false);
        (share, Some(Turn::More))
    }

    /// Sends what is committed. What the kernel refuses stays and is tried again a little later.
    pub(super) fn flush(&mut self, now: Instant) {
        let blocked = match self.datapath.flush() {
            Ok(flush) => flush.blocked,
            Err(error) => {
                tracing::debug!(%error, "send failed");
                true
            }
        };
        self.datapath.handed_over(&mut self.handovers);
        self.retry_at = blocked.then(|| now.add_ns(TX_RETRY_NS).as_nanos());
    }
}

impl Nic {
    /// Whose turn it is. Those who have waited for room stand in the next row, as far as there is room now.
    fn next_sender(&mut self) -> Option<Qpn> {
        if self.ready.row_is_empty() {
            for _ in self.ready.waiting()..ROW {
                if !self.call() {
                    break;
                }
            }
        }
        let qps = &self.qps;
        self.ready.pop(|qpn| qps.get(qpn).map_or(0, |entry| entry.qp.source_port()))
    }

    /// Gives a turn to a queue pair that has waited for room, if there is room now.
    fn call(&mut self) -> bool {
        let called = self.flight.call(&mut self.qps).and_then(|qpn| self.qps.get_mut(qpn));
        let Some(entry) = called else {
            return false;
        };
        if !entry.ready {
            entry.ready = true;
            self.ready.push(entry.init.qpn);
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
pub(super) fn route(path: &Path, local: SocketAddr) -> Route {
    Route {
        src: SocketAddr::new(local.ip(), path.src_port),
        dst: SocketAddr::new(path.dst, local.port()),
        hop_limit: path.hop_limit,
        traffic_class: path.traffic_class,
    }
}
