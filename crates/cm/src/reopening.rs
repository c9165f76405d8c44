//! Requests for a service that will have a listener in a moment: a port was bound for it, or its
//! listener has just gone. A server may close its listener and listen again at once, as perftest's
//! does between the connection on which the ends exchange their parameters and the one that is
//! measured; its client, which knows nothing of that, calls in between. Another binds a port, tells
//! its client, and then listens. The request waits a moment before it is refused.

use std::collections::BTreeMap;
use std::net::IpAddr;

use uroce_wire::DropReason;

use crate::limits::{MAX_EARLY, MAX_EXPECTED, REOPENING};
use crate::message::Message;
use crate::time::Time;
use crate::{CommId, ServiceId};

/// A REQ or SIDR_REQ that waits for a listener.
#[derive(Debug)]
pub(crate) struct Early {
    pub(crate) peer: IpAddr,
    pub(crate) tid: u64,
    pub(crate) service_id: ServiceId,
    pub(crate) message: Message,
}

impl Early {
    /// The same request, sent again.
    fn is_copy_of(&self, other: &Early) -> bool {
        (self.peer, self.tid, self.service_id) == (other.peer, other.tid, other.service_id)
    }

    /// A REQ for the same queue pair of the same caller.
    fn is_of_queue_pair(&self, other: &Early) -> bool {
        match (&self.message, &other.message) {
            (Message::Req(one), Message::Req(two)) => {
                (self.peer, one.local_qpn) == (other.peer, two.local_qpn)
            }
            _ => false,
        }
    }
}

/// Services that are about to have a listener, and the requests for them.
#[derive(Debug, Default)]
pub(crate) struct Reopening {
    /// Until when requests for a service wait. Listeners are closed by the application, so it is
    /// for it to say how many there are.
    expected: BTreeMap<ServiceId, Time>,
    /// At most [`MAX_EARLY`].
    early: Vec<Early>,
}

impl Reopening {
    /// A listener was closed.
    pub(crate) fn close(&mut self, now: Time, service_id: ServiceId) {
        self.expected.insert(service_id, now.saturating_add(REOPENING));
    }

    /// A port was bound to listen on it. Does nothing if [`MAX_EXPECTED`] services wait already:
    /// applications that only call bind ports as well.
    pub(crate) fn expect(&mut self, now: Time, service_id: ServiceId) {
        // Those whose time is over stay until `due` has their requests, which nobody would answer otherwise.
        if self.expected.values().filter(|until| **until > now).count() < MAX_EXPECTED {
            self.expected.insert(service_id, now.saturating_add(REOPENING));
        }
    }

    /// The service has a listener: the requests that waited for it.
    pub(crate) fn open(&mut self, service_id: ServiceId) -> Vec<Early> {
        self.expected.remove(&service_id);
        self.early.extract_if(.., |early| early.service_id == service_id).collect()
    }

    /// Keeps a request for a service that may come back; `false`: it will not, or too many wait.
    fn keep(&mut self, now: Time, request: Early) -> bool {
        if is_over(&self.expected, request.service_id, now) {
            return false;
        }
        if self.early.iter().any(|early| early.is_copy_of(&request)) {
            return true;
        }
        // A queue pair has one call at a time: an older one is over.
        self.early.retain(|early| !early.is_of_queue_pair(&request));
        let room = self.early.len() < MAX_EARLY;
        if room {
            self.early.push(request);
        }
        room
    }

    /// True if a request that was refused, because of `why`, is kept: its service may have a listener again soon.
    pub(crate) fn keep_refused(
        &mut self,
        now: Time,
        why: DropReason,
        request: impl FnOnce() -> Early,
    ) -> bool {
        why == DropReason::CmNoListener && self.keep(now, request())
    }

    /// The caller has taken its call back, which it knows by this id. True if the request waited here.
    pub(crate) fn take_back(&mut self, peer: IpAddr, id: CommId, guid: u64) -> bool {
        let before = self.early.len();
        self.early.retain(|early| match &early.message {
            Message::Req(req) => {
                (early.peer, req.local_comm_id, req.local_ca_guid) != (peer, id, guid)
            }
            _ => true,
        });
        self.early.len() < before
    }

    /// The requests that have waited long enough.
    pub(crate) fn due(&mut self, now: Time) -> Vec<Early> {
        let expected = &self.expected;
        let over = |early: &mut Early| is_over(expected, early.service_id, now);
        let due = self.early.extract_if(.., over).collect();
        self.expected.retain(|_, until| *until > now);
        due
    }

    /// When [`due`](Self::due) has something, or forgets a service.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.expected.values().min().copied()
    }

    pub(crate) fn has_deadline(&self) -> bool {
        !self.expected.is_empty()
    }

    /// The service is not forgotten.
    pub(crate) fn is_open(&self, service_id: ServiceId) -> bool {
        self.expected.contains_key(&service_id)
    }
}

/// Requests do not wait for a listener any more.
fn is_over(expected: &BTreeMap<ServiceId, Time>, service_id: ServiceId, now: Time) -> bool {
    expected.get(&service_id).is_none_or(|until| *until <= now)
}
