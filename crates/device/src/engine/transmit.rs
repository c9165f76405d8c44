//! Walk two: queue pairs write their packets into the datapath's buffer, each in its turn.

use super::Engine;
use crate::limits::{TX_PACKETS_PER_QP, TX_RETRY_NS};
use std::net::SocketAddr;
use uroce_datapath::Route;
use uroce_transport::{Instant, Path, Transmit};

use uroce_wire::{DropReason, Flow, Qpn, icrc};

/// How a queue pair's turn ended.
enum Turn {
    /// It has nothing to send now.
    Idle,
    /// It used up its share.
    More,
    /// The datapath takes no more.
    Blocked,
}

/// Bytes of the ICRC.
const ICRC_LEN: usize = 4;

impl Engine {
    /// Lets the ready queue pairs send, round robin, up to `budget` packets. Returns how many.
    pub(super) fn transmit(&mut self, now: Instant, budget: usize) -> usize {
        if self.retry_at.is_some_and(|at| at > now.as_nanos()) {
            return 0;
        }
        let mut left = budget;
        while left > 0 {
            let Some(qpn) = self.nic.ready.pop_front() else {
                break;
            };
            let (sent, turn) = self.send_from(qpn, now, left.min(TX_PACKETS_PER_QP));
            left -= sent;
            match turn {
                Turn::Idle => {}
                Turn::More => self.nic.ready.push_back(qpn),
                Turn::Blocked => {
                    self.nic.ready.push_front(qpn);
                    break;
                }
            }
        }
        if left < budget || self.retry_at.is_some() {
            self.flush(now);
        }
        budget - left
    }

    fn send_from(&mut self, qpn: Qpn, now: Instant, share: usize) -> (usize, Turn) {
        for sent in 0..share {
            if !self.make_room(now) {
                return (sent, Turn::Blocked);
            }
            if !self.send_one(qpn, now) {
                return (sent, Turn::Idle);
            }
        }
        (share, Turn::More)
    }

    /// True if the datapath has room for a packet, perhaps after a flush.
    fn make_room(&mut self, now: Instant) -> bool {
        if self.datapath.tx_space().is_some() {
            return true;
        }
        self.flush(now);
        self.datapath.tx_space().is_some()
    }

    /// One packet of `qpn`; false if it has none, and then it leaves the list of senders.
    fn send_one(&mut self, qpn: Qpn, now: Instant) -> bool {
        let Some(entry) = self.nic.qps.get_mut(qpn) else {
            return false;
        };
        let Some(space) = self.datapath.tx_space() else {
            return false;
        };
        let Some(out) = entry.qp.poll_transmit(now, space, &mut self.nic.tables.context()) else {
            entry.ready = false;
            self.nic.timers.arm(qpn.get(), entry.qp.poll_timeout(), &mut entry.armed);
            return false;
        };
        if out.path.dst.is_ipv4() != self.nic.local.is_ipv4() {
            // A UD request with a path of the other IP version; RC and UC are refused earlier.
            self.nic.tables.counters.drop(DropReason::TxFailed);
            return true;
        }
        let route = route(&out.path, self.nic.local);
        let flow = Flow {
            src: route.src.ip(),
            dst: route.dst.ip(),
            src_port: route.src.port(),
            dst_port: route.dst.port(),
        };
        let Transmit { len, .. } = out;
        self.datapath.tx_commit(&route, len, &mut |ip_id, packet| seal(&flow, ip_id, packet));
        true
    }

    /// Sends what is committed. What the kernel refuses stays and is tried again a little later.
    fn flush(&mut self, now: Instant) {
        let blocked = match self.datapath.flush() {
            Ok(flush) => flush.blocked,
            Err(error) => {
                tracing::debug!(%error, "send failed");
                true
            }
        };
        self.retry_at = blocked.then(|| now.add_ns(TX_RETRY_NS).as_nanos());
    }
}

/// The source is always this device: a queue pair cannot choose another one (S10).
fn route(path: &Path, local: SocketAddr) -> Route {
    Route {
        src: SocketAddr::new(local.ip(), path.src_port),
        dst: SocketAddr::new(path.dst, local.port()),
        hop_limit: path.hop_limit,
        traffic_class: path.traffic_class,
    }
}

/// Writes the ICRC into the last four bytes of `packet`.
fn seal(flow: &Flow, ip_id: u16, packet: &mut [u8]) {
    let Some((covered, trailer)) = packet.split_last_chunk_mut::<ICRC_LEN>() else {
        return;
    };
    *trailer = icrc(flow, ip_id, covered).to_le_bytes();
}
