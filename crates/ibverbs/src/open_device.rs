//! The open devices of the process: one for each address, however many contexts use it.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};
use std::time::Duration;

use uroce_device::datapath::FaultCounters;
use uroce_device::{Device, DeviceConfig, Faults, Interface};

use crate::errno::{Errno, INVALID};
use crate::exit_hook::{AtExit, ExitHook};
use crate::settings;

/// An open device. With the last context and object that uses it, its port is free again.
#[derive(Debug)]
pub struct OpenDevice {
    /// The device.
    pub device: Device,
    address: IpAddr,
    /// What the rules of its faults have done, told when it closes or the process ends.
    faults: Option<(u64, Arc<FaultCounters>)>,
    /// They were told.
    told: AtomicBool,
}

static OPEN: Mutex<Vec<Weak<OpenDevice>>> = Mutex::new(Vec::new());

impl OpenDevice {
    /// Its address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// EINVAL: `of_another` is of another device. What devices call their objects is the same in all of them.
    pub(crate) fn check_same(
        self: &Arc<OpenDevice>,
        of_another: &Arc<OpenDevice>,
    ) -> Result<(), Errno> {
        if Arc::ptr_eq(self, of_another) { Ok(()) } else { Err(INVALID) }
    }

    /// The device on this interface; opened if it is not yet.
    pub fn on(interface: &Interface) -> Result<Arc<OpenDevice>, Errno> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|open_device| open_device.strong_count() > 0);
        let mut live = open.iter().filter_map(Weak::upgrade);
        if let Some(open_device) = live.find(|open_device| {
            open_device.address == interface.address && open_device.device.is_here()
        }) {
            return Ok(open_device);
        }
        let open_device = Arc::new(open_device(interface)?);
        ExitHook::register::<LastAcks>();
        open.push(Arc::downgrade(&open_device));
        Ok(open_device)
    }
}

impl OpenDevice {
    /// Prints what each rule has done, once.
    fn tell_faults(&self) {
        let Some((seed, counters)) = &self.faults else { return };
        if self.told.swap(true, Ordering::Relaxed) || !self.device.is_here() {
            return;
        }
        eprintln!(
            "uroce: faults of {} (to repeat them: UROCE_FAULT_SEED={seed}):",
            self.device.name()
        );
        for rule in counters.rules() {
            eprintln!("uroce: {} matched, {} applied: {}", rule.matched, rule.applied, rule.text);
        }
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        self.tell_faults();
    }
}

/// The open device of this name, if this process has one. For callers in the middle of anything, in a child process
/// too, where a thread that had the lock is gone: who waits too long for it gets none.
pub fn open_card(name: &OsStr) -> Option<Arc<OpenDevice>> {
    const TRIES: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(1);
    let open = (0..TRIES).find_map(|_| match OPEN.try_lock() {
        Ok(open) => Some(open),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => {
            std::thread::sleep(PAUSE);
            None
        }
    })?;
    let mut live = open.iter().filter_map(Weak::upgrade);
    live.find(|open_device| open_device.device.is_here() && name == open_device.device.name())
}

/// A program may exit with everything open. What a NIC would still send then, such as the ACK of the
/// last message that the program has seen, is sent before the process ends.
struct LastAcks;

impl AtExit for LastAcks {
    fn hook() -> &'static ExitHook {
        static HOOK: ExitHook = ExitHook::new();
        &HOOK
    }

    fn run() {
        // The program may have called exit() in a signal handler, in the middle of a call of ours.
        let Ok(open) = OPEN.try_lock() else { return };
        open.iter().filter_map(Weak::upgrade).for_each(|open_device| {
            open_device.device.drive_at_exit();
            open_device.tell_faults();
        });
    }
}

fn open_device(interface: &Interface) -> Result<OpenDevice, Errno> {
    let address = interface.address;
    let mut config = DeviceConfig::new(address);
    config.name = Some(interface.name.clone());
    config.port = settings::roce_port();
    config.pcap = settings::pcap();
    config.datapath = settings::datapath()?;
    config.engines = settings::engines();
    config.split_writes = settings::split_writes();
    config.faults = settings::faults()?;
    let seed = config.faults.as_ref().map(Faults::seed);
    let drawn = config.faults.as_ref().and_then(Faults::drawn_seed);
    crate::log::start();
    let device = Device::open(config).map_err(|error| {
        // The program can only say that something failed; this is the one chance to tell why.
        eprintln!("uroce: cannot open {} on {address}: {error}", interface.name);
        Errno(error.errno())
    })?;
    if let Some(seed) = drawn {
        eprintln!("uroce: faults of {}: to repeat them: UROCE_FAULT_SEED={seed}", device.name());
    }
    let faults = seed.zip(device.fault_counters());
    Ok(OpenDevice { device, address, faults, told: AtomicBool::new(false) })
}
