//! The waiter of a datapath that receives from two places.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, EventData, EventFlags};

use crate::Datapath;

/// A descriptor that is readable when an inner datapath has packets or something else is readable.
#[derive(Debug)]
pub struct JointWaiter {
    epoll: OwnedFd,
    /// Waiter of the inner datapath, which the epoll watches.
    _inner: OwnedFd,
}

impl JointWaiter {
    /// The waiter of `inner` together with `other`, which must live as long.
    ///
    /// # Errors
    ///
    /// When the process has no free descriptor.
    pub fn new(inner: &impl Datapath, other: impl AsFd) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let waiter = inner.waiter()?;
        epoll::add(&epoll, &waiter, EventData::new_u64(0), EventFlags::IN)?;
        epoll::add(&epoll, other, EventData::new_u64(1), EventFlags::IN)?;
        Ok(Self { epoll, _inner: waiter })
    }

    /// A descriptor of its own for poll(2).
    ///
    /// # Errors
    ///
    /// When the process has no free descriptor.
    pub fn waiter(&self) -> io::Result<OwnedFd> {
        self.epoll.try_clone()
    }
}
