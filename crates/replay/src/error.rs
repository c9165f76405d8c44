//! Why a recording cannot be played.

use thiserror::Error;

/// Why a recording cannot be played.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// There is no request that could be played.
    #[error(
        "no request of the conversation can be played: the capture has no first packet of a message"
    )]
    NoRequest,
    /// There is nothing to compare with.
    #[error("the capture has requests and no answer to them; capture both directions")]
    NoAnswer,
    /// The requests name more memory than is allowed.
    #[error(
        "the requests name {bytes} bytes of memory, the last of them under rkey {rkey:#010x}; the limit is {limit}"
    )]
    TooMuchMemory {
        /// Bytes so far.
        bytes: u64,
        /// The key that went beyond the limit.
        rkey: u32,
        /// [`crate::Limits::memory`].
        limit: u64,
    },
    /// The requests name more keys than is allowed.
    #[error("the requests name more than {limit} keys")]
    TooManyKeys {
        /// [`crate::Limits::keys`].
        limit: usize,
    },
    /// The queue pair answered more than is kept.
    #[error("the queue pair answered more than {limit} packets")]
    TooManyAnswers {
        /// [`crate::Limits::answers`].
        limit: usize,
    },
    /// The queue pair could not be set up; the text says why.
    #[error("the queue pair cannot be set up as the recording has it: {0}")]
    Setup(String),
}
