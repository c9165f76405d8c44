//! Recorded requests played to a queue pair, and its answers beside the recorded ones.
//!
//! ```text
//!  frames -> [`Recorder`] -> [`Recording`] -> [`play`] -> [`Report`]
//!                            one responder    a queue pair in    answers of then and now,
//!                                             virtual time       what differs
//! ```
//!
//! Nothing here opens a file, reads a clock or sleeps: the times are those of the recording, so that
//! the same capture always gives the same report.
#![forbid(unsafe_code)]

mod answer;
mod answers;
mod compare;
mod device;
mod error;
mod faulty;
mod limits;
mod lost;
mod matching;
mod memory;
mod play;
mod receives;
mod recorder;
mod recording;
mod rekey;
mod remote;
mod report;
mod request;
mod setup;
mod text;

pub use answer::Answer;
pub use compare::Options;
pub use error::ReplayError;
pub use limits::Limits;
pub use play::{Device, play};
pub use recorder::Recorder;
pub use recording::{Recording, Side};
pub use remote::{Remote, RemoteRequest};
pub use report::{Difference, Line, Mark, Report, RuleOutcome, Turns, Verdict};
pub use request::Request;
pub use setup::{RegionSetup, Setup};
pub use uroce_memory::Access;
