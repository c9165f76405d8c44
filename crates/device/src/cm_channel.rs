//! Where applications hear of their connections.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use uroce_cm::{
    Ari, CommId, ConnectionReply, ConnectionRequest, IpCm, Link, RejReason, ServiceId, SidrStatus,
};
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

/// The kinds of events, with the names of rdma_cm (`enum rdma_cm_event_type`).
///
/// The messages do not carry the length of private data. So private data that arrived is filled up with zeros to the
/// length that its message has room for; put a length into it if the application needs one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CmEventKind {
    /// The peer's address can be reached from this device: the answer to `resolve_addr`.
    AddrResolved,
    /// There is a path to the peer: the answer to `resolve_route`.
    RouteResolved,
    /// A name was looked up, or is not known: the answer to `rdma_resolve_addrinfo` in C programs.
    AddrinfoResolved {
        /// An errno value; 0: it is known.
        errno: i32,
    },
    /// What an application tells itself (`rdma_write_cm_event` in C programs).
    User {
        /// Its status.
        status: i32,
        /// Its argument.
        arg: u64,
    },
    /// The datagrams of a multicast group arrive from now on: the answer to `rdma_join_multicast` in C programs.
    MulticastJoined {
        /// The group.
        group: IpAddr,
    },
    /// A peer asks a listener for a connection: accept it, or reject it.
    ConnectRequest(Box<ConnectionRequest>),
    /// The connection is established, and its queue pair is in RTS.
    Established {
        /// What the peer says in its REP; `None` at the passive side.
        reply: Option<ConnectionReply>,
        /// Private data of the peer: 196 bytes of its REP at the active side, 224 of its RTU at the passive side; empty
        /// if a packet of the peer said first that the connection is established.
        private_data: Box<[u8]>,
    },
    /// The peer accepted, and the application itself moves its queue pair to RTS and calls `establish`. Only after
    /// [`ConnectionManager::connect_only`](crate::ConnectionManager::connect_only), which C programs use that connect
    /// without a queue pair.
    Accepted {
        /// Values for the queue pair.
        link: Box<Link>,
        /// What the peer says.
        reply: ConnectionReply,
        /// Private data of the peer, 196 bytes.
        private_data: Box<[u8]>,
    },
    /// The peer refused the connection; nothing listens at that port if the reason is
    /// [`RejReason::INVALID_SERVICE_ID`].
    Rejected {
        /// Why the peer refused.
        reason: RejReason,
        /// What the peer tells beside the reason; [`Ari::with`] has both in words.
        ari: Ari,
        /// Private data of the peer, 148 bytes.
        private_data: Box<[u8]>,
    },
    /// The peer accepted, but the queue pair of this side could not be moved to RTS; the error says why.
    ConnectError(ModifyError),
    /// The peer did not answer in all retries: no route, no device at that address, or a firewall. The device
    /// knows it about 25 seconds after `connect`, and 16 after `resolve_service`.
    Unreachable,
    /// The connection ended, by this side or by the peer; its queue pair is in the error state.
    Disconnected {
        /// This side has ended it, and the peer has answered no DREQ.
        unanswered: bool,
        /// Private data of the peer, 220 bytes of its DREQ or 224 of its DREP; empty if it sent neither.
        private_data: Box<[u8]>,
    },
    /// The queue pair number may be used again: packets of the connection can no longer be on the way.
    TimewaitExit,
    /// A peer asks a listener which UD queue pair serves its port (SIDR_REQ): answer it, or reject it.
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
    /// The peer said which UD queue pair serves the port, or that none does (SIDR_REP).
    Resolved {
        /// [`SidrStatus::VALID`] if there is such a queue pair; with any other status the fields below mean nothing.
        status: SidrStatus,
        /// The queue pair to send datagrams to.
        qpn: Qpn,
        /// The Q_Key that datagrams to that queue pair must carry.
        qkey: u32,
        /// Private data of the peer, 136 bytes.
        private_data: Box<[u8]>,
    },
}

impl CmEventKind {
    /// A peer waits for an answer of the application.
    pub fn is_request(&self) -> bool {
        matches!(self, CmEventKind::ConnectRequest(_) | CmEventKind::ResolveRequest { .. })
    }
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
        // Each bound id has a descriptor, and a program that sleeps for events starts its thread behind this call.
        uroce_host::make_room_for_descriptors();
        // A connection has few events, and the number of connections is limited; the others are as many as the
        // application posts.
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
        self.0.read()
    }

    /// The next event if one waits, for a caller that has slept in read(2) of the descriptor, and taken nothing else from it.
    pub fn event_after_read(&self) -> Option<CmEvent> {
        self.0.pop_after_read(|_| ())
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

    /// Adds an event of the application's own, which is delivered in order with the others, also if an equal one waits.
    /// Events wait until they are fetched, however many there are.
    pub fn post(&self, event: CmEvent) {
        self.0.append(event);
    }

    /// Moves the events that `which` names to another channel, in order, with another cookie.
    pub fn hand_over(&self, to: &CmChannel, cookie: u64, mut which: impl FnMut(&CmEvent) -> bool) {
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

    /// Forgets events that wait, and that `which` names: of the application's own, which nothing else takes back.
    pub fn discard(&self, which: impl Fn(&CmEvent) -> bool) {
        self.0.retain(|event| !which(event));
    }

    /// Forgets the requests that wait, and that `which` names, since nobody will fetch them: the ids to be released.
    pub fn discard_requests(&self, which: impl Fn(&CmEvent) -> bool) -> Vec<CommId> {
        let mut discarded = Vec::new();
        self.0.retain(|event| {
            let goes = event.kind.is_request() && which(event);
            discarded.extend(goes.then_some(event.id));
            !goes
        });
        discarded
    }

    /// Takes a request back that was not fetched. False: there is none.
    pub(crate) fn take_back(&self, id: CommId) -> bool {
        let mut found = false;
        self.0.retain(|event| {
            let is_it = event.id == id && event.kind.is_request();
            found |= is_it;
            !is_it
        });
        found
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
    fn equal_events_of_the_application_are_as_many_as_it_posts() {
        let channel = CmChannel::new().expect("eventfd");
        let event = CmEvent { cookie: 1, id: CommId::NONE, kind: CmEventKind::AddrResolved };
        (0..2).for_each(|_| channel.post(event.clone()));
        let got = std::iter::from_fn(|| channel.try_event());
        assert_eq!(got.collect::<Vec<_>>(), [event.clone(), event]);
    }

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
