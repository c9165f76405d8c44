//! Faults between the recording and the queue pair.

use std::collections::VecDeque;
use std::time::Duration;

use uroce_fault::{Direction, FaultInjector, PacketMeta, Verdict};

use crate::report::RuleOutcome;

/// A packet on its way.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub meta: PacketMeta,
    pub bytes: Vec<u8>,
    /// The rules have not seen it.
    pub is_new: bool,
}

/// Packets between the recording and the queue pair, and the rules that they meet.
#[derive(Debug)]
pub(crate) struct Way {
    faults: Option<FaultInjector>,
    parcels: VecDeque<Parcel>,
}

impl Way {
    pub(crate) fn new(faults: Option<FaultInjector>) -> Self {
        Self { faults, parcels: VecDeque::new() }
    }

    pub(crate) fn push(&mut self, meta: PacketMeta, bytes: Vec<u8>) {
        self.parcels.push_back(Parcel { meta, bytes, is_new: true });
    }

    /// The next packet that arrives at its end, in either direction.
    pub(crate) fn pop(&mut self, now: Duration) -> Option<Parcel> {
        loop {
            self.release(now);
            let parcel = self.parcels.pop_front()?;
            let Some(faults) = self.faults.as_mut().filter(|_| parcel.is_new) else {
                return Some(parcel);
            };
            if faults.handle_packet(now, &parcel.meta, &parcel.bytes) == Verdict::Pass {
                return Some(parcel);
            }
        }
    }

    /// When the rules let something go on again.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        self.faults.as_ref().and_then(FaultInjector::poll_timeout)
    }

    /// What each rule did.
    pub(crate) fn rules(&self) -> Vec<RuleOutcome> {
        self.faults.iter().flat_map(FaultInjector::report).map(RuleOutcome::from).collect()
    }

    /// Takes what the rules let go on now. What they damaged ends here: its receiver drops it.
    fn release(&mut self, now: Duration) {
        let Some(faults) = &mut self.faults else { return };
        while let Some(release) = faults.poll_packet(now) {
            if !release.is_damaged {
                let bytes = release.packet.to_vec();
                self.parcels.push_back(Parcel { meta: release.meta, bytes, is_new: false });
            }
        }
        while faults.poll_event().is_some() {}
    }
}

/// What is known of a packet that goes this way.
pub(crate) fn meta(direction: Direction, flow: uroce_wire::Flow, traffic_class: u8) -> PacketMeta {
    PacketMeta { direction, flow, ip_id: 0, traffic_class, tag: 0 }
}
