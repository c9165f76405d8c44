//! What the queue pair of now answers.

use uroce_wire::{Packet, Psn};

use crate::ReplayError;
use crate::answer::{Answer, unwrapped};

/// The request that an answer is about.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked {
    /// Place in the recording.
    pub position: u64,
    /// Its frame.
    pub frame: u64,
    /// When it was sent, in nanoseconds since the first packet of the recording.
    pub time: u64,
}

/// Answers in their order, up to a limit.
#[derive(Debug)]
pub(crate) struct Answers {
    list: Vec<Answer>,
    limit: usize,
    /// The PSN of the last one, counted on over 2^24.
    near: i64,
}

impl Answers {
    pub(crate) fn new(first_psn: Psn, limit: usize) -> Self {
        Self { list: Vec::new(), limit, near: i64::from(first_psn.get()) }
    }

    /// Takes one in; `asked` tells which request it is about.
    pub(crate) fn add(
        &mut self,
        packet: &Packet<'_>,
        asked: impl FnOnce(&Answer) -> Asked,
    ) -> Result<(), ReplayError> {
        if self.list.len() >= self.limit {
            return Err(ReplayError::TooManyAnswers { limit: self.limit });
        }
        let mut answer = Answer::of(packet);
        if !answer.is_congestion_notification() {
            self.near = unwrapped(self.near, packet.bth.psn);
            answer.place = self.near;
        }
        let Asked { position, frame, time } = asked(&answer);
        self.list.push(Answer { position, frame, time, ..answer });
        Ok(())
    }

    pub(crate) fn into_list(self) -> Vec<Answer> {
        self.list
    }
}
