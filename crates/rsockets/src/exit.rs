//! Connections that a program leaves behind when it exits: a kernel would end them, and tell the peers.

use std::sync::{Arc, mpsc};
use std::thread::Builder;
use std::time::{Duration, Instant};

use uroce_ibverbs::exit_hook::{AtExit, ExitHook};

use crate::close::disconnect;
use crate::connection::State;
use crate::fd_table;
use crate::socket::Socket;

/// How long all peers together may take to hear of it.
const TOGETHER: Duration = Duration::from_secs(1);

/// From now on, connections end when the process exits.
pub(crate) fn disconnect_at_exit() {
    ExitHook::register::<DisconnectAll>();
}

struct DisconnectAll;

impl AtExit for DisconnectAll {
    fn hook() -> &'static ExitHook {
        static HOOK: ExitHook = ExitHook::new();
        &HOOK
    }

    fn run() {
        let sockets = fd_table::streams();
        if sockets.is_empty() {
            return;
        }
        // The program may have called exit() in a signal handler, in the middle of a call of ours, and what that call has locked,
        // such as the device, is never released. A thread that waits for it is left behind.
        let (done, ended) = mpsc::channel::<()>();
        let all = move || {
            disconnect_all(&sockets);
            drop(done);
        };
        if Builder::new().spawn(all).is_ok() {
            let _done_or_late = ended.recv_timeout(2 * TOGETHER);
        }
    }
}

fn disconnect_all(sockets: &[Arc<Socket<State>>]) {
    let end = Instant::now() + TOGETHER;
    for socket in sockets {
        // One that a call is in the middle of would keep the others from being told.
        if socket.is_free() {
            disconnect(socket, end.saturating_duration_since(Instant::now()));
        }
    }
}
