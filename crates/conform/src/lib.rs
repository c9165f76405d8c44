//! A conformance test of any RoCEv2 implementation, rule by rule.
//!
//! Two programs take part. The *agent* runs beside the NIC under test and does through that machine's own
//! libibverbs what it is told ([`Request`], [`Reply`]). The *tester* plays the other end of every queue pair with
//! hand-made packets ([`Packet`]) and judges what comes back.
//!
//! A [`Case`] is a short function that reads like its rule: it sets a queue pair up ([`Bench::rc`]), sends, expects
//! ([`Qp::nak`], [`Qp::silence`]), and asks the agent what the application saw ([`Application::completion`], [`Application::memory`]).
//! [`run()`] walks over cases and gives a [`Report`].
//!
//! No socket and no thread: packets pass through [`Wire`], requests to the agent through [`AgentLink`].
#![forbid(unsafe_code)]

mod agent_link;
mod answers;
mod application;
mod bench;
mod came;
mod candidates;
mod case;
pub mod cases;
pub mod cm;
mod coverage;
mod data;
mod expect;
#[cfg(test)]
mod fake;
mod flood;
mod frame;
mod framed;
mod hex;
mod memory;
mod packet;
mod performance;
mod player;
mod position;
mod protocol;
mod qp;
mod reach;
mod report;
mod run;
mod setup;
pub mod status;
mod stock;
mod transcript;
mod verdict;
mod windows;
mod wire;

pub use agent_link::{AgentError, AgentLink};
pub use application::Application;
pub use bench::{Bench, Patience};
pub use came::Came;
pub use candidates::{CANDIDATES, Candidate};
pub use case::{Case, Class, Role};
pub use coverage::coverage_page;
pub use data::pattern;
pub use frame::{Frame, UdpChecksum};
pub use hex::Hex;
pub use packet::{Icrc, Packet};
pub use performance::{Change, Counted, Figures};
pub use protocol::{
    Access, Card, CmEvent, CmRequest, CmSpace, Completion, Counter, Event, Extensions, FromJson,
    Kind, Link, Message, Operation, Piece, ProtocolError, Receive, Reply, Request, State, VERSION,
    Work, cm_event, limits, read_message, write_message,
};
pub use qp::Qp;
pub use reach::reach;
pub use report::{Format, render, render_case, render_performance};
pub use run::{CaseReport, Report, Selection, run, without};
pub use setup::Setup;
pub use stock::{Offer, Takes, Wanted};
pub use transcript::{Entry, Side};
pub use verdict::{Outcome, Stop, Verdict};
pub use windows::Window;
pub use wire::{FrameEnds, Incoming, Outgoing, Wire, WireError};
