//! Demultiplexing of received packets that are for no queue pair of this process.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use uroce_datapath::{GsiTarget, RateLimit, RedirectTarget, RxPacket};
use uroce_wire::{Qpn, Slot};

use super::connections::{Connections, ServiceConnections, is_nobody};
use super::message::{RedirectMessage, single};
use super::namespace::PortNamespace;
use super::steering_probe::{Probe, SlotSet};
use crate::sys::udp::RECV_ROOM;

/// The upper three bits of UC opcodes.
const UNRELIABLE_CONNECTION: u8 = 0b001;

/// Time for which an unreliable connection counts as in use after a packet.
const RECENT: Duration = Duration::from_secs(10);

/// Limit on lookups of the process that listens on a service ID, likewise.
const LOOKUPS: (u16, u16) = (10, 50);

/// Counts of redirected packets.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DemuxCounts {
    /// Packets for a process that exists.
    pub(crate) packets: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Copies among them of packets that are for this process as well, and stay.
    pub(crate) copies: u64,
    /// Their bytes.
    pub(crate) copied_bytes: u64,
    /// Steering probes among them.
    pub(crate) probes: u64,
    /// Lost packets among them: the process does not keep up or has just ended.
    pub(crate) lost: u64,
}

/// Redirects packets to the processes that they are for.
#[derive(Debug)]
pub(crate) struct Demux {
    own: Slot,
    gsi: GsiTarget,
    connections: Connections,
    message: RedirectMessage,
    pub(crate) counts: DemuxCounts,
    to_everyone: RateLimit,
    lookups: RateLimit,
    services_elsewhere: ServiceConnections,
    /// Misrouted packets: those that name the slot of another process, since the last probe.
    pub(crate) misrouted: usize,
    /// Time at which packets of unreliable connections were last redirected to each slot.
    uc_redirected_at: Box<[Option<Instant>]>,
    /// The service IDs that this process listens on, with the event numbers of their listeners.
    pub(crate) services: HashMap<u64, u64>,
}

impl Demux {
    pub(crate) fn new(own: Slot, namespace: PortNamespace, gsi: GsiTarget) -> Self {
        Self {
            own,
            gsi,
            connections: Connections::new(namespace),
            message: RedirectMessage::new(),
            counts: DemuxCounts::default(),
            to_everyone: RateLimit::to_everyone(),
            lookups: RateLimit::new(LOOKUPS.0, LOOKUPS.1),
            services_elsewhere: ServiceConnections::new(namespace),
            misrouted: 0,
            uc_redirected_at: (0..=u8::MAX).map(|_| None).collect(),
            services: HashMap::new(),
        }
    }

    /// Redirects the packet. `false`: the packet is for this process or for none.
    pub(crate) fn redirect(&mut self, rx: &RxPacket<'_>) -> bool {
        match self.target(rx) {
            RedirectTarget::Here => self.answer_probe(rx),
            RedirectTarget::Slot(slot) => {
                let passed = self.send_to(slot, rx);
                self.note(slot, rx.payload);
                passed
            }
            RedirectTarget::Service(service) => self.send_to_service(service, rx),
            RedirectTarget::Everyone if self.to_everyone.take(Instant::now(), rx.src.ip()) => {
                let (own, before) = (self.own, self.counts);
                for slot in Slot::all().filter(|slot| *slot != own) {
                    self.send_to(slot, rx);
                }
                self.counts.copies += self.counts.packets - before.packets;
                self.counts.copied_bytes += self.counts.bytes - before.bytes;
                false
            }
            RedirectTarget::Everyone => false,
        }
    }

    /// Records a misrouted packet.
    fn note(&mut self, slot: Slot, payload: &[u8]) {
        // A packet to QP 1 names no slot, so it is not misrouted.
        self.misrouted += usize::from(payload[Slot::OFFSET] != 0);
        if payload[0] >> 5 == UNRELIABLE_CONNECTION {
            self.uc_redirected_at[usize::from(slot.get())] = Some(Instant::now());
        }
    }

    /// The slots to which packets of unreliable connections were redirected recently. A packet with
    /// a faster path would overtake those before it, which nothing repairs.
    fn ordered(&self) -> SlotSet {
        let mut set = SlotSet::default();
        let recent = |slot: &Slot| {
            let at = self.uc_redirected_at[usize::from(slot.get())];
            at.is_some_and(|at| at.elapsed() < RECENT)
        };
        Slot::all().filter(recent).for_each(|slot| set.add(slot));
        set
    }

    fn answer_probe(&mut self, rx: &RxPacket<'_>) -> bool {
        let Some(probe) = Probe::read(rx) else { return false };
        self.count(rx);
        self.counts.probes += 1;
        if self.connections.reaches(probe.asker) {
            // A process that gets no answer asks again.
            self.connections.send(probe.asker, &probe.answer(self.own, &self.ordered())).ok();
        }
        true
    }

    fn target(&self, rx: &RxPacket<'_>) -> RedirectTarget {
        let qpn = rx.payload.get(Slot::OFFSET..).and_then(|rest| rest.first_chunk());
        let Some([high, middle, low]) = qpn.filter(|_| !rx.dst.ip().is_multicast()) else {
            return RedirectTarget::Here;
        };
        let qpn = Qpn::new(u32::from_be_bytes([0, *high, *middle, *low]));
        let found = match qpn {
            Qpn::GSI => (self.gsi)(rx),
            _ => Slot::of(qpn).map_or(RedirectTarget::Here, RedirectTarget::Slot),
        };
        match found {
            RedirectTarget::Slot(slot) if slot == self.own => RedirectTarget::Here,
            RedirectTarget::Service(service) if self.services.contains_key(&service) => {
                RedirectTarget::Here
            }
            other => other,
        }
    }

    /// Appends the packet to the message to that process.
    fn send_to(&mut self, slot: Slot, rx: &RxPacket<'_>) -> bool {
        if rx.payload.len() > RECV_ROOM || !self.connections.reaches(slot) {
            return false;
        }
        if !self.message.add(slot, rx) {
            self.send_message();
            self.message.add(slot, rx);
        }
        self.count(rx);
        true
    }

    /// Sends the pending message.
    pub(crate) fn send_message(&mut self) {
        let Some((slot, bytes, packets)) = self.message.sealed() else { return };
        if self.connections.send(slot, bytes).is_err() {
            self.counts.lost += packets;
        }
        self.message.clear();
    }

    /// Redirects a request to the process that listens on the service ID. `false`: there is none. A
    /// request beyond the limit on lookups, or for a process that does not keep up, is dropped and will be
    /// repeated: the answer that nobody listens would end the call.
    fn send_to_service(&mut self, service: u64, rx: &RxPacket<'_>) -> bool {
        let now = Instant::now();
        let known = self.services_elsewhere.is_cached(service, now);
        if !known && !self.lookups.take(now, rx.src.ip()) {
            self.count(rx);
            self.counts.lost += 1;
            return true;
        }
        if let Err(error) = self.services_elsewhere.send(service, now, &single(rx)) {
            tracing::debug!(service, %error, "no other process takes the call");
            if is_nobody(&error) {
                return false;
            }
            self.counts.lost += 1;
        }
        self.count(rx);
        true
    }

    fn count(&mut self, rx: &RxPacket<'_>) {
        self.counts.packets += 1;
        self.counts.bytes += rx.payload.len() as u64;
    }
}

#[cfg(test)]
mod tests;
