//! The one error of this program: a sentence for the person at the terminal.

use std::fmt;

/// What happened, whose fault it is and what to do, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(String);

/// Short form used by every module.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error that says `sentence`.
    pub fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Adds what was being done to a lower-level error.
pub trait Context<T> {
    /// Prefixes the error with `what()`.
    fn context<S: fmt::Display>(self, what: impl FnOnce() -> S) -> Result<T>;
}

impl<T, E: fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context<S: fmt::Display>(self, what: impl FnOnce() -> S) -> Result<T> {
        self.map_err(|error| Error(format!("{}: {error}", what())))
    }
}
