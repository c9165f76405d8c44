//! What has come of the steps.

use std::collections::BTreeMap;
use std::time::Duration;

use super::step::{Step, WireFaults};

/// Sums of what the programs said.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sums {
    /// Completions.
    pub completions: u64,
    /// Bytes that were compared.
    pub bytes: u64,
    /// Messages of UC and UD that did not arrive.
    pub missed: u64,
}

/// Of all steps.
#[derive(Debug, Default)]
pub struct Report {
    sums: BTreeMap<&'static str, (u32, Sums)>,
    events: BTreeMap<String, u32>,
    wires: BTreeMap<WireFaults, u32>,
    failures: Vec<String>,
    /// Steps during which the guest's kernel died.
    lost_guests: Vec<String>,
}

impl Sums {
    /// From the last line of a program: "60 rounds, 720 completions, 100 bytes right, 0 messages missed".
    pub fn read(text: &str) -> Option<Self> {
        let line = text.lines().rfind(|line| line.contains(" bytes right"))?;
        let number = |before: &str| {
            let part = line.split(", ").find(|part| part.ends_with(before))?;
            part.split(' ').next()?.parse().ok()
        };
        Some(Self {
            completions: number("completions")?,
            bytes: number("bytes right")?,
            missed: number("messages missed")?,
        })
    }
}

impl Report {
    /// Adds a step, and what both ends together did in it.
    pub fn add(&mut self, step: &Step, result: &Result<Taken, String>) {
        *self.events.entry(step.event.to_string()).or_default() += 1;
        *self.wires.entry(step.wire).or_default() += 1;
        match result {
            Ok(Taken(sums)) => {
                let (steps, all) = self.sums.entry(step.transport).or_default();
                *steps += 1;
                for sums in sums {
                    all.completions += sums.completions;
                    all.bytes += sums.bytes;
                    all.missed += sums.missed;
                }
            }
            Err(error) => self.failures.push(format!("{step}: {error}")),
        }
    }

    /// Adds a step during which the guest's kernel died: it says nothing about us.
    pub fn add_lost_guest(&mut self, step: &Step) {
        self.lost_guests.push(step.to_string());
    }

    /// No step failed, and no guest died.
    pub fn is_good(&self) -> bool {
        self.failures.is_empty() && self.lost_guests.is_empty()
    }

    /// For people.
    pub fn text(&self, time: Duration, warnings: &str) -> String {
        let mut text = format!("soak of {} s\n", time.as_secs());
        for (transport, (steps, Sums { completions, bytes, missed })) in &self.sums {
            text += &format!(
                "{transport}: {steps} steps, {completions} completions, {bytes} bytes right, {missed} messages missed\n"
            );
        }
        for (wire, steps) in &self.wires {
            text += &format!("{steps} steps with: {wire}\n");
        }
        for (event, steps) in &self.events {
            text += &format!("{steps} steps: {event}\n");
        }
        text += &format!("{} steps failed\n", self.failures.len());
        for step in &self.lost_guests {
            text += &format!("the guest's kernel died in {step}\n");
        }
        match warnings {
            "" => text += "the guest's kernel logged no warning\n",
            warnings => text += &format!("the guest's kernel warns:\n{warnings}\n"),
        }
        text
    }
}

/// What both ends said of a step; of those that were killed, nothing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Taken(pub Vec<Sums>);

impl std::fmt::Display for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(first) = self.0.first() else { return f.write_str("the other end noticed it") };
        let Sums { completions, bytes, missed } = first;
        write!(f, "{completions} completions, {bytes} bytes right, {missed} messages missed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_adds_up_both_ends_and_counts_failures() {
        let said = "log\n60 rounds, 720 completions, 1000 bytes right, 2 messages missed\nlog\n";
        let sums = Sums::read(said).unwrap();
        assert_eq!(sums, Sums { completions: 720, bytes: 1000, missed: 2 });
        assert_eq!(Sums::read("nothing"), None);
        let (mut report, step) = (Report::default(), Step::number(0));
        report.add(&step, &Ok(Taken(vec![sums, sums])));
        report.add(&step, &Err("it broke".to_owned()));
        let text = report.text(Duration::from_secs(9), "");
        assert!(
            text.contains("rc: 1 steps, 1440 completions, 2000 bytes right, 4 messages missed")
        );
        assert!(text.contains("1 steps failed\nthe guest's kernel logged no warning"), "{text}");
        assert!(!report.is_good());
    }

    #[test]
    fn a_guest_that_died_is_no_failed_step_but_not_good() {
        let mut report = Report::default();
        assert!(report.is_good());
        report.add_lost_guest(&Step::number(7));
        let text = report.text(Duration::from_secs(9), "");
        assert!(text.contains("0 steps failed\nthe guest's kernel died in 7: "), "{text}");
        assert!(!report.is_good());
    }
}
