//! Questions to a service by processes that need no place.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use super::attachment::await_message;
use crate::control::ControlSocket;
use crate::message::{ClientMessage, ServiceMessage};
use crate::network_namespace;
use crate::status::AddressStatus;

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

/// The addresses of a service, its clients and what it has counted.
///
/// # Errors
///
/// When nobody answers at `socket`, or not what this version understands; [`PermissionDenied`](io::ErrorKind::PermissionDenied) with the
/// service's words if this user may not be a client.
pub fn status(socket: &Path) -> io::Result<Vec<AddressStatus>> {
    let control = ControlSocket::connect(socket)?;
    control.send(&ClientMessage::Status.encode())?;
    let end = Instant::now() + ANSWER_TIMEOUT;
    let mut found: Vec<AddressStatus> = vec![];
    loop {
        let datagram = match await_message(&control, end) {
            Ok(Some(datagram)) => datagram,
            Ok(None) => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(found),
            Err(error) => return Err(error),
        };
        match (ServiceMessage::decode(datagram.bytes()), found.last_mut()) {
            (Some(ServiceMessage::Address(local, counts, datapath)), _) => {
                let (drops, clients) = (vec![], vec![]);
                found.push(AddressStatus { local, datapath, counts, drops, clients });
            }
            (Some(ServiceMessage::Drop(count, reason)), Some(address)) => {
                address.drops.push((reason, count));
            }
            (Some(ServiceMessage::Client(client)), Some(address)) => address.clients.push(client),
            (Some(ServiceMessage::Refused(why)), _) => {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
