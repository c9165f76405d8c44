//! What a fuzzer calls: each target takes any bytes, and panics if something does not hold that must hold for all of them.
//!
//! The same functions have two callers. `cargo xtask fuzz` runs them under libFuzzer (by `cargo fuzz`), which looks for inputs
//! that reach new code; the inputs that it found worth keeping are in `corpus`. `tests/corpus.rs` runs them without any tool:
//! every input of the corpus, and for a while inputs made from those.
#![deny(unsafe_code)]

mod c_interface;
mod captures;
mod connections;
mod dissector;
mod frames;
mod icrc;
mod input;
mod mads;
mod messages;
mod nic;
mod queue_pair;
mod records;
mod rules;
mod verbs;

/// One function that takes any bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name: of its program and of its folder in `corpus`.
    pub name: &'static str,
    /// What the bytes are.
    pub about: &'static str,
    /// Takes the bytes; a panic is a finding.
    pub run: fn(&[u8]),
}

/// Every target.
pub const TARGETS: [Target; 14] = [
    Target { name: "frames", about: "frames and packets from a wire", run: frames::run },
    Target { name: "dissector", about: "frames of captures", run: dissector::run },
    Target { name: "captures", about: "capture files", run: captures::run },
    Target { name: "icrc", about: "ICRCs by every method", run: icrc::run },
    Target { name: "mads", about: "management datagrams", run: mads::run },
    Target { name: "connections", about: "CM between two ends", run: connections::run },
    Target { name: "rules", about: "rules of faults, and packets", run: rules::run },
    Target { name: "redirects", about: "packets from other processes", run: messages::redirects },
    Target { name: "rsockets", about: "messages of rsockets", run: messages::rsockets },
    Target { name: "reports", about: "reports of devices", run: messages::reports },
    Target { name: "queue_pair", about: "a peer that sends anything", run: queue_pair::run },
    Target { name: "records", about: "what perftest says over TCP", run: records::run },
    Target { name: "verbs", about: "verbs in any order", run: verbs::run },
    Target { name: "c_interface", about: "a C program of any calls", run: c_interface::run },
];

/// The target with this name.
///
/// # Panics
/// There is none.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("a target of this crate").run)(bytes);
}
