//! What goes to stdout: perftest's tables to the column, and JSON.

pub mod banner;
pub mod json;
pub mod table;

use std::io::{self, Write};

use crate::failure::Failure;
use std::sync::OnceLock;

/// Why results did not reach stdout.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// Writes to stdout. A reader that went away (`| head`) is no error; any other is told at the end, by [`lost`].
pub fn out(text: &str) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        let _ = LOST.set(error);
    }
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
