//! What an end sees whose peer is no more.

use super::managed::{CmTurn, Managed};
use super::{Pair, Phase, Restart, Turn};
use crate::nic::Nic;
use crate::violation::{Check, Invariant, ensure};

/// What becomes of a pair that loses an end, or a completion queue.
pub(crate) struct Mishap<'a> {
    pub(crate) pair: &'a mut Pair,
}

impl Mishap<'_> {
    /// The process of a node is about to end: what it has completed by now is looked at.
    pub(crate) fn note_crash(&mut self, node: usize, turn: &mut Turn<'_>) -> Check {
        let is_ours = self.pair.ends.iter().any(|end| end.node == node && !end.is_lost);
        if !is_ours || self.pair.is_done() {
            return Ok(());
        }
        self.pair.with_managed(|pair, managed| {
            managed.fetch([true; 2]);
            CmTurn { pair }.take_events(managed, turn)
        })?;
        let is_at_work = matches!(
            self.pair.phase,
            Phase::Running
                | Phase::Overflowing { .. }
                | Phase::Bereaved { .. }
                | Phase::Disconnecting { .. }
        );
        if is_at_work {
            // Nobody has polled, and which end has failed first is not known.
            self.pair.has_slept |= matches!(self.pair.phase, Phase::Overflowing { .. });
            // What waits in the queues of the process must be known.
            self.pair.ends.iter_mut().for_each(|end| end.wake_ns = Some(turn.now_ns));
            self.pair.take_completions(turn)?;
        }
        Ok(())
    }

    /// The process of a node has ended, and a new one with this NIC takes its place.
    pub(crate) fn handle_crash(&mut self, node: usize, nic: &Nic, now_ns: u64) {
        for index in [0, 1] {
            if self.pair.ends[index].node != node {
                continue;
            }
            self.pair.ends[index].lose(nic);
            if let Some(managed) = &mut self.pair.managed {
                managed.lose(index);
            }
            if let Some(lookup) = &mut self.pair.lookup {
                lookup.lose(index);
            }
        }
        if self.pair.ends.iter().all(|end| end.node != node) {
            return;
        }
        let has_begun = self.pair.managed.as_ref().is_none_or(|managed| managed.has_called());
        match self.pair.phase {
            Phase::Resolving | Phase::Running => self.begin_bereaved(now_ns),
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
        self.pair.is_ending = true;
        let until_ns = now_ns + 2 * self.pair.plan.give_up_ns() + self.pair.plan.not_ready_ns();
        self.pair.phase = Phase::Bereaved { until_ns };
        self.pair.look_ns = Some(now_ns);
    }

    /// New processes take the place of those that have ended.
    fn revive(&mut self) {
        for end in self.pair.ends.iter_mut().filter(|end| end.is_lost) {
            end.revive(&self.pair.plan, &mut self.pair.random);
        }
    }

    /// New processes take the place of those that have ended, and other queues that of those that have overflowed.
    pub(super) fn renew(&mut self) -> Check {
        self.renew_overflowed()?;
        self.revive();
        Ok(())
    }

    /// A completion queue that has overflowed is of no more use, nor are its queue pairs.
    fn renew_overflowed(&mut self) -> Check {
        self.check_told_once()?;
        for end in self.pair.ends.iter_mut().filter(|end| end.overflowed.is_some()) {
            end.destroy().map_err(|what| (Invariant::Resources, what))?;
            end.revive(&self.pair.plan, &mut self.pair.random);
        }
        Ok(())
    }

    /// A turn of an end whose peer is no more: its requests fail by themselves.
    pub(super) fn bereaved(&mut self, until_ns: u64, turn: &mut Turn<'_>) -> Check {
        self.pair.look_ns = None;
        self.pair.is_ending = true;
        let serve = |pair: &mut Pair, managed: &mut Managed| {
            CmTurn { pair }.serve_connection(managed, turn)
        };
        self.pair.with_managed(serve)?;
        self.pair.take_completions(turn)?;
        // The model of rxe goes on for ever.
        let waits = |end: &crate::end::End| {
            !end.is_lost
                && end.overflowed.is_none()
                && end.sends.iter().any(|posted| posted.is_signalled)
        };
        let is_waiting = self.pair.ends.iter().any(waits);
        if is_waiting && turn.now_ns < until_ns {
            return Ok(());
        }
        ensure(!is_waiting || self.pair.has_model(), Invariant::Liveness, || {
            "a request to a process that is no more neither succeeds nor fails".to_owned()
        })?;
        turn.coverage.count("an end whose peer is no more");
        if let Some(managed) = &mut self.pair.managed {
            managed.note_faults();
        }
        // What is left is flushed.
        self.pair.phase = Phase::Running;
        self.pair.end(Restart::Reset, turn)
    }
}
