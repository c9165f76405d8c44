//! Values in words.

use std::time::Duration;

/// A time in words: `1.5 ms`.
pub(super) fn words(time: Duration) -> String {
    format!("{time:.1?}")
}
