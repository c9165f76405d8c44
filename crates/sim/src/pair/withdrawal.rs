//! Regions that are deregistered while a request for them is on its way.

use uroce_device::memory::{MrId, Rkey};

use super::{Pair, Turn};
use crate::arena::SlotId;
use crate::request::{Mistake, Posted, Work};
use crate::violation::{Check, Invariant, ensure};

/// A region that is deregistered at some moment.
#[derive(Debug)]
pub(super) struct Withdrawal {
    /// The end whose region it is.
    owner: usize,
    mr: MrId,
    at_ns: u64,
    /// The request that uses it.
    wr_id: u64,
    target: SlotId,
    /// What the target held when the region was deregistered.
    contents: Option<Vec<u8>>,
}

impl Pair {
    /// Makes the peer's memory a region of its own for a WRITE, which will be deregistered soon.
    pub(super) fn draw_withdrawal(&mut self, index: usize, posted: &mut Posted, now_ns: u64) {
        let Work::Write { target, imm: None } = posted.work else { return };
        if posted.length == 0 || self.random.below(1000) >= self.plan.withdrawals {
            return;
        }
        let owner = 1 - index;
        let Some(mr) = self.ends[owner].register_alias() else { return };
        posted.key = Some(Rkey(mr.rkey.0));
        posted.mistake = Some(Mistake::Withdrawn);
        self.has_mistake = true;
        let at_ns = now_ns + self.random.below(2 * self.plan.pause_ns as usize + 20_000) as u64;
        let (wr_id, contents) = (posted.wr_id, None);
        self.withdrawals.push(Withdrawal { owner, mr: mr.id, at_ns, wr_id, target, contents });
    }

    /// When the next region is deregistered.
    pub(super) fn next_withdrawal(&self) -> Option<u64> {
        let waiting = self.withdrawals.iter().filter(|one| one.contents.is_none());
        waiting.map(|one| one.at_ns).min()
    }

    /// Deregisters what is due by now.
    pub(super) fn withdraw(&mut self, now_ns: u64, turn: &mut Turn<'_>) {
        for one in &mut self.withdrawals {
            if one.contents.is_some() || one.at_ns > now_ns {
                continue;
            }
            self.has_acted = true;
            turn.coverage.count("a region that is deregistered at work");
            let end = &mut self.ends[one.owner];
            if !end.is_lost {
                end.nic.device().memory().dereg_mr(one.mr).expect("it is registered");
            }
            one.contents = Some(end.arena.contents(one.target));
        }
    }

    /// I16: a WRITE to a region that was deregistered has succeeded, so all its bytes were there before.
    pub(super) fn check_withdrawn(&self, index: usize, posted: &Posted, due: &[u8]) -> Check {
        let mut withdrawals = self.withdrawals.iter();
        let is_it = |one: &&Withdrawal| (one.owner, one.wr_id) == (1 - index, posted.wr_id);
        let Some(one) = withdrawals.find(is_it) else { return Ok(()) };
        let holds = one.contents.as_ref().is_none_or(|contents| contents.starts_with(due));
        ensure(holds, Invariant::Keys, || {
            "a WRITE succeeds that was executed after its region was deregistered".to_owned()
        })
    }

    /// I16: nothing was written to a region since it was deregistered.
    pub(super) fn check_withdrawals(&mut self) -> Check {
        for one in std::mem::take(&mut self.withdrawals) {
            let arena = &self.ends[one.owner].arena;
            let user = &self.ends[1 - one.owner];
            let mut unfinished = user.failed.iter().chain(&user.sends);
            let is_unfinished = unfinished.any(|posted| posted.wr_id == one.wr_id);
            let Some(contents) = one.contents.filter(|_| is_unfinished) else { continue };
            ensure(arena.contents(one.target) == contents, Invariant::Keys, || {
                "a region has changed after it was deregistered".to_owned()
            })?;
        }
        Ok(())
    }
}
