//! The clients of one address, and which of them a packet is for.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::time::Instant;

use rustix::io::Errno;
use uroce_datapath::{GsiTarget, RateLimit, RedirectTarget, RxPacket};
use uroce_wire::{DropReason, Qpn, Slot};

use super::attached::AttachedClient;
use super::link_table::LinkTable;

/// Most service IDs that one client may claim.
const MAX_SERVICES: usize = 4096;

/// Most multicast groups of one client.
const MAX_GROUPS: usize = 32;

/// The clients of an address.
#[derive(Debug)]
pub(super) struct Clients {
    by_slot: Box<[Option<Box<AttachedClient>>]>,
    /// The slots that clients have, in order.
    pub(super) slots: Vec<Slot>,
    /// The client that listens on each service ID.
    services: HashMap<u64, Slot>,
    /// The members of each group.
    groups: HashMap<IpAddr, Vec<Slot>>,
    gsi: GsiTarget,
    to_everyone: RateLimit,
    pub(super) links: LinkTable,
    /// Marks of links wait for room in rings of clients.
    pub(super) has_marks: bool,
    /// Packets dropped here, by reason.
    drops: [u64; DropReason::COUNT],
}

impl Clients {
    pub(super) fn new(gsi: GsiTarget, links: usize) -> Self {
        Self {
            by_slot: (0..=u8::MAX).map(|_| None).collect(),
            slots: vec![],
            services: HashMap::new(),
            groups: HashMap::new(),
            gsi,
            to_everyone: RateLimit::to_everyone(),
            links: LinkTable::new(links),
            has_marks: false,
            drops: [0; DropReason::COUNT],
        }
    }

    #[inline]
    pub(super) fn get(&mut self, slot: Slot) -> Option<&mut AttachedClient> {
        self.by_slot[usize::from(slot.get())].as_deref_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &AttachedClient> {
        self.slots.iter().filter_map(|slot| self.by_slot[usize::from(slot.get())].as_deref())
    }

    pub(super) fn add(&mut self, client: AttachedClient) {
        let slot = client.slot;
        self.by_slot[usize::from(slot.get())] = Some(Box::new(client));
        if let Err(at) = self.slots.binary_search(&slot) {
            self.slots.insert(at, slot);
        }
    }

    /// Forgets a client; returns the groups that have no member any more.
    pub(super) fn remove(&mut self, slot: Slot) -> Vec<IpAddr> {
        let Some(client) = self.by_slot[usize::from(slot.get())].take() else { return vec![] };
        self.slots.retain(|other| *other != slot);
        self.services.retain(|_, owner| *owner != slot);
        self.unlink_all(slot);
        client.groups.iter().filter(|group| self.leave_group(**group, slot)).copied().collect()
    }

    pub(super) fn count(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
    }

    /// What was dropped, by reason.
    pub(super) fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.into_iter().zip(self.drops).filter(|(_, count)| *count > 0)
    }

    pub(super) fn claim(&mut self, slot: Slot, service: u64) -> io::Result<()> {
        let owner = *self.services.entry(service).or_insert(slot);
        if owner != slot {
            return Err(Errno::ADDRINUSE.into());
        }
        let Some(client) = self.get(slot) else { return Err(Errno::NOENT.into()) };
        if client.services.len() >= MAX_SERVICES && !client.services.contains(&service) {
            self.services.remove(&service);
            return Err(Errno::NOSPC.into());
        }
        client.services.insert(service);
        Ok(())
    }

    pub(super) fn release(&mut self, slot: Slot, service: u64) {
        if self.services.get(&service) == Some(&slot) {
            self.services.remove(&service);
        }
        if let Some(client) = self.get(slot) {
            client.services.remove(&service);
        }
    }

    /// Makes the client a member of the group; for the first one `open` asks the datapath to join.
    pub(super) fn join(
        &mut self,
        slot: Slot,
        group: IpAddr,
        open: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(client) = self.get(slot) else { return Err(Errno::NOENT.into()) };
        if client.groups.contains(&group) {
            return Ok(());
        }
        if client.groups.len() >= MAX_GROUPS {
            return Err(Errno::NOSPC.into());
        }
        if !self.groups.contains_key(&group) {
            open()?;
        }
        self.groups.entry(group).or_default().push(slot);
        if let Some(client) = self.get(slot) {
            client.groups.insert(group);
        }
        Ok(())
    }

    /// Ends a membership; true if it was the last one of the group.
    pub(super) fn leave(&mut self, slot: Slot, group: IpAddr) -> bool {
        let was_member = self.get(slot).is_some_and(|client| client.groups.remove(&group));
        was_member && self.leave_group(group, slot)
    }

    fn leave_group(&mut self, group: IpAddr, slot: Slot) -> bool {
        let Some(members) = self.groups.get_mut(&group) else { return false };
        members.retain(|member| *member != slot);
        let last = members.is_empty();
        if last {
            self.groups.remove(&group);
        }
        last
    }

    /// Delivers a packet to the clients that it is for. What is for none is dropped and counted.
    #[inline]
    pub(super) fn deliver(&mut self, rx: &RxPacket<'_>) {
        let qpn = rx.payload.get(Slot::OFFSET..).and_then(|rest| rest.first_chunk());
        let Some([high, middle, low]) = qpn else { return self.count(DropReason::TooShort) };
        if rx.dst.ip().is_multicast() {
            return self.deliver_to_group(rx);
        }
        let qpn = Qpn::new(u32::from_be_bytes([0, *high, *middle, *low]));
        match Slot::of(qpn) {
            Some(slot) => self.deliver_to(slot, rx),
            None => self.deliver_general(qpn, rx),
        }
    }

    #[inline]
    fn deliver_to(&mut self, slot: Slot, rx: &RxPacket<'_>) {
        let outcome = match self.get(slot) {
            Some(client) => client.deliver(rx),
            None => Err(DropReason::NoProcess),
        };
        if let Err(reason) = outcome {
            self.count(reason);
        }
    }

    fn deliver_to_group(&mut self, rx: &RxPacket<'_>) {
        let Some(members) = self.groups.get(&rx.dst.ip()) else {
            return self.count(DropReason::NoMulticastMember);
        };
        let members = members.clone();
        members.into_iter().for_each(|slot| self.deliver_to(slot, rx));
    }

    /// Delivers a packet whose QPN names no slot. What no client is known for goes to the first one, which answers
    /// or counts it as every device does.
    #[cold]
    fn deliver_general(&mut self, qpn: Qpn, rx: &RxPacket<'_>) {
        let target = if qpn == Qpn::GSI { (self.gsi)(rx) } else { RedirectTarget::Here };
        let slot = match target {
            RedirectTarget::Slot(slot) => Some(slot),
            RedirectTarget::Service(service) => self.services.get(&service).copied(),
            RedirectTarget::Here => None,
            RedirectTarget::Everyone => {
                if self.to_everyone.take(Instant::now(), rx.src.ip()) {
                    let all = self.slots.clone();
                    all.into_iter().for_each(|slot| self.deliver_to(slot, rx));
                } else {
                    self.count(DropReason::CmRateLimit);
                }
                return;
            }
        };
        match slot.or_else(|| self.slots.first().copied()) {
            Some(slot) => self.deliver_to(slot, rx),
            None => self.count(DropReason::NoProcess),
        }
    }
}

#[cfg(test)]
mod tests;
