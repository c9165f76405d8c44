//! What is done in one step.

use std::fmt;

use crate::rxe::matrix::cell::Role;

/// One pair of programs, from its start to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Its number, and the seed of sizes and faults.
    pub number: u32,
    /// As `soak.c` calls it: rc, uc or ud.
    pub transport: &'static str,
    /// Path MTU in bytes.
    pub mtu: u32,
    /// Which end we are.
    pub role: Role,
    /// A rule of our fault layer; none on a clean wire.
    pub rule: Option<&'static str>,
    /// What happens meanwhile.
    pub event: Event,
}

/// What happens while the programs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Nothing.
    Nothing,
    /// The guest's link goes down, and up again.
    LinkDown,
    /// The guest's link gets another MTU, which is still enough, and its own again.
    LinkMtu,
    /// Our program is killed.
    KillOurs,
    /// That of the guest is killed.
    KillTheirs,
}

/// Most of the data is that of RC; rxe has no XRC.
const TRANSPORTS: [&str; 6] = ["rc", "uc", "rc", "ud", "rc", "rc"];
/// ACKs of ours are never late: rxe completes a READ when one comes between its responses, although the rest is missing.
const RULES: [Option<&str>; 5] = [
    None,
    Some("any -> drop p=0.01"),
    Some("tx op=acknowledge -> pass quiet; any -> hold=1 p=0.02"),
    Some("any -> dup p=0.01"),
    Some("any -> corrupt p=0.005"),
];
const EVENTS: [Event; 7] = [
    Event::Nothing,
    Event::LinkDown,
    Event::Nothing,
    Event::KillOurs,
    Event::LinkMtu,
    Event::Nothing,
    Event::KillTheirs,
];
const MTUS: [u32; 3] = [1024, 4096, 256];
const ROLES: [Role; 2] = [Role::Server, Role::Client];

fn nth<T: Copy>(of: &[T], number: u32) -> T {
    of[number as usize % of.len()]
}

impl Step {
    /// The step with this number: within 1260 steps, each combination comes once.
    pub fn number(number: u32) -> Self {
        Self {
            number,
            transport: nth(&TRANSPORTS, number),
            mtu: nth(&MTUS, number.wrapping_add(number / 6)),
            role: nth(&ROLES, number / 6),
            rule: nth(&RULES, number),
            event: nth(&EVENTS, number),
        }
    }

    /// True when one of the programs does not come to its end.
    pub fn is_fatal(&self) -> bool {
        matches!(self.event, Event::KillOurs | Event::KillTheirs)
    }

    /// True when the two programs also try ATOMIC WRITE. An emulated rxe that repeats one repeats it with a wrong address, so
    /// that it is left alone where anything is lost.
    pub fn has_atomic_write(&self) -> bool {
        self.rule.is_none() && self.event == Event::Nothing
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, transport, mtu, role, .. } = self;
        let rule = self.rule.unwrap_or("clean");
        write!(f, "{number}: {transport}, path MTU {mtu}, we are {role}, {rule}, {}", self.event)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "undisturbed",
            Self::LinkDown => "link down and up",
            Self::LinkMtu => "MTU of the link changed",
            Self::KillOurs => "ours killed",
            Self::KillTheirs => "that of rxe killed",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_combination_comes_once() {
        let steps = (0..1260).map(|number| {
            let step = Step::number(number);
            let name = Step { number: 0, ..step }.to_string();
            (name, number % 6, number % 7)
        });
        assert_eq!(steps.collect::<HashSet<_>>().len(), 1260);
        assert!(
            (0..1260).map(Step::number).all(|step| {
                !step.has_atomic_write() || (step.rule.is_none() && !step.is_fatal())
            })
        );
    }
}
