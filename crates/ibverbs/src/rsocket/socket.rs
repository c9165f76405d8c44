//! A socket of streams: what it is connected to, and waiting for it.

use super::identity::{Call, Identity, Notice};
use super::options::Options;
use super::patience::{Patience, Waiters};
use super::protocol::Message;
use super::stream::{Peer, Stream};
use crate::errno::{Errno, INVALID};
use libc::{c_int, c_short};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const RESET: Errno = Errno(libc::ECONNRESET);

/// Where a socket stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has no connection yet.
    Idle,
    /// It takes calls.
    Listening,
    /// It calls, or has accepted a call that is not confirmed yet.
    Connecting,
    /// It has a connection, or had one.
    Connected,
    /// There was to be a connection, and there is none.
    Failed(Errno),
}

/// A socket. The program knows it by the number of its descriptor.
#[derive(Debug)]
pub(super) struct Socket {
    pub fd: c_int,
    pub nonblocking: AtomicBool,
    pub closed: AtomicBool,
    waiters: Waiters,
    state: Mutex<State>,
}

/// What a socket holds. Streams go before the id that they use, and so do calls.
#[derive(Debug)]
pub(super) struct State {
    pub phase: Phase,
    pub stream: Option<Stream>,
    calls: VecDeque<Call>,
    /// Buffers of ours that are mapped.
    pub mapped: super::iomap::Mapped,
    pub identity: Identity,
    pub options: Options,
    /// What the next SO_ERROR says.
    pub pending: Option<Errno>,
    /// The program may still read, and write: it did not shut that down.
    pub reads: bool,
    pub writes: bool,
}

impl Socket {
    pub fn new(identity: Identity, options: Options, nonblocking: bool) -> Socket {
        Socket {
            fd: identity.fd(),
            nonblocking: AtomicBool::new(nonblocking),
            closed: AtomicBool::new(false),
            waiters: Waiters::default(),
            state: Mutex::new(State::new(identity, options)),
        }
    }

    /// The state, up to date.
    pub fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state_as_it_was();
        state.progress();
        state
    }

    /// The state as the last call left it.
    pub fn state_as_it_was(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    /// Waits until `ready` has an answer, as long as `patience` lasts.
    ///
    /// # Errors
    /// That of `ready`; EAGAIN: the time is over; EBADF: the socket was closed meanwhile.
    pub fn wait<T>(
        &self,
        patience: Patience,
        mut ready: impl FnMut(&mut State) -> Option<Result<T, Errno>>,
    ) -> Result<T, Errno> {
        let waiting = self.waiters.enter();
        loop {
            let mut state = self.state();
            if self.closed.load(Ordering::Relaxed) {
                return Err(Errno(libc::EBADF));
            }
            if let Some(answer) = ready(&mut state) {
                return answer;
            }
            if patience.is_over() {
                return Err(Errno(libc::EAGAIN));
            }
            if state.arm() || patience.spins() {
                continue;
            }
            let fds = state.fds();
            drop(state);
            waiting.sleep(&fds, &patience)?;
        }
    }

    /// How long calls of the program wait; `flags` may say that this one does not.
    pub fn patience(&self, flags: c_int) -> Patience {
        if self.is_nonblocking() || flags & libc::MSG_DONTWAIT != 0 {
            Patience::none()
        } else {
            Patience::endless()
        }
    }

    /// Somebody waits for this socket beside others.
    pub fn waiters(&self) -> &Waiters {
        &self.waiters
    }
}

impl State {
    fn new(identity: Identity, options: Options) -> State {
        State {
            phase: Phase::Idle,
            stream: None,
            calls: VecDeque::new(),
            mapped: super::iomap::Mapped::default(),
            identity,
            options,
            pending: None,
            reads: true,
            writes: true,
        }
    }

    /// Takes what has come.
    fn progress(&mut self) {
        while let Some(notice) = self.identity.hear() {
            self.heard(notice);
        }
        let Some(stream) = &mut self.stream else { return };
        stream.progress();
        if let Some(errno) = stream.broken
            && self.phase == Phase::Connecting
        {
            self.fail(errno);
        }
    }

    fn heard(&mut self, notice: Notice) {
        match notice {
            Notice::Call(call) => self.calls.push_back(call),
            Notice::Established(hello) => self.established(&hello),
            Notice::Failed(errno) => self.fail(errno),
            Notice::Disconnected if self.phase == Phase::Connecting => self.fail(RESET),
            Notice::Disconnected => self.ended(),
            Notice::Other => {}
        }
    }

    /// The peer of a call says with it who it is; who was called knows that from the call.
    fn established(&mut self, hello: &[u8]) {
        let Some(stream) = &mut self.stream else { return };
        let begun = if stream.is_begun() { Ok(()) } else { stream.begin(hello) };
        match begun {
            Ok(()) => {
                stream.open();
                self.phase = Phase::Connected;
            }
            Err(errno) => self.fail(errno),
        }
    }

    fn fail(&mut self, errno: Errno) {
        self.phase = Phase::Failed(errno);
        self.pending = Some(errno);
    }

    /// The peer has ended the connection: what it sent before that is taken first.
    fn ended(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        stream.progress();
        if stream.peer != Peer::Gone && stream.broken.is_none() {
            stream.broken = Some(RESET);
        }
    }

    /// Makes the stream of a socket that is about to connect or to accept.
    pub fn open_stream(&mut self) -> Result<&mut Stream, Errno> {
        let stream = Stream::new(&self.identity, &self.options)?;
        Ok(self.stream.insert(stream))
    }

    /// The next call.
    pub fn take_call(&mut self) -> Option<Call> {
        self.calls.pop_front()
    }

    /// The stream of a connection that stands, or stood; `None`: wait for it.
    pub fn connected(&mut self) -> Option<Result<&mut Stream, Errno>> {
        match self.phase {
            Phase::Connecting => None,
            Phase::Connected => self.stream.as_mut().map(Ok),
            Phase::Failed(errno) => Some(Err(errno)),
            Phase::Idle | Phase::Listening => Some(Err(Errno(libc::ENOTCONN))),
        }
    }

    /// What a program that polls the socket is told.
    pub fn revents(&mut self, events: c_short) -> c_short {
        match self.phase {
            Phase::Idle => libc::POLLHUP | events & libc::POLLOUT,
            Phase::Listening if self.calls.is_empty() => 0,
            Phase::Listening => events & libc::POLLIN,
            Phase::Connecting => 0,
            Phase::Failed(_) => {
                libc::POLLERR | libc::POLLHUP | events & (libc::POLLIN | libc::POLLOUT)
            }
            Phase::Connected => self.connection_events(events),
        }
    }

    fn connection_events(&mut self, events: c_short) -> c_short {
        let (reads, writes) = (self.reads, self.writes);
        let Some(stream) = &mut self.stream else { return libc::POLLNVAL };
        let mut found = 0;
        let over = stream.broken.is_some() || stream.peer == Peer::Gone;
        if stream.inbound.has_data() || over || stream.peer == Peer::Silent || !reads {
            found |= libc::POLLIN;
        }
        if over || !writes || stream.has_room() {
            found |= libc::POLLOUT;
        }
        found &= events;
        // Programs take these two for the end, and must not miss what came before it.
        if stream.inbound.has_data() && reads {
            return found;
        }
        if stream.broken.is_some() {
            found |= libc::POLLERR | libc::POLLHUP;
        } else if stream.peer == Peer::Gone || !(reads || writes) {
            found |= libc::POLLHUP;
        }
        found
    }

    /// The next completion wakes who sleeps on the descriptors; true if that is news, so that one more
    /// look is due.
    pub fn arm(&mut self) -> bool {
        self.stream.as_mut().is_some_and(Stream::arm)
    }

    /// What becomes readable when something happens.
    pub fn fds(&self) -> Vec<c_int> {
        let mut fds = vec![self.identity.fd()];
        fds.extend(self.stream.as_ref().map(Stream::fd));
        fds
    }

    /// Shuts down a half, or both, as far as the program has not done so before; says so to the peer,
    /// once. `None`: the peer must first take what was said before.
    pub fn shut(&mut self, how: c_int) -> Option<Result<(), Errno>> {
        let (reads, writes) = match how {
            libc::SHUT_RD => (false, self.writes),
            libc::SHUT_WR => (self.reads, false),
            libc::SHUT_RDWR => (false, false),
            _ => return Some(Err(INVALID)),
        };
        let message = match (reads, writes) {
            (false, false) if self.reads || self.writes => Some(Message::Disconnect),
            (true, false) if self.writes => Some(Message::Shutdown),
            _ => None,
        };
        if let (Some(Ok(stream)), Some(message)) = (self.connected(), message)
            && stream.broken.is_none()
            && stream.peer != Peer::Gone
        {
            match stream.say(message) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(errno) => stream.broken = Some(errno),
            }
        }
        (self.reads, self.writes) = (reads, writes);
        Some(Ok(()))
    }

    /// The peer has everything, or will never have it.
    pub fn is_settled(&mut self) -> bool {
        match self.connected() {
            Some(Ok(stream)) => {
                stream.is_idle() || stream.broken.is_some() || stream.peer == Peer::Gone
            }
            Some(Err(_)) => true,
            None => false,
        }
    }

    pub fn local(&self) -> Option<SocketAddr> {
        self.identity.local()
    }

    pub fn peer(&self) -> Option<SocketAddr> {
        self.identity.peer()
    }
}
