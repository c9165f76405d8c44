//! How the tester reaches the agent.

use thiserror::Error;

use crate::{ProtocolError, Reply, Request};

/// Carries a request to the agent and brings its reply.
pub trait AgentLink {
    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// The agent is gone, or speaks something else; every later call fails as well.
    fn call(&mut self, request: &Request) -> Result<Reply, AgentError>;
}

/// Why the agent does not answer.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The connection to the agent failed.
    #[error("the agent is gone: {0}")]
    Gone(#[from] ProtocolError),
}
