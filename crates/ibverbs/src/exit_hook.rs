//! What is still to be done when the process exits.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::return_value::value;

/// Something that is done when the process exits.
pub trait AtExit {
    /// Its registration: a static of the implementation.
    fn hook() -> &'static ExitHook;
    /// Does it. The program may have called exit() anywhere, also in a signal handler in the middle of
    /// a call of this library: locks may be held.
    fn run();
}

/// Whether, and for which process, something is registered with atexit(3).
#[derive(Debug)]
pub struct ExitHook {
    once: Once,
    /// A child has the memory but not the device, and perhaps a lock that is never released.
    process: AtomicU32,
}

impl ExitHook {
    /// Nothing is registered yet.
    #[expect(clippy::new_without_default, reason = "for statics")]
    pub const fn new() -> ExitHook {
        ExitHook { once: Once::new(), process: AtomicU32::new(0) }
    }

    /// From now on `T` runs when this process exits; not in processes that it forks.
    pub fn register<T: AtExit>() {
        let hook = T::hook();
        hook.process.store(std::process::id(), Ordering::Relaxed);
        hook.once.call_once(|| {
            // SAFETY: a function that lives as long as the library, which is never unloaded. If there is no
            // room for it, the process goes without.
            let _no_room = unsafe { libc::atexit(run::<T>) };
        });
    }
}

extern "C" fn run<T: AtExit>() {
    if std::process::id() == T::hook().process.load(Ordering::Relaxed) {
        value((), T::run);
    }
}
