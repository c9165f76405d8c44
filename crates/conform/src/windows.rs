//! Memory windows, FLUSH and ATOMIC WRITE, as the application beside the NIC under test uses them.

use crate::agent_link::wrong_reply;
use crate::memory::{REMOTE_RKEY, REMOTE_VA};
use crate::{Access, Application, Reply, Request, Stop, status};

/// A memory window of type 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    number: u32,
    /// Its remote key, as it was bound last.
    pub rkey: u32,
}

impl Application<'_, '_> {
    /// A window, bound through its queue pair to `length` bytes of its region from `offset` on.
    ///
    /// # Errors
    /// The agent cannot, or the binding does not complete.
    pub fn window(&self, offset: u32, length: u32, access: Access) -> Result<Window, Stop> {
        let Reply::Window { window, rkey } = self.ask(&Request::Window { domain: 0 })? else {
            return Err(Stop::Lost("the agent made no window".to_owned()));
        };
        self.bind(Window { number: window, rkey }, offset, length, access)
    }

    /// The same window, bound anew; its key has changed.
    ///
    /// # Errors
    /// The agent cannot, or the binding does not complete.
    pub fn bind(
        &self,
        window: Window,
        offset: u32,
        length: u32,
        access: Access,
    ) -> Result<Window, Stop> {
        let (qp, wr_id, region) = (self.id, self.next_work(), self.region.number);
        let (window, key) = (window.number, (window.rkey as u8).wrapping_add(1));
        let bind = Request::Bind { qp, wr_id, window, region, offset, length, key, access };
        match self.ask(&bind)? {
            Reply::Window { window, rkey } => {
                self.completes(wr_id, status::SUCCESS)?;
                Ok(Window { number: window, rkey })
            }
            other => wrong_reply(other),
        }
    }

    /// Posts a FLUSH of `length` bytes of memory that the tester pretends to have; returns its number.
    ///
    /// # Errors
    /// The agent cannot.
    pub fn post_flush(&self, length: u32, placement: u8, selectivity: u8) -> Result<u64, Stop> {
        let (qp, wr_id, va, rkey) = (self.id, self.next_work(), REMOTE_VA, REMOTE_RKEY);
        let flush = Request::Flush { qp, wr_id, va, rkey, length, placement, selectivity };
        self.ask(&flush).map(|_| wr_id)
    }

    /// Posts an ATOMIC WRITE to memory that the tester pretends to have; returns its number.
    ///
    /// # Errors
    /// The agent cannot.
    pub fn post_atomic_write(&self, value: u64) -> Result<u64, Stop> {
        let (qp, wr_id, va, rkey) = (self.id, self.next_work(), REMOTE_VA, REMOTE_RKEY);
        self.ask(&Request::AtomicWrite { qp, wr_id, va, rkey, value }).map(|_| wr_id)
    }

    /// The CPU beside the NIC adds 1 to the first word of the region, again and again.
    ///
    /// # Errors
    /// The agent cannot.
    pub fn start_adding(&self) -> Result<(), Stop> {
        let region = self.region.number;
        self.ask(&Request::StartAdding { region, offset: 0 }).map(drop)
    }

    /// It stops; returns how often it added.
    ///
    /// # Errors
    /// The agent cannot.
    pub fn stop_adding(&self) -> Result<u64, Stop> {
        match self.ask(&Request::StopAdding)? {
            Reply::Added { count } => Ok(count),
            other => wrong_reply(other),
        }
    }
}
