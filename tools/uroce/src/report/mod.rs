//! What goes to stdout: perftest's tables to the column, and JSON.

pub mod banner;
pub mod json;
pub mod table;

use std::io::{self, Write};

/// Writes to stdout. A reader that went away (`| head`) is no error.
pub fn out(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}
