//! Completion queues.

use std::sync::Arc;
use std::time::{Duration, Instant};

use uroce_device::CreateError;
use uroce_device::transport::{CqId, Moderation, Notify};

use crate::comp_channel::CompChannel;
use crate::context::Context;
use crate::work_completion::{WaitError, WorkCompletion};

/// For this long [`CompletionQueue::wait`] does not give its processor away.
const SPIN: Duration = Duration::from_micros(50);

/// A completion queue (`ibv_cq`). A clone is the same queue.
///
/// The queue has a fixed size. A completion that finds the queue full breaks it for good and takes its queue
/// pairs to the error state (R66); so give it room for all work requests that may be outstanding.
///
/// ```no_run
/// # use std::time::Duration;
/// # use uroce_verbs::*;
/// # fn f(cq: &CompletionQueue) -> Result<(), Box<dyn std::error::Error>> {
/// let one = cq.wait_one(Duration::from_secs(5))?.result()?;
/// let mut many = [WorkCompletion::default(); 16];
/// let count = cq.poll(&mut many);
/// for completion in &many[..count] {
///     println!("{}: {:?}", completion.wr_id, completion.status);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct CompletionQueue {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    id: CqId,
    channel: Option<CompChannel>,
    context: Context,
}

impl Context {
    /// A completion channel (`ibv_create_comp_channel`), to sleep until completions come.
    ///
    /// # Errors
    /// [`CreateError::Descriptor`] when the process has no free descriptor.
    pub fn create_comp_channel(&self) -> Result<CompChannel, CreateError> {
        CompChannel::new(self)
    }

    /// A completion queue for `cqe` completions (`ibv_create_cq`) that is polled.
    /// [`CompChannel::create_cq`] makes one that raises events.
    ///
    /// # Errors
    /// [`CreateError`]: `cqe` is 0 or too large, or the device has its limit.
    pub fn create_cq(&self, cqe: u32) -> Result<CompletionQueue, CreateError> {
        self.create_cq_on(0, cqe)
    }

    /// Makes a completion queue as [`create_cq`](Self::create_cq) does, for a completion vector (`comp_vector` of
    /// `ibv_create_cq`): the number of one of the device's [engines](crate::ContextBuilder::engines). The queue pairs
    /// of the CQ are in that engine: give both their CQs, and their shared receive queue, one vector.
    ///
    /// # Errors
    /// [`CreateError`]: as above, or there are fewer engines.
    pub fn create_cq_on(&self, vector: u32, cqe: u32) -> Result<CompletionQueue, CreateError> {
        CompletionQueue::new(self, vector, cqe, None, 0)
    }
}

impl CompChannel {
    /// A completion queue for `cqe` completions whose events come to this channel
    /// (`ibv_create_cq`). `cookie` comes back in each event.
    ///
    /// # Errors
    /// [`CreateError`]: `cqe` is 0 or too large, or the device has its limit.
    pub fn create_cq(&self, cqe: u32, cookie: u64) -> Result<CompletionQueue, CreateError> {
        self.create_cq_on(0, cqe, cookie)
    }

    /// Makes a completion queue with events for a completion vector: see [`Context::create_cq_on`].
    ///
    /// # Errors
    /// [`CreateError`]: as above, or there are fewer engines.
    pub fn create_cq_on(
        &self,
        vector: u32,
        cqe: u32,
        cookie: u64,
    ) -> Result<CompletionQueue, CreateError> {
        CompletionQueue::new(self.context(), vector, cqe, Some(self), cookie)
    }
}

impl CompletionQueue {
    pub(crate) fn new(
        context: &Context,
        vector: u32,
        cqe: u32,
        channel: Option<&CompChannel>,
        cookie: u64,
    ) -> Result<Self, CreateError> {
        let id =
            context.device().create_cq_on(vector, cqe, channel.map(CompChannel::raw), cookie)?;
        let (channel, context) = (channel.cloned(), context.clone());
        Ok(CompletionQueue { inner: Arc::new(Inner { id, channel, context }) })
    }

    /// The number of the queue inside its device, as [`CqEvent::cq`](crate::CqEvent::cq) names it.
    pub fn id(&self) -> CqId {
        self.inner.id
    }

    /// The device of this queue.
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// The channel at which events of this queue arrive, if it was made by [`CompChannel::create_cq`].
    pub fn channel(&self) -> Option<&CompChannel> {
        self.inner.channel.as_ref()
    }

    /// How many completions fit.
    pub fn capacity(&self) -> usize {
        // The queue exists as long as this object, so it is always found.
        self.inner.context.device().query_cq(self.id()).map_or(0, |attr| attr.cqe)
    }

    /// Moves up to `out.len()` completions into `out`, oldest first, and says how many
    /// (`ibv_poll_cq`). Never sleeps; when none waits, the NIC works for one turn.
    pub fn poll(&self, out: &mut [WorkCompletion]) -> usize {
        // The queue exists as long as this object, so it is always found.
        self.inner.context.device().poll_cq(self.id(), out).unwrap_or(0)
    }

    /// Takes the oldest completion, if one waits. Never sleeps.
    pub fn poll_one(&self) -> Option<WorkCompletion> {
        let mut out = [WorkCompletion::default()];
        (self.poll(&mut out) == 1).then_some(out[0])
    }

    /// Polls until there is at least one completion or `timeout` is over; says how many were moved
    /// into `out`, 0 when the time is over.
    ///
    /// This keeps a processor busy and is for short waits; to sleep, use a [`CompChannel`].
    pub fn wait(&self, out: &mut [WorkCompletion], timeout: Duration) -> usize {
        let start = Instant::now();
        loop {
            let count = self.poll(out);
            let waited = start.elapsed();
            if count > 0 || waited >= timeout || out.is_empty() {
                return count;
            }
            if waited < SPIN {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// [Waits](Self::wait) for one completion. That one may be a failure: see
    /// [`WorkCompletion::result`](crate::WorkCompletion::result).
    ///
    /// # Errors
    /// [`WaitError`]: no completion came before `timeout` was over.
    pub fn wait_one(&self, timeout: Duration) -> Result<WorkCompletion, WaitError> {
        let mut out = [WorkCompletion::default()];
        match self.wait(&mut out, timeout) {
            1 => Ok(out[0]),
            _ => Err(WaitError { waited: timeout }),
        }
    }

    /// Asks for one event at the next completion, or the next solicited one (`ibv_req_notify_cq`).
    /// Completions that came before raise no event: poll once more after this call. Without
    /// a channel it has no effect.
    pub fn req_notify(&self, notify: Notify) {
        let armed = self.inner.context.device().req_notify(self.id(), notify);
        debug_assert!(armed.is_ok(), "the queue exists as long as this object");
    }

    /// One event for several completions (`ibv_modify_cq`): it comes with the completion number `count`, or
    /// `period` after the first of them, or with an error. A `count` of 1 or no `period`: with each completion.
    pub fn moderate(&self, count: u16, period: Duration) {
        let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        let moderation = Moderation { count: count.into(), period_ns };
        let done = self.inner.context.device().moderate_cq(self.id(), moderation);
        debug_assert!(done.is_ok(), "the queue exists as long as this object");
    }

    /// Changes the size (`ibv_resize_cq`).
    ///
    /// # Errors
    /// [`CreateError`]: `cqe` is 0, too large, or too small for the completions that wait. The
    /// queue is then as it was.
    pub fn resize(&self, cqe: u32) -> Result<(), CreateError> {
        self.inner.context.device().resize_cq(self.id(), cqe)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // It cannot be busy: each queue pair that uses it holds a clone.
        let _ = self.context.device().destroy_cq(self.id);
    }
}
