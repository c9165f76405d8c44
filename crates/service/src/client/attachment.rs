//! A place with the service.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thiserror::Error;
use uroce_wire::Slot;

use crate::control::{ControlSocket, Datagram};
use crate::message::{ClientMessage, ServedAddress, ServiceMessage, SlotToken};
use crate::ring::{ARRIVED, MEMORY, RingReceiver, RingSender, SENT};
use crate::sys::shared_memory::SharedMemory;

/// Time to wait for the place, when a device is opened.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval between two attempts to find it.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Why a process gets no place with the service. The text says what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AttachRefused {
    /// Nobody listens, or this process may not connect.
    #[error(
        "no service answers at {}: {source} (is it running? `systemctl status uroce-serve`, or start `uroce serve \
         {address}`; its socket must let this user in, and UROCE_SERVE_SOCKET name it)", socket.display()
    )]
    NoService {
        /// Where its socket should be.
        socket: PathBuf,
        /// The address that was asked for.
        address: std::net::IpAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The service has refused.
    #[error("the service at {} gives no place: {why}", socket.display())]
    Refused {
        /// Where its socket is.
        socket: PathBuf,
        /// What it said.
        why: String,
    },
}

impl AttachRefused {
    /// The `errno` for the C interface.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Self::NoService { source, .. } => source.raw_os_error(),
            Self::Refused { .. } => Some(rustix::io::Errno::ACCESS.raw_os_error()),
        }
    }
}

/// What the client has of a service.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) control: ControlSocket,
    pub(crate) memory: SharedMemory,
    pub(super) sent: RingSender,
    pub(super) arrived: RingReceiver,
    pub(crate) slot: Slot,
    pub(super) token: SlotToken,
    pub(super) served: ServedAddress,
}

/// The next message, waited for until `end`; `None` if none came.
pub(crate) fn await_message(control: &ControlSocket, end: Instant) -> io::Result<Option<Datagram>> {
    loop {
        if let Some(datagram) = control.receive()? {
            return Ok(Some(datagram));
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let timeout = Timespec::try_from(left).ok();
        poll(&mut [PollFd::new(control, PollFlags::IN)], timeout.as_ref()).ok();
    }
}

impl Attachment {
    /// Asks for a place and waits for it.
    pub(crate) fn open(socket: &Path, local: SocketAddr) -> Result<Self, AttachRefused> {
        let no_service = |source| {
            let (socket, address) = (socket.to_owned(), local.ip());
            AttachRefused::NoService { socket, address, source }
        };
        let control = request(socket, local, None).map_err(no_service)?;
        let answer = await_message(&control, Instant::now() + ATTACH_TIMEOUT);
        let answer = answer.map_err(no_service)?;
        let answer = answer.ok_or_else(|| no_service(io::ErrorKind::TimedOut.into()))?;
        let refused = |why| AttachRefused::Refused { socket: socket.to_owned(), why };
        Self::complete(control, answer).map_err(no_service)?.map_err(refused)
    }

    /// The place that the service has given, or why it gives none.
    pub(super) fn complete(
        control: ControlSocket,
        answer: Datagram,
    ) -> io::Result<Result<Self, String>> {
        match ServiceMessage::decode(answer.bytes()) {
            Some(ServiceMessage::Attached(slot, token, served)) => {
                let [file, _] = answer.descriptors;
                let file = file.ok_or(io::ErrorKind::InvalidData)?;
                let memory = SharedMemory::open(&file, MEMORY)?;
                let (sent, arrived) = (RingSender::new(SENT), RingReceiver::new(ARRIVED));
                Ok(Ok(Self { control, memory, sent, arrived, slot, token, served }))
            }
            Some(ServiceMessage::Refused(why)) => Ok(Err(why)),
            _ => Err(io::Error::other("it is of another version than this program")),
        }
    }
}

/// Asks for a place, or for the one that this client had.
pub(super) fn request(
    socket: &Path,
    local: SocketAddr,
    had: Option<(Slot, SlotToken)>,
) -> io::Result<ControlSocket> {
    let control = ControlSocket::connect(socket)?;
    control.send(&ClientMessage::Attach(local, had).encode())?;
    Ok(control)
}

/// The service as the client sees it.
#[derive(Debug)]
pub(super) enum ServiceState {
    /// It has our rings.
    Up(Box<Attachment>),
    /// It has gone, and perhaps come back.
    Gone { since: Instant, next_try: Instant, asked: Option<ControlSocket> },
}

/// Event number of the connection to the service.
pub(super) const CONTROL: u64 = 0;
/// Event number of the wake-ups that another thread has read.
pub(super) const REWAKE: u64 = 1;
/// Event number of the first link.
pub(super) const FIRST_LINK: u64 = 2;

/// Makes `epoll` readable, with that number, whenever there is something to read from `socket`.
pub(super) fn watch(epoll: &OwnedFd, socket: impl AsFd, number: u64) -> io::Result<()> {
    Ok(epoll::add(epoll, socket, EventData::new_u64(number), EventFlags::IN)?)
}
