//! How often an object is used by others that the device does not know.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The uses of an object.
#[derive(Debug, Default)]
pub(crate) struct UseCount(Arc<AtomicU32>);

impl UseCount {
    /// One more, until the result is dropped.
    pub(crate) fn hold(&self) -> Use {
        self.0.fetch_add(1, Ordering::SeqCst);
        Use(Arc::clone(&self.0))
    }

    pub(crate) fn is_used(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }
}

/// One use of an object.
#[derive(Debug)]
pub(crate) struct Use(Arc<AtomicU32>);

impl Drop for Use {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_used_as_long_as_a_use_of_it_lives() {
        let count = UseCount::default();
        assert!(!count.is_used());
        let (first, second) = (count.hold(), count.hold());
        drop(first);
        assert!(count.is_used());
        drop(second);
        assert!(!count.is_used());
    }
}
