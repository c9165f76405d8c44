//! A simulation in which an invariant does not hold, made smaller and told.

use uroce_sim::{Scenario, Violation, run_caught, shrink};

use super::last_packets::LastPackets;
use crate::failure::Failure;
use crate::report::{json, out};

/// A violation, and the smallest scenario that was found for it.
#[derive(Debug)]
pub struct Failed {
    seed: u64,
    violation: Violation,
    smallest: Scenario,
    /// The violation in the smallest scenario.
    there: Violation,
    packets: LastPackets,
}

impl Failed {
    /// Looks for a smaller scenario in which the same invariant does not hold.
    pub fn new(scenario: &Scenario, violation: Violation) -> Self {
        let hook = std::panic::take_hook();
        // Each smaller scenario that fails by an assertion would print its panic.
        std::panic::set_hook(Box::new(|_| ()));
        let (smallest, there) =
            shrink(scenario, violation.clone(), |scenario| run_caught(scenario, |_| ()).err());
        let mut packets = LastPackets::default();
        // The outcome is known: it is the same each time.
        let _ = run_caught(&smallest, |event| packets.note(event));
        std::panic::set_hook(hook);
        Failed { seed: scenario.seed, violation, smallest, there, packets }
    }

    /// Prints the smallest scenario, and the packets before its violation.
    pub fn print(&self) {
        let Failed { smallest, there, packets, .. } = self;
        out(&format!("The smallest scenario that was found for it:\n{smallest}"));
        out(&format!("its last packets:\n{}its violation: {there}\n", packets.lines()));
    }

    /// As a JSON object.
    pub fn json(&self) -> serde_json::Value {
        let one = |violation: &Violation| {
            serde_json::json!({
                "invariant": violation.invariant.id(),
                "what": violation.what,
                "at_ns": violation.at_ns,
            })
        };
        serde_json::json!({
            "seed": self.seed,
            "violation": one(&self.violation),
            "smallest": { "scenario": self.smallest.to_string(), "violation": one(&self.there) },
        })
    }

    /// The result of `uroce sim run` as a JSON object.
    pub fn report(&self) -> serde_json::Value {
        serde_json::json!({
            "version": json::VERSION,
            "seed": self.seed,
            "violation": self.json(),
        })
    }

    /// How the command ends.
    pub fn failure(&self) -> Failure {
        failure(self.seed, &self.violation)
    }
}

/// How a command ends after a violation in the simulation of this seed.
pub fn failure(seed: u64, violation: &Violation) -> Failure {
    Failure::test(format!("seed {seed}: {violation}")).help(format!(
        "`uroce sim replay {seed} --pcap seed{seed}.pcapng` records the packets of this seed; docs/trust.md has the invariants"
    ))
}

#[cfg(test)]
mod tests {
    use uroce_sim::Invariant;

    use super::*;

    #[test]
    fn the_report_of_a_run_has_the_smallest_scenario() {
        let violation = |what: &str, at_ns| Violation {
            invariant: Invariant::Bytes,
            what: what.to_owned(),
            at_ns,
        };
        let smallest = Scenario::new(7);
        let failed = Failed {
            seed: 9,
            violation: violation("many", 90),
            smallest: smallest.clone(),
            there: violation("few", 20),
            packets: LastPackets::default(),
        };
        let report = failed.report();
        assert_eq!((&report["version"], &report["seed"]), (&1.into(), &9.into()));
        let (found, small) = (&report["violation"]["violation"], &report["violation"]["smallest"]);
        assert_eq!((&found["what"], &found["at_ns"]), (&"many".into(), &90.into()));
        assert_eq!(small["scenario"], smallest.to_string());
        assert_eq!(small["violation"]["what"], "few");
    }
}
