//! The atomics and locks of lock-free code: those of the standard library, or of the model checker
//! `loom` in tests that are built with `--cfg loom`.

#[cfg(not(all(test, loom)))]
mod plain {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use std::sync::{Mutex, MutexGuard};

    /// Whether this is a model, whose tables are small.
    pub(crate) const IS_MODEL: bool = false;
}

#[cfg(all(test, loom))]
mod model;

#[cfg(all(test, loom))]
pub(crate) use model::*;
#[cfg(not(all(test, loom)))]
pub(crate) use plain::*;
