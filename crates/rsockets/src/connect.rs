//! Making sockets and connecting them: `rsocket`, `rbind`, `rlisten`, `rconnect`, `raccept`.

use std::net::SocketAddr;
use std::sync::Arc;

use libc::{c_int, sockaddr as c_sockaddr, socklen_t};
use uroce_device::cm::PortSpace;

use super::connection::{Phase, State};
use super::datagrams::Datagrams;
use super::directory::Known;
use super::identity::{Call, Identity};
use super::options::Options;
use super::patience::Patience;
use super::socket::{AnySocket, Socket};
use super::{directory, farewell, names};
use crate::errno::{Errno, INVALID};
use crate::outcome::{minus_one, number};
use crate::rdmacm::sockaddr;

/// rsocket(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    number(|| {
        let flags = kind & (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
        if !matches!(domain, libc::AF_INET | libc::AF_INET6) {
            return Err(Errno(libc::EAFNOSUPPORT));
        }
        let nonblocking = flags & libc::SOCK_NONBLOCK != 0;
        let socket = match (kind & !flags, protocol) {
            (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => {
                let identity = Identity::new(PortSpace::Tcp)?;
                Known::Stream(Arc::new(stream(identity, Options::new(), nonblocking)))
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
        farewell::at_exit();
        Ok(directory::add(socket))
    })
}

fn stream(identity: Identity, options: Options, nonblocking: bool) -> Socket<State> {
    Socket::new(identity.fd(), State::new(identity, options), nonblocking)
}

/// An address of the program.
///
/// # Safety
/// By the contract.
pub(super) unsafe fn address(
    address: *const c_sockaddr,
    length: socklen_t,
) -> Result<SocketAddr, Errno> {
    if address.is_null() || (length as usize) < size_of::<libc::sa_family_t>() {
        return Err(INVALID);
    }
    // SAFETY: by the contract; the family is there.
    let family = c_int::from(unsafe { (*address).sa_family });
    let needed = match family {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        // The last field may be left out.
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>() - size_of::<u32>(),
        _ => return Err(Errno(libc::EAFNOSUPPORT)),
    };
    if (length as usize) < needed {
        return Err(INVALID);
    }
    // SAFETY: by the contract, and long enough.
    unsafe { sockaddr::read(address) }
}

/// rbind(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rbind(
    socket: c_int,
    addr: *const c_sockaddr,
    length: socklen_t,
) -> c_int {
    minus_one(|| {
        let socket = directory::get(socket)?;
        // SAFETY: by the contract.
        let to = unsafe { address(addr, length)? };
        let socket = match socket {
            Known::Stream(socket) => socket,
            Known::Datagram(socket) => return socket.state().bind(to),
        };
        let state = socket.state();
        if state.phase != Phase::Idle {
            return Err(INVALID);
        }
        state.identity.bind(to)
    })
}

/// rlisten(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rlisten(socket: c_int, backlog: c_int) -> c_int {
    minus_one(|| {
        let socket = directory::stream(socket)?;
        let mut state = socket.state();
        match state.phase {
            Phase::Listening => Ok(()),
            Phase::Idle => {
                state.identity.listen(backlog)?;
                state.phase = Phase::Listening;
                Ok(())
            }
            _ => Err(INVALID),
        }
    })
}

/// rconnect(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rconnect(
    socket: c_int,
    addr: *const c_sockaddr,
    length: socklen_t,
) -> c_int {
    minus_one(|| {
        let socket = directory::get(socket)?;
        // SAFETY: by the contract.
        let peer = unsafe { address(addr, length)? };
        match socket {
            Known::Stream(socket) => connect(&socket, peer),
            Known::Datagram(socket) => socket.state().connect(peer),
        }
    })
}

fn connect(socket: &Socket<State>, peer: SocketAddr) -> Result<(), Errno> {
    begin(&mut socket.state(), peer, socket.is_nonblocking())?;
    if socket.is_nonblocking() {
        return Err(Errno(libc::EINPROGRESS));
    }
    let connected =
        socket.wait(Patience::endless(), |state| state.connected().map(|stream| stream.map(drop)));
    if connected.is_err() {
        socket.state().pending = None;
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
    state.identity.resolve(peer)?;
    let hello = state.open_stream()?.hello();
    if let Err(errno) = state.identity.connect(&hello) {
        state.stream = None;
        return Err(errno);
    }
    state.phase = Phase::Connecting;
    Ok(())
}

/// raccept(3). The new socket may be used at once; what it sends leaves when the caller has confirmed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn raccept(
    socket: c_int,
    addr: *mut c_sockaddr,
    length: *mut socklen_t,
) -> c_int {
    number(|| {
        let listener = directory::stream(socket)?;
        let accepted = listener.wait(listener.patience(0), |state| {
            if state.phase != Phase::Listening {
                return Some(Err(INVALID));
            }
            // A call that nobody can answer any more is passed over.
            while let Some(call) = state.take_call() {
                if let Ok(socket) = answer(call, &state.options) {
                    return Some(Ok(socket));
                }
            }
            None
        })?;
        let peer = accepted.peer();
        // SAFETY: by the contract.
        unsafe { names::give(peer, addr, length)? };
        Ok(directory::add(Known::Stream(Arc::new(accepted))))
    })
}

/// A socket for a call. New sockets block, whatever the listener does.
fn answer(call: Call, options: &Options) -> Result<Socket<State>, Errno> {
    let hello = call.hello();
    let socket = stream(call.take()?, options.clone(), false);
    {
        let mut state = socket.state();
        let stream = state.open_stream()?;
        stream.begin(&hello)?;
        let ours = stream.hello();
        state.identity.accept(&ours)?;
        state.phase = Phase::Connecting;
    }
    Ok(socket)
}
