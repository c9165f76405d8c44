//! What must go out: MADs to peers, events to the application.

use std::collections::VecDeque;
use std::net::IpAddr;

use crate::event::Event;
use crate::limits::TRANSMIT_QUEUE;
use crate::mad::{MAD_LEN, Mad};

/// The bits of the ToS that are the network's.
const ECN: u8 = 3;

/// A MAD on its way, to QP 1 of `peer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing {
    /// Address of the peer.
    pub peer: IpAddr,
    /// ToS of the connection that it is about; 0 if it is about none.
    pub traffic_class: u8,
    /// Payload of the packet.
    pub bytes: [u8; MAD_LEN],
}

/// Filled by the state machines, emptied by `poll_*`.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    transmit: VecDeque<Outgoing>,
    events: VecDeque<Event>,
    lost: u64,
}

impl Outbox {
    /// A full queue loses the MAD: the peer that waits for it asks again.
    pub(crate) fn send(&mut self, peer: IpAddr, mad: &Mad) {
        self.send_as(peer, 0, mad);
    }

    /// The same for a connection: what sets it up and ends it goes the way of its data.
    pub(crate) fn send_as(&mut self, peer: IpAddr, traffic_class: u8, mad: &Mad) {
        self.push(Outgoing { peer, traffic_class: traffic_class & !ECN, bytes: mad.emit() });
    }

    pub(crate) fn push(&mut self, outgoing: Outgoing) {
        if self.transmit.len() < TRANSMIT_QUEUE {
            self.transmit.push_back(outgoing);
        } else {
            self.lost += 1;
        }
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.events.push_back(event);
    }

    pub(crate) fn pop_mad(&mut self) -> Option<Outgoing> {
        self.transmit.pop_front()
    }

    pub(crate) fn has_mad(&self) -> bool {
        !self.transmit.is_empty()
    }

    pub(crate) fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    pub(crate) fn pop_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// MADs that found the queue full.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// No event after the id is gone (B54).
    pub(crate) fn forget(&mut self, id: crate::CommId) {
        self.events.retain(|event| event.id() != id);
    }
}
