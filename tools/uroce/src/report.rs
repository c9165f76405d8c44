//! What goes to stdout: perftest's tables to the column, and JSON.

pub mod banner;
pub mod json;
pub mod table;

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

/// Why results did not reach stdout.
static LOST: OnceLock<io::Error> = OnceLock::new();
/// The reader of stdout went away.
static READER_GONE: AtomicBool = AtomicBool::new(false);

/// Writes to stdout. A reader that went away (`| head`) is no error; any other is told at the end, by [`lost`].
pub fn out(text: &str) {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            READER_GONE.store(true, Ordering::Relaxed);
        }
        Err(error) => _ = LOST.set(error),
        Ok(()) => {}
    }
}

/// The reader of stdout is gone: what prints on and on may end.
pub fn is_reader_gone() -> bool {
    READER_GONE.load(Ordering::Relaxed)
}

/// Tells whether all results were written.
///
/// # Errors
/// Exit 3 if some were not.
pub fn lost() -> Result<(), Failure> {
    match LOST.get() {
        None => Ok(()),
        Some(error) => Err(Failure::environment(format!(
            "the results could not be written: {error}"
        ))
        .help("stdout is a file on a full disk, or closed: free some space and run it again")),
    }
}
