//! Sessions over TCP.

use std::io::{self, BufReader};
use std::net::TcpStream;
use std::rc::Rc;

use thiserror::Error;
use uroce_conform::{
    Card, ProtocolError, Reply, Request, VERSION, limits, read_message, write_message,
};

use crate::device::{Choice, Device, DeviceError};
use crate::session::Session;
use crate::timed::Timed;

/// Bytes of a token that is made up.
const TOKEN_BYTES: usize = 9;

/// Why a session did not begin, or ended other than by the tester's wish.
#[derive(Debug, Error)]
pub enum AgentFailure {
    /// The client does not know the token.
    #[error("a stranger was refused: the token is another one")]
    Stranger,
    /// The client has another version.
    #[error("a tester of protocol version {theirs} was refused: this is version {VERSION}")]
    OtherVersion {
        /// Its version.
        theirs: u32,
    },
    /// The first request was no greeting.
    #[error("a peer was refused: it is no tester")]
    NoTester,
    /// No request came, or something meaningless.
    #[error("a peer did not greet: {0}")]
    NoGreeting(#[source] ProtocolError),
    /// The connection failed, or something meaningless came.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
}

impl AgentFailure {
    /// The client was let in, and the session ended early.
    pub fn was_session(&self) -> bool {
        matches!(self, AgentFailure::Protocol(_))
    }
}

/// The device under test, ready for sessions.
pub struct Agent {
    device: Rc<Device>,
    token: String,
}

/// A token that cannot be guessed.
///
/// # Errors
/// The system has no random numbers.
pub fn random_token() -> io::Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Agent {
    /// Loads libibverbs and opens the device.
    ///
    /// # Errors
    /// There is none.
    pub fn open(choice: &Choice, token: String) -> Result<Agent, DeviceError> {
        Ok(Agent { device: Rc::new(Device::open(choice)?), token })
    }

    /// What is under test.
    pub fn card(&self) -> &Card {
        &self.device.card
    }

    /// Serves one tester until it goes. All objects of the session are destroyed then.
    ///
    /// # Errors
    /// [`AgentFailure`]: the next tester may come.
    pub fn serve(&self, stream: &TcpStream) -> Result<(), AgentFailure> {
        for done in [stream.set_nodelay(true), stream.set_write_timeout(Some(limits::IDLE))] {
            done.map_err(|error| AgentFailure::NoGreeting(error.into()))?;
        }
        let mut input = BufReader::new(Timed::new(stream, limits::GREETING));
        let mut output = stream;
        self.greet(&mut input, &mut output)?;
        let mut session = Session::new(&self.device);
        loop {
            input.get_mut().wait(limits::IDLE);
            let request = match read_message::<Request>(&mut input) {
                Ok(request) => request,
                Err(ProtocolError::Connection(error))
                    if error.kind() == io::ErrorKind::UnexpectedEof =>
                {
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            };
            let reply = session.handle(request);
            write_message(&mut output, &reply)?;
        }
    }

    fn greet(
        &self,
        input: &mut BufReader<Timed<'_>>,
        output: &mut &TcpStream,
    ) -> Result<(), AgentFailure> {
        let refusal = match read_message::<Request>(input).map_err(AgentFailure::NoGreeting)? {
            Request::Hello { version, token } => {
                if !same(token.as_bytes(), self.token.as_bytes()) {
                    AgentFailure::Stranger
                } else if version != VERSION {
                    AgentFailure::OtherVersion { theirs: version }
                } else {
                    let card = self.device.card.clone();
                    return Ok(write_message(output, &Reply::Welcome { card })?);
                }
            }
            _ => AgentFailure::NoTester,
        };
        let refused = Reply::Refused { why: refusal.to_string() };
        write_message(output, &refused).map_err(AgentFailure::NoGreeting)?;
        Err(refusal)
    }
}

/// Compares in a time that does not tell how much is right.
fn same(one: &[u8], other: &[u8]) -> bool {
    let difference = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_are_compared_whole() {
        let (one, other) = (random_token().expect("random"), random_token().expect("random"));
        assert!(one.len() == 2 * TOKEN_BYTES && one != other);
        assert!(same(b"abc", b"abc") && !same(b"abc", b"abd") && !same(b"abc", b"ab"));
    }
}
