//! A window is bound to a region, not to another window.
use uroce_verbs::{Access, MemoryWindow, SendWr};

fn bind(window: &MemoryWindow) {
    let _ = SendWr::bind_mw(1, window, window, .., Access::REMOTE_READ);
}

fn main() {}
