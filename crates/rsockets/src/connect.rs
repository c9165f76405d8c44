//! Making sockets and connecting them.

use std::net::SocketAddr;
use std::sync::Arc;

use libc::c_int;
use uroce_device::cm::PortSpace;
use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_rdmacm::{OwnedId, Request};

use crate::connection::{Phase, State};
use crate::datagrams::Datagrams;
use crate::deadline::Deadline;
use crate::exit::disconnect_at_exit;
use crate::fd_table::{self, Handle, Known};
use crate::options::Options;
use crate::socket::{AnySocket, Socket};

/// rsocket(3): the descriptor of a new socket.
///
/// # Errors
/// EAFNOSUPPORT, EPROTONOSUPPORT, ESOCKTNOSUPPORT; the process has no free descriptor.
pub fn socket(domain: c_int, kind: c_int, protocol: c_int) -> Result<c_int, Errno> {
    let flags = kind & (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
    if !matches!(domain, libc::AF_INET | libc::AF_INET6) {
        return Err(Errno(libc::EAFNOSUPPORT));
    }
    let nonblocking = flags & libc::SOCK_NONBLOCK != 0;
    let socket = match (kind & !flags, protocol) {
        (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => {
            let id = OwnedId::new(PortSpace::Tcp)?;
            Known::Stream(Arc::new(stream(id, Options::new(), nonblocking)))
        }
        (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => {
            let datagrams = Datagrams::new(domain, Options::new())?;
            let fd = datagrams.fd();
            Known::Datagram(Arc::new(Socket::new(fd, datagrams, nonblocking)))
        }
        (libc::SOCK_STREAM | libc::SOCK_DGRAM, _) => {
            return Err(Errno(libc::EPROTONOSUPPORT));
        }
        _ => return Err(Errno(libc::ESOCKTNOSUPPORT)),
    };
    disconnect_at_exit();
    Ok(fd_table::add(socket))
}

fn stream(id: OwnedId, options: Options, nonblocking: bool) -> Socket<State> {
    Socket::new(id.fd(), State::new(id, options), nonblocking)
}

impl Handle {
    /// rbind(3).
    ///
    /// # Errors
    /// EINVAL: it has an address; those of rdma_bind_addr(3) and bind(2).
    pub fn bind(&self, to: SocketAddr) -> Result<(), Errno> {
        let socket = match &self.0 {
            Known::Stream(socket) => socket,
            Known::Datagram(socket) => return socket.state().bind(to),
        };
        let state = socket.state();
        if state.phase != Phase::Idle {
            return Err(INVALID);
        }
        state.id.bind(to)
    }

    /// rlisten(3).
    ///
    /// # Errors
    /// EINVAL: it has a connection; those of rdma_listen(3).
    pub fn listen(&self, backlog: c_int) -> Result<(), Errno> {
        let mut state = self.stream()?.state();
        match state.phase {
            Phase::Listening => Ok(()),
            Phase::Idle => {
                state.id.listen(backlog)?;
                state.phase = Phase::Listening;
                Ok(())
            }
            Phase::Connecting | Phase::Connected | Phase::Failed(_) => Err(INVALID),
        }
    }

    /// rconnect(3).
    ///
    /// # Errors
    /// EINPROGRESS, EALREADY, EISCONN, and why there is no connection.
    pub fn connect(&self, peer: SocketAddr) -> Result<(), Errno> {
        match &self.0 {
            Known::Stream(socket) => connect(socket, peer),
            Known::Datagram(socket) => {
                let mut state = socket.state();
                let connected = state.connect(peer);
                socket.wake_after(&mut state);
                connected
            }
        }
    }

    /// raccept(3). The new socket may be used at once; what it sends leaves when the peer has confirmed.
    ///
    /// # Errors
    /// EINVAL: it does not listen; EAGAIN: no request waits; EMFILE, ENFILE and ENOMEM: there is no room for another
    /// connection, and the request was refused.
    pub fn accept(&self) -> Result<Accepted, Errno> {
        let listener = self.stream()?;
        listener.wait(listener.deadline(0), |state| {
            if state.phase != Phase::Listening {
                return Some(Err(INVALID));
            }
            // A request that cannot be answered any more is passed over; the others keep their turn if we cannot answer.
            while let Some(request) = state.take_request() {
                match answer(request, &state.options) {
                    Ok(socket) => return Some(Ok(Accepted(socket))),
                    Err(errno @ Errno(libc::EMFILE | libc::ENFILE | libc::ENOMEM)) => {
                        return Some(Err(errno));
                    }
                    Err(_) => {}
                }
            }
            None
        })
    }
}

/// A connection that was accepted, and has no descriptor yet. Dropped without one, it ends.
#[derive(Debug)]
pub struct Accepted(Socket<State>);

impl Accepted {
    /// The address of its peer.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.0.peer()
    }

    /// From now on it is known by its descriptor.
    pub fn into_fd(self) -> c_int {
        fd_table::add(Known::Stream(Arc::new(self.0)))
    }
}

fn connect(socket: &Socket<State>, peer: SocketAddr) -> Result<(), Errno> {
    begin(&mut socket.state(), peer, socket.is_nonblocking())?;
    if socket.is_nonblocking() {
        return Err(Errno(libc::EINPROGRESS));
    }
    let connected =
        socket.wait(Deadline::never(), |state| state.connected().map(|stream| stream.map(drop)));
    if let Err(errno) = connected {
        let mut state = socket.state();
        // What the call has said, SO_ERROR does not say again. A signal may have ended the call before.
        state.pending = state.pending.filter(|pending| *pending != errno);
    }
    connected
}

/// Calls the peer, unless that was done before.
fn begin(state: &mut State, peer: SocketAddr, nonblocking: bool) -> Result<(), Errno> {
    match state.phase {
        Phase::Idle => call(state, peer),
        Phase::Connecting if nonblocking => Err(Errno(libc::EALREADY)),
        Phase::Connecting => Ok(()),
        Phase::Connected => Err(Errno(libc::EISCONN)),
        Phase::Listening => Err(INVALID),
        Phase::Failed(errno) => {
            state.pending = None;
            Err(errno)
        }
    }
}

fn call(state: &mut State, peer: SocketAddr) -> Result<(), Errno> {
    state.id.resolve(peer)?;
    let private_data = state.open_stream()?.private_data();
    if let Err(errno) = state.id.connect(&private_data) {
        state.stream = None;
        return Err(errno);
    }
    state.phase = Phase::Connecting;
    Ok(())
}

/// A socket for a request. New sockets block, whatever the listener does.
fn answer(request: Request, options: &Options) -> Result<Socket<State>, Errno> {
    let theirs = request.private_data();
    let socket = stream(request.take()?, options.clone(), false);
    {
        let mut state = socket.state();
        let stream = state.open_stream()?;
        stream.begin(&theirs)?;
        let ours = stream.private_data();
        state.id.accept(&ours)?;
        state.phase = Phase::Connecting;
    }
    Ok(socket)
}
