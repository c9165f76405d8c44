//! The end that posts operations: keeps the send queues full.

use std::ops::Range;
use std::time::{Duration, Instant};

use uroce_verbs::{
    CompletionQueue, PostError, Qpn, RemoteSlice, Rkey, SendWr, Sge, WorkCompletion,
};

use super::args::{Atomic, Verb};
use super::session::{PerfSession, QKEY};
use crate::failure::Failure;
use crate::peak::Times;
use crate::stop::{Stop, Watch, failed};

/// Completions taken in one poll.
const POLL: usize = 64;
/// How long after its deadline a timed run waits for what is still in flight.
const DRAIN: Duration = Duration::from_secs(1);

/// How long to go on.
#[derive(Debug, Clone, Copy)]
pub enum Goal {
    /// So many messages on each queue pair.
    Messages(u64),
    /// Until then.
    Until(Instant),
}

/// One queue pair's progress.
#[derive(Debug, Clone, Copy, Default)]
struct QpProgress {
    posted: u64,
    completed: u64,
    offset: u64,
}

/// Posts messages of one size on all queue pairs, or on those of one engine.
#[derive(Debug)]
pub struct Requester<'a> {
    session: &'a PerfSession,
    size: u64,
    cq_mod: u64,
    goal: Goal,
    lanes: Vec<QpProgress>,
    /// The engines whose queue pairs it serves, and how many those are.
    engines: Range<usize>,
    served: u64,
    /// Queue pairs that may have room: all at first, then those with completions. Looking at
    /// thousands of full ones for every message would take all the time.
    roomy: Vec<usize>,
    /// Sums over the lanes.
    posted: u64,
    completed: u64,
    /// The clock, as of the latest look.
    now: Instant,
    /// Messages before this moment are not counted.
    counted_from: Option<Instant>,
    /// Where completions are taken to, made once: it is large.
    taken: Box<[WorkCompletion; POLL]>,
}

impl<'a> Requester<'a> {
    /// Starts now, for all queue pairs.
    pub fn new(session: &'a PerfSession, size: u64) -> Self {
        Self::of_engines(session, size, 0..session.engines())
    }

    /// Starts now, for the queue pairs of these engines.
    pub fn of_engines(session: &'a PerfSession, size: u64, engines: Range<usize>) -> Self {
        let count = session.engines();
        let served = (0..session.qps.len()).rev().filter(|qp| engines.contains(&(qp % count)));
        let roomy: Vec<usize> = served.collect();
        let plan = &session.plan;
        let now = Instant::now();
        let margin = plan.margin();
        Requester {
            session,
            size,
            cq_mod: plan.cq_mod(size).into(),
            goal: match plan.duration {
                Some(duration) => Goal::Until(now + duration - margin),
                None => Goal::Messages(plan.iters),
            },
            lanes: vec![QpProgress::default(); session.qps.len()],
            engines,
            served: roomy.len() as u64,
            roomy,
            posted: 0,
            completed: 0,
            now,
            counted_from: (!margin.is_zero()).then(|| now + margin),
            taken: Box::new([WorkCompletion::default(); POLL]),
        }
    }

    /// Messages completed on queue pair `qp`.
    pub fn completed(&self, qp: usize) -> u64 {
        self.lanes[qp].completed
    }

    /// True once nothing is left to post or to wait for.
    pub fn is_done(&self) -> bool {
        match self.goal {
            Goal::Messages(count) => self.completed >= count.saturating_mul(self.served),
            Goal::Until(end) => {
                self.now >= end + DRAIN || (self.now >= end && self.posted == self.completed)
            }
        }
    }

    fn signal_step(&self) -> u64 {
        match u64::from(self.session.plan.args.post_list) {
            1 => self.cq_mod,
            list => list,
        }
    }

    /// Posts what fits. True if anything was posted.
    ///
    /// # Errors
    /// [`Stop::Failed`] if the device refuses.
    pub fn fill(&mut self, times: &mut Times) -> Result<bool, Stop> {
        let mut any = false;
        self.now = Instant::now();
        while let Some(qp) = self.roomy.pop() {
            while let Some(count) = self.next_chain(&self.lanes[qp]) {
                self.post(qp, count, times)?;
                any = true;
            }
        }
        Ok(any)
    }

    /// Length of the next list of work requests, if it fits.
    fn next_chain(&self, lane: &QpProgress) -> Option<u64> {
        let depth = u64::from(self.session.plan.tx_depth);
        let list = u64::from(self.session.plan.args.post_list);
        let left = match self.goal {
            Goal::Messages(count) => count.saturating_sub(lane.posted),
            Goal::Until(end) if self.now < end => u64::MAX,
            // A signalled one must be the last, or the rest would never complete.
            Goal::Until(_) if !lane.posted.is_multiple_of(self.signal_step()) => u64::MAX,
            Goal::Until(_) => 0,
        };
        let count = list.min(left);
        (count > 0 && lane.posted - lane.completed + count <= depth).then_some(count)
    }

    fn post(&mut self, qp: usize, count: u64, times: &mut Times) -> Result<(), Stop> {
        let now = Instant::now();
        self.now = now;
        let counted = self.counted_from.is_none_or(|from| now >= from);
        self.posted += count;
        if count == 1 {
            let QpProgress { posted, offset, .. } = self.lanes[qp];
            let signaled = self.is_signaled(posted + 1, true);
            post_one(self.session, qp, offset, self.size, signaled)?;
            self.advance(qp);
        } else {
            self.post_list(qp, count)?;
        }
        if counted {
            (0..count).for_each(|_| times.posted(now));
        }
        Ok(())
    }

    fn advance(&mut self, qp: usize) {
        let lane = &mut self.lanes[qp];
        lane.posted += 1;
        lane.offset = self.session.plan.next_offset(lane.offset, self.size);
    }

    /// One call for the whole list; only its last work request is signalled.
    fn post_list(&mut self, qp: usize, count: u64) -> Result<(), Stop> {
        let session = self.session;
        let index = u32::try_from(qp).unwrap_or(u32::MAX);
        let mut places = Vec::with_capacity(count as usize);
        let mut inline = Vec::new();
        for _ in 0..count {
            let offset = self.lanes[qp].offset;
            places.push((offset, [session.buffers.local_sge(index, offset, self.size)]));
            if is_inline(session, self.size) {
                let start = inline.len();
                inline.resize(start + self.size as usize, 0);
                session.buffers.copy_local(index, offset, &mut inline[start..]);
            }
            self.advance(qp);
        }
        let mut inline = inline.chunks(self.size as usize);
        let list = places.iter().map(|(at, sges)| match inline.next() {
            Some(bytes) => request(session, qp, *at, self.size, &[]).inline(bytes),
            None => request(session, qp, *at, self.size, sges),
        });
        let mut list: Vec<_> = list.collect();
        if let Some(last) = list.last_mut() {
            *last = last.signaled();
        }
        session.qps[qp].post_send(&list).map_err(refused)
    }

    fn is_signaled(&self, number: u64, last_of_list: bool) -> bool {
        let last = matches!(self.goal, Goal::Messages(count) if number == count);
        match self.session.plan.args.post_list {
            1 => last || number.is_multiple_of(self.cq_mod),
            _ => last || last_of_list,
        }
    }

    /// Takes completions. True if there were any.
    ///
    /// # Errors
    /// [`Stop::Failed`] if an operation failed.
    pub fn reap(&mut self, times: &mut Times) -> Result<bool, Stop> {
        let session = self.session;
        let mut any = false;
        for cq in &session.send_cqs[self.engines.clone()] {
            any |= self.reap_from(cq, times)?;
        }
        Ok(any)
    }

    fn reap_from(&mut self, cq: &CompletionQueue, times: &mut Times) -> Result<bool, Stop> {
        let count = cq.poll(&mut self.taken[..]);
        if count == 0 {
            return Ok(false);
        }
        let now = Instant::now();
        self.now = now;
        for place in 0..count {
            let completion = &self.taken[place];
            if !completion.is_ok() {
                return Err(failed(completion).into());
            }
            self.complete(completion.wr_id as usize, now, times);
        }
        Ok(true)
    }

    fn complete(&mut self, qp: usize, now: Instant, times: &mut Times) {
        let step = self.signal_step();
        let Some(lane) = self.lanes.get_mut(qp) else {
            return;
        };
        // With lists of work requests the last list of a run may be shorter.
        let left = match self.goal {
            Goal::Messages(count) => count - lane.completed,
            Goal::Until(_) => step,
        };
        let more = step.min(left);
        lane.completed += more;
        self.completed += more;
        self.roomy.push(qp);
        if self.counted_from.is_none_or(|from| now >= from) {
            let open = times.posts() - times.completions();
            times.completed(more.min(open), now);
        }
    }
}

/// Posts one operation of the plan.
pub fn post_one(
    session: &PerfSession,
    qp: usize,
    offset: u64,
    size: u64,
    signaled: bool,
) -> Result<(), Stop> {
    let index = u32::try_from(qp).unwrap_or(u32::MAX);
    if is_inline(session, size) {
        let mut bytes = [0; 512];
        let bytes = &mut bytes[..size as usize];
        session.buffers.copy_local(index, offset, bytes);
        let wr = request(session, qp, offset, size, &[]).inline(bytes);
        return submit(session, qp, wr, signaled);
    }
    let sges = [session.buffers.local_sge(index, offset, size)];
    submit(session, qp, request(session, qp, offset, size, &sges), signaled)
}

/// The work request carries the bytes itself.
fn is_inline(session: &PerfSession, size: u64) -> bool {
    size <= u64::from(session.plan.args.inline_size)
        && matches!(session.plan.args.verb, Verb::Write | Verb::Send)
}

fn submit(session: &PerfSession, qp: usize, wr: SendWr<'_>, signaled: bool) -> Result<(), Stop> {
    let wr = if signaled { wr.signaled() } else { wr };
    session.qps[qp].post_send(&[wr]).map_err(refused)
}

fn refused(error: PostError) -> Stop {
    Stop::Failed(Failure::test(format!("cannot post: {error}")))
}

fn request<'a>(
    session: &'a PerfSession,
    qp: usize,
    offset: u64,
    size: u64,
    sges: &'a [Sge],
) -> SendWr<'a> {
    let theirs = &session.remote[qp];
    let remote = RemoteSlice::new(theirs.vaddr.wrapping_add(offset), Rkey(theirs.rkey), size);
    let id = qp as u64;
    match session.plan.args.verb {
        Verb::Write => SendWr::write(id, sges, remote),
        Verb::Read => SendWr::read(id, sges, remote),
        Verb::Atomic => match session.plan.args.atomic_type {
            Atomic::FetchAndAdd => SendWr::fetch_add(id, sges, remote, 1),
            Atomic::CmpAndSwap => SendWr::compare_swap(id, sges, remote, 0, 0),
        },
        Verb::Send => match &session.handle {
            Some(handle) => SendWr::send(id, sges).to(handle, Qpn::new(theirs.qpn), QKEY),
            None => SendWr::send(id, sges),
        },
    }
}

/// Runs until the goal, as the only activity of this end.
///
/// # Errors
/// [`Stop`] if it ends early; `times` has what was measured.
pub fn run(requester: &mut Requester<'_>, times: &mut Times) -> Result<(), Stop> {
    let session = requester.session;
    let mut watch = Watch::new(&session.channel, &session.interrupt, true);
    while !requester.is_done() {
        let posted = requester.fill(times)?;
        if requester.reap(times)? || posted {
            watch.progressed(Instant::now())?;
        } else {
            watch.idle()?;
        }
    }
    Ok(())
}
