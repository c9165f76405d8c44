//! Events of connections: those of the one at hand, and callers that wait for their turn.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use uroce_verbs::{CmEvent, CmEventKind, CmId, EventChannel};

use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// How long one look for completions or events takes.
pub const LOOK: Duration = Duration::from_millis(20);

/// Who asks for a connection.
#[derive(Debug)]
pub struct Caller {
    /// Accept with it; who drops it refuses.
    pub id: CmId,
    /// Its address.
    pub name: String,
}

/// The events of all connections of a program that has one at a time.
#[derive(Debug)]
pub struct Events<'a> {
    /// Where they come.
    pub channel: &'a EventChannel,
    /// Ends every wait.
    pub interrupt: &'a Interrupt,
    /// So many callers may wait while a connection stands.
    room: usize,
    callers: RefCell<VecDeque<Caller>>,
}

impl<'a> Events<'a> {
    /// While a connection stands, `room` callers may wait; those beyond are refused.
    pub fn new(channel: &'a EventChannel, interrupt: &'a Interrupt, room: usize) -> Self {
        Events { channel, interrupt, room, callers: RefCell::default() }
    }

    /// The next event of `id` that comes within `time`.
    ///
    /// # Errors
    /// Exit 3 if the system does not let us wait.
    pub fn of(&self, id: &CmId, time: Duration) -> Result<Option<CmEventKind>, Failure> {
        let deadline = Instant::now() + time;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = self.channel.next_event(Some(left)).map_err(Failure::environment)?;
            match event {
                Some(event) if event.id.is(id) => return Ok(Some(event.kind)),
                Some(event) => self.note(event, self.room),
                None => return Ok(None),
            }
        }
    }

    /// The one that has waited longest, or the next one that comes.
    ///
    /// # Errors
    /// Exit 1 on Ctrl-C, exit 3 if the system does not let us wait.
    pub fn next_caller(&self) -> Result<Caller, Failure> {
        let mut time = Duration::ZERO;
        loop {
            if self.interrupt.is_set() {
                return Err(Failure::interrupted());
            }
            match self.channel.next_event(Some(time)).map_err(Failure::environment)? {
                Some(event) => self.note(event, self.room.max(1)),
                // Only now it is known who has given up meanwhile.
                None => match self.callers.borrow_mut().pop_front() {
                    Some(caller) => return Ok(caller),
                    None => time = LOOK,
                },
            }
        }
    }

    /// An event that is not of the connection at hand: somebody calls or waits no more, or it is of a connection that is
    /// over.
    fn note(&self, event: CmEvent, room: usize) {
        let mut callers = self.callers.borrow_mut();
        match event.kind {
            CmEventKind::ConnectRequest(request) if callers.len() < room => {
                callers.push_back(Caller { id: event.id, name: request.remote.to_string() });
            }
            CmEventKind::ConnectRequest(_) => {}
            _ => callers.retain(|caller| !caller.id.is(&event.id)),
        }
    }
}
