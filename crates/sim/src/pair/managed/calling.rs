//! From a call to its outcome.

use uroce_device::cm::message::TransportService;
use uroce_device::cm::{Acceptance, Call, RejReason};
use uroce_device::wire::{Psn, Qpn};

use super::{CmTurn, Managed, Reception, Standing};
use crate::pair::{Phase, Turn, start_psn};
use crate::random::Random;
use crate::scenario::LONGEST_DELAY_NS;
use crate::violation::{Check, Invariant};

/// How long a request waits for a listener that is announced.
const ANNOUNCED_NS: usize = 2_000_000_000;
/// Calls that may wait for a listener that comes late.
const LATE_BACKLOG: usize = 8;
/// Of all connections of one caller, a copy of a REP leaves in this time, as long as none was confirmed: its address may
/// be forged.
const UNPROVEN_NS: u64 = 500_000_000;
/// A caller that gives up does so within this time.
const HANG_UP_NS: usize = 150_000_000;
/// Room for private data of the caller, with and without the header of rdma_cm.
pub(super) const CALL_ROOM: [usize; 2] = [92, 56];
/// Room for private data of the called end: when it accepts, and when it rejects.
pub(super) const ACCEPT_ROOM: usize = 196;
pub(super) const REJECT_ROOM: usize = 148;

impl Managed {
    pub(super) fn call_room(&self) -> usize {
        CALL_ROOM[usize::from(self.plan.is_rdma_cm)]
    }

    /// Draws what becomes of the next call.
    fn draw_reception(&mut self, now_ns: u64, random: &mut Random) {
        self.reception = Reception::Accept;
        if self.failures_left == 0 || random.chance(40) {
            return;
        }
        self.failures_left -= 1;
        self.reception = match random.below(5) {
            0 => Reception::Reject,
            1 => Reception::Absent,
            2 => Reception::Full,
            3 => Reception::Late { at_ns: now_ns + random.below(ANNOUNCED_NS) as u64 },
            _ => Reception::HangUp { at_ns: now_ns + random.below(HANG_UP_NS) as u64 },
        };
    }

    /// The first private data of a call is its number, by which a late copy is known; the rest is drawn.
    fn draw_greeting(&mut self, random: &mut Random) {
        let mut call = vec![0; random.range(8, self.call_room())];
        random.fill(&mut call);
        call[..8].copy_from_slice(&self.calls.to_be_bytes());
        let mut answer = vec![0; random.range(1, REJECT_ROOM)];
        random.fill(&mut answer);
        let (caller, callee) = (self.caller(), self.callee());
        (self.ends[caller].greeting, self.ends[callee].greeting) = (call, answer);
    }

    /// True if the caller knows the connection, and copies of the REP have come to it since there are no faults.
    pub(super) fn must_be_confirmed(&self, now_ns: u64, calm_since_ns: Option<u64>) -> bool {
        let copies_ns = 2 * self.plan.answer_ns() / (1 + u64::from(self.plan.max_retries))
            + UNPROVEN_NS * self.pairs;
        let is_calm = calm_since_ns.is_some_and(|since| since + copies_ns < now_ns);
        is_calm && self.plan.max_retries > 2 && self.may_send(self.caller())
    }

    fn call(&self, remote: std::net::IpAddr, qpn: Qpn, timeout: u8, retry_cnt: u8) -> Call {
        let (plan, caller) = (&self.plan, self.caller());
        let [serves, wants] = plan.depths[caller];
        Call {
            source_port: 50_000,
            transport: TransportService::RC,
            responder_resources: serves,
            initiator_depth: wants,
            retry_count: retry_cnt,
            rnr_retry_count: plan.rnr_retries[caller],
            packet_lifetime: plan.packet_lifetime,
            ack_timeout: Some(timeout),
            response_timeout: plan.response_timeout,
            max_retries: plan.max_retries,
            private_data: self.ends[caller].greeting.clone(),
            // The PSN that an end names is the first one that it expects.
            ..Call::new(remote, self.service, qpn, Psn::new(self.psns[self.callee()]))
        }
    }

    fn acceptance(&self, qpn: Qpn, timeout: u8) -> Acceptance {
        let callee = self.callee();
        let [serves, wants] = self.plan.depths[callee];
        Acceptance {
            responder_resources: serves,
            initiator_depth: wants,
            rnr_retry_count: self.plan.rnr_retries[callee],
            ack_timeout: Some(timeout),
            private_data: self.ends[callee].greeting.clone(),
            ..Acceptance::new(qpn, Psn::new(self.psns[self.caller()]))
        }
    }
}

impl CmTurn<'_> {
    /// A turn while a call has no outcome yet.
    pub(in crate::pair) fn connecting(
        &mut self,
        managed: &mut Managed,
        turn: &mut Turn<'_>,
    ) -> Check {
        if managed.called.is_none() {
            self.make_call(managed, turn)?;
        }
        self.serve_connection(managed, turn)?;
        let caller = &managed.ends[managed.caller()];
        match caller.standing {
            Standing::Established => self.pair.phase = Phase::Running,
            Standing::Over | Standing::Ended => self.end_connection(managed, turn)?,
            _ => {}
        }
        Ok(())
    }

    /// The listener is as it shall be, and the caller calls.
    fn make_call(&mut self, managed: &mut Managed, turn: &mut Turn<'_>) -> Check {
        self.pair.has_acted = true;
        managed.calls += 1;
        managed.ends.iter_mut().for_each(super::CmEnd::clear);
        managed.has_rejected = false;
        managed.psns = [start_psn(&mut self.pair.random), start_psn(&mut self.pair.random)];
        managed.draw_reception(turn.now_ns, &mut self.pair.random);
        managed.draw_greeting(&mut self.pair.random);
        self.prepare_listener(managed, turn)?;
        let caller = managed.caller();
        let remote = self.pair.ends[managed.callee()].nic.address();
        let qpn = self.pair.ends[caller].qpn;
        managed.calling_qpn = qpn;
        let call = managed.call(remote, qpn, self.pair.plan.timeout, self.pair.plan.retry_cnt);
        let device = self.pair.ends[caller].nic.device();
        let end = &mut managed.ends[caller];
        let id = device.cm().connect(&call, &end.channel, managed.calls);
        let refused = |error| (Invariant::Completions, format!("a call was refused: {error}"));
        end.id = Some(id.map_err(refused)?);
        // A copy of the REQ may draw an MRA from the moment on at which the application is asked.
        let until_ns = turn.now_ns + managed.plan.call_ns() + managed.plan.mra_ns();
        end.enter(Standing::Calling, Some((until_ns, "a call has no outcome")));
        managed.called =
            Some((turn.now_ns, turn.calm_since_ns.is_some_and(|at| at <= turn.now_ns)));
        turn.coverage.count("a call by connection management");
        Ok(())
    }

    fn prepare_listener(&mut self, managed: &mut Managed, turn: &mut Turn<'_>) -> Check {
        let wanted = match managed.reception {
            Reception::Absent | Reception::Lost { .. } | Reception::Late { .. } => None,
            Reception::Full => Some(0),
            _ => Some(
                managed
                    .backlog
                    .filter(|backlog| *backlog > 0)
                    .unwrap_or(1 + self.pair.random.below(3)),
            ),
        };
        let cm = self.pair.ends[managed.callee()].nic.device().cm();
        if managed.backlog != wanted && managed.backlog.take().is_some() {
            cm.unlisten(managed.service).expect("it listens");
        }
        cm.unbind(managed.service);
        if let (Some(backlog), None) = (wanted, managed.backlog) {
            self.listen(managed, backlog)?;
        }
        match managed.reception {
            Reception::Absent => turn.coverage.count("a call to a service without a listener"),
            Reception::Full => turn.coverage.count("a call to a listener whose backlog is full"),
            Reception::Late { .. } => {
                let cm = self.pair.ends[managed.callee()].nic.device().cm();
                let bound = cm.bind(managed.service);
                bound.map_err(|error| (Invariant::Completions, format!("a bind: {error}")))?;
                cm.expect_listener(managed.service);
            }
            _ => {}
        }
        Ok(())
    }

    fn listen(&self, managed: &mut Managed, backlog: usize) -> Check {
        let callee = managed.callee();
        let cm = self.pair.ends[callee].nic.device().cm();
        let listens = cm.listen(managed.service, backlog, &managed.ends[callee].channel, 0);
        listens.map_err(|error| (Invariant::Completions, format!("nobody can listen: {error}")))?;
        managed.backlog = Some(backlog);
        Ok(())
    }

    /// What applications do about their connection: they take events, decide, and do what is due.
    pub(in crate::pair) fn serve_connection(
        &mut self,
        managed: &mut Managed,
        turn: &mut Turn<'_>,
    ) -> Check {
        managed.fetch([true; 2]);
        self.take_events(managed, turn)?;
        match managed.reception {
            Reception::Late { at_ns } if at_ns <= turn.now_ns && managed.backlog.is_none() => {
                self.pair.has_acted = true;
                // Older calls may come before this one.
                self.listen(managed, LATE_BACKLOG)?;
                turn.coverage.count("a listener that comes after its call");
            }
            Reception::HangUp { at_ns } if at_ns <= turn.now_ns && managed.is_calling() => {
                self.pair.has_acted = true;
                let caller = managed.caller();
                managed.ends[caller].finish(self.pair.ends[caller].nic.device());
                turn.coverage.count("a call that the caller gives up");
            }
            _ => {}
        }
        let callee = managed.callee();
        if matches!(managed.ends[callee].standing, Standing::Deciding { due_ns } if due_ns <= turn.now_ns)
        {
            self.decide(managed, turn)?;
        }
        managed.check_due(turn.now_ns)
    }

    /// The called end accepts, or rejects.
    fn decide(&mut self, managed: &mut Managed, turn: &mut Turn<'_>) -> Check {
        self.pair.has_acted = true;
        let callee = managed.callee();
        let end = &self.pair.ends[callee];
        let cm = end.nic.device().cm();
        let id = managed.ends[callee].id.expect("it was called");
        if managed.reception == Reception::Reject {
            let rejected = cm.reject(id, RejReason::CONSUMER, &managed.ends[callee].greeting);
            rejected.map_err(|error| (Invariant::Completions, format!("a REJ: {error}")))?;
            managed.has_rejected = true;
            managed.ends[callee].finish(end.nic.device());
            turn.coverage.count("a call that is rejected");
            return Ok(());
        }
        let acceptance = managed.acceptance(end.qpn, self.pair.plan.timeout);
        let accepted = cm.accept(id, &acceptance);
        accepted.map_err(|error| (Invariant::Completions, format!("a REP: {error}")))?;
        let until_ns = turn.now_ns + managed.plan.answer_ns();
        managed.ends[callee].enter(Standing::Accepted, Some((until_ns, "a REP has no outcome")));
        self.note_link(managed);
        self.check_link(managed, callee)
    }

    /// True if this call must succeed: it was made without faults, to a listener, and is answered in time.
    pub(super) fn must_succeed(&self, managed: &Managed) -> bool {
        let is_calm = managed.called.is_some_and(|(_, is_calm)| is_calm);
        let slack_ns = 4 * LONGEST_DELAY_NS;
        let once_ns = managed.plan.call_ns() / 2;
        is_calm
            && managed.reception == Reception::Accept
            && managed.plan.decision_ns + slack_ns < once_ns
    }
}
