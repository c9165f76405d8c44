//! The end of a connection, and the next one.

use uroce_device::transport::QpState;

use super::completion::split;
use super::crash::Mishap;
use super::{Pair, Phase, Restart, Turn};
use crate::arena::WORDS;
use crate::end::CompletionsOf;
use crate::request::{Mistake, Work};
use crate::violation::{Check, Invariant, ensure};

impl Pair {
    /// Ends both queue pairs. Each request that is left completes with an error, once.
    pub(super) fn begin_restart(&mut self, restart: Restart, turn: &mut Turn<'_>) -> Check {
        self.has_acted = true;
        match restart {
            Restart::Reset => self.flush(turn)?,
            Restart::Destroy => {
                turn.coverage.count("a queue pair that is destroyed at work");
                self.take_completions(turn)?;
                self.ends.iter_mut().for_each(|end| end.recreate_qp(&self.plan));
            }
        }
        self.withdraw(u64::MAX, turn);
        let until_ns = turn.now_ns + turn.drain_ns;
        self.phase = Phase::Draining { until_ns, restart };
        Ok(())
    }

    /// I3: in the error state all that was posted completes.
    pub(super) fn flush(&mut self, turn: &mut Turn<'_>) -> Check {
        for index in [0, 1] {
            if self.ends[index].can_fail() {
                self.ends[index].leave(QpState::Err);
            }
        }
        self.is_ending = true;
        self.take_completions(turn)?;
        self.is_ending = false;
        for end in self.ends.iter().filter(|end| !end.is_lost) {
            // Those that have succeeded without a signal, and nothing came behind them.
            let may_be_silent = end.failed.is_empty() && end.sends.iter().all(|s| !s.is_signalled);
            let is_known = end.overflowed != Some(CompletionsOf::Sends);
            ensure(
                end.sends.is_empty() || may_be_silent || !is_known,
                Invariant::Completions,
                || format!("{} requests are left in the error state", end.sends.len()),
            )?;
            let flushed = end.receives.is_empty()
                || end.has_shared_receives()
                || end.overflowed == Some(CompletionsOf::Receives);
            ensure(flushed, Invariant::Completions, || {
                format!("{} receives are left in the error state", end.receives.len())
            })?;
        }
        Ok(())
    }

    /// No packet of the old connection is left: looks at the memory, and begins anew or ends.
    pub(super) fn finish_restart(&mut self, restart: Restart, turn: &mut Turn<'_>) -> Check {
        self.has_acted = true;
        self.check_withdrawals()?;
        for index in 0..2 {
            self.check_atomics(index)?;
            self.check_unfinished(index)?;
        }
        let is_hopeless = turn.calm_since_ns.is_none()
            && self.managed.as_ref().is_some_and(|managed| managed.has_called_enough());
        let is_over = is_hopeless || self.ends.iter().all(|end| end.left == 0);
        for end in &mut self.ends {
            let has_a_successor = end.is_lost || end.overflowed.is_some();
            end.arena.check_rest(is_over || has_a_successor)?;
            if !end.is_lost && end.overflowed.is_none() {
                end.clear();
            }
        }
        if is_over {
            self.phase = Phase::Done;
            return Ok(());
        }
        turn.coverage.count("a connection that is made again");
        Mishap { pair: self }.renew()?;
        for end in &mut self.ends {
            match restart {
                // A packet that was held back must not reach the next connection.
                Restart::Reset if self.network_reorders => end.recreate_qp(&self.plan),
                Restart::Reset => end.leave(QpState::Reset),
                Restart::Destroy => {}
            }
            end.renew_srq(&self.plan);
        }
        self.has_mistake = false;
        self.connect();
        Ok(())
    }

    /// I5: of the atomics that did not complete, the first so many were executed.
    fn check_atomics(&mut self, index: usize) -> Check {
        let (end, peer) = split(&mut self.ends, index);
        let is: [u64; WORDS] = std::array::from_fn(|word| peer.arena.word(word));
        let mut words = peer.arena.words;
        let mut holds = is == words;
        for posted in end.failed.iter().chain(&end.sends) {
            // With a wrong local key, the operation is executed and its result has no place.
            let is_refused = matches!(posted.mistake, Some(Mistake::Key | Mistake::Range));
            if let (Some(word), false) = (posted.work.word(), is_refused) {
                words[word] = posted.work.word_after(words[word]);
                holds |= is == words;
            }
        }
        ensure(holds, Invariant::Atomics, || {
            format!("words hold {is:x?}; in their order, the operations give {words:x?}")
        })
    }

    /// I2: what was not completed has left its bytes, a part of them, or none.
    fn check_unfinished(&mut self, index: usize) -> Check {
        let (end, peer) = split(&mut self.ends, index);
        let mut unfinished = std::mem::take(&mut end.failed);
        unfinished.extend(end.sends.drain(..));
        for posted in &unfinished {
            let mut due = vec![];
            let is_refused = posted.mistake.is_some_and(|mistake| mistake != Mistake::Withdrawn);
            match posted.work {
                Work::Write { target, .. } | Work::AtomicWrite { target } => {
                    end.arena.copy_source(&posted.pieces, &mut due);
                    due.truncate(if is_refused { 0 } else { due.len() });
                    peer.arena.check_either(target, 0, &due)?;
                }
                Work::Read { offset, landing } => {
                    peer.arena.copy_source(&vec![(offset, posted.length as u32)], &mut due);
                    due.truncate(if is_refused { 0 } else { due.len() });
                    end.arena.check_either(landing, 0, &due)?;
                }
                Work::FetchAdd { landing, .. } | Work::CompareSwap { landing, .. } => {
                    end.arena.check_behind(landing, 8)?;
                }
                _ => {}
            }
        }
        for receive in end.failed_receives.drain(..).chain(end.receives.drain(..)) {
            end.arena.check_behind(receive.slot, receive.room())?;
        }
        for (slot, due) in std::mem::take(&mut peer.uncertain) {
            peer.arena.check_either(slot, 0, &due)?;
        }
        Ok(())
    }
}
