//! Connections that a program has ended just before it exits. A kernel would go on to tell the peers; here nobody
//! would if the first message was lost, or still waits in a socket of this process for another one.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::{contexts, registry};
use crate::outcome::value;

/// How long all peers together may take to answer.
const TOGETHER: Duration = Duration::from_millis(500);
/// The time between two looks.
const PAUSE: Duration = Duration::from_micros(100);

/// From now on the process waits at its exit until its peers know which connections are over.
pub(super) fn tell_at_exit() {
    static ONCE: Once = Once::new();
    static PROCESS: AtomicU32 = AtomicU32::new(0);
    extern "C" fn tell() {
        // A child has the memory but not the devices, and perhaps a lock that nobody releases.
        if std::process::id() == PROCESS.load(Ordering::Relaxed) {
            value((), wait_for_peers);
        }
    }
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    ONCE.call_once(|| {
        // SAFETY: a function that lives as long as the library, which nobody unloads. If there is no
        // room for it, the process goes without.
        let _no_room = unsafe { libc::atexit(tell) };
    });
}

/// An id with a connection is gone. After the last one a program may end by `_exit`, which calls no
/// function of the exit: so it waits here.
pub(super) fn id_is_gone() {
    if registry::is_empty() {
        wait_for_peers();
    }
}

fn wait_for_peers() {
    let end = Instant::now() + TOGETHER;
    // The program may have called exit() in a signal handler, in the middle of a call of ours.
    for card in contexts::cards_unless_busy() {
        while card.device.cm_awaits_drep() && Instant::now() < end {
            card.device.drive_unless_busy();
            std::thread::sleep(PAUSE);
        }
    }
}
