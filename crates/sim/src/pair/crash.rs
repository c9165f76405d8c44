//! What an end sees whose peer is no more.

use super::restart::Restart;
use super::{Pair, Phase, Turn};
use crate::nic::Nic;
use crate::violation::{Check, Invariant, ensure};

impl Pair {
    /// The process of a node is about to end: what it has completed by now is looked at.
    pub(crate) fn note_crash(&mut self, node: usize, turn: &mut Turn<'_>) -> Check {
        let is_ours = self.ends.iter().any(|end| end.node == node && !end.is_lost);
        if !is_ours || self.is_done() {
            return Ok(());
        }
        self.with_managed(|pair, managed| {
            managed.fetch([true; 2]);
            pair.take_events(managed, turn)
        })?;
        let is_at_work = matches!(
            self.phase,
            Phase::Running
                | Phase::Overflowing { .. }
                | Phase::Bereaved { .. }
                | Phase::Disconnecting { .. }
        );
        if is_at_work {
            // What waits in the queues of the process must be known.
            self.ends.iter_mut().for_each(|end| end.wake_ns = Some(turn.now_ns));
            self.take_completions(turn)?;
        }
        Ok(())
    }

    /// The process of a node has ended, and a new one with this NIC takes its place.
    pub(crate) fn handle_crash(&mut self, node: usize, nic: &Nic, now_ns: u64) {
        for index in [0, 1] {
            if self.ends[index].node != node {
                continue;
            }
            self.ends[index].lose(nic);
            if let Some(managed) = &mut self.managed {
                managed.lose(index);
            }
        }
        if self.ends.iter().all(|end| end.node != node) {
            return;
        }
        let has_begun = self.managed.as_ref().is_none_or(|managed| managed.has_called());
        match self.phase {
            Phase::Running => self.begin_bereaved(now_ns),
            Phase::Overflowing { .. } => {
                self.forget_small_queue();
                self.begin_bereaved(now_ns);
            }
            Phase::Connecting if has_begun => self.begin_bereaved(now_ns),
            Phase::Connecting => self.revive(),
            // Only what is left to be looked at.
            Phase::Bereaved { .. }
            | Phase::Disconnecting { .. }
            | Phase::Draining { .. }
            | Phase::Done => {}
        }
    }

    pub(super) fn begin_bereaved(&mut self, now_ns: u64) {
        self.is_ending = true;
        let until_ns = now_ns + 2 * self.plan.give_up_ns() + self.plan.not_ready_ns();
        self.phase = Phase::Bereaved { until_ns };
        self.look_ns = Some(now_ns);
    }

    /// New processes take the place of those that have ended.
    pub(super) fn revive(&mut self) {
        for end in self.ends.iter_mut().filter(|end| end.is_lost) {
            end.revive(&self.plan, &mut self.random);
        }
    }

    /// A completion queue that has overflowed is of no more use, nor are its queue pairs.
    pub(super) fn renew_overflowed(&mut self) -> Check {
        self.check_told_once()?;
        for end in self.ends.iter_mut().filter(|end| end.overflowed.is_some()) {
            end.destroy().map_err(|what| (Invariant::Resources, what))?;
            end.revive(&self.plan, &mut self.random);
        }
        Ok(())
    }

    /// A turn of an end whose peer is no more: its requests fail by themselves.
    pub(super) fn bereaved(&mut self, until_ns: u64, turn: &mut Turn<'_>) -> Check {
        self.look_ns = None;
        self.is_ending = true;
        self.with_managed(|pair, managed| pair.serve_connection(managed, turn))?;
        self.take_completions(turn)?;
        // The model of rxe goes on for ever.
        let waits = |end: &crate::end::End| {
            !end.is_lost
                && end.overflowed.is_none()
                && end.sends.iter().any(|posted| posted.is_signalled)
        };
        let is_waiting = self.ends.iter().any(waits);
        if is_waiting && turn.now_ns < until_ns {
            return Ok(());
        }
        ensure(!is_waiting || self.has_model(), Invariant::Liveness, || {
            "a request to a process that is no more neither succeeds nor fails".to_owned()
        })?;
        turn.coverage.count("an end whose peer is no more");
        if let Some(managed) = &mut self.managed {
            managed.note_faults();
        }
        // What is left is flushed.
        self.phase = Phase::Running;
        self.end(Restart::Reset, turn)
    }

    /// True if the first request of an end that fails does so because nobody answers: its peer is no more, and nothing
    /// else has ended its queue pair.
    pub(super) fn must_time_out(&self, index: usize) -> bool {
        let (end, peer) = (&self.ends[index], &self.ends[1 - index]);
        let is_alone = peer.is_lost && matches!(self.phase, Phase::Bereaved { .. });
        is_alone && self.managed.is_none() && self.is_reliable() && end.overflowed.is_none()
    }
}
