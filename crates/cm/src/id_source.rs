//! Where communication ids, transaction ids and ports come from.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::RngCore;
use uroce_wire::Slot;

use crate::CommId;
use crate::limits::ID_DRAWS;

/// Ports that are given out when the application leaves the choice to us.
const EPHEMERAL: std::ops::RangeInclusive<u16> = 32_768..=60_999;

/// Draws ids that a peer cannot guess (A23).
#[derive(Debug)]
pub(crate) struct IdSource {
    rng: ChaCha20Rng,
    /// The process of communication ids, where several share the address.
    slot: Option<Slot>,
    /// Upper half of our transaction ids.
    tid_prefix: u64,
}

impl IdSource {
    pub(crate) fn new(mut rng: ChaCha20Rng, slot: Option<Slot>) -> Self {
        let tid_prefix = u64::from(rng.next_u32()) << 32;
        IdSource { rng, slot, tid_prefix }
    }

    /// An id that is free; `None`: hardly any is.
    pub(crate) fn draw(&mut self, is_free: impl Fn(CommId) -> bool) -> Option<CommId> {
        (0..ID_DRAWS)
            .map(|_| match (self.slot, self.rng.next_u32()) {
                (Some(slot), random) => CommId::in_slot(slot, random),
                (None, random) => CommId(random),
            })
            .find(|id| *id != CommId::NONE && is_free(*id))
    }

    /// A port that is free; `None`: hardly any is.
    pub(crate) fn draw_port(&mut self, is_free: impl Fn(u16) -> bool) -> Option<u16> {
        (0..ID_DRAWS).find_map(|_| {
            let span = u32::from(EPHEMERAL.end() - EPHEMERAL.start()) + 1;
            let port = EPHEMERAL.start() + (self.rng.next_u32() % span) as u16;
            is_free(port).then_some(port)
        })
    }

    /// The transaction id of an exchange that we begin.
    pub(crate) fn tid(&self, id: CommId) -> u64 {
        self.tid_prefix | u64::from(id.0)
    }
}
