//! What is done in one step.

use std::fmt;

use clap::ValueEnum;

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
    /// What happens to packets.
    pub wire: WireFaults,
    /// What happens meanwhile.
    pub event: Event,
}

/// What our fault layer does to packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub enum WireFaults {
    /// Nothing.
    Clean,
    /// 1 % are lost.
    Loss,
    /// 2 % come behind the next one.
    Reordering,
    /// 1 % come twice.
    Duplicates,
    /// 0.5 % are damaged.
    Corruption,
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

impl WireFaults {
    /// The rules of our fault layer; none on a clean wire. ACKs of ours are never late: rxe completes a READ when one comes
    /// between its responses, although the rest is missing.
    pub fn rules(self) -> Option<&'static str> {
        Some(match self {
            Self::Clean => return None,
            Self::Loss => "any -> drop p=0.01",
            Self::Reordering => "tx op=acknowledge -> pass quiet; any -> hold=1 p=0.02",
            Self::Duplicates => "any -> dup p=0.01",
            Self::Corruption => "any -> corrupt p=0.005",
        })
    }
}

impl Step {
    /// The first step from `number` on whose packets meet these faults.
    pub fn with_faults(number: u32, wire: WireFaults) -> Self {
        let mut steps = (number..=u32::MAX).chain(0..).map(Self::number);
        steps.find(|step| step.wire == wire).unwrap_or_else(|| Self::number(number))
    }

    /// The step with this number: within 1260 steps, each combination comes once.
    pub fn number(number: u32) -> Self {
        Self {
            number,
            transport: nth(&TRANSPORTS, number),
            mtu: nth(&MTUS, number.wrapping_add(number / 6)),
            role: nth(&ROLES, number / 6),
            wire: nth(WireFaults::value_variants(), number),
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
        self.wire == WireFaults::Clean && self.event == Event::Nothing
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, transport, mtu, role, .. } = self;
        let wire = self.wire;
        write!(f, "{number}: {transport}, path MTU {mtu}, we are {role}, {wire}, {}", self.event)
    }
}

impl fmt::Display for WireFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rules().unwrap_or("clean"))
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
        assert!((0..1260).map(Step::number).all(|step| {
            !step.has_atomic_write() || (step.wire.rules().is_none() && !step.is_fatal())
        }));
    }

    #[test]
    fn steps_with_the_same_faults_are_found_from_any_number() {
        for number in [0, 1, 23_700, u32::MAX - 4, u32::MAX] {
            for wire in WireFaults::value_variants() {
                let step = Step::with_faults(number, *wire);
                assert_eq!(step.wire, *wire, "{number}");
                // u32::MAX is a multiple of 5.
                assert!(step.number.wrapping_sub(number) <= 5, "{number}: {}", step.number);
            }
        }
    }
}
