//! Questions to a service by processes that need no place.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use super::attachment::await_message;
use crate::control::ControlSocket;
use crate::message::{ClientMessage, ServiceMessage};
use crate::network_namespace;

/// Time to wait for an answer. A service that the init system has yet to start needs longer than one that runs.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The name of the datapath on which the service at `socket` serves an address of this network namespace; `None`
/// if there is no service, or it does not serve the address.
#[must_use]
pub fn serves(socket: &Path, local: SocketAddr) -> Option<&'static str> {
    let control = ControlSocket::connect(socket).ok()?;
    control.send(&ClientMessage::Query(local).encode()).ok()?;
    let answer = await_message(&control, Instant::now() + ANSWER_TIMEOUT).ok()??;
    match ServiceMessage::decode(answer.bytes())? {
        ServiceMessage::Serves(served) if served.namespace == network_namespace() => {
            Some(served.datapath)
        }
        _ => None,
    }
}

/// The addresses of a service, its clients and what it has counted, one line each.
///
/// # Errors
///
/// When nobody answers at `socket`.
pub fn status(socket: &Path) -> io::Result<Vec<String>> {
    let control = ControlSocket::connect(socket)?;
    control.send(&ClientMessage::Status.encode())?;
    let end = Instant::now() + ANSWER_TIMEOUT;
    let mut lines = vec![];
    loop {
        match await_message(&control, end) {
            Ok(Some(datagram)) => match ServiceMessage::decode(datagram.bytes()) {
                Some(ServiceMessage::Line(line)) => lines.push(line),
                _ => return Err(io::ErrorKind::InvalidData.into()),
            },
            Ok(None) => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(lines),
            Err(error) => return Err(error),
        }
    }
}
