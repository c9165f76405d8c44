//! What simulations have met, counted by name.

mod unreachable;

use std::collections::BTreeMap;

use uroce_device::transport::WcStatus;
use uroce_wire::{DropReason, NakCode, Opcode};

use crate::request::Mistake;
use crate::rxe::RxeCounters;

/// Counts of what happened in one simulation, or in many.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage {
    counts: BTreeMap<&'static str, u64>,
}

impl Coverage {
    pub(crate) fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    pub(crate) fn count_nak(&mut self, code: NakCode) {
        self.count(nak_name(code));
    }

    pub(crate) fn add(&mut self, what: &'static str, count: u64) {
        *self.counts.entry(what).or_default() += count;
    }

    /// Adds the counts of another simulation.
    pub fn merge(&mut self, other: &Coverage) {
        for (what, count) in &other.counts {
            self.add(what, *count);
        }
    }

    /// Names and counts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.counts.iter().map(|(what, count)| (*what, *count))
    }

    /// The count of a name; 0 if it never happened.
    pub fn get(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or_default()
    }

    /// Everything that simulations can meet and these have not: packets by opcode, NAKs by syndrome,
    /// completions by status, dropped packets by reason.
    pub fn missing(&self) -> Vec<&'static str> {
        let unreachable = |name: &&str| Coverage::unreachable().any(|(known, _)| known == *name);
        names().filter(|name| self.get(name) == 0 && !unreachable(name)).collect()
    }

    /// What no simulation meets, and why.
    pub fn unreachable() -> impl Iterator<Item = (&'static str, &'static str)> {
        unreachable::REASONS.iter().flat_map(|(why, names)| names.iter().map(|name| (*name, *why)))
    }
}

/// Everything that is counted and could be missing.
fn names() -> impl Iterator<Item = &'static str> {
    let opcodes = (0..=255).filter_map(|opcode| Opcode(opcode).info()).map(|info| info.name);
    let naks = [
        NakCode::PsnSequence,
        NakCode::InvalidRequest,
        NakCode::RemoteAccess,
        NakCode::RemoteOperational,
        NakCode::InvalidRdRequest,
    ];
    let statuses = [
        WcStatus::Success,
        WcStatus::LocLenErr,
        WcStatus::LocQpOpErr,
        WcStatus::LocEecOpErr,
        WcStatus::LocProtErr,
        WcStatus::WrFlushErr,
        WcStatus::MwBindErr,
        WcStatus::BadRespErr,
        WcStatus::LocAccessErr,
        WcStatus::RemInvReqErr,
        WcStatus::RemAccessErr,
        WcStatus::RemOpErr,
        WcStatus::RetryExcErr,
        WcStatus::RnrRetryExcErr,
        WcStatus::FatalErr,
        WcStatus::GeneralErr,
    ];
    opcodes
        .chain(naks.map(nak_name))
        .chain(["RNR NAK"])
        .chain(statuses.map(WcStatus::name))
        .chain(DropReason::ALL.map(DropReason::name))
        .chain(Mistake::ALL.map(Mistake::name))
        .chain(EVENTS)
        .chain(CM_EVENTS)
        .chain(RxeCounters::NAMES)
}

/// What applications and the network do, as it is counted.
const EVENTS: [&str; 19] = [
    "a completion queue of sends that overflows",
    "a completion queue of receives that overflows",
    "a process that ends without a word",
    "an end whose peer is no more",
    "a request that is sent again",
    "a message that is received",
    "a receive that fails",
    "a connection that is made again",
    "a queue pair that is destroyed at work",
    "a region that is deregistered at work",
    "completion queues that are resized at work",
    "a window of type 1 that moves",
    "bind of a window to no bytes",
    "a packet that is forged",
    "datapath_rx_forwarded",
    "datapath_rx_adopted",
    "packets that faults dropped",
    "packets that faults altered or delayed",
    "packets that met a link that is down",
];

/// What comes of connection management.
const CM_EVENTS: [&str; 25] = [
    "a question for a queue pair",
    "a question for a service without a listener",
    "a question that is answered",
    "a question that is refused",
    "a question that nobody answers",
    "a copy of a question that comes too late",
    "a call by connection management",
    "a connection that is made by connection management",
    "a call to a service without a listener",
    "a call to a listener whose backlog is full",
    "a call that is rejected",
    "a call that the caller gives up",
    "a call that is taken back",
    "a call that nobody answers",
    "a call that begins again with a smaller path MTU",
    "a listener that comes after its call",
    "a copy of a REQ that comes too late",
    "a REP that nobody confirms",
    "a first packet that stands for a lost RTU",
    "a disconnect",
    "an end that hears of a disconnect",
    "an end that never hears of a disconnect",
    "a connection that is released",
    "a MAD that is sent again",
    "an MRA",
];

/// The name of a NAK in reports of coverage.
fn nak_name(code: NakCode) -> &'static str {
    match code {
        NakCode::PsnSequence => "NAK: PSN sequence error",
        NakCode::InvalidRequest => "NAK: invalid request",
        NakCode::RemoteAccess => "NAK: remote access error",
        NakCode::RemoteOperational => "NAK: remote operational error",
        NakCode::InvalidRdRequest => "NAK: invalid RD request",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_reached_is_something_that_is_counted() {
        for (name, why) in Coverage::unreachable() {
            assert!(names().any(|known| known == name), "{name}");
            assert!(why.len() > 20, "{name}");
        }
    }

    #[test]
    fn what_has_not_happened_is_missing() {
        let mut coverage = Coverage::default();
        assert!(coverage.missing().contains(&"RNR NAK"));
        coverage.count("RNR NAK");
        assert!(!coverage.missing().contains(&"RNR NAK"));
        assert!(!coverage.missing().contains(&"tx_failed"), "it is known to be out of reach");
    }
}
