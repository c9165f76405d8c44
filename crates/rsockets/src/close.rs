//! `rshutdown` and `rclose`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use libc::c_int;

use super::connection::{Phase, State};
use super::directory;
use super::directory::Known;
use super::patience::Patience;
use super::socket::Socket;
use crate::errno::Errno;
use crate::outcome::minus_one;

/// How long the end of a connection waits for a peer that takes nothing. A kernel would go on after the
/// program; here nobody would.
const LINGER: Duration = Duration::from_secs(10);

/// How long datagrams may take to leave.
const SENT: Duration = Duration::from_secs(1);

/// rshutdown(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rshutdown(socket: c_int, how: c_int) -> c_int {
    minus_one(|| {
        let socket = directory::stream(socket)?;
        let known = matches!(how, libc::SHUT_RD | libc::SHUT_WR | libc::SHUT_RDWR);
        let phase = socket.state().phase;
        if !known || matches!(phase, Phase::Idle | Phase::Listening) {
            return Err(Errno(if known { libc::ENOTCONN } else { libc::EINVAL }));
        }
        end(&socket, how, LINGER)
    })
}

/// Says that it is over, and waits until the peer has it.
fn end(socket: &Socket<State>, how: c_int, linger: Duration) -> Result<(), Errno> {
    let patience = Patience::of(linger);
    let said = socket.wait(patience, |state| match state.phase {
        Phase::Connecting => None,
        _ => state.shut(how),
    });
    let settled = said.and_then(|()| {
        let patience = Patience::of(linger);
        socket.wait(patience, |state| state.is_settled().then_some(Ok(())))
    });
    match settled {
        // The peer takes nothing; there is nothing more to be done.
        Err(Errno(libc::EAGAIN)) => Ok(()),
        other => other,
    }
}

/// rclose(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rclose(socket: c_int) -> c_int {
    minus_one(|| {
        match directory::remove(socket)? {
            Known::Stream(socket) => {
                let seconds = socket.state().options.linger;
                let linger = seconds.map(|seconds| seconds.max(0).unsigned_abs());
                hang_up(&socket, linger.map_or(LINGER, |s| Duration::from_secs(s.into())));
                socket.closed.store(true, Ordering::Relaxed);
            }
            Known::Datagram(socket) => {
                let sent = |is_idle: bool| is_idle.then_some(Ok(()));
                // What cannot be sent in this time is lost, as datagrams may be.
                let _ = socket.wait(Patience::of(SENT), |state| sent(state.is_idle()));
                socket.closed.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    })
}

/// Ends the connection, if there is one.
pub(super) fn hang_up(socket: &Socket<State>, linger: Duration) {
    let phase = socket.state().phase;
    if phase == Phase::Connected {
        // A connection that broke is over.
        let _ = end(socket, libc::SHUT_RDWR, linger);
        socket.state().identity.disconnect();
    }
}
