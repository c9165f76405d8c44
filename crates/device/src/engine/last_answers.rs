//! Answers of queue pairs that were reset, destroyed or moved to the error state before these could leave, or whose process
//! ends. The peer of a message that was delivered would otherwise repeat it to nobody, and report that its retries are used up.

use std::collections::VecDeque;

use uroce_transport::limits::MAX_PACKET;
use uroce_transport::{Context, Instant, QueuePair, Transmit};

use crate::limits::LAST_ANSWERS;

/// Packets that leave before all others, in order, each with room for its ICRC.
#[derive(Debug, Default)]
pub(crate) struct LastAnswers {
    packets: VecDeque<(Transmit, Box<[u8]>)>,
}

impl LastAnswers {
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Takes over what the queue pair would answer now. What is more than [`LAST_ANSWERS`] is lost, as it can be on the
    /// network.
    pub(super) fn take_from(&mut self, qp: &mut QueuePair, now: Instant, cx: &mut Context<'_>) {
        qp.send_delayed_ack(cx);
        if !qp.wants_answer() {
            return;
        }
        let mut packet = vec![0; MAX_PACKET];
        while self.packets.len() < LAST_ANSWERS
            && let Some(out) = qp.poll_answer(now, true, &mut packet, cx)
        {
            self.packets.push_back((out, packet[..out.len].into()));
        }
    }

    /// Writes the next packet.
    pub(super) fn poll_transmit(&mut self, space: &mut [u8]) -> Option<Transmit> {
        let (out, packet) = self.packets.front()?;
        space.get_mut(..packet.len())?.copy_from_slice(packet);
        let out = *out;
        self.packets.pop_front();
        Some(out)
    }
}
