//! The sending side of a loopback endpoint: lookup of destinations.

use std::net::SocketAddr;

use super::LoopbackFabric;
use super::unwoken::{LoopbackEndpoint, Unwoken};
use crate::burst::{Burst, GsoBatch};

/// What had no receiver.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lost {
    pub(super) packets: usize,
    pub(super) bytes: usize,
}

/// The way out of an endpoint.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) fabric: LoopbackFabric,
    /// The endpoint of the last unicast send; most traffic has one peer.
    last: Option<(SocketAddr, LoopbackEndpoint)>,
    /// Receivers woken so far.
    pub(super) wakes: u64,
    /// Receivers that are left to the caller.
    pub(super) unwoken: Unwoken,
}

impl Sender {
    pub(super) fn new(fabric: LoopbackFabric) -> Self {
        Self { fabric, last: None, wakes: 0, unwoken: Unwoken::default() }
    }

    /// Sends all packets of `burst`, which is empty afterwards; returns what had no receiver.
    pub(super) fn send(&mut self, burst: &mut Burst) -> Lost {
        match sole_destination(burst) {
            Some(dst) => self.send_to_one(burst, &dst),
            None => self.by_batch(burst),
        }
    }

    /// Makes the endpoint at `dst` the last one, from the cache when possible.
    pub(super) fn find(&mut self, dst: &SocketAddr) -> Option<&LoopbackEndpoint> {
        let known = |(addr, endpoint): &(SocketAddr, LoopbackEndpoint)| {
            addr == dst && !endpoint.0.is_closed()
        };
        if !self.last.as_ref().is_some_and(known) {
            self.last = self.fabric.find(dst).map(|endpoint| (*dst, endpoint));
        }
        self.last.as_ref().map(|(_, endpoint)| endpoint)
    }

    /// Notifies the receiver at `dst` as if it had got packets.
    pub(super) fn notify(&mut self, dst: &SocketAddr) {
        self.find(dst);
        if let Self { last: Some((_, endpoint)), unwoken, wakes, .. } = self {
            notify(endpoint, unwoken, wakes);
        }
    }

    /// Sends the whole burst to its one destination; returns what had no receiver.
    fn send_to_one(&mut self, burst: &mut Burst, dst: &SocketAddr) -> Lost {
        self.find(dst);
        let Self { last: Some((_, endpoint)), unwoken, wakes, .. } = self else {
            let lost = Lost { packets: burst.packets(), bytes: burst.bytes() };
            burst.clear();
            return lost;
        };
        endpoint.0.push(burst);
        notify(endpoint, unwoken, wakes);
        Lost::default()
    }

    /// Sends batch by batch; returns what had no receiver.
    fn by_batch(&mut self, burst: &mut Burst) -> Lost {
        let mut lost = Lost::default();
        for batch in burst.batches() {
            let dst = batch.route.dst;
            if dst.ip().is_multicast() {
                self.group(burst, batch);
                continue;
            }
            self.find(&dst);
            if let Self { last: Some((_, endpoint)), unwoken, wakes, .. } = self {
                endpoint.0.push_copy(burst, batch);
                notify(endpoint, unwoken, wakes);
            } else {
                lost.packets += batch.packets;
                lost.bytes += batch.bytes();
            }
        }
        burst.clear();
        lost
    }

    /// Sends a batch to every member of its group, ourselves included.
    fn group(&mut self, burst: &Burst, batch: &GsoBatch) {
        let directory = self.fabric.read();
        let Some(members) = directory.groups.get(&batch.route.dst.ip()) else {
            return;
        };
        let here = members.iter().filter(|addr| addr.port() == batch.route.dst.port());
        for endpoint in here.filter_map(|addr| directory.endpoints.get(addr)) {
            endpoint.0.push_copy(burst, batch);
            notify(endpoint, &mut self.unwoken, &mut self.wakes);
        }
    }
}

/// Leaves an assisted receiver that got packets to the caller, and wakes any other.
fn notify(endpoint: &LoopbackEndpoint, unwoken: &mut Unwoken, wakes: &mut u64) {
    if !endpoint.is_assisted() || !unwoken.push(endpoint) {
        *wakes += u64::from(endpoint.wake());
    }
}

/// The unicast destination of all packets, when there is just one.
fn sole_destination(burst: &Burst) -> Option<SocketAddr> {
    let (first, rest) = burst.batches().split_first()?;
    let dst = first.route.dst;
    let sole = !dst.ip().is_multicast() && rest.iter().all(|batch| batch.route.dst == dst);
    sole.then_some(dst)
}
