//! Connections that a program leaves behind when it exits: a kernel would end them, and tell the peers.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::close::hang_up;
use super::directory;
use crate::outcome::value;

/// How long all peers together may take to hear of it.
const TOGETHER: Duration = Duration::from_secs(1);

/// From now on, connections end when the process exits.
pub(super) fn at_exit() {
    static ONCE: Once = Once::new();
    static PROCESS: AtomicU32 = AtomicU32::new(0);
    extern "C" fn farewell() {
        // A child has the memory but not the device, and perhaps a lock that nobody releases.
        if std::process::id() == PROCESS.load(Ordering::Relaxed) {
            value((), hang_up_all);
        }
    }
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    ONCE.call_once(|| {
        // SAFETY: a function that lives as long as the library, which nobody unloads. If there is no
        // room for it, the process goes without.
        let _no_room = unsafe { libc::atexit(farewell) };
    });
}

fn hang_up_all() {
    let end = Instant::now() + TOGETHER;
    for socket in directory::streams() {
        // The program may have called exit() in a signal handler, in the middle of a call of ours.
        if socket.is_free() {
            hang_up(&socket, end.saturating_duration_since(Instant::now()));
        }
    }
}
