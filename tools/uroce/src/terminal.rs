//! What stdout can show.

use std::io::IsTerminal;

use uroce_analyze::TextStyle;

use crate::failure::paint;

/// Columns where their number is not known.
const COLUMNS: usize = 110;

/// Width and colour: those of the terminal; of a file or a pipe `COLUMNS`, or 110, without colour.
pub fn style() -> TextStyle {
    let stdout = std::io::stdout();
    let is_terminal = stdout.is_terminal();
    let size = rustix::termios::tcgetwinsize(&stdout).ok().map(|size| size.ws_col.into());
    let named = || std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let width = size.filter(|columns| *columns > 0).or_else(named).unwrap_or(COLUMNS);
    TextStyle { width, has_colour: !paint(is_terminal).0.is_empty() }
}
