//! Where applications hear of their connections.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use uroce_cm::{CommId, ConnectionRequest, IpCm, Link, RejReason, ServiceId, SidrStatus};
use uroce_wire::Qpn;

use crate::error::ModifyError;
use crate::event_list::EventList;
use crate::eventfd::wait_readable;

/// What happened to a connection, or to the resolution of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CmEvent {
    /// What the call that began it was given; for a request, what `ConnectionManager::listen` was given.
    pub cookie: u64,
    /// Our name for the connection or the resolution.
    pub id: CommId,
    /// What happened.
    pub kind: CmEventKind,
}

/// The kinds of events, in the terms of rdma_cm. Private data is as long as its message has room
/// for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CmEventKind {
    /// The peer's address can be reached from this device. Posted by layers above.
    AddrResolved,
    /// There is a path to it. Posted by layers above.
    RouteResolved,
    /// Datagrams of a multicast group come from now on. Posted by layers above.
    MulticastJoined {
        /// The group.
        group: IpAddr,
    },
    /// A call for a listener.
    ConnectRequest(Box<ConnectionRequest>),
    /// The connection stands, and its queue pair can send.
    Established {
        /// The peer's, of its REP or RTU.
        private_data: Box<[u8]>,
    },
    /// The peer accepted a call of [`ConnectionManager::connect_only`](crate::ConnectionManager::connect_only): the
    /// application readies its queue pair, and calls `establish`.
    Accepted {
        /// Values for the queue pair.
        link: Box<Link>,
        /// The peer's.
        private_data: Box<[u8]>,
    },
    /// The peer refused.
    Rejected {
        /// Why.
        reason: RejReason,
        /// The peer's.
        private_data: Box<[u8]>,
    },
    /// The peer accepted, but our queue pair could not be set up.
    ConnectError(ModifyError),
    /// The peer does not answer.
    Unreachable,
    /// The connection ended; its queue pair is in the error state.
    Disconnected {
        /// The peer's.
        private_data: Box<[u8]>,
    },
    /// The last packets of the connection have died out.
    TimewaitExit,
    /// A SIDR REQ has arrived.
    ResolveRequest {
        /// Service ID of the request.
        service_id: ServiceId,
        /// Address of the peer.
        remote: IpAddr,
        /// IP CM private-data header of the request.
        ip: Option<IpCm>,
        /// Private data of the request.
        private_data: Box<[u8]>,
    },
    /// A service of datagrams was found, or not.
    Resolved {
        /// Whether; if not, what follows means nothing.
        status: SidrStatus,
        /// The queue pair to send datagrams to.
        qpn: Qpn,
        /// What they must carry.
        qkey: u32,
        /// The peer's.
        private_data: Box<[u8]>,
    },
}

/// A channel of connection events (`rdma_event_channel`), for any number of connections and
/// devices. A clone is the same channel.
///
/// The descriptor is readable exactly while events wait. Fetch them with
/// [`next_event`](Self::next_event) only; do not read the descriptor.
#[derive(Debug, Clone)]
pub struct CmChannel(Arc<EventList<CmEvent>>);

impl CmChannel {
    /// # Errors
    /// EMFILE and the like: no descriptor for the eventfd.
    pub fn new() -> io::Result<Self> {
        // A connection has few events, and the number of connections is limited.
        Ok(CmChannel(Arc::new(EventList::new(usize::MAX)?)))
    }

    /// The next event; `None` as `timeout` waits for ever, zero only looks.
    ///
    /// # Errors
    /// What poll(2) says.
    pub fn next_event(&self, timeout: Option<Duration>) -> io::Result<Option<CmEvent>> {
        self.0.wait(timeout)
    }

    /// The next event, as read(2) of the descriptor would bring it: sleeps if a program made the descriptor blocking,
    /// and is interrupted by signals as read(2) is.
    ///
    /// # Errors
    /// EAGAIN: no event waits, and the descriptor does not block. EINTR: a signal handler ran that was installed
    /// without `SA_RESTART`.
    pub fn read_event(&self) -> io::Result<CmEvent> {
        self.0.read(|_| ())
    }

    /// Sleeps until an event waits, or the time is over; takes none.
    ///
    /// # Errors
    /// What poll(2) says.
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<()> {
        wait_readable(&[self.as_fd()], timeout)
    }

    /// The next event if one waits. Never sleeps.
    pub fn try_event(&self) -> Option<CmEvent> {
        self.0.pop()
    }

    /// Adds an event of the application's own, which is delivered in order with the others.
    pub fn post(&self, event: CmEvent) {
        self.0.push(event);
    }

    /// Moves the events that `which` names to another channel, in order, with another cookie.
    pub fn hand_over(&self, to: &CmChannel, cookie: u64, which: impl Fn(&CmEvent) -> bool) {
        let mut moved = Vec::new();
        self.0.retain(|event| {
            let goes = which(event);
            if goes {
                moved.push(CmEvent { cookie, ..event.clone() });
            }
            !goes
        });
        moved.into_iter().for_each(|event| to.post(event));
    }

    /// A released id leaves no event behind (B54).
    pub(crate) fn forget(&self, id: CommId) {
        self.0.retain(|event| event.id != id);
    }
}

impl AsFd for CmChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_handed_over_in_order() {
        let (old, new) = (CmChannel::new().expect("eventfd"), CmChannel::new().expect("eventfd"));
        for kind in [CmEventKind::AddrResolved, CmEventKind::RouteResolved] {
            old.post(CmEvent { cookie: 1, id: CommId::NONE, kind });
        }
        old.post(CmEvent { cookie: 2, id: CommId::NONE, kind: CmEventKind::Unreachable });
        old.hand_over(&new, 3, |event| event.cookie == 1);
        let got: Vec<_> = std::iter::from_fn(|| new.try_event()).collect();
        assert_eq!(got.iter().map(|event| event.cookie).collect::<Vec<_>>(), [3, 3]);
        assert_eq!(got[0].kind, CmEventKind::AddrResolved);
        assert_eq!(old.try_event().map(|event| event.cookie), Some(2));
        assert_eq!(old.try_event(), None);
    }
}
