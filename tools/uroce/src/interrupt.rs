//! Ctrl-C: loops look at a flag and print what they have.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

/// Set once the user wants to stop. A clone is the same flag.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Watches SIGINT and SIGTERM. The second signal ends the process at once.
    pub fn install() -> Self {
        let flag = Interrupt::default();
        for signal in [SIGINT, SIGTERM] {
            // Order matters: with the flag already set, the signal ends the process.
            let watched = signal_hook::flag::register_conditional_shutdown(
                signal,
                128 + signal,
                Arc::clone(&flag.0),
            )
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag.0)));
            if let Err(error) = watched {
                tracing::warn!(signal, %error, "cannot watch the signal; it will end the program");
            }
        }
        flag
    }

    /// Stops, as the signal does.
    #[cfg(test)]
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// The flag itself, for loops that are elsewhere.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// True once the user wants to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
