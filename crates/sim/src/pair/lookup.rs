//! The queue pair of one end is looked up by the other one (SIDR), before any datagram is sent.

use std::collections::VecDeque;

use uroce_device::cm::{Answer, CommId, Question, RejReason, ServiceId, SidrStatus};
use uroce_device::{CmChannel, CmEvent, CmEventKind};

use super::{Pair, Phase, Turn};
use crate::end::{End, QKEY};
use crate::lookup_plan::LookupPlan;
use crate::random::Random;
use crate::scenario::LONGEST_DELAY_NS;
use crate::violation::{Check, Invariant, ensure};

/// Room for private data of a question, without and with the header of rdma_cm, and of an answer.
const QUESTION_ROOM: [usize; 2] = [216, 180];
const ANSWER_ROOM: usize = 136;
const BACKLOG: usize = 4;

/// What the asked end does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LookupReply {
    Tell,
    Refuse,
    /// Nobody listens.
    Absent,
}

/// A question that has no outcome yet.
#[derive(Debug)]
struct OpenQuestion {
    id: CommId,
    greeting: Vec<u8>,
    answer: Vec<u8>,
    reply: LookupReply,
    /// It has its outcome by then.
    due_ns: u64,
    /// There were no faults when it was put.
    is_calm: bool,
    /// What the asked application calls it, and when it decides.
    deciding: Option<(CommId, u64)>,
    /// The asked application was told of it.
    was_asked: bool,
    /// It has answered.
    was_answered: bool,
    /// The asked process is no more.
    is_orphan: bool,
}

/// What both applications know.
#[derive(Debug)]
pub(super) struct Lookup {
    plan: LookupPlan,
    service: ServiceId,
    channels: [CmChannel; 2],
    /// Events that were fetched, each with the end that they came to.
    events: VecDeque<(usize, CmEvent)>,
    listens: bool,
    open: Option<OpenQuestion>,
    /// Questions so far, which tell them apart.
    asked: u64,
    /// Questions of this connection.
    tries: u64,
    failures_left: usize,
}

/// A turn of a pair that has not found its peer yet.
struct LookupTurn<'a, 't> {
    ends: &'a [End; 2],
    random: &'a mut Random,
    turn: &'a mut Turn<'t>,
}

/// A turn of a pair one of whose ends asks for the other one. Afterwards it may be running.
pub(super) fn resolve(pair: &mut Pair, turn: &mut Turn<'_>) -> Check {
    pair.has_acted = true;
    let Some(lookup) = &mut pair.lookup else { return Ok(()) };
    let mut asking = LookupTurn { ends: &pair.ends, random: &mut pair.random, turn };
    if asking.run(lookup)? {
        pair.phase = Phase::Running;
    }
    Ok(())
}

fn channel() -> CmChannel {
    CmChannel::new().expect("a descriptor")
}

/// True if `is` holds `due`, filled up with zeros.
fn holds(is: &[u8], due: &[u8], room: usize) -> bool {
    let zeros = is.get(due.len()..).unwrap_or_default();
    is.len() == room && is.starts_with(due) && zeros.iter().all(|byte| *byte == 0)
}

impl Lookup {
    pub(super) fn new(plan: &LookupPlan, number: usize) -> Lookup {
        Lookup {
            service: plan.service(number),
            channels: [channel(), channel()],
            events: VecDeque::new(),
            listens: false,
            open: None,
            asked: 0,
            tries: 0,
            failures_left: plan.failures,
            plan: plan.clone(),
        }
    }

    fn callee(&self) -> usize {
        1 - self.plan.caller
    }

    /// Fetches the events of the ends that `may_have` some. True if any wait.
    pub(super) fn fetch(&mut self, may_have: [bool; 2]) -> bool {
        for (index, channel) in
            self.channels.iter().enumerate().filter(|(index, _)| may_have[*index])
        {
            while let Some(event) = channel.try_event() {
                self.events.push_back((index, event));
            }
        }
        !self.events.is_empty()
    }

    /// When something is due of itself.
    pub(super) fn poll_timeout(&self) -> u64 {
        let Some(open) = &self.open else { return 0 };
        let decision = open.deciding.map(|(_, due_ns)| due_ns);
        // Late is what has not happened when its time is over.
        decision.into_iter().chain([open.due_ns + 1]).min().unwrap_or_default()
    }

    /// The process of an end is no more.
    pub(super) fn lose(&mut self, index: usize) {
        self.channels[index] = channel();
        self.events.retain(|(to, _)| *to != index);
        if index == self.plan.caller {
            self.open = None;
        } else {
            self.listens = false;
            if let Some(open) = &mut self.open {
                (open.deciding, open.was_asked, open.is_orphan) = (None, false, true);
            }
        }
    }

    /// Nothing of an earlier connection counts.
    pub(super) fn begin(&mut self, ends: &[End; 2]) {
        self.forget(ends);
        self.tries = 0;
    }

    /// Gives back what both ends have of questions.
    fn forget(&mut self, ends: &[End; 2]) {
        if let Some(open) = self.open.take() {
            ends[self.plan.caller].nic.device().cm().release(open.id);
            if let Some((id, _)) = open.deciding {
                ends[self.callee()].nic.device().cm().release(id);
            }
        }
        self.fetch([true; 2]);
        for (index, event) in std::mem::take(&mut self.events) {
            ends[index].nic.device().cm().release(event.id);
        }
    }

    /// The listener goes, and what came for it too late to be looked at.
    pub(super) fn destroy(&mut self, ends: &[End; 2]) {
        self.forget(ends);
        if std::mem::take(&mut self.listens) {
            let cm = ends[self.callee()].nic.device().cm();
            cm.unlisten(self.service).expect("it listens");
        }
    }
}

impl LookupTurn<'_, '_> {
    /// True when the caller knows the queue pair, or goes by what it has heard elsewhere.
    fn run(&mut self, lookup: &mut Lookup) -> Result<bool, (Invariant, String)> {
        if lookup.open.is_none() {
            if lookup.tries >= LookupPlan::MOST {
                return Ok(true);
            }
            self.ask(lookup)?;
        }
        lookup.fetch([true; 2]);
        while let Some((index, event)) = lookup.events.pop_front() {
            if self.take_event(lookup, index, event)? {
                return Ok(true);
            }
        }
        self.decide(lookup)?;
        let late = lookup.open.as_ref().is_some_and(|open| open.due_ns < self.turn.now_ns);
        ensure(!late, Invariant::Liveness, || {
            "a question has no outcome, although all timeouts and retries are over".to_owned()
        })?;
        Ok(false)
    }

    fn draw_reply(&mut self, lookup: &mut Lookup) -> LookupReply {
        if lookup.failures_left == 0 || self.random.chance(40) {
            return LookupReply::Tell;
        }
        lookup.failures_left -= 1;
        if self.random.chance(50) { LookupReply::Refuse } else { LookupReply::Absent }
    }

    fn draw_data(&mut self, room: usize) -> Vec<u8> {
        let mut data = vec![0; self.random.range(8, room)];
        self.random.fill(&mut data);
        data
    }

    /// The listener is as it shall be, and the caller asks.
    fn ask(&mut self, lookup: &mut Lookup) -> Check {
        lookup.asked += 1;
        lookup.tries += 1;
        let reply = self.draw_reply(lookup);
        self.prepare_listener(lookup, reply)?;
        let mut greeting = self.draw_data(QUESTION_ROOM[usize::from(lookup.plan.is_rdma_cm)]);
        greeting[..8].copy_from_slice(&lookup.asked.to_be_bytes());
        let answer = self.draw_data(ANSWER_ROOM);
        let (caller, callee) = (lookup.plan.caller, lookup.callee());
        let question = Question {
            source_port: 50_000,
            response_timeout: lookup.plan.response_timeout,
            max_retries: lookup.plan.max_retries,
            private_data: greeting.clone(),
            ..Question::new(self.ends[callee].nic.address(), lookup.service)
        };
        let cm = self.ends[caller].nic.device().cm();
        let asked = cm.resolve(&question, &lookup.channels[caller], lookup.asked);
        let id = asked
            .map_err(|error| (Invariant::Completions, format!("a question is refused: {error}")))?;
        let due_ns = self.turn.now_ns + lookup.plan.question_ns();
        let is_calm = self.turn.calm_since_ns.is_some_and(|at| at <= self.turn.now_ns);
        lookup.open = Some(OpenQuestion {
            id,
            greeting,
            answer,
            reply,
            due_ns,
            is_calm,
            deciding: None,
            was_asked: false,
            was_answered: false,
            is_orphan: false,
        });
        self.turn.coverage.count("a question for a queue pair");
        Ok(())
    }

    fn prepare_listener(&mut self, lookup: &mut Lookup, reply: LookupReply) -> Check {
        let callee = lookup.callee();
        let cm = self.ends[callee].nic.device().cm();
        if reply == LookupReply::Absent {
            if std::mem::take(&mut lookup.listens) {
                cm.unlisten(lookup.service).expect("it listens");
            }
            self.turn.coverage.count("a question for a service without a listener");
        } else if !std::mem::replace(&mut lookup.listens, true) {
            let listens = cm.listen(lookup.service, BACKLOG, &lookup.channels[callee], 0);
            listens
                .map_err(|error| (Invariant::Completions, format!("nobody can listen: {error}")))?;
        }
        Ok(())
    }

    /// True if the queue pair is known now.
    fn take_event(
        &mut self,
        lookup: &mut Lookup,
        index: usize,
        event: CmEvent,
    ) -> Result<bool, (Invariant, String)> {
        match event.kind {
            CmEventKind::ResolveRequest { private_data, service_id, remote, .. } => {
                let is = (index, service_id, remote);
                let due =
                    (lookup.callee(), lookup.service, self.ends[lookup.plan.caller].nic.address());
                ensure(is == due, Invariant::Messages, || {
                    format!("a question comes as {is:?}, not {due:?}")
                })?;
                self.take_question(lookup, event.id, &private_data).map(|()| false)
            }
            _ if lookup.open.as_ref().is_none_or(|open| open.id != event.id) => Ok(false),
            CmEventKind::Resolved { status, qpn, qkey, private_data } => {
                let told = (qpn == self.ends[lookup.callee()].qpn && qkey == QKEY, private_data);
                self.take_outcome(lookup, status, told)
            }
            CmEventKind::Unreachable => self.take_silence(lookup).map(|()| false),
            other => {
                Err((Invariant::Statuses, format!("an event that nothing explains: {other:?}")))
            }
        }
    }

    /// The asked application hears of a question: of this one once, or of a late copy of another one.
    fn take_question(&mut self, lookup: &mut Lookup, id: CommId, data: &[u8]) -> Check {
        let number = data.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        ensure((1..=lookup.asked).contains(&number), Invariant::Messages, || {
            format!("question {number} comes, and {} were put", lookup.asked)
        })?;
        let current = lookup.asked;
        let cm = self.ends[lookup.callee()].nic.device().cm();
        let open = lookup.open.as_mut().filter(|open| number == current && !open.is_orphan);
        let Some(open) = open else {
            self.turn.coverage.count("a copy of a question that comes too late");
            // The peer hears it, or is gone.
            let _ = cm.reject(id, RejReason::CONSUMER, &[]);
            cm.release(id);
            return Ok(());
        };
        let room = QUESTION_ROOM[usize::from(lookup.plan.is_rdma_cm)];
        ensure(holds(data, &open.greeting, room), Invariant::Bytes, || {
            format!("a question brings the private data {data:02x?}, not {:02x?}", open.greeting)
        })?;
        ensure(!open.was_asked, Invariant::Messages, || {
            "a question that came before asks again".to_owned()
        })?;
        open.was_asked = true;
        let due_ns = self.turn.now_ns + self.random.below(lookup.plan.decision_ns as usize) as u64;
        open.deciding = Some((id, due_ns));
        Ok(())
    }

    /// The asked application answers, or refuses to.
    fn decide(&mut self, lookup: &mut Lookup) -> Check {
        let callee = lookup.callee();
        let Some(open) = &mut lookup.open else { return Ok(()) };
        let now_ns = self.turn.now_ns;
        let Some((id, _)) = open.deciding.take_if(|(_, due_ns)| *due_ns <= now_ns) else {
            return Ok(());
        };
        let cm = self.ends[callee].nic.device().cm();
        open.was_answered = true;
        let answered = match open.reply {
            LookupReply::Tell => cm.answer(
                id,
                &Answer {
                    status: SidrStatus::VALID,
                    qpn: self.ends[callee].qpn,
                    qkey: QKEY,
                    private_data: open.answer.clone(),
                },
            ),
            LookupReply::Refuse | LookupReply::Absent => {
                cm.answer(id, &Answer::refusal(SidrStatus::REJECTED))
            }
        };
        answered.map_err(|error| (Invariant::Completions, format!("an answer: {error}")))?;
        cm.release(id);
        Ok(())
    }

    /// I15: the answer is what the asked application has said. True if the queue pair is known now.
    fn take_outcome(
        &mut self,
        lookup: &mut Lookup,
        status: SidrStatus,
        (is_right, data): (bool, Box<[u8]>),
    ) -> Result<bool, (Invariant, String)> {
        let open = self.close(lookup);
        let is_explained = match status {
            SidrStatus::VALID => open.was_answered && open.reply == LookupReply::Tell,
            SidrStatus::REJECTED => open.was_answered && open.reply == LookupReply::Refuse,
            SidrStatus::INVALID_SERVICE_ID => open.reply == LookupReply::Absent || open.is_orphan,
            _ => false,
        };
        ensure(is_explained, Invariant::Statuses, || {
            format!("a question is answered: {status}, and {:?} was planned", open.reply)
        })?;
        if status != SidrStatus::VALID {
            self.turn.coverage.count("a question that is refused");
            return Ok(false);
        }
        ensure(is_right, Invariant::Bytes, || "an answer names another queue pair".to_owned())?;
        ensure(holds(&data, &open.answer, ANSWER_ROOM), Invariant::Bytes, || {
            format!("an answer brings the private data {data:02x?}, not {:02x?}", open.answer)
        })?;
        self.turn.coverage.count("a question that is answered");
        Ok(true)
    }

    /// I14: a question to a listener has an answer, but for faults.
    fn take_silence(&mut self, lookup: &mut Lookup) -> Check {
        let open = self.close(lookup);
        let decides_in_time = lookup.plan.decision_ns + 4 * LONGEST_DELAY_NS;
        let must_succeed = open.is_calm
            && open.reply != LookupReply::Absent
            && !open.is_orphan
            && decides_in_time < lookup.plan.question_ns();
        ensure(!must_succeed, Invariant::Liveness, || {
            "a question to a listener has no answer, without faults".to_owned()
        })?;
        self.turn.coverage.count("a question that nobody answers");
        Ok(())
    }

    /// The question has its outcome.
    fn close(&mut self, lookup: &mut Lookup) -> OpenQuestion {
        let open = lookup.open.take().expect("its event was taken");
        self.ends[lookup.plan.caller].nic.device().cm().release(open.id);
        if let Some((id, _)) = open.deciding {
            self.ends[lookup.callee()].nic.device().cm().release(id);
        }
        open
    }
}
