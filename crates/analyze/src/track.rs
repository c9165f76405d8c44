//! From packets with times to knowledge about queue pairs.
//!
//! ```text
//!  packets -> [`Tracker`] -> an [`Annotation`] for each of them
//!                 |
//!                 +-> [`Flow`]: one direction, with its [`Figures`]
//!                 +-> [`Conversation`]: two flows, and how they were found to belong together
//!                 +-> [`Message`]: what one work request moved, once it is over
//! ```
//!
//! Memory is bounded by [`TrackerConfig`]; what falls out is counted in [`Summary`].

mod annotation;
mod answer_figures;
mod answers;
mod cause;
mod completion;
mod config;
mod connections;
mod damage;
mod damaged_requests;
mod figures;
mod flow;
mod flow_id;
mod histogram;
mod holes;
mod message;
mod open_messages;
mod pairing;
mod peers;
mod psn;
mod repeats;
mod requests;
mod retransmission_cause;
mod sightings;
mod slots;
mod spans;
mod summary;
mod table;
#[cfg(test)]
mod testkit;
#[cfg(test)]
mod tests;
mod tracker;
mod unanswered;

pub use annotation::{
    Acknowledged, Annotation, Gap, Missing, Outstanding, Retransmission, RnrWait, Role,
};
pub use config::TrackerConfig;
pub use connections::{Connection, Endpoint};
pub use figures::{Figures, Repeated, Values, VerbFigures};
pub use flow::{CapturePoint, Flow, FlowKey};
pub use flow_id::FlowId;
pub use histogram::Histogram;
pub use message::{Message, MessageId, Outcome, Verb};
pub use pairing::{Conversation, Pairing};
pub use psn::UnwrappedPsn;
pub use retransmission_cause::RetransmissionCause;
pub use summary::Summary;
pub use tracker::Tracker;
