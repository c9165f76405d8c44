//! Connections that a program leaves behind when it exits: a kernel would end them, and tell the peers.

use std::time::{Duration, Instant};

use uroce_ibverbs::exit_hook::{AtExit, ExitHook};

use crate::close::disconnect;
use crate::fd_table;

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
        let end = Instant::now() + TOGETHER;
        for socket in fd_table::streams() {
            // The program may have called exit() in a signal handler, in the middle of a call of ours.
            if socket.is_free() {
                disconnect(&socket, end.saturating_duration_since(Instant::now()));
            }
        }
    }
}
