//! Connections to the other processes on the address.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, SendFlags};
use uroce_wire::Slot;

use super::place::{Place, connect, connect_to_service};

/// How long a slot without a process is not asked for again: packets of the dead may be many.
const ABSENCE: Duration = Duration::from_millis(5);

/// How long to wait for a process that does not keep up. It is waited for once; until it takes
/// something again, what it is owed is lost, as with every full receive buffer.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };

/// What is known of one slot.
#[derive(Debug)]
enum Link {
    /// Nobody had it then.
    Absent(Instant),
    /// Its process.
    Open { socket: OwnedFd, stuck: bool },
}

/// One link for each slot that packets were for.
#[derive(Debug)]
pub(crate) struct Links {
    place: Place,
    links: Box<[Option<Link>]>,
}

/// The process is gone, or does not keep up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost;

impl Links {
    pub(crate) fn new(place: Place) -> Self {
        Self { place, links: (0..=u8::MAX).map(|_| None).collect() }
    }

    /// Whether a process has the slot, as far as is known.
    pub(crate) fn reaches(&mut self, slot: Slot) -> bool {
        let place = self.place;
        let link = &mut self.links[usize::from(slot.get())];
        match link {
            Some(Link::Open { .. }) => return true,
            Some(Link::Absent(since)) if since.elapsed() < ABSENCE => return false,
            _ => {}
        }
        let found = place.slot(slot).and_then(|name| connect(place, &name));
        let next = match found {
            Ok(socket) => Link::Open { socket, stuck: false },
            Err(error) => {
                tracing::debug!(%slot, %error, "no process to hand packets to");
                Link::Absent(Instant::now())
            }
        };
        matches!(link.insert(next), Link::Open { .. })
    }

    /// Sends a letter to the process that has the slot.
    pub(crate) fn send(&mut self, slot: Slot, letter: &[u8]) -> Result<(), Lost> {
        let link = &mut self.links[usize::from(slot.get())];
        let Some(Link::Open { socket, stuck }) = link else { return Err(Lost) };
        match deliver(socket, letter, stuck) {
            Ok(()) => Ok(()),
            Err(Errno::AGAIN) => Err(Lost),
            Err(error) => {
                tracing::debug!(%slot, %error, "the process is gone");
                *link = None;
                Err(Lost)
            }
        }
    }
}

/// Sends at once, or within [`PATIENCE`] unless that was tried before in vain.
fn deliver(socket: &OwnedFd, letter: &[u8], stuck: &mut bool) -> Result<(), Errno> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let mut sent = net::send(socket, letter, flags);
    if sent == Err(Errno::AGAIN) && !*stuck {
        let mut waits = [PollFd::new(socket, PollFlags::OUT)];
        poll(&mut waits, Some(&PATIENCE)).ok();
        sent = net::send(socket, letter, flags);
    }
    *stuck = sent == Err(Errno::AGAIN);
    sent.map(drop)
}

/// How long a connection to the process that takes calls to a service is used: another one may take them
/// afterwards.
const ACQUAINTANCE: Duration = Duration::from_millis(20);

/// Services that are known at a time.
const MAX_KNOWN: usize = 64;

/// Connections to processes that take calls.
#[derive(Debug)]
pub(crate) struct ServiceLinks {
    place: Place,
    known: HashMap<u64, (Instant, OwnedFd)>,
}

impl ServiceLinks {
    pub(crate) fn new(place: Place) -> Self {
        Self { place, known: HashMap::new() }
    }

    /// Whether a letter for the service goes to a process that was found a moment ago.
    pub(crate) fn knows(&mut self, service: u64, now: Instant) -> bool {
        self.known.retain(|_, (since, _)| now.saturating_duration_since(*since) < ACQUAINTANCE);
        self.known.contains_key(&service)
    }

    /// Sends one letter to the process that takes calls to `service`.
    pub(crate) fn send(&mut self, service: u64, now: Instant, letter: &[u8]) -> io::Result<()> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if let Some((_, socket)) = self.known.get(&service) {
            if net::send(socket, letter, flags).is_ok() {
                return Ok(());
            }
            self.known.remove(&service);
        }
        let socket = connect_to_service(self.place, service)?;
        net::send(&socket, letter, flags)?;
        if self.known.len() < MAX_KNOWN {
            self.known.insert(service, (now, socket));
        }
        Ok(())
    }
}
