//! What a socket of streams is connected to, and how far that is.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use libc::{c_int, c_short};
use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_rdmacm::{ConnectionEvent, OwnedId, Request};

use crate::deadline::Asleep;
use crate::mapped::Mapped;
use crate::options::Options;
use crate::protocol::Message;
use crate::socket::Endpoint;
use crate::stream::{Peer, Stream};

const RESET: Errno = Errno(libc::ECONNRESET);

/// What poll(2) says of a socket with something to read, by both names that it has.
pub(crate) const READABLE: c_short = libc::POLLIN | libc::POLLRDNORM;
/// The same for room to write.
pub(crate) const WRITABLE: c_short = libc::POLLOUT | libc::POLLWRNORM;

/// Where a socket stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It has no connection yet.
    Idle,
    /// It takes requests.
    Listening,
    /// It calls, or has accepted a call that is not confirmed yet.
    Connecting,
    /// It has a connection, or had one.
    Connected,
    /// There was to be a connection, and there is none.
    Failed(Errno),
}

/// What a socket holds. A stream holds the id that it uses.
#[derive(Debug)]
pub(crate) struct State {
    pub phase: Phase,
    pub stream: Option<Stream>,
    /// Before `id`: a request counts as an event of the listener that is not acknowledged, and the end of the
    /// listener waits for that.
    requests: VecDeque<Request>,
    /// Buffers of ours that are mapped.
    pub mapped: Mapped,
    pub id: Arc<OwnedId>,
    pub options: Options,
    /// What the next SO_ERROR says.
    pub pending: Option<Errno>,
    /// Who sleeps was not told of what has changed.
    has_changed: bool,
    /// SO_ERROR has said that the connection broke.
    break_is_told: bool,
    /// The program may still read, and write: it did not shut that down.
    pub reads: bool,
    pub writes: bool,
}

impl State {
    pub fn new(id: OwnedId, options: Options) -> State {
        State {
            phase: Phase::Idle,
            stream: None,
            requests: VecDeque::new(),
            mapped: Mapped::default(),
            id: Arc::new(id),
            options,
            pending: None,
            has_changed: false,
            break_is_told: false,
            reads: true,
            writes: true,
        }
    }

    fn handle_event(&mut self, event: ConnectionEvent) {
        match event {
            ConnectionEvent::Request(request) => self.requests.push_back(request),
            ConnectionEvent::Established(private_data) => self.established(&private_data),
            ConnectionEvent::Failed(errno) => self.fail(errno),
            ConnectionEvent::Disconnected if self.phase == Phase::Connecting => self.fail(RESET),
            ConnectionEvent::Disconnected => self.ended(),
            // A caller may have given up before anybody has accepted its call.
            ConnectionEvent::Other => self.requests.retain(Request::waits),
        }
    }

    /// The peer of a call says with it who it is; who was called knows that from the call.
    fn established(&mut self, private_data: &[u8]) {
        // What a peer has sent before may have broken the connection already.
        if self.phase != Phase::Connecting {
            return;
        }
        let Some(stream) = &mut self.stream else { return };
        let begun = if stream.is_begun() { Ok(()) } else { stream.begin(private_data) };
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
        let stream = Stream::new(&self.id, &self.options)?;
        Ok(self.stream.insert(stream))
    }

    /// The next request of a peer.
    pub fn take_request(&mut self) -> Option<Request> {
        self.requests.pop_front()
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

    fn connection_events(&mut self, events: c_short) -> c_short {
        let (reads, writes) = (self.reads, self.writes);
        let Some(stream) = &mut self.stream else { return libc::POLLNVAL };
        let mut found = 0;
        let over = stream.broken.is_some() || stream.peer == Peer::Gone;
        let no_more = over || stream.peer == Peer::Silent || !reads;
        if stream.inbound.has_data() || no_more {
            found |= READABLE;
        }
        if no_more {
            found |= libc::POLLRDHUP;
        }
        if over || !writes || stream.has_room() {
            found |= WRITABLE;
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
        self.has_changed |= (self.reads, self.writes) != (reads, writes);
        (self.reads, self.writes) = (reads, writes);
        Some(Ok(()))
    }

    /// What SO_ERROR says, once.
    fn take_error(&mut self) -> Option<Errno> {
        let pending = self.pending.take();
        if pending.is_some() || self.phase != Phase::Connected {
            return pending;
        }
        let broken = self.stream.as_ref()?.broken?;
        let was_told = std::mem::replace(&mut self.break_is_told, true);
        (!was_told).then_some(broken)
    }

    /// The peer has said who it is: it will confirm, or has confirmed, that the connection stands.
    pub fn is_answered(&self) -> bool {
        match self.phase {
            Phase::Connecting => self.stream.as_ref().is_some_and(Stream::is_begun),
            Phase::Connected => true,
            Phase::Idle | Phase::Listening | Phase::Failed(_) => false,
        }
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
}

impl Endpoint for State {
    /// Takes what has come.
    fn progress(&mut self) {
        while let Some(event) = self.id.poll_event() {
            self.has_changed = true;
            self.handle_event(event);
        }
        let Some(stream) = &mut self.stream else { return };
        stream.progress();
        if let Some(errno) = stream.broken
            && self.phase == Phase::Connecting
        {
            self.fail(errno);
        }
    }

    fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// What a program that polls the socket is told.
    fn revents(&mut self, events: c_short) -> c_short {
        match self.phase {
            Phase::Idle => libc::POLLHUP | events & WRITABLE,
            Phase::Listening if self.requests.is_empty() => 0,
            Phase::Listening => events & READABLE,
            Phase::Connecting => 0,
            Phase::Failed(_) => {
                libc::POLLERR | libc::POLLHUP | events & (READABLE | WRITABLE | libc::POLLRDHUP)
            }
            Phase::Connected => self.connection_events(events),
        }
    }

    fn arm(&mut self, asleep: &Asleep<'_>) -> bool {
        self.stream.as_mut().is_some_and(|stream| stream.arm(asleep))
    }

    /// What becomes readable when something happens.
    fn fds(&self) -> Vec<c_int> {
        let mut fds = vec![self.id.fd()];
        fds.extend(self.stream.as_ref().map(Stream::fd));
        fds
    }

    fn local(&self) -> Option<SocketAddr> {
        self.id.local()
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.id.peer().filter(|_| self.is_answered())
    }

    fn options(&mut self) -> &mut Options {
        &mut self.options
    }

    fn special(&mut self, level: c_int, name: c_int) -> Option<c_int> {
        Some(match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => self.take_error().map_or(0, |errno| errno.0),
            (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_STREAM,
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => c_int::from(self.phase == Phase::Listening),
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
                let segment = self.stream.as_ref().map_or(0, Stream::segment);
                c_int::try_from(segment).unwrap_or(c_int::MAX)
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use uroce_device::cm::PortSpace;

    use super::*;

    #[test]
    fn a_connection_that_broke_before_it_stood_does_not_stand_later() {
        let id = OwnedId::new(PortSpace::Tcp).expect("an id");
        id.bind("127.48.98.22:0".parse().expect("an address")).expect("a free port");
        let mut state = State::new(id, Options::new());
        let stream = state.open_stream().expect("it has a device");
        let private_data = stream.private_data();
        stream.begin(&private_data).expect("it may be");
        stream.broken = Some(RESET);
        state.phase = Phase::Connecting;
        state.progress();
        state.handle_event(ConnectionEvent::Established(Vec::new()));
        assert_eq!(state.phase, Phase::Failed(RESET));
        assert_eq!([state.take_error(), state.take_error()], [Some(RESET), None], "once");
    }
}
