//! What keeps a child process from waiting for a lock of a thread that only its parent has.

use std::cell::RefCell;
use std::sync::{MutexGuard, Once};
use std::time::{Duration, Instant};

use uroce_device::host::lock_until;

use crate::device_list::{self, Devices};
use crate::object::{self, LiveObjects};

/// How long fork(2) waits for the locks. No thread holds one of them nearly as long: one that is held still is the calling
/// thread's own, which forks in a signal handler.
const WAIT: Duration = Duration::from_secs(1);

thread_local! {
    /// What the thread that forks holds until both processes go on.
    static HELD: RefCell<Option<LocksOfFork>> = const { RefCell::new(None) };
}

/// Locks that a child needs to look at what it inherited, and to list devices. The objects come last, as wherever both are held.
struct LocksOfFork {
    _objects: Option<MutexGuard<'static, LiveObjects>>,
    _devices: Option<MutexGuard<'static, Devices>>,
}

/// From now on the process forks only while no other thread holds these locks.
pub(crate) fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: functions that live as long as the library, which is never unloaded. If there is no room for them,
        // the process forks as if they were not there.
        let _no_room = unsafe { libc::pthread_atfork(Some(before), Some(behind), Some(behind)) };
    });
}

extern "C" fn before() {
    let end = Instant::now() + WAIT;
    let devices = lock_until(&device_list::LISTED, end);
    let held = LocksOfFork { _objects: lock_until(&object::LIVE, end), _devices: devices };
    // A thread that is ending has no place for them any more: it forks as if this were not there.
    let _dropped = HELD.try_with(|place| place.replace(Some(held)));
}

extern "C" fn behind() {
    let _dropped = HELD.try_with(RefCell::take);
}
