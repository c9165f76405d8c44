//! Completions, held against what was posted.

use uroce_device::transport::{QpType, Wc, WcOpcode, WcStatus};

use super::{Pair, Phase, Turn};
use crate::arena::{MAX_MESSAGE, SlotId};
use crate::end::{CompletionsOf, GRH};
use crate::request::{Message, Mistake, Posted, Work};
use crate::violation::{Check, Invariant, ensure};
use crate::windows::WindowState;

/// The value of `rnr_retry` with which a requester waits for ever.
const RNR_RETRY_FOR_EVER: u8 = 7;

/// True if a request has failed.
type HasFailed = bool;

impl Pair {
    /// Takes all completions. Those of sends come first: what the peer of a successful SEND has
    /// received must be there.
    pub(super) fn take_completions(
        &mut self,
        turn: &mut Turn<'_>,
    ) -> Result<HasFailed, (Invariant, String)> {
        let mut has_failed = false;
        for index in 0..2 {
            for wc in self.poll(index, CompletionsOf::Sends, turn.now_ns) {
                has_failed |= self.handle_send(index, &wc, turn)?;
            }
        }
        for index in 0..2 {
            for wc in self.poll(index, CompletionsOf::Receives, turn.now_ns) {
                has_failed |= self.handle_receive(index, &wc, turn)?;
            }
        }
        self.check_delivery()?;
        Ok(has_failed)
    }

    fn poll(&mut self, index: usize, what: CompletionsOf, now_ns: u64) -> Vec<Wc> {
        let mut all = vec![];
        let end = &self.ends[index];
        // A poll of an empty queue drives the device. Not each one that is awake for another reason need do so.
        if end.wake_ns.is_some_and(|at| at <= now_ns) || end.has_completions_of(what) {
            end.poll(what, &mut all);
        }
        if !all.is_empty() && self.ends[index].wake_ns.is_none() {
            let at = now_ns + self.pause();
            self.ends[index].wake_ns = Some(at);
        }
        all
    }

    /// I4: what was acknowledged has been delivered.
    fn check_delivery(&self) -> Check {
        if !self.is_reliable() {
            return Ok(());
        }
        for (end, peer) in [(&self.ends[0], &self.ends[1]), (&self.ends[1], &self.ends[0])] {
            // Of a queue that has overflowed, completions are lost.
            let is_known = peer.overflowed != Some(CompletionsOf::Receives);
            ensure(end.acknowledged <= peer.received || !is_known, Invariant::Effects, || {
                let (acknowledged, received) = (end.acknowledged, peer.received);
                format!("{acknowledged} messages succeeded, but the peer has received {received}")
            })?;
        }
        Ok(())
    }

    fn handle_send(
        &mut self,
        index: usize,
        wc: &Wc,
        turn: &mut Turn<'_>,
    ) -> Result<HasFailed, (Invariant, String)> {
        turn.coverage.count(wc.status.name());
        loop {
            let Some(posted) = self.ends[index].sends.pop_front() else {
                let what = format!("completion of request {}, which is not posted", wc.wr_id);
                return Err((Invariant::Completions, what));
            };
            if posted.wr_id == wc.wr_id {
                return self.complete(index, &posted, wc, turn);
            }
            // An unsignaled request that fails, or comes behind one that fails, completes.
            let may_be_silent = !posted.is_signalled && self.ends[index].failed.is_empty();
            ensure(may_be_silent, Invariant::Completions, || {
                format!("request {} completes before request {}", wc.wr_id, posted.wr_id)
            })?;
            self.check_success(index, &posted)?;
        }
    }

    fn complete(
        &mut self,
        index: usize,
        posted: &Posted,
        wc: &Wc,
        turn: &mut Turn<'_>,
    ) -> Result<HasFailed, (Invariant, String)> {
        if wc.status != WcStatus::Success {
            self.check_failure(index, posted, wc, turn)?;
            self.ends[index].failed.push(posted.clone());
            return Ok(true);
        }
        ensure(posted.is_signalled, Invariant::Completions, || {
            format!("request {} is not signaled, but completes", posted.wr_id)
        })?;
        ensure(self.ends[index].failed.is_empty(), Invariant::Completions, || {
            format!("request {} succeeds behind one that has failed", posted.wr_id)
        })?;
        if posted.mistake == Some(Mistake::Withdrawn) {
            // It came before its region was deregistered; all goes on.
            self.has_mistake = false;
            for end in &mut self.ends {
                end.wake_ns = Some(turn.now_ns + 1);
            }
        }
        let may_succeed = !self.is_reliable()
            || posted.mistake.is_none_or(|mistake| mistake == Mistake::Withdrawn);
        ensure(may_succeed, Invariant::Statuses, || {
            let mistake = posted.mistake.map_or("", |mistake| mistake.name());
            format!("a {} with {mistake} succeeds", posted.work.name())
        })?;
        ensure(wc.opcode == posted.work.completion(), Invariant::Completions, || {
            format!("a {} completes as {:?}", posted.work.name(), wc.opcode)
        })?;
        self.check_success(index, posted)?;
        Ok(false)
    }

    /// I15: the failure is explained by a mistake or by faults.
    fn check_failure(&self, index: usize, posted: &Posted, wc: &Wc, turn: &Turn<'_>) -> Check {
        let rnr_retry = self.plan.rnr_retry_of(index);
        let holds = match wc.status {
            WcStatus::WrFlushErr => {
                let end = &self.ends[index];
                let is_bad = !end.failed.is_empty() || !end.bad_receives.is_empty();
                let has_ended = self.is_ending && !must_time_out(self, index);
                has_ended || self.has_mistake || is_bad
            }
            status if posted.mistake.is_some_and(|mistake| mistake.status() == status) => true,
            status if self.meets_bad_receive(index, posted, status) => true,
            WcStatus::RetryExcErr => {
                may_be_unanswered(self, index) || faults_explain(self, index, posted, turn)
            }
            WcStatus::RnrRetryExcErr => {
                rnr_retry != RNR_RETRY_FOR_EVER && posted.work.needs_receive()
            }
            _ => false,
        };
        ensure(holds, Invariant::Statuses, || {
            let (name, status, qpn) = (posted.work.name(), wc.status, self.ends[index].qpn);
            let mistake = posted.mistake.map_or("no mistake", |mistake| mistake.name());
            format!("a {name} of {qpn:?} with {mistake} fails: {status} ({})", wc.cause)
        })
    }

    /// True if the peer has posted a receive that explains the status.
    fn meets_bad_receive(&self, index: usize, posted: &Posted, status: WcStatus) -> bool {
        let mut mistakes = self.ends[1 - index].bad_receives.iter();
        posted.work.needs_receive() && mistakes.any(|mistake| mistake.remote_status() == status)
    }

    /// I1, I4, I5: the effect of a request that succeeded.
    fn check_success(&mut self, index: usize, posted: &Posted) -> Check {
        let is_reliable = self.is_reliable();
        let (end, peer) = split(&mut self.ends, index);
        let mut due = Vec::with_capacity(posted.length);
        let name = |(invariant, what)| (invariant, format!("{}: {what}", posted.work.name()));
        if posted.work.needs_receive() && posted.mistake.is_none() {
            end.acknowledged += 1;
        }
        if let Some(window) = posted.window {
            peer.windows.release(window);
        }
        match posted.work {
            Work::Send { .. } | Work::SendInvalidate { .. } | Work::Flush { .. } => Ok(()),
            Work::Write { target, .. } | Work::AtomicWrite { target } => {
                end.arena.copy_source(&posted.pieces, &mut due);
                if !is_reliable {
                    due.truncate(if posted.mistake.is_some() { 0 } else { due.len() });
                    peer.uncertain.push((target, due));
                    return Ok(());
                }
                peer.arena.check(target, 0, &due).map_err(name)?;
                peer.arena.release(target, due.len());
                self.check_withdrawn(index, posted, &due)
            }
            Work::Bind { window } => {
                end.note_bound(window, WindowState::Bound);
                Ok(())
            }
            Work::Unbind { window } => {
                end.note_bound(window, WindowState::Free);
                Ok(())
            }
            Work::Invalidate { window } => {
                end.note_invalidated(window);
                Ok(())
            }
            Work::Read { offset, landing } => {
                peer.arena.copy_source(&vec![(offset, posted.length as u32)], &mut due);
                end.arena.check(landing, 0, &due).map_err(name)?;
                end.arena.release(landing, due.len());
                Ok(())
            }
            Work::FetchAdd { word, landing, .. } | Work::CompareSwap { word, landing, .. } => {
                let old = peer.arena.words[word];
                let returned = end.arena.load_word(landing);
                ensure(returned == old, Invariant::Atomics, || {
                    format!("{} returns {returned:#x}, not {old:#x}", posted.work.name())
                })?;
                peer.arena.words[word] = posted.work.word_after(old);
                end.arena.check(landing, 0, &old.to_ne_bytes()).map_err(name)?;
                end.arena.release(landing, 8);
                Ok(())
            }
        }
    }

    fn handle_receive(
        &mut self,
        index: usize,
        wc: &Wc,
        turn: &mut Turn<'_>,
    ) -> Result<HasFailed, (Invariant, String)> {
        let end = &mut self.ends[index];
        let posted = end.receives.pop_front().filter(|posted| posted.wr_id == wc.wr_id);
        let Some(posted) = posted else {
            let what = format!("receive {} completes out of order or twice", wc.wr_id);
            return Err((Invariant::Completions, what));
        };
        if wc.status != WcStatus::Success {
            turn.coverage.count("a receive that fails");
            turn.coverage.count(wc.status.name());
            // A WRITE with immediate that is refused fails the receive it would have consumed.
            let is_refused = wc.status == WcStatus::LocAccessErr && self.has_mistake;
            let is_bad = posted.mistake.is_some_and(|mistake| mistake.status() == wc.status);
            let has_ended = self.is_ending || self.has_mistake || !end.failed.is_empty();
            let is_flushed =
                wc.status == WcStatus::WrFlushErr && (has_ended || !end.bad_receives.is_empty());
            ensure(is_bad || is_refused || is_flushed, Invariant::Statuses, || {
                format!("a receive fails: {} ({})", wc.status, wc.cause)
            })?;
            end.failed_receives.push(posted);
            // A sender that can learn why must do so before the connection ends.
            let waits = is_bad && self.is_reliable();
            self.has_mistake |= waits;
            return Ok(!waits);
        }
        turn.coverage.count("a message that is received");
        ensure(posted.may_take(wc), Invariant::Statuses, || {
            format!("a receive with {:?} takes {} bytes", posted.mistake, wc.byte_len)
        })?;
        end.received += 1;
        let message = self.message(index, wc)?;
        self.check_message(index, wc, posted.slot, &message)?;
        // The receive of a message that was lost in part may hold more than this message.
        let written = if self.is_reliable() { wc.byte_len as usize } else { MAX_MESSAGE };
        self.ends[index].arena.release(posted.slot, written);
        Ok(false)
    }

    /// I6: the message that has arrived.
    fn message(&mut self, index: usize, wc: &Wc) -> Result<Message, (Invariant, String)> {
        let service = self.plan.service;
        let end = &mut self.ends[index];
        let foreign = || {
            let what =
                format!("{:?} of {} bytes arrives, imm {:?}", wc.opcode, wc.byte_len, wc.imm);
            (Invariant::Messages, format!("{what}: not sent, out of order, or twice"))
        };
        if service.is_reliable() {
            return end.awaited.pop_front().ok_or_else(foreign);
        }
        let place = end.awaited.iter().position(|message| Some(message.number) == wc.imm);
        let place = place.ok_or_else(foreign)?;
        if self.network_reorders {
            return Ok(end.awaited[place].clone());
        }
        end.awaited.drain(..place);
        end.awaited.pop_front().ok_or_else(foreign)
    }

    fn check_message(&mut self, index: usize, wc: &Wc, slot: SlotId, message: &Message) -> Check {
        let is_ud = self.plan.service == QpType::Ud;
        let (end, peer) = split(&mut self.ends, index);
        let number = message.number;
        let header = if is_ud { GRH } else { 0 };
        let opcode = if message.is_write { WcOpcode::RecvRdmaWithImm } else { WcOpcode::Recv };
        let due = (opcode, (message.length + header) as u32, message.imm);
        let is = (wc.opcode, wc.byte_len, wc.imm);
        ensure(is == due, Invariant::Messages, || {
            format!("message {number} arrives as {is:?}, not {due:?}")
        })?;
        if let Some(rkey) = message.invalidates {
            let holds = wc.invalidated == Some(rkey.0) && end.windows.note_invalidated(rkey);
            ensure(holds, Invariant::Keys, || {
                format!("message {number} invalidates {:?}, not {rkey:?}", wc.invalidated)
            })?;
            end.stale_keys.push(rkey);
        }
        let mut bytes = Vec::with_capacity(message.length);
        if !message.is_write {
            peer.arena.copy_source(&message.pieces, &mut bytes);
        }
        let checked = if self.plan.service == QpType::Uc {
            // The receive of a message that was lost in part takes the next one.
            end.arena.check_reused(slot, header, &bytes)
        } else {
            end.arena.check(slot, header, &bytes)
        };
        checked.map_err(|(invariant, what)| (invariant, format!("message {number}: {what}")))
    }
}

/// True if the peer may not answer this end any more, because its process, its queue pair or the connection has ended.
fn may_be_unanswered(pair: &Pair, index: usize) -> bool {
    let peer = &pair.ends[1 - index];
    let has_failed = !peer.failed.is_empty() || peer.overflowed.is_some();
    pair.is_ending || pair.has_slept || pair.has_mistake || peer.is_lost || has_failed
}

/// True if faults explain that all retries of a request are used up: one for each of them.
fn faults_explain(pair: &Pair, index: usize, posted: &Posted, turn: &Turn<'_>) -> bool {
    let (end, peer) = (&pair.ends[index], &pair.ends[1 - index]);
    // The sequence NAK behind an RNR NAK of the model may come when the wait is over, and costs a retry.
    let mut unanswered = end.sends.iter().chain([posted]);
    let meets_no_receive = peer.nic.is_model() && unanswered.any(|one| one.work.needs_receive());
    if end.nic.is_model() || meets_no_receive {
        return true;
    }
    let is_calm = turn.calm_since_ns.is_some_and(|since| posted.posted_ns >= since);
    let faults = turn.monitor.recent_faults((end.node, end.qpn), turn.drain_ns);
    !is_calm && faults >= usize::from(pair.plan.retry_cnt)
}

/// True if the first request of an end that fails does so because nobody answers: its peer is no more, and nothing
/// else has ended its queue pair.
fn must_time_out(pair: &Pair, index: usize) -> bool {
    let (end, peer) = (&pair.ends[index], &pair.ends[1 - index]);
    let is_alone = peer.is_lost && matches!(pair.phase, Phase::Bereaved { .. });
    is_alone && pair.managed.is_none() && pair.is_reliable() && end.overflowed.is_none()
}

/// The end with this index, and the other one.
pub(super) fn split(
    ends: &mut [crate::end::End; 2],
    index: usize,
) -> (&mut crate::end::End, &mut crate::end::End) {
    let [first, second] = ends;
    if index == 0 { (first, second) } else { (second, first) }
}
