//! From the end of a connection, or of a call that came to nothing, until nothing of it is left.

use super::{CmTurn, Managed, Standing};
use crate::pair::{Phase, Restart, Turn};
use crate::violation::{Check, Invariant, ensure};

/// Room for private data of the end that disconnects.
const FAREWELL_ROOM: usize = 220;

impl CmTurn<'_> {
    /// A turn of a pair whose connection stands, before the application does anything else. True if it does not
    /// stand any more.
    pub(in crate::pair) fn check_connection(
        &mut self,
        managed: &mut Managed,
        turn: &mut Turn<'_>,
    ) -> Result<bool, (Invariant, String)> {
        self.serve_connection(managed, turn)?;
        Ok(!(managed.stands(0) && managed.stands(1)))
    }

    /// One end ends the connection, or both do, with or without a word. Afterwards nothing is posted.
    pub(in crate::pair) fn end_connection(
        &mut self,
        managed: &mut Managed,
        turn: &mut Turn<'_>,
    ) -> Check {
        self.pair.has_acted = true;
        self.pair.is_ending = true;
        self.pair.take_completions(turn)?;
        self.pair.withdraw(u64::MAX, turn);
        managed.ended_calmly = turn.calm_since_ns.is_some_and(|at| at <= turn.now_ns);
        let which = self.pair.random.below(3);
        let is_released = self.pair.random.chance(managed.plan.releases);
        for index in [0, 1] {
            // The other one may be out of it already.
            let is_alone = !managed.stands(1 - index);
            if which == 2 || which == index || is_alone {
                self.leave_connection(managed, index, is_released, turn)?;
            }
        }
        let by_drain = turn.now_ns + turn.drain_ns;
        let until_ns = match is_released {
            // Nobody is told when the DREQ was answered.
            true => by_drain + managed.plan.answer_ns() + managed.plan.timewait_ns(),
            false => by_drain,
        };
        let hears_ns = turn.now_ns + managed.plan.answer_ns() + turn.drain_ns;
        self.pair.phase = Phase::Disconnecting { until_ns, hears_ns };
        self.pair.take_completions(turn).map(drop)
    }

    /// The application of one end ends the connection, if it knows of one.
    fn leave_connection(
        &mut self,
        managed: &mut Managed,
        index: usize,
        is_released: bool,
        turn: &mut Turn<'_>,
    ) -> Check {
        let end = &mut managed.ends[index];
        let (Standing::Established | Standing::Accepted, Some(id)) = (end.standing, end.id) else {
            return Ok(());
        };
        if is_released {
            turn.coverage.count("a connection that is released");
            end.finish(self.pair.ends[index].nic.device());
            if self.pair.random.chance(50) {
                turn.coverage.count("a queue pair that is destroyed at work");
                self.pair.take_completions(turn)?;
                managed.ends[index].is_destroyed = true;
                self.pair.ends[index].recreate_qp(&self.pair.plan);
            }
            return Ok(());
        }
        let mut farewell = vec![0; self.pair.random.range(1, FAREWELL_ROOM)];
        self.pair.random.fill(&mut farewell);
        let left = self.pair.ends[index].nic.device().cm().disconnect(id, &farewell);
        left.map_err(|error| (Invariant::Completions, format!("a disconnect: {error}")))?;
        turn.coverage.count("a disconnect");
        end.farewell = Some(farewell);
        let until_ns = turn.now_ns + managed.plan.answer_ns();
        end.enter(Standing::Leaving, Some((until_ns, "a DREQ has no outcome")));
        Ok(())
    }

    /// A turn while a connection ends.
    pub(in crate::pair) fn disconnecting(
        &mut self,
        managed: &mut Managed,
        [until_ns, hears_ns]: [u64; 2],
        turn: &mut Turn<'_>,
    ) -> Check {
        self.serve_connection(managed, turn)?;
        self.pair.take_completions(turn)?;
        if turn.now_ns >= hears_ns {
            for index in [0, 1] {
                self.leave_deaf_peer(managed, index, turn)?;
            }
            self.pair.phase = Phase::Disconnecting { until_ns, hears_ns: u64::MAX };
        }
        if !managed.is_over() || turn.now_ns < until_ns {
            return Ok(());
        }
        self.pair.has_acted = true;
        self.pair.flush(turn)?;
        managed.called = None;
        self.pair.phase = Phase::Draining { until_ns: turn.now_ns + 1, restart: Restart::Reset };
        Ok(())
    }

    /// An end that has not heard of the end of its connection, because of faults, ends it itself.
    fn leave_deaf_peer(
        &mut self,
        managed: &mut Managed,
        index: usize,
        turn: &mut Turn<'_>,
    ) -> Check {
        // One that has accepted gives up by itself.
        if managed.ends[index].standing != Standing::Established {
            return Ok(());
        }
        ensure(!managed.ended_calmly, Invariant::Liveness, || {
            "an end does not hear that its peer has ended the connection".to_owned()
        })?;
        turn.coverage.count("an end that never hears of a disconnect");
        self.leave_connection(managed, index, false, turn)
    }
}
