//! A network of simulated RoCEv2 NICs, drawn from one seed.
//!
//! The NICs are real: engine, transport, memory and connection management as they ship, with a virtual clock and a
//! datapath that belongs to the simulation. What is simulated is the network with its faults ([`Scenario::faults`],
//! in the language of docs/faults.md), and the applications, which post random requests. Whatever happens, the
//! [`Invariant`]s hold; they are checked by code that shares only packet
//! formats and PSN arithmetic with the NICs.
//!
//! ```
//! let scenario = uroce_sim::Scenario::new(7);
//! let report = uroce_sim::run(&scenario)?;
//! assert!(report.packets > 0);
//! # Ok::<(), uroce_sim::Violation>(())
//! ```
#![forbid(unsafe_code)]

mod adversary;
mod arena;
mod buffers;
mod caught;
mod cm_plan;
mod coverage;
mod end;
mod engine_plan;
mod intake;
mod lookup_plan;
mod monitor;
mod network;
mod nic;
mod node;
mod packet_event;
mod pair;
mod port;
mod random;
mod request;
mod rxe;
mod scenario;
mod shrink;
mod sim_packet;
mod trace;
mod violation;
mod windows;
mod world;

pub use caught::run_caught;
pub use cm_plan::CmPlan;
pub use coverage::Coverage;
pub use engine_plan::{EnginePlan, PortSteering};
pub use lookup_plan::LookupPlan;
pub use packet_event::{PacketEvent, Passage};
pub use scenario::{Crash, Mode, Outage, PairPlan, Scenario};
pub use shrink::shrink;
pub use violation::{Invariant, Violation};
pub use world::Report;

/// Runs a scenario to its end. The same scenario always gives the same report.
///
/// # Errors
///
/// The first [`Violation`] of an invariant.
pub fn run(scenario: &Scenario) -> Result<Report, Violation> {
    run_with(scenario, |_| ())
}

/// As [`run`], and shows each packet to `observer` when a NIC sends it and when a NIC receives it.
///
/// # Errors
///
/// The first [`Violation`] of an invariant.
pub fn run_with(
    scenario: &Scenario,
    mut observer: impl FnMut(&PacketEvent<'_>),
) -> Result<Report, Violation> {
    world::World::new(scenario, &mut observer).run()
}
