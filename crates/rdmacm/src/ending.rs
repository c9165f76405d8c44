//! Connections that a program has ended just before it exits. A kernel would go on to tell the peers; here they would
//! not be told if the first message was lost, or still waits in a socket of this process for another one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use uroce_device::Device;
use uroce_ibverbs::exit_hook::{AtExit, ExitHook};

use crate::{contexts, registry};

/// How long all peers together may take to answer.
const TOGETHER: Duration = Duration::from_millis(500);
/// The time between two looks.
const PAUSE: Duration = Duration::from_micros(100);

/// The peers hear which connections are over before the process ends.
struct PeersAreTold;

impl AtExit for PeersAreTold {
    fn hook() -> &'static ExitHook {
        static HOOK: ExitHook = ExitHook::new();
        &HOOK
    }

    fn run() {
        let _none_is_left_to_tell = wait_for_peers(Device::drive_at_exit);
    }
}

/// From now on the process waits at its exit until its peers know which connections are over.
pub(crate) fn tell_at_exit() {
    ExitHook::register::<PeersAreTold>();
}

/// An id with a connection is gone. After the last one a program may end by `_exit`, which calls no
/// function of the exit: so it waits here, until a peer did not answer in that time. Later ones are waited for at the exit only: a
/// program that goes on would sleep for each peer that is dead.
pub(crate) fn id_is_gone() {
    static GAVE_UP: AtomicBool = AtomicBool::new(false);
    if registry::is_empty() && !GAVE_UP.load(Ordering::Relaxed) && !wait_for_peers(Device::drive) {
        GAVE_UP.store(true, Ordering::Relaxed);
    }
}

/// Lets the devices work until their peers have answered. False: there are peers that did not.
fn wait_for_peers<T>(drive: impl Fn(&Device) -> T) -> bool {
    let end = Instant::now() + TOGETHER;
    // The program may have called exit() in a signal handler, in the middle of a call of ours.
    for open_device in contexts::open_devices_unless_busy() {
        while open_device.device.cm().awaits_drep() && Instant::now() < end {
            drive(&open_device.device);
            std::thread::sleep(PAUSE);
        }
    }
    Instant::now() < end
}
