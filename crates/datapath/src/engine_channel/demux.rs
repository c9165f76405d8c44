//! Demultiplexing of packets among the engines of a process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use uroce_wire::{Qpn, Slot};

use super::membership::{Membership, MembershipCache, Set, engines};
use super::sender::Sender;
use crate::DatapathStats;
use crate::packet::RxPacket;
use crate::rate_limit::RateLimit;
use crate::shared_port::{GsiTarget, RedirectTarget};

/// State shared by the engines beside their channels: used for requests to services and for groups
/// only.
#[derive(Debug)]
pub(super) struct Shared {
    gsi: GsiTarget,
    pub(super) membership: Membership,
    /// The engine that listens on each service ID.
    services: Mutex<HashMap<u64, usize>>,
}

impl Shared {
    pub(super) fn new(gsi: GsiTarget) -> Self {
        Self { gsi, membership: Membership::default(), services: Mutex::default() }
    }

    pub(super) fn services(&self) -> MutexGuard<'_, HashMap<u64, usize>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Demultiplexes packets that do not name our slot.
#[derive(Debug)]
pub(super) struct Demux {
    /// Our number.
    pub(super) own: usize,
    count: usize,
    pub(super) shared: Arc<Shared>,
    members: MembershipCache,
    to_everyone: RateLimit,
    pub(super) sender: Sender,
    /// Packets redirected or dropped.
    pub(super) redirected: DatapathStats,
    /// Redirected packets to a group without a member.
    pub(super) without_member: u64,
}

impl Demux {
    pub(super) fn new(own: usize, count: usize, shared: Arc<Shared>, sender: Sender) -> Self {
        let (members, redirected) = (MembershipCache::default(), DatapathStats::default());
        let to_everyone = RateLimit::to_everyone();
        Self { own, count, shared, members, to_everyone, sender, redirected, without_member: 0 }
    }

    /// Redirects the packet to the engines that it is for. `false`: it is for this engine, perhaps
    /// among others.
    pub(super) fn redirect(&mut self, rx: &RxPacket<'_>) -> bool {
        let (all, own) = (self.targets(rx), 1 << self.own);
        for engine in engines(all & !own) {
            self.sender.put(engine, rx);
        }
        let leaves = all & own == 0;
        if leaves {
            self.redirected.rx_packets += 1;
            self.redirected.rx_bytes += rx.payload.len() as u64;
            self.without_member += u64::from(all == 0);
        }
        leaves
    }

    /// The engines that the packet is for; this one if there is none.
    fn targets(&mut self, rx: &RxPacket<'_>) -> Set {
        let group = rx.dst.ip();
        if group.is_multicast() {
            return self.members.of(&group, &self.shared.membership);
        }
        let own = 1 << self.own;
        let qpn = rx.payload.get(Slot::OFFSET..).and_then(|rest| rest.first_chunk());
        let Some([high, middle, low]) = qpn else { return own };
        let qpn = Qpn::new(u32::from_be_bytes([0, *high, *middle, *low]));
        let found = match qpn {
            Qpn::GSI => (self.shared.gsi)(rx),
            _ => Slot::of(qpn).map_or(RedirectTarget::Here, RedirectTarget::Slot),
        };
        match found {
            RedirectTarget::Here => own,
            RedirectTarget::Slot(slot) => self.engine_of(slot).map_or(own, |engine| 1 << engine),
            RedirectTarget::Service(service) => {
                1 << *self.shared.services().get(&service).unwrap_or(&self.own)
            }
            RedirectTarget::Everyone if !self.to_everyone.take(Instant::now(), rx.src.ip()) => own,
            RedirectTarget::Everyone => Set::MAX >> (Set::BITS as usize - self.count),
        }
    }

    fn engine_of(&self, slot: Slot) -> Option<usize> {
        Some(usize::from(slot.get()) - 1).filter(|&engine| engine < self.count)
    }
}
