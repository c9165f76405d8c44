//! Connections to the other processes on the address.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, SendFlags};
use uroce_wire::Slot;

use super::namespace::{PortNamespace, connect, connect_to_service};

/// Time for which a slot without a process is not tried again: packets to ended processes may be
/// many.
const ABSENT_TTL: Duration = Duration::from_millis(5);

/// Time to wait for a process that does not keep up. It is waited for once; until it reads again,
/// packets to it are lost, as with every full receive buffer.
const SEND_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };

/// State of the connection to one slot.
#[derive(Debug)]
enum Connection {
    /// No process had the slot at that time.
    Absent(Instant),
    /// A connection to its process; `stuck`: the process does not keep up.
    Open { socket: OwnedFd, stuck: bool },
}

/// Connections to all slots that packets were for.
#[derive(Debug)]
pub(crate) struct Connections {
    namespace: PortNamespace,
    connections: Box<[Option<Connection>]>,
}

/// The process is gone, or does not keep up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Undelivered;

impl Connections {
    pub(crate) fn new(namespace: PortNamespace) -> Self {
        Self { namespace, connections: (0..=u8::MAX).map(|_| None).collect() }
    }

    /// Whether a process has the slot, as far as is known. One that cannot be reached for the moment has it: what is for it
    /// must not be answered by another one.
    pub(crate) fn reaches(&mut self, slot: Slot) -> bool {
        let namespace = self.namespace;
        let link = &mut self.connections[usize::from(slot.get())];
        match link {
            Some(Connection::Open { .. }) => return true,
            Some(Connection::Absent(since)) if since.elapsed() < ABSENT_TTL => return false,
            _ => {}
        }
        let found = namespace.slot(slot).and_then(|name| connect(namespace, &name));
        *link = match found {
            Ok(socket) => Some(Connection::Open { socket, stuck: false }),
            Err(error) if is_nobody(&error) => {
                tracing::debug!(%slot, %error, "no process to hand packets to");
                Some(Connection::Absent(Instant::now()))
            }
            Err(error) => {
                tracing::debug!(%slot, %error, "the process cannot be reached");
                None
            }
        };
        !matches!(link, Some(Connection::Absent(_)))
    }

    /// Sends a message to the process that has the slot.
    pub(crate) fn send(&mut self, slot: Slot, message: &[u8]) -> Result<(), Undelivered> {
        let link = &mut self.connections[usize::from(slot.get())];
        let Some(Connection::Open { socket, stuck }) = link else { return Err(Undelivered) };
        match deliver(socket, message, stuck) {
            Ok(()) => Ok(()),
            Err(Errno::AGAIN) => Err(Undelivered),
            Err(error) => {
                tracing::debug!(%slot, %error, "the process is gone");
                *link = None;
                Err(Undelivered)
            }
        }
    }
}

/// Sends at once, or within [`SEND_TIMEOUT`] unless the process is stuck.
fn deliver(socket: &OwnedFd, message: &[u8], stuck: &mut bool) -> Result<(), Errno> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let mut sent = net::send(socket, message, flags);
    if sent == Err(Errno::AGAIN) && !*stuck {
        let mut waits = [PollFd::new(socket, PollFlags::OUT)];
        poll(&mut waits, Some(&SEND_TIMEOUT)).ok();
        sent = net::send(socket, message, flags);
    }
    *stuck = sent == Err(Errno::AGAIN);
    sent.map(drop)
}

/// Time for which a connection to the process that listens on a service ID is used: another process
/// may listen afterwards.
const SERVICE_CACHE_TTL: Duration = Duration::from_millis(20);

/// Most cached services.
const MAX_CACHED: usize = 64;

/// Whether nobody listens at a slot or on a service ID, or another user does. Any other error is of a process that does not keep
/// up, or of ours, which has no descriptor left: a caller that is told that nobody listens would give up.
pub(crate) fn is_nobody(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::CONNREFUSED | Errno::PERM))
}

/// Connections to processes by the service ID that they listen on.
#[derive(Debug)]
pub(crate) struct ServiceConnections {
    namespace: PortNamespace,
    cached: HashMap<u64, (Instant, OwnedFd)>,
}

impl ServiceConnections {
    pub(crate) fn new(namespace: PortNamespace) -> Self {
        Self { namespace, cached: HashMap::new() }
    }

    /// Whether the process that listens on the service ID was found a moment ago.
    pub(crate) fn is_cached(&mut self, service: u64, now: Instant) -> bool {
        self.cached
            .retain(|_, (since, _)| now.saturating_duration_since(*since) < SERVICE_CACHE_TTL);
        self.cached.contains_key(&service)
    }

    /// Sends one message to the process that listens on `service`. See [`is_nobody`] for an error.
    pub(crate) fn send(&mut self, service: u64, now: Instant, message: &[u8]) -> io::Result<()> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if let Some((_, socket)) = self.cached.get(&service) {
            match net::send(socket, message, flags) {
                Ok(_) => return Ok(()),
                // Another connection would be a way around the limit on what waits for the process.
                Err(Errno::AGAIN) => return Err(Errno::AGAIN.into()),
                Err(_) => drop(self.cached.remove(&service)),
            }
        }
        let socket = connect_to_service(self.namespace, service)?;
        net::send(&socket, message, flags)?;
        if self.cached.len() < MAX_CACHED {
            self.cached.insert(service, (now, socket));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
