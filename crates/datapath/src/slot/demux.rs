//! Whose packet is it: the way of those that are not for a queue pair of this process.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use uroce_wire::{Qpn, Slot};

use super::connections::{Connections, ServiceConnections};
use super::message::{RedirectMessage, single};
use super::namespace::PortNamespace;
use super::rate_limit::RateLimit;
use super::steering_probe::{Probe, SlotSet};
use crate::packet::RxPacket;
use crate::sys::udp::RECV_ROOM;

/// The upper three bits of the opcodes of UC.
const UNRELIABLE_CONNECTION: u8 = 0b001;

/// How long an unreliable connection is taken to be in use after a packet.
const RECENT: Duration = Duration::from_secs(10);

/// Which process a packet to QP 1 is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectTarget {
    /// Whoever has received it.
    Here,
    /// The one with this slot.
    Slot(Slot),
    /// The one that takes calls to this service
    /// ([`claim_service`](crate::Datapath::claim_service)).
    Service(u64),
    /// Each of them.
    Everyone,
}

/// Reads from a packet addressed to QP 1 which process it is for. The packet was not checked: what comes of
/// it in other processes is work that a stranger can cause, so it should be right first.
pub type GsiTarget = fn(&RxPacket<'_>) -> RedirectTarget;

/// Packets for everyone, per source and in all, each tenth of a second: each costs every process on the
/// address a wake-up. A caller that gives up before it has an answer sends one.
const TO_EVERYONE: (u16, u16) = (2, 5);

/// Looks for the process that takes calls to a service, as before.
const LOOKUPS: (u16, u16) = (10, 50);

/// What became of packets for others.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DemuxCounts {
    /// Packets that a process was found for.
    pub(crate) packets: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Packets of these that were probes.
    pub(crate) probes: u64,
    /// Packets of these that were lost, because the process does not keep up or has just ended.
    pub(crate) lost: u64,
}

/// Hands packets over to the processes they are for.
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
    /// Packets that the kernel gave us although they name the slot of another process, lately.
    pub(crate) misrouted: usize,
    /// When packets of unreliable connections were last handed to each slot.
    uc_redirected_at: Box<[Option<Instant>]>,
    /// The services that this process takes calls to, and their entrances.
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
            to_everyone: RateLimit::new(TO_EVERYONE.0, TO_EVERYONE.1),
            lookups: RateLimit::new(LOOKUPS.0, LOOKUPS.1),
            services_elsewhere: ServiceConnections::new(namespace),
            misrouted: 0,
            uc_redirected_at: (0..=u8::MAX).map(|_| None).collect(),
            services: HashMap::new(),
        }
    }

    /// Sends the packet to whom it is for. `false`: it stays here, be it for us or for nobody.
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
                let own = self.own;
                for slot in Slot::all().filter(|slot| *slot != own) {
                    self.send_to(slot, rx);
                }
                false
            }
            RedirectTarget::Everyone => false,
        }
    }

    /// Takes note of a packet that went astray.
    fn note(&mut self, slot: Slot, payload: &[u8]) {
        // A packet to QP 1 is nowhere at home.
        self.misrouted += usize::from(payload[Slot::OFFSET] != 0);
        if payload[0] >> 5 == UNRELIABLE_CONNECTION {
            self.uc_redirected_at[usize::from(slot.get())] = Some(Instant::now());
        }
    }

    /// The slots that packets of unreliable connections were handed to lately. One that took a
    /// shorter way would overtake those before it, and nothing repairs that.
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
            // Who does not get it asks again.
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

    /// Puts the packet into the letter to that process.
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

    /// Sends the letter that was begun.
    pub(crate) fn send_message(&mut self) {
        let Some((slot, bytes, packets)) = self.message.sealed() else { return };
        if self.connections.send(slot, bytes).is_err() {
            self.counts.lost += packets;
        }
        self.message.clear();
    }

    /// Brings a call to the process that takes it. `false`: there is none. A call beyond what may be looked
    /// for is lost, and comes again: it is not known whether somebody takes it.
    fn send_to_service(&mut self, service: u64, rx: &RxPacket<'_>) -> bool {
        let now = Instant::now();
        let known = self.services_elsewhere.is_cached(service, now);
        if !known && !self.lookups.take(now, rx.src.ip()) {
            self.count(rx);
            self.counts.lost += 1;
            return true;
        }
        let sent = self.services_elsewhere.send(service, now, &single(rx));
        if let Err(error) = &sent {
            tracing::debug!(service, %error, "no other process takes calls to it");
        }
        if sent.is_ok() {
            self.count(rx);
        }
        sent.is_ok()
    }

    fn count(&mut self, rx: &RxPacket<'_>) {
        self.counts.packets += 1;
        self.counts.bytes += rx.payload.len() as u64;
    }
}
