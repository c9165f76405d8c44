//! The sending side of a loopback endpoint: lookup of destinations.

use std::net::SocketAddr;
use std::sync::Arc;

use super::LoopbackFabric;
use super::inbox::Inbox;
use super::neighbour::{Handover, Handovers, Neighbour};
use crate::burst::{Burst, GsoBatch};

/// The way out of an endpoint.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) fabric: LoopbackFabric,
    /// The endpoint of the last unicast send; most traffic has one peer.
    last: Option<(SocketAddr, Arc<Inbox>)>,
    /// Receivers woken so far.
    pub(super) wakes: u64,
    /// Receivers that are to be visited.
    pub(super) handed: Handovers,
}

impl Sender {
    pub(super) fn new(fabric: LoopbackFabric) -> Self {
        Self { fabric, last: None, wakes: 0, handed: Handovers::default() }
    }

    /// Sends all packets of `burst`, which is empty afterwards; returns the number of packets
    /// without a receiver.
    pub(super) fn send(&mut self, burst: &mut Burst) -> usize {
        match sole_destination(burst) {
            Some(dst) => self.send_to_one(burst, &dst),
            None => self.by_batch(burst),
        }
    }

    /// Makes the endpoint at `dst` the last one, from memory when possible.
    pub(super) fn find(&mut self, dst: &SocketAddr) -> Option<&Arc<Inbox>> {
        let known = matches!(&self.last, Some((addr, inbox)) if addr == dst && !inbox.is_closed());
        if !known {
            self.last = self.fabric.find(dst).map(|inbox| (*dst, inbox));
        }
        self.last.as_ref().map(|(_, inbox)| inbox)
    }

    /// Calls `call` with the user of the endpoint at `dst`, and tells him of what came of it.
    pub(super) fn meet(
        &mut self,
        dst: &SocketAddr,
        call: &mut dyn FnMut(&dyn Neighbour) -> bool,
    ) -> bool {
        self.find(dst);
        let Self { last: Some((_, inbox)), handed, wakes, .. } = self else {
            return false;
        };
        let met = inbox.meet(call) == Some(true);
        if met {
            tell(inbox, handed, wakes);
        }
        met
    }

    /// Sends the whole burst to its one destination; returns the number of packets without a
    /// receiver.
    fn send_to_one(&mut self, burst: &mut Burst, dst: &SocketAddr) -> usize {
        self.find(dst);
        let Self { last: Some((_, inbox)), handed, wakes, .. } = self else {
            let lost = burst.packets();
            burst.clear();
            return lost;
        };
        inbox.push(burst);
        tell(inbox, handed, wakes);
        0
    }

    /// Sends batch by batch; returns the number of packets without a receiver.
    fn by_batch(&mut self, burst: &mut Burst) -> usize {
        let mut lost = 0;
        for batch in burst.batches() {
            let dst = batch.route.dst;
            if dst.ip().is_multicast() {
                self.group(burst, batch);
                continue;
            }
            self.find(&dst);
            if let Self { last: Some((_, inbox)), handed, wakes, .. } = self {
                inbox.push_copy(burst, batch);
                tell(inbox, handed, wakes);
            } else {
                lost += batch.packets;
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
        for inbox in here.filter_map(|addr| directory.endpoints.get(addr)) {
            inbox.push_copy(burst, batch);
            tell(inbox, &mut self.handed, &mut self.wakes);
        }
    }
}

/// Tells of packets that were put into `inbox`: it is to be visited, or its receiver wakes up.
fn tell(inbox: &Arc<Inbox>, handed: &mut Handovers, wakes: &mut u64) {
    if !inbox.invites() {
        *wakes += u64::from(inbox.wake());
    } else if !handed.knows(inbox) {
        handed.push(Handover(Arc::clone(inbox)));
    }
}

/// The unicast destination of all packets, when there is just one.
fn sole_destination(burst: &Burst) -> Option<SocketAddr> {
    let (first, rest) = burst.batches().split_first()?;
    let dst = first.route.dst;
    let sole = !dst.ip().is_multicast() && rest.iter().all(|batch| batch.route.dst == dst);
    sole.then_some(dst)
}
