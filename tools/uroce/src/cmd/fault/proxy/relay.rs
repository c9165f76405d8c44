//! What becomes of each frame between the two sides.

use std::time::Duration;

use uroce_device::fault::{Direction, FaultInjector, PacketMeta, Plan, Release, Verdict};
use uroce_packet::Offload;

use super::envelope::{Envelopes, Opened, PacketFields};

/// One of the two interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one named first: what comes from there is `tx` to the rules.
    First,
    /// The other one: what comes from there is `rx`.
    Second,
}

impl Side {
    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Side::First => Side::Second,
            Side::Second => Side::First,
        }
    }

    fn direction_from(self) -> Direction {
        match self {
            Side::First => Direction::Tx,
            Side::Second => Direction::Rx,
        }
    }

    fn towards(direction: Direction) -> Self {
        match direction {
            Direction::Tx => Side::Second,
            Direction::Rx => Side::First,
        }
    }
}

/// Where frames go, and who is told of them.
pub trait Wire {
    /// Sends a frame out of `side`; `comment` is what was done to it, or empty.
    fn send(&mut self, side: Side, offload: &Offload, frame: &[u8], comment: &str);
    /// A frame has arrived at `side`; `comment` is what was done to it, or empty.
    fn seen(&mut self, side: Side, frame: &[u8], comment: &str);
}

/// Applies rules to RoCEv2 frames and lets all others pass.
#[derive(Debug)]
pub struct Relay {
    injector: FaultInjector,
    envelopes: Envelopes,
    port: u16,
    /// A capture wants every packet as a frame of its own.
    always_single: bool,
    frame: Vec<u8>,
    /// RoCEv2 packets that passed without being looked at, because there are too many hosts.
    pub unwatched: u64,
}

impl Relay {
    /// Rules for frames to UDP port `port`.
    pub fn new(plan: &Plan, seed: u64, port: u16, always_single: bool) -> Self {
        Self {
            injector: FaultInjector::new(plan, seed),
            envelopes: Envelopes::default(),
            port,
            always_single,
            frame: Vec::new(),
            unwatched: 0,
        }
    }

    /// What the rules have done.
    pub fn injector(&self) -> &FaultInjector {
        &self.injector
    }

    /// When [`release`](Self::release) has something to do.
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.injector.poll_timeout()
    }

    /// A frame has arrived at `side`.
    pub fn handle_frame(
        &mut self,
        now: Duration,
        side: Side,
        (offload, bytes): (&Offload, &[u8]),
        wire: &mut dyn Wire,
    ) {
        let opened = Opened::read(bytes, offload, self.port);
        let tagged = opened.and_then(|opened| {
            let number = self.envelopes.number(&opened.envelope);
            self.unwatched += u64::from(number.is_none());
            Some((opened, tag(number?, opened.flow_label)))
        });
        match tagged {
            Some((opened, tag)) => {
                self.handle_roce(now, side, (offload, bytes), (&opened, tag), wire)
            }
            None => {
                wire.seen(side, bytes, "");
                wire.send(side.other(), offload, bytes, "");
            }
        }
    }

    /// Shows each packet of the frame to the rules. As long as all pass, the frame stays whole.
    fn handle_roce(
        &mut self,
        now: Duration,
        side: Side,
        (offload, bytes): (&Offload, &[u8]),
        (opened, tag): (&Opened<'_>, u32),
        wire: &mut dyn Wire,
    ) {
        let alone = opened.packets() == 1;
        // Packets before this one have been sent, or do not go on.
        let mut done = 0;
        for index in 0..opened.packets() {
            let (ip_id, packet) = opened.packet(index);
            let Opened { flow, traffic_class, .. } = *opened;
            let direction = side.direction_from();
            let meta = PacketMeta { direction, flow, ip_id, traffic_class, tag };
            let verdict = self.injector.handle_packet(now, &meta, packet);
            // What a rule held may be due behind this packet, not only behind the whole batch.
            let is_due = self.injector.poll_timeout().is_some_and(|at| at <= now);
            if verdict != Verdict::Pass || (!alone && (self.always_single || is_due)) {
                self.send_packets(side, opened, done..index, wire);
                done = index + 1;
                self.wrap(opened, index);
                wire.seen(side, if alone { bytes } else { &self.frame }, self.injector.faults());
                if verdict == Verdict::Pass {
                    wire.send(side.other(), &Offload::NONE, &self.frame, "");
                }
                self.release(now, wire);
            }
        }
        if done == 0 {
            // A copy was made, say. What was done to one of several cannot be said about the whole frame.
            wire.seen(side, bytes, if alone { self.injector.faults() } else { "" });
            wire.send(side.other(), offload, bytes, "");
        } else {
            self.send_packets(side, opened, done..opened.packets(), wire);
        }
        // Packets that have waited for others to pass.
        self.release(now, wire);
    }

    /// Sends packets of a frame that does not stay whole.
    fn send_packets(
        &mut self,
        side: Side,
        opened: &Opened<'_>,
        which: std::ops::Range<usize>,
        wire: &mut dyn Wire,
    ) {
        for index in which {
            self.wrap(opened, index);
            wire.seen(side, &self.frame, "");
            wire.send(side.other(), &Offload::NONE, &self.frame, "");
        }
    }

    fn wrap(&mut self, opened: &Opened<'_>, index: usize) {
        let (ip_id, packet) = opened.packet(index);
        let Opened { flow, traffic_class, flow_label, .. } = *opened;
        let fields = PacketFields { flow, ip_id, traffic_class, flow_label };
        opened.envelope.wrap(&fields, packet, &mut self.frame);
    }

    /// Sends what is due.
    pub fn release(&mut self, now: Duration, wire: &mut dyn Wire) {
        while let Some(Release { meta, packet, faults, .. }) = self.injector.poll_packet(now) {
            let (number, flow_label) = untag(meta.tag);
            let Some(envelope) = self.envelopes.get(number).copied() else {
                continue;
            };
            let PacketMeta { flow, ip_id, traffic_class, direction, .. } = meta;
            let fields = PacketFields { flow, ip_id, traffic_class, flow_label };
            envelope.wrap(&fields, packet, &mut self.frame);
            if !self.frame.is_empty() {
                wire.send(Side::towards(direction), &Offload::NONE, &self.frame, faults);
            }
        }
    }
}

/// Bits of a flow label, above which a tag has the number of an envelope.
const LABEL_BITS: u32 = 20;

/// What a packet has to find again when it goes on.
fn tag(envelope: u32, flow_label: u32) -> u32 {
    envelope << LABEL_BITS | flow_label
}

/// Number of the envelope, and the flow label.
fn untag(tag: u32) -> (u32, u32) {
    (tag >> LABEL_BITS, tag & ((1 << LABEL_BITS) - 1))
}

#[cfg(test)]
mod tests;
