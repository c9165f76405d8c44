//! Faults on demand for RoCEv2 packets.
//!
//! A [`Plan`] says which packets suffer what; a [`FaultInjector`] does it. Nothing here has a clock, a
//! socket or a random source of its own: packets, times and the seed are arguments, so that a run
//! can be repeated exactly.
#![forbid(unsafe_code)]

mod direction;
mod injector;
mod meta;
mod packet_view;
mod parse;
mod plan;
mod rule;

pub use direction::Direction;
pub use injector::{
    Counters, FaultEvent, FaultInjector, Limits, Origin, Refusal, Release, RuleReport, Verdict,
    is_taken_away,
};
pub use meta::{PacketMeta, Time};
pub use parse::RuleError;
pub use plan::Plan;
