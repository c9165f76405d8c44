//! Findings, gathered by rule and flow.

use std::collections::HashMap;
use std::fmt;

use super::Rule;
use crate::track::FlowKey;

/// Frame numbers that a finding keeps.
pub const MAX_FRAMES: usize = 8;

/// Findings that are kept for a capture.
const MAX_FINDINGS: usize = 4096;

/// A flow in words: its addresses and the queue pair that it goes to.
pub(super) fn words_of(flow: &FlowKey) -> String {
    format!("{} > {} qp {}", flow.source, flow.destination, flow.destination_qpn)
}

/// One rule that one flow broke, or one event that needs explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// The flow whose sender is concerned; `None` if it is about the capture.
    pub flow: Option<FlowKey>,
    /// How often.
    pub count: u64,
    /// Numbers of the first frames, at most [`MAX_FRAMES`], in the order of the capture.
    pub frames: Vec<u64>,
    /// Number of the last frame.
    pub last_frame: u64,
    /// What happened at the first of them, with its numbers.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.rule.severity, self.rule.name, self.rule.title)?;
        if let Some(flow) = self.flow {
            write!(f, " ({})", words_of(&flow))?;
        }
        write!(f, ": {}", self.text)
    }
}

/// The place of a flow in the tables of the judge; `None` is the capture itself.
pub(super) type FlowIndex = Option<usize>;

#[derive(Debug)]
struct Entry {
    rule: &'static Rule,
    flow: FlowIndex,
    count: u64,
    frames: [u64; MAX_FRAMES],
    last_frame: u64,
    text: String,
}

/// All findings of a capture. The first instance of a finding allocates, further ones count.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    entries: Vec<Entry>,
    places: HashMap<(&'static str, FlowIndex), usize>,
    refused: u64,
}

impl Ledger {
    /// Notes that `flow` broke `rule` in `frame`; `text` is made for the first instance only.
    pub(super) fn record(
        &mut self,
        rule: &'static Rule,
        flow: FlowIndex,
        frame: u64,
        text: impl FnOnce() -> String,
    ) {
        match self.places.get(&(rule.name, flow)) {
            Some(place) => self.entries[*place].count_again(frame),
            None if self.entries.len() < MAX_FINDINGS => self.add(rule, flow, frame, text()),
            None => self.refused += 1,
        }
    }

    fn add(&mut self, rule: &'static Rule, flow: FlowIndex, frame: u64, text: String) {
        self.places.insert((rule.name, flow), self.entries.len());
        let mut frames = [0; MAX_FRAMES];
        frames[0] = frame;
        self.entries.push(Entry { rule, flow, count: 1, frames, last_frame: frame, text });
    }

    /// How often `rule` was broken, in flows where that is often enough for a finding.
    pub(super) fn instances(&self, rule: &Rule) -> u64 {
        let of_rule = self.entries.iter().filter(|entry| entry.rule.name == rule.name);
        let told = of_rule.filter(|entry| entry.count >= rule.threshold);
        told.map(|entry| entry.count).sum()
    }

    /// `flow` broke `rule`.
    pub(super) fn has(&self, rule: &Rule, flow: usize) -> bool {
        self.places.contains_key(&(rule.name, Some(flow)))
    }

    /// Findings that were not kept.
    pub(super) const fn refused(&self) -> u64 {
        self.refused
    }

    /// The findings with enough instances that `is_certain` lets pass, the gravest first.
    pub(super) fn findings(
        &self,
        name: impl Fn(usize) -> Option<FlowKey>,
        is_certain: impl Fn(&Rule, FlowIndex) -> bool,
    ) -> Vec<Finding> {
        let told = |entry: &&Entry| {
            entry.count >= entry.rule.threshold && is_certain(entry.rule, entry.flow)
        };
        let finding = |entry: &Entry| entry.finding(entry.flow.and_then(&name));
        let mut findings: Vec<_> = self.entries.iter().filter(told).map(finding).collect();
        findings.sort_by(|a, b| {
            let grave = b.rule.severity.cmp(&a.rule.severity);
            grave.then_with(|| a.frames.cmp(&b.frames))
        });
        findings
    }
}

impl Entry {
    fn count_again(&mut self, frame: u64) {
        if let Some(slot) = usize::try_from(self.count).ok().and_then(|i| self.frames.get_mut(i)) {
            *slot = frame;
        }
        self.count += 1;
        self.last_frame = frame;
    }

    fn finding(&self, flow: Option<FlowKey>) -> Finding {
        let kept = usize::try_from(self.count).map_or(MAX_FRAMES, |count| count.min(MAX_FRAMES));
        Finding {
            rule: self.rule,
            flow,
            count: self.count,
            frames: self.frames[..kept].to_vec(),
            last_frame: self.last_frame,
            text: self.text.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::{packet, retry};
    use super::*;

    fn all(ledger: &Ledger) -> Vec<Finding> {
        ledger.findings(|_| None, |_, _| true)
    }

    #[test]
    fn instances_are_counted_and_the_first_frames_kept() {
        let mut ledger = Ledger::default();
        for frame in 1..=20 {
            ledger.record(&packet::PAD_WRONG, Some(1), frame, || format!("frame {frame}"));
        }
        let [finding] = &all(&ledger)[..] else { panic!("one finding") };
        assert_eq!((finding.count, finding.last_frame), (20, 20));
        assert_eq!(finding.frames, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(finding.text, "frame 1");
    }

    #[test]
    fn errors_come_before_notes_and_few_instances_may_be_too_few() {
        let mut ledger = Ledger::default();
        ledger.record(&packet::RESERVED_BITS, Some(1), 1, String::new);
        ledger.record(&retry::RNR_TIMER_IGNORED, Some(1), 2, String::new);
        ledger.record(&packet::PAD_WRONG, Some(2), 3, String::new);
        let names: Vec<_> = all(&ledger).iter().map(|finding| finding.rule.name).collect();
        assert_eq!(names, ["pad-wrong", "reserved-bits"]);
    }

    #[test]
    fn the_table_is_bounded() {
        let mut ledger = Ledger::default();
        for flow in 0..MAX_FINDINGS + 5 {
            ledger.record(&packet::PAD_WRONG, Some(flow), 1, String::new);
        }
        assert_eq!((all(&ledger).len(), ledger.refused()), (MAX_FINDINGS, 5));
    }
}
