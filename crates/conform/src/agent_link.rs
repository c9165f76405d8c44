//! How the tester reaches the agent.

use thiserror::Error;

use crate::{Offer, ProtocolError, Reply, Request, Stop, Wanted};

/// Carries a request to the agent and brings its reply.
pub trait AgentLink {
    /// Asks, and waits for the answer. While it waits it calls `waiting` every few milliseconds: what comes from the NIC under
    /// test meanwhile is to be seen when it comes.
    ///
    /// # Errors
    /// The agent is gone, or speaks something else; every later call fails as well. Or there is no agent that could.
    fn call(&mut self, request: &Request, waiting: &mut dyn FnMut()) -> Result<Reply, AgentError>;

    /// A queue pair that a stock program has made by itself. `None` from an agent, which makes queue pairs as it is told.
    ///
    /// # Errors
    /// The programs are gone, or none makes such a queue pair.
    fn offer(&mut self, wanted: &Wanted) -> Result<Option<Offer>, AgentError> {
        let _ = wanted;
        Ok(None)
    }

    /// True if the card says what the device has; stock programs do not tell that.
    fn knows_device(&self) -> bool {
        true
    }
}

/// Why the agent does not answer.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The connection to the agent failed.
    #[error("the agent is gone: {0}")]
    Gone(#[from] ProtocolError),
    /// The stock programs are gone.
    #[error("{0}")]
    NoProgram(String),
    /// There is no agent, and no stock program can do this.
    #[error("needs an agent: {0}")]
    NeedsAgent(String),
}

impl AgentError {
    /// What it means for a case.
    pub(crate) fn into_stop(self) -> Stop {
        match self {
            AgentError::NeedsAgent(_) => Stop::NotApplicable(self.to_string()),
            AgentError::Gone(_) | AgentError::NoProgram(_) => Stop::Lost(self.to_string()),
        }
    }
}

/// The reply was of another kind than the request.
pub(crate) fn wrong_reply<T>(reply: Reply) -> Result<T, Stop> {
    Err(Stop::Lost(format!("the agent answered something else than it was asked: {reply:?}")))
}
