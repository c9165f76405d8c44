//! The end of the process.

/// Calls `run` when the process exits by `exit`, or by a return from `main`.
pub fn at_exit(run: extern "C" fn()) {
    // SAFETY: `run` is a function and no closure, so it lives as long as its code; if there is no room for it
    // the process goes without.
    let _no_room = unsafe { libc::atexit(run) };
}
