//! The end that receives messages: keeps the receive queues filled.

use super::session::Session;
use crate::failure::Failure;
use crate::peak::Times;
use crate::stop::{Stop, failed};
use std::time::{Duration, Instant};
use uroce_verbs::{Notify, RecvWr, WorkCompletion};

const POLL: usize = 16;
/// How long `-e` sleeps before it looks at the peer and the user.
const NAP: Duration = Duration::from_millis(50);

/// Receives messages of one size on all queue pairs.
#[derive(Debug)]
pub struct Receiver<'a> {
    session: &'a Session,
    size: u64,
    /// Messages that each queue pair gets; without an end for timed runs.
    expected: u64,
    posted: Vec<u64>,
    received: Vec<u64>,
    offsets: Vec<u64>,
    /// Since when the next message can be under way.
    since: Instant,
}

impl<'a> Receiver<'a> {
    /// Posts the first receives.
    ///
    /// # Errors
    /// Exit 1 if the device refuses.
    pub fn new(session: &'a Session, size: u64) -> Result<Self, Failure> {
        let expected = match session.plan.duration {
            Some(_) => u64::MAX,
            None => session.plan.iters,
        };
        let lanes = session.qps.len();
        let mut receiver = Receiver {
            session,
            size,
            expected,
            posted: vec![0; lanes],
            received: vec![0; lanes],
            offsets: vec![0; lanes],
            since: Instant::now(),
        };
        for qp in 0..lanes {
            while receiver.has_room(qp) {
                receiver.post(qp)?;
            }
        }
        Ok(receiver)
    }

    /// The clock of the first message starts now.
    pub fn start(&mut self) {
        self.since = Instant::now();
    }

    /// Messages that came on queue pair `qp`.
    pub fn received(&self, qp: usize) -> u64 {
        self.received[qp]
    }

    /// Messages that came.
    pub fn total(&self) -> u64 {
        self.received.iter().sum()
    }

    /// True once all expected messages came.
    pub fn is_done(&self) -> bool {
        let all = self.expected.saturating_mul(self.received.len() as u64);
        self.total() >= all
    }

    fn has_room(&self, qp: usize) -> bool {
        let waiting = self.posted[qp] - self.received[qp];
        self.posted[qp] < self.expected && waiting < u64::from(self.session.plan.rx_depth)
    }

    fn post(&mut self, qp: usize) -> Result<(), Failure> {
        let session = self.session;
        let index = u32::try_from(qp).unwrap_or(u32::MAX);
        let sges = [session.buffers.receive_sge(index, self.offsets[qp], self.size)];
        let wr = RecvWr::new(qp as u64, &sges);
        let posted = match &session.srq {
            Some(srq) => srq.post_recv(&[wr]),
            None => session.qps[qp].post_recv(&[wr]),
        };
        posted.map_err(|error| Failure::test(format!("cannot post a receive: {error}")))?;
        self.posted[qp] += 1;
        self.offsets[qp] = session.plan.next_offset(self.offsets[qp], self.size);
        Ok(())
    }

    /// Takes completions and posts receives again. True if there were any.
    ///
    /// # Errors
    /// [`Stop::Failed`] if a receive failed.
    pub fn reap(&mut self, times: &mut Times) -> Result<bool, Stop> {
        let mut out = [WorkCompletion::default(); POLL];
        let count = self.session.recv_cq.poll(&mut out);
        if count == 0 {
            return Ok(false);
        }
        let now = Instant::now();
        for completion in &out[..count] {
            if !completion.is_ok() {
                return Err(failed(completion).into());
            }
            self.take(completion, now, times)?;
        }
        self.since = now;
        Ok(true)
    }

    fn take(
        &mut self,
        completion: &WorkCompletion,
        now: Instant,
        times: &mut Times,
    ) -> Result<(), Stop> {
        let qp = completion.wr_id as usize;
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
        times.posted(self.since);
        times.completed(1, now);
        self.received[qp] += 1;
        if self.has_room(qp) {
            self.post(qp)?;
        }
        Ok(())
    }

    /// With `-e`: sleeps a little, or until a completion comes.
    pub fn nap(&self) {
        let Some(channel) = &self.session.events else {
            return;
        };
        self.session.recv_cq.req_notify(Notify::Next);
        // What came between the poll and the arming raises no event: do not sleep long.
        if let Err(error) = channel.next_event(Some(NAP)) {
            tracing::warn!(%error, "cannot wait for events");
        }
    }
}
