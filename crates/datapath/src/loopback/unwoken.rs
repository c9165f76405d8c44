//! Receivers that the sender's caller has to see to.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use super::inbox::Inbox;

/// Most receivers that are left to the caller; further ones are woken at once.
const CAPACITY: usize = 4;

/// A handle of one address of a [`LoopbackFabric`](super::LoopbackFabric), for whom sends to it.
#[derive(Clone)]
pub struct LoopbackEndpoint(pub(super) Arc<Inbox>);

impl LoopbackEndpoint {
    /// Wakes the receiver if it sleeps; returns whether it did.
    pub fn wake(&self) -> bool {
        self.0.wake()
    }

    /// True if packets are queued.
    #[must_use]
    pub fn has_packets(&self) -> bool {
        !self.0.is_empty()
    }

    /// With `assisted`, senders that [see to their receivers](super::LoopbackDatapath::defer_wakeups)
    /// do not wake this one.
    pub fn set_assisted(&self, assisted: bool) {
        self.0.set_assisted(assisted);
    }

    /// See [`set_assisted`](Self::set_assisted).
    #[inline]
    #[must_use]
    pub fn is_assisted(&self) -> bool {
        self.0.is_assisted()
    }
}

impl PartialEq for LoopbackEndpoint {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for LoopbackEndpoint {}

impl PartialOrd for LoopbackEndpoint {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Any order that stays as long as the handles live.
impl Ord for LoopbackEndpoint {
    fn cmp(&self, other: &Self) -> Ordering {
        Arc::as_ptr(&self.0).cmp(&Arc::as_ptr(&other.0))
    }
}

impl fmt::Debug for LoopbackEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopbackEndpoint").finish_non_exhaustive()
    }
}

/// Receivers that got packets and were not woken, each once, in order.
#[derive(Debug, Default)]
pub(super) struct Unwoken {
    list: [Option<LoopbackEndpoint>; CAPACITY],
    count: usize,
    /// The caller takes receivers from the list.
    pub(super) is_used: bool,
}

impl Unwoken {
    /// Adds a receiver; `false` if it has to be woken instead.
    pub(super) fn push(&mut self, endpoint: &LoopbackEndpoint) -> bool {
        if self.list[..self.count].iter().flatten().any(|known| known == endpoint) {
            return true;
        }
        let free = self.list.get_mut(self.count).filter(|_| self.is_used);
        let Some(free) = free else { return false };
        *free = Some(endpoint.clone());
        self.count += 1;
        true
    }

    /// Removes the oldest one.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<LoopbackEndpoint> {
        if self.count == 0 {
            return None;
        }
        let first = self.list[0].take();
        self.list.rotate_left(1);
        self.count -= 1;
        first
    }
}
