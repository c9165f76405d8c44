//! Allocation of a slot.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use uroce_wire::Slot;

use super::namespace::{PortNamespace, listen};

/// Time to wait for other processes that join. After it a process joins all the same: some packets
/// may then be misrouted for a while.
const JOIN_TIMEOUT: Duration = Duration::from_millis(500);

/// Interval between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// Held while a process joins or probes the steering, so that processes take slots in the order in
/// which their sockets enter the port group. The kernel releases the lock when the process ends.
#[derive(Debug)]
pub(crate) struct JoinLock {
    _socket: Option<OwnedFd>,
}

impl JoinLock {
    /// `None`: another process holds the lock.
    pub(crate) fn try_enter(namespace: PortNamespace) -> io::Result<Option<Self>> {
        match listen(&namespace.join_lock()?) {
            Ok(socket) => Ok(Some(Self { _socket: Some(socket) })),
            Err(error) if is_taken(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for the lock.
    pub(crate) fn enter(namespace: PortNamespace) -> io::Result<Self> {
        let end = Instant::now() + JOIN_TIMEOUT;
        while Instant::now() < end {
            if let Some(join_lock) = Self::try_enter(namespace)? {
                return Ok(join_lock);
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
        Ok(Self { _socket: None })
    }
}

/// A slot of this process. Others connect to its socket to redirect packets.
#[derive(Debug)]
pub(crate) struct SlotLease {
    pub(crate) slot: Slot,
    pub(crate) socket: OwnedFd,
}

impl SlotLease {
    /// Takes the first slot that is free; `None` when all are taken.
    pub(crate) fn take(namespace: PortNamespace) -> io::Result<Option<Self>> {
        for slot in Slot::all() {
            match listen(&namespace.slot(slot)?) {
                Ok(socket) => return Ok(Some(Self { slot, socket })),
                Err(error) if is_taken(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// True if the name is taken.
pub(crate) fn is_taken(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::ADDRINUSE)
}

#[cfg(test)]
mod tests;
