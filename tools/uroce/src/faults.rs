//! Faults on purpose: reading their rules, and telling at the end what they did.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use uroce_device::datapath::{FaultCounters, RuleCount};
use uroce_device::{FaultError, Faults};
use uroce_verbs::Context;

use crate::failure::Failure;

/// What is known of the faults of this process, for its end.
static MADE: Mutex<Option<ProcessFaults>> = Mutex::new(None);

struct ProcessFaults {
    seed: u64,
    devices: Vec<Arc<FaultCounters>>,
}

/// One rule, over all devices of the process.
#[derive(Debug, Serialize)]
pub struct RuleLine {
    name: String,
    rule: String,
    matched: u64,
    applied: u64,
    not_applied: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// What all rules did.
#[derive(Debug, Serialize)]
pub struct FaultReport {
    seed: u64,
    rules: Vec<RuleLine>,
}

/// The rules of all `texts` together, and their seed, which is printed if it is drawn.
///
/// # Errors
/// Exit 2 for rules that are wrong, with line and column; exit 3 for a file that cannot be read.
pub fn read(texts: &[String], seed: Option<u64>) -> Result<Option<Faults>, Failure> {
    let mut all = None;
    for text in texts {
        let plan = Faults::read(text).map_err(unread)?;
        match &mut all {
            None => all = Some(plan),
            Some(all) => all.append(plan).map_err(Failure::usage)?,
        }
    }
    let Some(plan) = all else { return Ok(None) };
    Faults::new(plan, seed).map(Some).map_err(Failure::environment)
}

fn unread(error: FaultError) -> Failure {
    match error {
        FaultError::File { .. } | FaultError::TooLong(_) => Failure::environment(error),
        _ => Failure::usage(error).help(
            "docs/faults.md has the grammar; `uroce fault check` shows how rules are understood",
        ),
    }
}

/// Counts what the faults of this device do.
pub fn watch(faults: &Faults, context: &Context) {
    if let Some(counters) = context.fault_counters() {
        watch_counters(faults, counters);
    }
}

/// The same, of counters.
pub fn watch_counters(faults: &Faults, counters: Arc<FaultCounters>) {
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if made.is_none() {
        tell_seed(faults);
    }
    let made =
        made.get_or_insert_with(|| ProcessFaults { seed: faults.seed(), devices: Vec::new() });
    made.devices.push(counters);
}

/// Says on stderr which seed was drawn: a run that is killed has no report.
pub fn tell_seed(faults: &Faults) {
    if let Some(seed) = faults.drawn_seed() {
        eprintln!("faults: to repeat them: --fault-seed {seed}");
    }
}

/// What all rules did so far; `None` without faults.
pub fn report() -> Option<FaultReport> {
    let made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.as_ref().map(|made| FaultReport {
        seed: made.seed,
        rules: sums(made.devices.iter().map(|counters| counters.rules())),
    })
}

/// All devices have the same rules.
fn sums(devices: impl Iterator<Item = Vec<RuleCount>>) -> Vec<RuleLine> {
    let mut sums: Vec<RuleLine> = Vec::new();
    for (place, rule) in devices.flat_map(|rules| rules.into_iter().enumerate()) {
        match sums.get_mut(place) {
            Some(sum) => sum.add(rule),
            None => sums.push(rule.into()),
        }
    }
    sums
}

impl RuleLine {
    fn add(&mut self, more: RuleCount) {
        self.matched += more.matched;
        self.applied += more.applied;
        self.not_applied += more.not_applied;
        self.reason = self.reason.take().or(more.reason.map(|reason| reason.to_string()));
    }
}

impl From<RuleCount> for RuleLine {
    fn from(rule: RuleCount) -> Self {
        let RuleCount { name, text, matched, applied, not_applied, reason } = rule;
        let reason = reason.map(|reason| reason.to_string());
        RuleLine { name, rule: text, matched, applied, not_applied, reason }
    }
}

/// Prints on stderr what the faults did, if there were any.
pub fn print() {
    if let Some(report) = report() {
        eprint!("{}", report.text());
    }
}

impl FaultReport {
    /// A line for each rule.
    fn text(&self) -> String {
        let mut text = format!(
            "faults (to repeat them: --fault-seed {}):\n{:>10} {:>10}  rule\n",
            self.seed, "matched", "applied"
        );
        for line in &self.rules {
            let RuleLine { name, rule, matched, applied, not_applied, reason } = line;
            let number = name.bytes().all(|byte| byte.is_ascii_digit());
            let name = if number { format!("{name}: ") } else { String::new() };
            let _ = writeln!(text, "{matched:>10} {applied:>10}  {name}{rule}");
            if let (1.., Some(reason)) = (not_applied, reason) {
                let _ = writeln!(text, "{:>23} {not_applied} packets not: {reason}", "");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(applied: u64, not_applied: u64) -> RuleCount {
        let (name, text) = ("1".to_owned(), "rx -> drop p=0.5".to_owned());
        let reason = (not_applied > 0).then_some(uroce_device::fault::Refusal::PeerUnknown);
        RuleCount { name, text, matched: 5, applied, not_applied, reason }
    }

    #[test]
    fn the_report_is_the_sum_over_all_devices() {
        let rules = sums([vec![rule(2, 0)], vec![rule(1, 4)]].into_iter());
        let text = FaultReport { seed: 7, rules }.text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("--fault-seed 7"), "{text}");
        assert_eq!(lines[2].trim(), "10          3  1: rx -> drop p=0.5");
        assert_eq!(lines[3].trim(), "4 packets not: peer QPN unknown");
    }

    #[test]
    fn rules_that_are_wrong_are_wrong_usage() {
        let wrong = read(&["rx dorp".to_owned()], None).expect_err("a typo");
        assert_eq!(wrong.exit, crate::failure::Exit::Usage);
        let missing = read(&["@/nonexistent/rules".to_owned()], None).expect_err("no file");
        assert_eq!(missing.exit, crate::failure::Exit::Environment);
    }
}
