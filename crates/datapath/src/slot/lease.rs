//! Taking a slot.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use uroce_wire::Slot;

use super::namespace::{PortNamespace, listen};

/// How long to wait for others that join. Who cannot wait joins all the same: some packets may then
/// take the longer way.
const JOIN_TIMEOUT: Duration = Duration::from_millis(500);

/// Between two tries.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// Held while a process joins or makes a survey, so that the order in which processes take slots is that in which their
/// sockets enter the group. The kernel opens it when the process dies.
#[derive(Debug)]
pub(crate) struct JoinLock {
    _socket: Option<OwnedFd>,
}

impl JoinLock {
    /// `None`: somebody else is there.
    pub(crate) fn try_enter(namespace: PortNamespace) -> io::Result<Option<Self>> {
        match listen(&namespace.join_lock()?) {
            Ok(socket) => Ok(Some(Self { _socket: Some(socket) })),
            Err(error) if is_taken(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for its turn.
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

/// A slot that this process has. Others connect to its socket to hand over packets.
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

/// Somebody has that name.
pub(crate) fn is_taken(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::ADDRINUSE)
}
