//! What must hold in every simulation, and how a breach is reported.

use std::fmt;

use thiserror::Error;

/// What must hold, whatever the seed. Numbers as in docs/trust.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Invariant {
    /// I0: no assertion of a NIC fails.
    Assertions,
    /// I1: the destination of a successful request holds the bytes that were sent or read.
    Bytes,
    /// I2: no byte changes that no request may change.
    Canaries,
    /// I3: each work request completes once, in the order of its queue; unsignaled ones only with
    /// an error.
    Completions,
    /// I4: no success before the effect at the peer; no completion is lost.
    Effects,
    /// I5: each atomic operation is executed once, and returns the value that it replaced.
    Atomics,
    /// I6: messages arrive at most once and in order.
    Messages,
    /// I7: PSNs, MSNs and acknowledgements only grow; one NAK for each gap, with the expected PSN.
    Sequence,
    /// I8: no more READs and atomics are outstanding than allowed; nothing is sent during an RNR wait.
    Limits,
    /// I9: only peers are answered; nobody else is sent more bytes than it has sent.
    Strangers,
    /// I10: when everything is destroyed, the device has no object, and no timer runs.
    Resources,
    /// I11: an event costs a bounded number of steps and packets.
    Bounds,
    /// I12: every packet that a NIC emits is well formed, and its ICRC is right.
    Frames,
    /// I13: one seed always gives the same packets.
    Determinism,
    /// I14: when faults have ended, every request completes within a bound.
    Liveness,
    /// I15: a request fails with the status that its mistake or the faults explain.
    Statuses,
    /// I16: nothing is reached by a key after it was taken back.
    Keys,
}

impl Invariant {
    /// Its number, as in docs/trust.md: `I1`.
    pub fn id(self) -> &'static str {
        match self {
            Invariant::Assertions => "I0",
            Invariant::Bytes => "I1",
            Invariant::Canaries => "I2",
            Invariant::Completions => "I3",
            Invariant::Effects => "I4",
            Invariant::Atomics => "I5",
            Invariant::Messages => "I6",
            Invariant::Sequence => "I7",
            Invariant::Limits => "I8",
            Invariant::Strangers => "I9",
            Invariant::Resources => "I10",
            Invariant::Bounds => "I11",
            Invariant::Frames => "I12",
            Invariant::Determinism => "I13",
            Invariant::Liveness => "I14",
            Invariant::Statuses => "I15",
            Invariant::Keys => "I16",
        }
    }
}

/// A breach of an [`Invariant`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct Violation {
    /// What does not hold.
    pub invariant: Invariant,
    /// What was seen, and what was due.
    pub what: String,
    /// When, in nanoseconds of the simulation's clock.
    pub at_ns: u64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { invariant, what, at_ns } = self;
        write!(f, "{} at {at_ns} ns: {what}", invariant.id())
    }
}

/// The outcome of a check that knows no time: [`at`](AtTime::at) adds it.
pub(crate) type Check = Result<(), (Invariant, String)>;

/// Fails with `what` unless `holds`.
pub(crate) fn ensure(holds: bool, invariant: Invariant, what: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err((invariant, what())) }
}

/// Adds the time to a failed check.
pub(crate) trait AtTime<T> {
    fn at(self, now_ns: u64) -> Result<T, Violation>;
}

impl<T> AtTime<T> for Result<T, (Invariant, String)> {
    fn at(self, at_ns: u64) -> Result<T, Violation> {
        self.map_err(|(invariant, what)| Violation { invariant, what, at_ns })
    }
}
