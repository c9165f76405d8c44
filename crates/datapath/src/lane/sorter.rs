//! Whose packet is it, among the engines of a process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uroce_wire::{Qpn, Slot};

use super::audience::{Audiences, Hearers, Set, engines};
use super::post::Post;
use crate::DatapathStats;
use crate::packet::RxPacket;
use crate::slot::{Addressee, GsiAddressee};

/// What the engines have in common beside their lanes: looked at for calls and groups only.
#[derive(Debug)]
pub(super) struct Common {
    gsi: GsiAddressee,
    pub(super) audiences: Audiences,
    /// The engine that takes calls to each service.
    services: Mutex<HashMap<u64, usize>>,
}

impl Common {
    pub(super) fn new(gsi: GsiAddressee) -> Self {
        Self { gsi, audiences: Audiences::default(), services: Mutex::default() }
    }

    pub(super) fn services(&self) -> MutexGuard<'_, HashMap<u64, usize>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whose packet is it: the way of those that do not name our slot.
#[derive(Debug)]
pub(super) struct Sorter {
    /// Our number.
    pub(super) own: usize,
    count: usize,
    pub(super) common: Arc<Common>,
    hearers: Hearers,
    pub(super) post: Post,
    /// Packets that did not stay here.
    pub(super) gone: DatapathStats,
    /// Packets of these to a group that nobody is in any more.
    pub(super) unheard: u64,
}

impl Sorter {
    pub(super) fn new(own: usize, count: usize, common: Arc<Common>, post: Post) -> Self {
        let (hearers, gone) = (Hearers::default(), DatapathStats::default());
        Self { own, count, common, hearers, post, gone, unheard: 0 }
    }

    /// Hands the packet to the engines that it is for. `false`: it stays here, perhaps as well.
    pub(super) fn pass_on(&mut self, rx: &RxPacket<'_>) -> bool {
        let (all, own) = (self.addressees(rx), 1 << self.own);
        for engine in engines(all & !own) {
            self.post.put(engine, rx);
        }
        let leaves = all & own == 0;
        if leaves {
            self.gone.rx_packets += 1;
            self.gone.rx_bytes += rx.payload.len() as u64;
            self.unheard += u64::from(all == 0);
        }
        leaves
    }

    /// The engines that the packet is for; ours if it is for none.
    fn addressees(&mut self, rx: &RxPacket<'_>) -> Set {
        let group = rx.dst.ip();
        if group.is_multicast() {
            return self.hearers.of(&group, &self.common.audiences);
        }
        let own = 1 << self.own;
        let qpn = rx.payload.get(Slot::OFFSET..).and_then(|rest| rest.first_chunk());
        let Some([high, middle, low]) = qpn else { return own };
        let qpn = Qpn::new(u32::from_be_bytes([0, *high, *middle, *low]));
        let found = match qpn {
            Qpn::GSI => (self.common.gsi)(rx),
            _ => Slot::of(qpn).map_or(Addressee::Here, Addressee::Slot),
        };
        match found {
            Addressee::Here => own,
            Addressee::Slot(slot) => self.engine_of(slot).map_or(own, |engine| 1 << engine),
            Addressee::Service(service) => {
                1 << *self.common.services().get(&service).unwrap_or(&self.own)
            }
            Addressee::Everyone => Set::MAX >> (Set::BITS as usize - self.count),
        }
    }

    fn engine_of(&self, slot: Slot) -> Option<usize> {
        Some(usize::from(slot.get()) - 1).filter(|&engine| engine < self.count)
    }
}
