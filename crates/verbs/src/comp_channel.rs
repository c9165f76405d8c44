//! Completion channels.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use uroce_device::{CqEvent, CreateError};

use crate::context::Context;
use crate::wait::wait;

/// A completion channel (`ibv_comp_channel`), on which a program sleeps until one of the channel's
/// completion queues raises an event. A clone is the same channel.
///
/// The order of calls that misses no completion: [`req_notify`](crate::CompletionQueue::req_notify), poll until
/// empty, [`next_event`](Self::next_event), and again. Events need no acknowledgement.
///
/// ```no_run
/// # use uroce_verbs::*;
/// # fn f(context: &Context) -> Result<(), Box<dyn std::error::Error>> {
/// let channel = context.create_comp_channel()?;
/// let cq = channel.create_cq(64, 0)?;
/// loop {
///     cq.req_notify(Notify::Next);
///     while let Some(completion) = cq.poll_one() {
///         println!("work request {} has completed", completion.result()?.wr_id);
///     }
///     channel.next_event(None)?;
/// }
/// # }
/// ```
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
