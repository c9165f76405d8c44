//! Probing of the steering: which process has which index in the port group.

use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use uroce_wire::Slot;

use super::lease::JoinLock;
use super::namespace::PortNamespace;
use super::steer::{SocketIndices, steer};
use super::steering_probe::{Answer, Probe};

/// Time to wait for answers: each process answers when it polls its datapath next.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(100);

/// Interval between two probes, at first; doubled after each probe that has found nothing new.
const MIN_INTERVAL: Duration = Duration::from_millis(500);
const MAX_INTERVAL: Duration = Duration::from_secs(60);

/// A probe in progress.
#[derive(Debug)]
struct ProbeRound {
    nonce: u64,
    end: Instant,
    /// Number of processes that can answer.
    expected: usize,
    indices: SocketIndices,
    /// Indices to which packets are misrouted that must stay in order.
    ordered: SocketIndices,
    /// Keeps other processes from joining meanwhile.
    _join_lock: JoinLock,
}

/// Probes the steering for one process.
#[derive(Debug)]
pub(crate) struct SteeringProber {
    own: Slot,
    namespace: PortNamespace,
    /// The socket of the process in the port group.
    socket: OwnedFd,
    round: Option<ProbeRound>,
    found: SocketIndices,
    interval: Duration,
    /// Earliest start of the next probe.
    next: Instant,
    nonce: u64,
}

impl SteeringProber {
    pub(crate) fn new(own: Slot, namespace: PortNamespace, socket: OwnedFd) -> Self {
        let (round, found, now) = (None, SocketIndices::new(), Instant::now());
        Self { own, namespace, socket, round, found, interval: MIN_INTERVAL, next: now, nonce: 0 }
    }

    /// Starts a probe, because packets are misrouted, unless there was one shortly before.
    pub(crate) fn begin(&mut self) {
        let now = Instant::now();
        if self.round.is_some() || now < self.next {
            return;
        }
        self.next = now + self.interval;
        match self.probe(now) {
            Ok(round) => self.round = round,
            Err(error) => tracing::debug!(%error, "no round of the processes on the address"),
        }
    }

    /// `None`: another process is probing or joining.
    fn probe(&mut self, now: Instant) -> io::Result<Option<ProbeRound>> {
        let Some(join_lock) = JoinLock::try_enter(self.namespace)? else { return Ok(None) };
        let expected = self.namespace.slots_taken()?.len();
        let local = self.namespace.address();
        let mut any_port = local;
        any_port.set_port(0);
        let from = UdpSocket::bind(any_port)?;
        from.set_nonblocking(true)?;
        self.nonce = self.nonce.wrapping_add(1);
        for index in 0..expected {
            let index = u8::try_from(index).unwrap_or(u8::MAX);
            let probe = Probe { index, asker: self.own, nonce: self.nonce };
            from.send_to(&probe.write(), local)?;
        }
        let (nonce, end) = (self.nonce, now + ANSWER_TIMEOUT);
        let (indices, ordered) = (SocketIndices::new(), SocketIndices::new());
        Ok(Some(ProbeRound { nonce, end, expected, indices, ordered, _join_lock: join_lock }))
    }

    /// Records an answer.
    pub(crate) fn handle_answer(&mut self, answer: &Answer) {
        let Some(round) = self.round.as_mut().filter(|round| round.nonce == answer.nonce) else {
            return;
        };
        round.indices.insert(answer.slot, answer.index);
        round.ordered.extend(answer.ordered.iter().map(|slot| (slot, answer.index)));
        if round.indices.len() >= round.expected {
            self.finish();
        }
    }

    /// Time until [`handle_timeout`](Self::handle_timeout) is due.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        let round = self.round.as_ref()?;
        Some(round.end.saturating_duration_since(Instant::now()))
    }

    pub(crate) fn handle_timeout(&mut self) {
        if self.timeout().is_some_and(|left| left.is_zero()) {
            self.finish();
        }
    }

    /// Updates the steering by what was found.
    fn finish(&mut self) {
        let Some(mut round) = self.round.take() else { return };
        round.indices.append(&mut round.ordered);
        let same = round.indices == self.found;
        self.interval = if same { (2 * self.interval).min(MAX_INTERVAL) } else { MIN_INTERVAL };
        self.next = Instant::now() + self.interval;
        tracing::debug!(indices = ?round.indices, "surveyed");
        if let Err(error) = steer(&self.socket, &round.indices) {
            tracing::debug!(%error, "the packets cannot be steered");
        }
        self.found = round.indices;
    }
}

#[cfg(test)]
mod tests;
