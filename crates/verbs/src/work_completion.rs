//! Work completions.

use std::time::Duration;

use thiserror::Error;
/// A work completion (`ibv_wc`). [`is_ok`](WorkCompletion::is_ok) tells success from failure,
/// [`result`](WorkCompletion::result) turns a failure into an error that explains itself.
pub use uroce_device::transport::Wc as WorkCompletion;
pub use uroce_device::transport::WorkError;

/// Nothing completed in the time given.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "no completion within {waited:?}: was the work request signalled, and is the peer connected?"
)]
pub struct WaitError {
    /// The time.
    pub waited: Duration,
}

uroce_memory::debug_is_display!(WaitError);
