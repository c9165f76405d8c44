//! Completion channels.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use uroce_device::{CqEvent, CreateError, Device};

use crate::completion_queue::CompletionQueue;
use crate::context::Context;

/// How long one look sleeps when no progress thread works in the background.
const SLICE: Duration = Duration::from_micros(50);

/// A completion channel (`ibv_comp_channel`), on which a program sleeps until one of the channel's
/// completion queues raises an event. A clone is the same channel.
///
/// The order of calls that misses nothing: [`req_notify`](CompletionQueue::req_notify), poll until
/// empty, [`next_event`](Self::next_event), and again. Events need no acknowledgement.
///
/// The descriptor ([`AsFd`]) is readable while events wait; put it into poll(2) or epoll, but fetch
/// events with the methods here.
#[derive(Debug, Clone)]
pub struct CompChannel {
    channel: uroce_device::CompChannel,
    context: Context,
}

impl CompChannel {
    pub(crate) fn new(context: &Context) -> Result<Self, CreateError> {
        let channel = context.device().create_channel()?;
        Ok(CompChannel { channel, context: context.clone() })
    }

    pub(crate) fn raw(&self) -> &uroce_device::CompChannel {
        &self.channel
    }

    /// The device of this channel.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// A completion queue for `cqe` completions whose events come to this channel
    /// (`ibv_create_cq`). `cookie` comes back in each event.
    ///
    /// # Errors
    /// [`CreateError`]: `cqe` is 0 or too large, or the device has its limit.
    pub fn create_cq(&self, cqe: u32, cookie: u64) -> Result<CompletionQueue, CreateError> {
        self.create_cq_on(0, cqe, cookie)
    }

    /// The same for a completion vector: see [`Context::create_cq_on`].
    ///
    /// # Errors
    /// [`CreateError`]: as above, or there are fewer engines.
    pub fn create_cq_on(
        &self,
        vector: u32,
        cqe: u32,
        cookie: u64,
    ) -> Result<CompletionQueue, CreateError> {
        CompletionQueue::new(&self.context, vector, cqe, Some(self), cookie)
    }

    /// Sleeps until a completion queue raises an event (`ibv_get_cq_event`); `None` as `timeout`
    /// waits for ever, zero only looks. `Ok(None)`: the time is over.
    ///
    /// # Errors
    /// What poll(2) says; there is no known reason other than lack of kernel memory.
    pub fn next_event(&self, timeout: Option<Duration>) -> io::Result<Option<CqEvent>> {
        wait(self.context.device(), timeout, |timeout| self.channel.next_event(timeout))
    }

    /// The next event if one waits. Never sleeps.
    pub fn try_event(&self) -> Option<CqEvent> {
        self.channel.try_event()
    }
}

impl AsFd for CompChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// Sleeps in `look`. On a device without a progress thread nothing would ever happen meanwhile, so
/// there the sleep is cut into slices and the device is driven between them.
pub(crate) fn wait<T>(
    device: &Device,
    timeout: Option<Duration>,
    look: impl Fn(Option<Duration>) -> io::Result<Option<T>>,
) -> io::Result<Option<T>> {
    if device.has_progress_thread() {
        return look(timeout);
    }
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let busy = device.drive();
        let slice = if busy { Duration::ZERO } else { SLICE };
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let found = look(Some(left.map_or(slice, |left| left.min(slice))))?;
        if found.is_some() || left.is_some_and(|left| left.is_zero()) {
            return Ok(found);
        }
    }
}
