//! `rshutdown` and `rclose`.

use std::time::Duration;

use libc::c_int;
use uroce_ibverbs::errno::Errno;

use crate::connection::{Phase, State};
use crate::deadline::Deadline;
use crate::fd_table::{self, Handle, Known};
use crate::socket::Socket;

/// How long the end of a connection waits for a peer that takes nothing. A kernel would go on after the
/// program; here nothing would.
const LINGER: Duration = Duration::from_secs(10);

/// How long datagrams may take to leave.
const SENT: Duration = Duration::from_secs(1);

impl Handle {
    /// rshutdown(3).
    ///
    /// # Errors
    /// ENOTCONN; EINVAL: `how` means nothing.
    pub fn shutdown(&self, how: c_int) -> Result<(), Errno> {
        let socket = self.stream()?;
        let known = matches!(how, libc::SHUT_RD | libc::SHUT_WR | libc::SHUT_RDWR);
        let phase = socket.state().phase;
        if !known || matches!(phase, Phase::Idle | Phase::Listening) {
            return Err(Errno(if known { libc::ENOTCONN } else { libc::EINVAL }));
        }
        end(socket, how, LINGER)
    }
}

/// Says that it is over, and waits until the peer has it, both within `linger`. A signal does not end that: what was not
/// acknowledged would be lost with the connection.
fn end(socket: &Socket<State>, how: c_int, linger: Duration) -> Result<(), Errno> {
    let deadline = Deadline::after(linger);
    let said = socket.wait_through_signals(&deadline, |state| match state.phase {
        Phase::Connecting => None,
        _ => state.shut(how),
    });
    let settled = said.and_then(|()| {
        socket.wait_through_signals(&deadline, |state| state.is_settled().then_some(Ok(())))
    });
    match settled {
        // The peer takes nothing; there is nothing more to be done.
        Err(Errno(libc::EAGAIN)) => Ok(()),
        other => other,
    }
}

/// rclose(3).
///
/// # Errors
/// EBADF.
pub fn close(fd: c_int) -> Result<(), Errno> {
    match fd_table::remove(fd)? {
        Known::Stream(socket) => {
            let seconds = socket.state().options.linger;
            let linger = seconds.map(|seconds| seconds.max(0).unsigned_abs());
            disconnect(&socket, linger.map_or(LINGER, |s| Duration::from_secs(s.into())));
            socket.mark_closed();
        }
        Known::Datagram(socket) => {
            let sent = |is_idle: bool| is_idle.then_some(Ok(()));
            // What cannot be sent in this time is lost, as datagrams may be.
            let _ =
                socket.wait_through_signals(&Deadline::after(SENT), |state| sent(state.is_idle()));
            socket.mark_closed();
        }
    }
    Ok(())
}

/// Ends the connection, if there is one. One that was accepted a moment ago ends as one, too: its peer has the answer, and would
/// take anything else for a reset.
pub(crate) fn disconnect(socket: &Socket<State>, linger: Duration) {
    let is_answered = socket.state().is_answered();
    if is_answered {
        // A connection that broke is over.
        let _ = end(socket, libc::SHUT_RDWR, linger);
        socket.state().id.disconnect();
    }
}
