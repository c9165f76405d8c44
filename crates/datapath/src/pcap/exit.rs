//! Captures that are open when the process exits: what they hold back is written then.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long the end of the process may wait for threads that are recording.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// What can be written a last time.
pub(super) trait Capture: Send + Sync {
    /// Writes what waits, unless one of its locks is held until `end`.
    fn finish(&self, end: Instant);
}

static OPEN: Mutex<Vec<Weak<dyn Capture>>> = Mutex::new(Vec::new());
/// The process that the captures belong to: a child has them too, but not the threads behind them.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The capture is written when the process exits, if it is still open then.
pub(super) fn write_at_exit(capture: &Arc<dyn Capture>) {
    static ONCE: Once = Once::new();
    let process = std::process::id();
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if PROCESS.swap(process, Ordering::Relaxed) != process {
        open.clear();
    }
    open.retain(|capture| capture.strong_count() > 0);
    open.push(Arc::downgrade(capture));
    ONCE.call_once(|| uroce_host::at_exit(write_all));
}

extern "C" fn write_all() {
    if PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    let end = Instant::now() + EXIT_TIMEOUT;
    // The holder of the lock may have called exit() in a signal handler.
    let Ok(open) = OPEN.try_lock() else { return };
    open.iter().filter_map(Weak::upgrade).for_each(|capture| capture.finish(end));
}
