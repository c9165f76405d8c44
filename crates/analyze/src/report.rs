//! What a capture tells, on a page.
//!
//! [`Analysis`] takes the frames of a capture and makes a [`Report`]: a value, which is written as
//! text by [`Report::to_text`] and as JSON by serde.

mod analysis;
mod calendar;
mod capture;
mod capture_lines;
mod conversation;
mod counters;
mod finding;
mod known;
mod message;
mod remark;
mod seen;
mod table;
mod text;
mod verdict;

pub use analysis::{Analysis, AnalysisConfig, closed_by};
pub use capture::{CaptureSummary, IcrcCounts};
pub use conversation::{ConversationRow, EndRow, FlowRow, Quantiles, SentAgain, VerbRow};
pub use counters::{COUNTERS, Counter, EndCounters};
pub use finding::FindingRow;
pub use known::Known;
pub use message::MessageRow;
pub use remark::{first_sent, is_dropped, is_trouble, remarks};
pub use seen::Seen;
use serde::Serialize;
pub use verdict::{Grade, Verdict};
pub(crate) use verdict::{not_analysed, not_captured};

/// Version of the JSON form: it rises when a key changes its meaning or goes away.
pub const REPORT_VERSION: u32 = 1;

/// What a capture tells.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// [`REPORT_VERSION`].
    pub version: u32,
    /// Name of the capture.
    pub source: String,
    /// All of it in one sentence.
    pub verdict: Verdict,
    /// What was captured.
    pub capture: CaptureSummary,
    /// Pairs of queue pairs, in the order in which they were first seen.
    pub conversations: Vec<ConversationRow>,
    /// What went wrong, the gravest first.
    pub findings: Vec<FindingRow>,
    /// Messages that took longest, the slowest one first.
    pub slowest_messages: Vec<MessageRow>,
}

#[cfg(test)]
mod tests;
