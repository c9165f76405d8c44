//! A simulation in which an invariant does not hold, made smaller and told.

use uroce_sim::{Scenario, Violation, run_caught, shrink};

use super::last_packets::LastPackets;
use crate::failure::Failure;
use crate::report::out;

/// A violation in the smallest scenario that was found for it.
#[derive(Debug)]
pub struct Failed {
    seed: u64,
    violation: Violation,
    scenario: Scenario,
    packets: LastPackets,
}

impl Failed {
    /// Looks for a smaller scenario with the same violation.
    pub fn new(scenario: &Scenario, violation: Violation) -> Self {
        let hook = std::panic::take_hook();
        // Each smaller scenario that fails by an assertion would print its panic.
        std::panic::set_hook(Box::new(|_| ()));
        let (small, violation) =
            shrink(scenario, violation, |scenario| run_caught(scenario, |_| ()).err());
        let mut packets = LastPackets::default();
        let repeated = run_caught(&small, |event| packets.note(event)).err();
        std::panic::set_hook(hook);
        let violation = repeated.unwrap_or(violation);
        Failed { seed: scenario.seed, violation, scenario: small, packets }
    }

    /// Prints what led to the violation.
    pub fn print(&self) {
        out(&format!("{}last packets:\n{}", self.scenario, self.packets.lines()));
    }

    /// As a JSON object.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "seed": self.seed,
            "invariant": self.violation.invariant.id(),
            "what": self.violation.what,
            "at_ns": self.violation.at_ns,
            "scenario": self.scenario.to_string(),
        })
    }

    /// How the command ends.
    pub fn failure(&self) -> Failure {
        let seed = self.seed;
        Failure::test(format!("seed {seed}: {}", self.violation)).help(format!(
            "`uroce sim replay {seed} --pcap seed{seed}.pcapng` records the packets of this seed; docs/trust.md has the invariants"
        ))
    }
}
