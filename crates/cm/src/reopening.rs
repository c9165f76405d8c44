//! Requests for a service whose listener has just gone. A server may close its listener and listen
//! again at once, as perftest's does between the connection on which the ends exchange their
//! parameters and the one that is measured; its client, which knows nothing of that, calls in
//! between. Its request waits a moment before it is refused.

use std::collections::BTreeMap;
use std::net::IpAddr;

use uroce_wire::DropReason;

use crate::ServiceId;
use crate::limits::{MAX_EARLY, REOPENING};
use crate::message::Message;
use crate::time::Time;

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
}

/// Services without a listener since a moment ago, and the requests for them.
#[derive(Debug, Default)]
pub(crate) struct Reopening {
    /// Until when requests for a service wait. Listeners are closed by the application, so it is
    /// for it to say how many there are.
    closed: BTreeMap<ServiceId, Time>,
    /// At most [`MAX_EARLY`].
    early: Vec<Early>,
}

impl Reopening {
    /// A listener was closed.
    pub(crate) fn close(&mut self, now: Time, service_id: ServiceId) {
        self.closed.retain(|_, until| *until > now);
        self.closed.insert(service_id, now.saturating_add(REOPENING));
    }

    /// The service has a listener: the requests that waited for it.
    pub(crate) fn open(&mut self, service_id: ServiceId) -> Vec<Early> {
        self.closed.remove(&service_id);
        self.early.extract_if(.., |early| early.service_id == service_id).collect()
    }

    /// Keeps a request for a service that may come back; `false`: it will not, or too many wait.
    fn keep(&mut self, now: Time, request: Early) -> bool {
        if is_over(&self.closed, request.service_id, now) {
            return false;
        }
        if self.early.iter().any(|early| early.is_copy_of(&request)) {
            return true;
        }
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

    /// The requests that have waited long enough.
    pub(crate) fn due(&mut self, now: Time) -> Vec<Early> {
        let closed = &self.closed;
        let over = |early: &mut Early| is_over(closed, early.service_id, now);
        let due = self.early.extract_if(.., over).collect();
        self.closed.retain(|_, until| *until > now);
        due
    }

    /// When [`due`](Self::due) has something, or forgets a service.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.closed.values().min().copied()
    }

    pub(crate) fn has_deadline(&self) -> bool {
        !self.closed.is_empty()
    }

    /// The service is not forgotten.
    pub(crate) fn is_open(&self, service_id: ServiceId) -> bool {
        self.closed.contains_key(&service_id)
    }
}

/// Requests do not wait for a listener any more.
fn is_over(closed: &BTreeMap<ServiceId, Time>, service_id: ServiceId, now: Time) -> bool {
    closed.get(&service_id).is_none_or(|until| *until <= now)
}
