//! Peers that have been sent packets and were not woken.

use std::sync::Arc;

use super::LocalPeer;
use super::assist::Assist;
use crate::limits::MAX_ASSISTS;

/// Most peers of a list; further ones are woken at once.
const CAPACITY: usize = 4;

/// A few peers, each once, in order.
#[derive(Debug, Default)]
pub(crate) struct PendingPeers {
    list: [Option<Arc<LocalPeer>>; CAPACITY],
    count: usize,
}

impl PendingPeers {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a peer; where there is no room, it is woken.
    pub(super) fn push(&mut self, peer: Arc<LocalPeer>) {
        if self.list[..self.count].iter().flatten().any(|known| Arc::ptr_eq(known, &peer)) {
            return;
        }
        match self.list.get_mut(self.count) {
            Some(free) => {
                *free = Some(peer);
                self.count += 1;
            }
            None => peer.wake(),
        }
    }

    /// Moves all of `others` behind these.
    pub(crate) fn append(&mut self, others: &mut PendingPeers) {
        while let Some(peer) = others.pop() {
            self.push(peer);
        }
    }

    fn pop(&mut self) -> Option<Arc<LocalPeer>> {
        let first = self.list[0].take()?;
        self.list.rotate_left(1);
        self.count -= 1;
        Some(first)
    }

    /// Polls the engines of these peers, and of those that get packets by that, as far as their
    /// policies allow and up to a limit. Those with more to do remain in the list. The caller holds
    /// no engine.
    pub(crate) fn assist(&mut self) {
        let mut left = PendingPeers::default();
        for _ in 0..MAX_ASSISTS {
            let Some(next) = self.pop() else { break };
            let mut further = PendingPeers::default();
            match next.assist(&mut further) {
                Assist::Done | Assist::Busy => {}
                Assist::Again => self.push(next),
                Assist::Later => left.push(next),
            }
            self.append(&mut further);
        }
        self.append(&mut left);
    }

    /// Wakes all of these peers, and empties the list.
    pub(crate) fn wake(&mut self) {
        while let Some(peer) = self.pop() {
            peer.wake();
        }
    }
}
