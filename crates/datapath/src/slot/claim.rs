//! Taking a slot.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use uroce_wire::Slot;

use super::place::{Place, listen};

/// How long to wait for others that join. Who cannot wait joins all the same: some packets may then
/// take the longer way.
const PATIENCE: Duration = Duration::from_millis(500);

/// Between two tries.
const STEP: Duration = Duration::from_millis(1);

/// Held while a process joins or makes a survey, so that the order in which processes take slots is that in which their
/// sockets enter the group. The kernel opens it when the process dies.
#[derive(Debug)]
pub(crate) struct Door {
    _socket: Option<OwnedFd>,
}

impl Door {
    /// `None`: somebody else is there.
    pub(crate) fn try_enter(place: Place) -> io::Result<Option<Self>> {
        match listen(&place.door()?) {
            Ok(socket) => Ok(Some(Self { _socket: Some(socket) })),
            Err(error) if is_taken(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for its turn.
    pub(crate) fn enter(place: Place) -> io::Result<Self> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(door) = Self::try_enter(place)? {
                return Ok(door);
            }
            std::thread::sleep(STEP);
        }
        Ok(Self { _socket: None })
    }
}

/// A slot that this process has. Others connect to its socket to hand over packets.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) slot: Slot,
    pub(crate) socket: OwnedFd,
}

impl Claim {
    /// Takes the first slot that is free; `None` when all are taken.
    pub(crate) fn take(place: Place) -> io::Result<Option<Self>> {
        for slot in Slot::all() {
            match listen(&place.slot(slot)?) {
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
