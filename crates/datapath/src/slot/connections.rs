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

/// How long a slot without a process is not asked for again: packets of the dead may be many.
const ABSENT_TTL: Duration = Duration::from_millis(5);

/// How long to wait for a process that does not keep up. It is waited for once; until it takes
/// something again, what it is owed is lost, as with every full receive buffer.
const SEND_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };

/// What is known of one slot.
#[derive(Debug)]
enum Connection {
    /// Nobody had it then.
    Absent(Instant),
    /// Its process.
    Open { socket: OwnedFd, stuck: bool },
}

/// One link for each slot that packets were for.
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

    /// Whether a process has the slot, as far as is known.
    pub(crate) fn reaches(&mut self, slot: Slot) -> bool {
        let namespace = self.namespace;
        let link = &mut self.connections[usize::from(slot.get())];
        match link {
            Some(Connection::Open { .. }) => return true,
            Some(Connection::Absent(since)) if since.elapsed() < ABSENT_TTL => return false,
            _ => {}
        }
        let found = namespace.slot(slot).and_then(|name| connect(namespace, &name));
        let next = match found {
            Ok(socket) => Connection::Open { socket, stuck: false },
            Err(error) => {
                tracing::debug!(%slot, %error, "no process to hand packets to");
                Connection::Absent(Instant::now())
            }
        };
        matches!(link.insert(next), Connection::Open { .. })
    }

    /// Sends a letter to the process that has the slot.
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

/// Sends at once, or within [`PATIENCE`] unless that was tried before in vain.
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

/// How long a connection to the process that takes calls to a service is used: another one may take them
/// afterwards.
const SERVICE_CACHE_TTL: Duration = Duration::from_millis(20);

/// Services that are known at a time.
const MAX_CACHED: usize = 64;

/// Connections to processes that take calls.
#[derive(Debug)]
pub(crate) struct ServiceConnections {
    namespace: PortNamespace,
    cached: HashMap<u64, (Instant, OwnedFd)>,
}

impl ServiceConnections {
    pub(crate) fn new(namespace: PortNamespace) -> Self {
        Self { namespace, cached: HashMap::new() }
    }

    /// Whether a letter for the service goes to a process that was found a moment ago.
    pub(crate) fn is_cached(&mut self, service: u64, now: Instant) -> bool {
        self.cached
            .retain(|_, (since, _)| now.saturating_duration_since(*since) < SERVICE_CACHE_TTL);
        self.cached.contains_key(&service)
    }

    /// Sends one letter to the process that takes calls to `service`.
    pub(crate) fn send(&mut self, service: u64, now: Instant, message: &[u8]) -> io::Result<()> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if let Some((_, socket)) = self.cached.get(&service) {
            if net::send(socket, message, flags).is_ok() {
                return Ok(());
            }
            self.cached.remove(&service);
        }
        let socket = connect_to_service(self.namespace, service)?;
        net::send(&socket, message, flags)?;
        if self.cached.len() < MAX_CACHED {
            self.cached.insert(service, (now, socket));
        }
        Ok(())
    }
}
