//! Events of connections, held against what both applications have done.

use uroce_device::CmEventKind;
use uroce_device::cm::{CommId, ConnectionRequest, RejReason};
use uroce_device::transport::QpState;

use super::calling::{ACCEPT_ROOM, REJECT_ROOM};
use super::{CmEnd, CmTurn, Managed, Reception, Standing};
use crate::pair::Turn;
use crate::violation::{Check, Invariant, ensure};

/// True if `is` holds `due`, filled up with zeros to what the message has room for.
fn holds(is: &[u8], due: &[u8], room: usize) -> bool {
    let zeros = is.get(due.len()..).unwrap_or_default();
    is.len() == room && is.starts_with(due) && zeros.iter().all(|byte| *byte == 0)
}

fn wrong(what: String) -> Check {
    Err((Invariant::Statuses, what))
}

impl CmTurn<'_> {
    /// Takes the events that were fetched.
    pub(in crate::pair) fn take_events(
        &mut self,
        managed: &mut Managed,
        turn: &mut Turn<'_>,
    ) -> Check {
        while let Some((index, event)) = managed.events.pop_front() {
            self.pair.has_acted = true;
            let id = event.id;
            match event.kind {
                CmEventKind::ConnectRequest(request) => {
                    self.take_request(managed, index, id, &request, turn)?;
                }
                // Of a call that was too late to be looked at, and was rejected.
                _ if managed.ends[index].id != Some(id) => {}
                CmEventKind::Established { private_data, .. } => {
                    self.take_established(managed, index, &private_data, turn)?;
                }
                CmEventKind::Rejected { reason, private_data, .. } => {
                    self.take_rejected(managed, index, (reason, &private_data), turn)?;
                }
                CmEventKind::Unreachable => self.take_unreachable(managed, index, turn)?,
                CmEventKind::Disconnected { private_data, .. } => {
                    self.take_disconnected(managed, index, &private_data, turn)?;
                }
                CmEventKind::TimewaitExit => {
                    let standing = managed.ends[index].standing;
                    ensure(standing == Standing::Ended, Invariant::Statuses, || {
                        format!("a TIMEWAIT ends while a connection is {standing:?}")
                    })?;
                    managed.ends[index].finish(self.pair.ends[index].nic.device());
                }
                other => return wrong(format!("an event that nothing explains: {other:?}")),
            }
        }
        Ok(())
    }

    /// A REQ has come: of this call, once, or a late copy of another one.
    fn take_request(
        &mut self,
        managed: &mut Managed,
        index: usize,
        event: CommId,
        request: &ConnectionRequest,
        turn: &mut Turn<'_>,
    ) -> Check {
        let data = &request.private_data;
        let number = data.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        ensure((1..=managed.calls).contains(&number), Invariant::Messages, || {
            format!("call {number} comes, and {} were made", managed.calls)
        })?;
        let is_open = !managed.ends[index].is_over();
        if number == managed.calls {
            let (caller, room) = (managed.caller(), managed.call_room());
            let greeting = &managed.ends[caller].greeting;
            let is_right = index == managed.callee() && holds(data, greeting, room);
            ensure(is_right, Invariant::Bytes, || {
                format!("a REQ brings the private data {data:02x?}, not {greeting:02x?}")
            })?;
            self.check_request(managed, request)?;
            // R108: one that comes again is answered as before, and nobody is asked again.
            ensure(!is_open, Invariant::Messages, || "a REQ that came before asks again".into())?;
        }
        let is_new = number == managed.calls && managed.ends[index].standing == Standing::Idle;
        if !is_new {
            turn.coverage.count("a copy of a REQ that comes too late");
            let cm = self.pair.ends[index].nic.device().cm();
            let again = managed.has_rejected && number == managed.calls;
            let data: &[u8] = if again { &managed.ends[index].greeting } else { &[] };
            // The peer may have taken it back meanwhile.
            let _ = cm.reject(event, RejReason::CONSUMER, data);
            cm.release(event);
            return Ok(());
        }
        let due_ns = turn.now_ns + self.pair.random.below(managed.plan.decision_ns as usize) as u64;
        managed.ends[index].id = Some(event);
        managed.ends[index].enter(Standing::Deciding { due_ns }, None);
        Ok(())
    }

    /// The called application hears what the caller has asked for.
    fn check_request(&self, managed: &Managed, request: &ConnectionRequest) -> Check {
        let caller = managed.caller();
        let [serves, wants] = managed.plan.depths[caller];
        let is = (request.remote, request.remote_qpn, request.service_id);
        let due = (self.pair.ends[caller].nic.address(), managed.calling_qpn, managed.service);
        ensure(is == due, Invariant::Messages, || format!("a REQ says {is:?}, not {due:?}"))?;
        let is = [
            request.initiator_depth,
            request.responder_resources,
            request.retry_count,
            request.rnr_retry_count,
        ];
        let due = [serves, wants, self.pair.plan.retry_cnt, managed.plan.rnr_retries[caller]];
        ensure(is == due, Invariant::Messages, || {
            format!("a REQ asks for depths and retries {is:?}, not {due:?}")
        })
    }

    fn take_established(
        &mut self,
        managed: &mut Managed,
        index: usize,
        data: &[u8],
        turn: &mut Turn<'_>,
    ) -> Check {
        let peer = &managed.ends[1 - index];
        match managed.ends[index].standing {
            Standing::Calling => {
                // I4: the called end has accepted before.
                let has_accepted = match peer.standing {
                    Standing::Idle | Standing::Calling | Standing::Deciding { .. } => false,
                    Standing::Over => !managed.has_rejected,
                    _ => true,
                };
                ensure(has_accepted, Invariant::Effects, || {
                    format!("a call is established whose callee is {:?}", peer.standing)
                })?;
                ensure(holds(data, &peer.greeting, ACCEPT_ROOM), Invariant::Bytes, || {
                    format!("a REP brings the private data {data:02x?}, not {:02x?}", peer.greeting)
                })?;
                turn.coverage.count("a connection that is made by connection management");
                self.check_link(managed, index)?;
            }
            Standing::Accepted => {
                ensure(peer.was_established, Invariant::Effects, || {
                    "a REP is confirmed that the caller does not know".to_owned()
                })?;
                ensure(data.iter().all(|byte| *byte == 0), Invariant::Bytes, || {
                    format!("an RTU brings private data: {data:02x?}")
                })?;
                if data.is_empty() {
                    turn.coverage.count("a first packet that stands for a lost RTU");
                }
            }
            standing => return wrong(format!("a connection that is {standing:?} is established")),
        }
        managed.ends[index].was_established = true;
        managed.ends[index].enter(Standing::Established, None);
        self.pair.ends[index].wake_ns = Some(turn.now_ns + 1);
        Ok(())
    }

    /// I15: the refusal is explained by what the called application does, or by faults.
    fn take_rejected(
        &mut self,
        managed: &mut Managed,
        index: usize,
        (reason, data): (RejReason, &[u8]),
        turn: &mut Turn<'_>,
    ) -> Check {
        let standing = managed.ends[index].standing;
        if index == managed.callee() {
            // The caller has given up.
            let gave_up = managed.ends[managed.caller()].standing == Standing::Over;
            let is_known = matches!(standing, Standing::Deciding { .. } | Standing::Accepted);
            ensure(
                gave_up && is_known && reason == RejReason::TIMEOUT,
                Invariant::Statuses,
                || format!("a caller takes its call back: {reason}, callee is {standing:?}"),
            )?;
            turn.coverage.count("a call that is taken back");
            return self.note_failed(managed, index, turn);
        }
        ensure(standing == Standing::Calling, Invariant::Statuses, || {
            format!("a connection that is {standing:?} is rejected: {reason}")
        })?;
        let is_calm = managed.called.is_some_and(|(_, is_calm)| is_calm);
        let callee = &managed.ends[managed.callee()];
        let is_explained = match reason {
            RejReason::CONSUMER => managed.has_rejected || !is_calm,
            RejReason::INVALID_SERVICE_ID => {
                matches!(managed.reception, Reception::Absent | Reception::Lost { .. })
            }
            // Copies of earlier REQs are calls, until the application has refused them.
            RejReason::NO_RESOURCES => {
                matches!(managed.reception, Reception::Full | Reception::Lost { was_full: true })
                    || !is_calm && managed.may_be_full_of_copies()
            }
            // The called end has given up meanwhile.
            RejReason::STALE_CONNECTION => !is_calm,
            // It says so when no RTU comes; its late REP has arrived before that, and was not answered yet.
            RejReason::TIMEOUT => !is_calm && callee.standing != Standing::Established,
            _ => false,
        };
        ensure(is_explained, Invariant::Statuses, || {
            format!("a call is rejected: {reason}, and {:?} was planned", managed.reception)
        })?;
        if managed.has_rejected && reason == RejReason::CONSUMER {
            let due = &callee.greeting;
            ensure(holds(data, due, REJECT_ROOM), Invariant::Bytes, || {
                format!("a REJ brings the private data {data:02x?}, not {due:02x?}")
            })?;
        }
        self.note_failed(managed, index, turn)
    }

    fn take_unreachable(
        &mut self,
        managed: &mut Managed,
        index: usize,
        turn: &mut Turn<'_>,
    ) -> Check {
        let standing = managed.ends[index].standing;
        match standing {
            Standing::Calling => {
                turn.coverage.count("a call that nobody answers");
                let what = "a call to a listener has no answer, without faults";
                ensure(!self.must_succeed(managed), Invariant::Liveness, || what.to_owned())?;
            }
            Standing::Accepted => {
                turn.coverage.count("a REP that nobody confirms");
                let is_confirmed = self.must_succeed(managed)
                    || managed.must_be_confirmed(turn.now_ns, turn.calm_since_ns);
                let what = "a REP is not confirmed, without faults";
                ensure(!is_confirmed, Invariant::Liveness, || what.to_owned())?;
            }
            _ => {
                return wrong(format!("a peer is out of reach while a connection is {standing:?}"));
            }
        }
        self.note_failed(managed, index, turn)
    }

    /// No connection came of a call, or of an acceptance.
    fn note_failed(&mut self, managed: &mut Managed, index: usize, turn: &mut Turn<'_>) -> Check {
        let device = self.pair.ends[index].nic.device();
        let has_accepted = managed.ends[index].standing == Standing::Accepted;
        if has_accepted {
            self.check_error_state(index, &managed.ends[index])?;
            let until_ns = turn.now_ns + managed.plan.timewait_ns();
            managed.ends[index].enter(Standing::Ended, Some((until_ns, "a TIMEWAIT lasts")));
        } else {
            managed.ends[index].finish(device);
        }
        Ok(())
    }

    fn take_disconnected(
        &mut self,
        managed: &mut Managed,
        index: usize,
        data: &[u8],
        turn: &mut Turn<'_>,
    ) -> Check {
        let (end, peer) = (&managed.ends[index], &managed.ends[1 - index]);
        let is_known =
            matches!(end.standing, Standing::Accepted | Standing::Established | Standing::Leaving);
        ensure(is_known, Invariant::Statuses, || {
            format!("a connection that is {:?} ends", end.standing)
        })?;
        let is_empty = data.iter().all(|byte| *byte == 0);
        let due = peer.farewell.as_deref().unwrap_or_default();
        ensure(is_empty || holds(data, due, data.len()), Invariant::Bytes, || {
            format!("a DREQ brings the private data {data:02x?}, not {due:02x?}")
        })?;
        // I15: somebody has ended it, or given up.
        let has_left = !matches!(peer.standing, Standing::Established | Standing::Accepted);
        let is_explained = end.standing == Standing::Leaving || has_left;
        ensure(is_explained, Invariant::Statuses, || {
            format!("a connection ends that nobody has ended; the peer is {:?}", peer.standing)
        })?;
        if end.standing != Standing::Leaving {
            turn.coverage.count("an end that hears of a disconnect");
        }
        self.check_error_state(index, end)?;
        let until_ns = turn.now_ns + managed.plan.timewait_ns();
        managed.ends[index].enter(Standing::Ended, Some((until_ns, "a TIMEWAIT lasts")));
        Ok(())
    }

    /// The queue pair of a connection that is over does nothing more.
    fn check_error_state(&self, index: usize, end: &CmEnd) -> Check {
        if end.is_destroyed {
            return Ok(());
        }
        let qpn = self.pair.ends[index].qpn;
        let (attr, _) = self.pair.ends[index].nic.device().query_qp(qpn).expect("it exists");
        ensure(attr.state == QpState::Err, Invariant::Statuses, || {
            format!("a connection is over, and its queue pair is in {}", attr.state.name())
        })
    }
}
