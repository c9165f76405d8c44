//! Whoever is at the other end of an in-process endpoint, and may be asked to work in the sender's thread.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::inbox::Inbox;

/// Endpoints that are remembered between two deliveries; further ones are woken at once.
const MOST: usize = 4;

/// How a [`visit`](Neighbour::visit) ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visit {
    /// Nothing is left to do.
    Done,
    /// More packets wait there.
    Again,
    /// It has more to send, when its receivers have read what it sent.
    Later,
    /// Somebody else works there.
    Busy,
}

/// The user of an endpoint, who lets the thread that sent packets work on them: no processor has to
/// wake up for them then, and they stay in its cache. Users of one kind know each other by [`Any`].
pub trait Neighbour: Any + Send + Sync {
    /// Works on what has arrived, for a moment. Never waits for a lock. What is handed over to others by
    /// that is added to `further`.
    fn visit(&self, further: &mut Handovers) -> Visit;
}

/// Packets wait at an endpoint whose user may be visited. Whoever gets this has to
/// [deliver](Self::deliver) it: nobody was woken.
#[must_use = "nobody knows of the packets yet"]
pub struct Handover(pub(super) Arc<Inbox>);

impl Handover {
    /// Visits the user of the endpoint, and wakes it when that is not possible. After
    /// [`Visit::Again`] and [`Visit::Later`] the caller comes again or [wakes](Self::wake) it.
    pub fn deliver(&self, further: &mut Handovers) -> Visit {
        match self.0.visit(further) {
            Visit::Busy => {
                self.wake();
                Visit::Busy
            }
            // Another sender found us there.
            Visit::Done if !self.0.is_empty() => Visit::Again,
            visit => visit,
        }
    }

    /// Wakes the user of the endpoint if it sleeps.
    pub fn wake(&self) {
        self.0.wake();
    }

    fn is_for(&self, inbox: &Arc<Inbox>) -> bool {
        Arc::ptr_eq(&self.0, inbox)
    }
}

impl fmt::Debug for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handover").finish_non_exhaustive()
    }
}

/// A few [`Handover`]s, each endpoint once, in their order.
#[derive(Debug, Default)]
pub struct Handovers {
    list: [Option<Handover>; MOST],
    count: usize,
}

impl Handovers {
    /// True when there is none.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Notes one more; where there is no room, its endpoint is woken.
    pub fn push(&mut self, handover: Handover) {
        if self.knows(&handover.0) {
            return;
        }
        match self.list.get_mut(self.count) {
            Some(offset) => {
                *offset = Some(handover);
                self.count += 1;
            }
            None => handover.wake(),
        }
    }

    /// Moves all of `others` behind these.
    pub fn append(&mut self, others: &mut Handovers) {
        while let Some(handover) = others.pop() {
            self.push(handover);
        }
    }

    /// The oldest.
    pub fn pop(&mut self) -> Option<Handover> {
        let first = self.list[0].take()?;
        self.list.rotate_left(1);
        self.count -= 1;
        Some(first)
    }

    pub(super) fn knows(&self, inbox: &Arc<Inbox>) -> bool {
        self.list[..self.count].iter().flatten().any(|handover| handover.is_for(inbox))
    }
}
