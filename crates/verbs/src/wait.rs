//! Sleeping until a device has news.

use std::io;
use std::time::{Duration, Instant};

use uroce_device::Device;

/// How long one look sleeps when no progress thread works in the background.
const SLICE: Duration = Duration::from_micros(50);

/// Sleeps in `look`. On a device without a progress thread nothing would ever happen meanwhile, so
/// there the sleep is cut into slices and the device is driven between them.
pub(crate) fn wait<T>(
    device: &Device,
    timeout: Option<Duration>,
    look: impl Fn(Option<Duration>) -> io::Result<Option<T>>,
) -> io::Result<Option<T>> {
    if device.has_progress_thread() {
        return look(timeout);
    }
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let busy = device.drive();
        let slice = if busy { Duration::ZERO } else { SLICE };
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let found = look(Some(left.map_or(slice, |left| left.min(slice))))?;
        if found.is_some() || left.is_some_and(|left| left.is_zero()) {
            return Ok(found);
        }
    }
}
