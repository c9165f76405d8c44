//! The end that receives messages: keeps the receive queues filled.

mod message_check;

use std::time::Instant;

use message_check::MessageCheck;
use uroce_verbs::{CompletionQueue, RecvWr, Sge, WorkCompletion};

use super::session::PerfSession;
use crate::failure::Failure;
use crate::peak::Times;
use crate::stop::{Stop, failed};

/// Completions taken in one poll, and receives posted in one call.
const POLL: usize = 64;

/// Receives messages of one size on all queue pairs.
#[derive(Debug)]
pub struct Receiver<'a> {
    session: &'a PerfSession,
    size: u64,
    /// Messages that each queue pair gets; without an end for timed runs.
    expected: u64,
    posted: Vec<u64>,
    received: Vec<u64>,
    total: u64,
    offsets: Vec<u64>,
    /// Receives that are posted at a time on each queue pair.
    depth: u64,
    /// What came, with `--verify`.
    check: Option<MessageCheck<'a>>,
    /// Since when messages can be under way, but for the margin of a timed run, whose messages are not counted.
    since: Instant,
    /// Where completions are taken to, made once: it is large.
    taken: Box<[WorkCompletion; POLL]>,
}

impl<'a> Receiver<'a> {
    /// Posts the first receives.
    ///
    /// # Errors
    /// Exit 1 if the device refuses.
    pub fn new(session: &'a PerfSession, size: u64) -> Result<Self, Failure> {
        let expected = match session.plan.duration {
            Some(_) => u64::MAX,
            None => session.plan.iters,
        };
        let lanes = session.qps.len();
        let verify = session.plan.args.verify;
        let most = if verify { session.buffers.places(size) } else { u64::MAX };
        let mut receiver = Receiver {
            session,
            size,
            expected,
            posted: vec![0; lanes],
            received: vec![0; lanes],
            total: 0,
            offsets: vec![0; lanes],
            depth: u64::from(session.plan.rx_depth).min(most),
            check: verify.then(|| MessageCheck::new(session, size)),
            since: Instant::now(),
            taken: Box::new([WorkCompletion::default(); POLL]),
        };
        for qp in 0..lanes {
            while receiver.has_room(qp) {
                receiver.post(qp)?;
            }
        }
        Ok(receiver)
    }

    /// The clock of the first message started when the peer could send it. When this end sees it may be much later:
    /// on a busy machine all messages may lie there before this process runs again.
    pub fn start(&mut self, since: Instant) {
        self.since = since + self.session.plan.margin();
    }

    /// True if all messages came as they were sent; `None` without `--verify` at both ends.
    pub fn verdict(&self) -> Option<bool> {
        let check = self.check.as_ref().filter(|_| self.session.verifies());
        check.map(MessageCheck::all_right)
    }

    /// Messages that came.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// True once all expected messages came.
    pub fn is_done(&self) -> bool {
        let all = self.expected.saturating_mul(self.received.len() as u64);
        self.total() >= all
    }

    fn has_room(&self, qp: usize) -> bool {
        let waiting = self.posted[qp] - self.received[qp];
        self.posted[qp] < self.expected && waiting < self.depth
    }

    fn post(&mut self, qp: usize) -> Result<(), Failure> {
        let sges = [self.next_sge(qp)];
        self.submit(qp, &[RecvWr::new(qp as u64, &sges)])
    }

    /// Where the next message goes that a receive is posted for.
    fn next_sge(&mut self, qp: usize) -> Sge {
        let index = u32::try_from(qp).unwrap_or(u32::MAX);
        let (buffers, size) = (&self.session.buffers, self.size);
        let sge = match self.check {
            Some(_) => buffers.place_sge(index, self.posted[qp] % buffers.places(size), size),
            None => buffers.receive_sge(index, self.offsets[qp], size),
        };
        self.offsets[qp] = self.session.plan.next_offset(self.offsets[qp], size);
        self.posted[qp] += 1;
        sge
    }

    /// Takes completions and posts receives again. True if there were any.
    ///
    /// # Errors
    /// [`Stop::Failed`] if a receive failed.
    pub fn reap(&mut self, times: &mut Times) -> Result<bool, Stop> {
        let session = self.session;
        let mut any = false;
        for cq in &session.recv_cqs {
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
        let mut done = 0;
        while let Some(first) = self.taken[..count].get(done).map(|first| first.wr_id) {
            let before = done;
            while let Some(completion) =
                self.taken[..count].get(done).filter(|next| next.wr_id == first)
            {
                self.check(completion)?;
                done += 1;
            }
            self.count(first as usize, done - before, now, times)?;
        }
        Ok(true)
    }

    /// Is it a message as it was expected?
    fn check(&self, completion: &WorkCompletion) -> Result<(), Stop> {
        if !completion.is_ok() {
            return Err(failed(completion).into());
        }
        let length = self.size + self.session.plan.prefix();
        if u64::from(completion.byte_len) != length {
            return Err(Stop::Failed(
                Failure::test(format!(
                    "a message of {} bytes came where {length} were expected",
                    completion.byte_len
                ))
                .help("give both ends the same -s, -a and -c"),
            ));
        }
        Ok(())
    }

    /// Notes `more` messages on queue pair `qp`, and posts receives in place of theirs.
    fn count(
        &mut self,
        qp: usize,
        more: usize,
        now: Instant,
        times: &mut Times,
    ) -> Result<(), Failure> {
        if now >= self.since {
            (0..more).for_each(|_| times.posted(self.since));
            times.completed(more as u64, now);
        }
        if let Some(check) = self.check.as_mut().filter(|_| self.session.verifies()) {
            (0..more).for_each(|_| check.inspect(qp));
        }
        self.received[qp] += more as u64;
        self.total += more as u64;
        self.replace(qp, more)
    }

    /// Posts receives for `count` that were used, in one call.
    fn replace(&mut self, qp: usize, count: usize) -> Result<(), Failure> {
        let count = self.expected.saturating_sub(self.posted[qp]).min(count as u64) as usize;
        if count == 1 {
            return self.post(qp);
        }
        let mut sges = [Sge::default(); POLL];
        let sges = &mut sges[..count];
        sges.fill_with(|| self.next_sge(qp));
        let wrs: [RecvWr<'_>; POLL] =
            std::array::from_fn(|i| RecvWr::new(qp as u64, sges.get(i..=i).unwrap_or(&[])));
        self.submit(qp, &wrs[..count])
    }

    fn submit(&self, qp: usize, wrs: &[RecvWr<'_>]) -> Result<(), Failure> {
        let posted = match &self.session.srq {
            Some(srq) => srq.post_recv(wrs),
            None => self.session.qps[qp].post_recv(wrs),
        };
        posted.map_err(|error| Failure::test(format!("cannot post a receive: {error}")))
    }
}
