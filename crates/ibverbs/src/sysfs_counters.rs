//! The counters of a port below /sys/class/infiniband: `counters`, as network management has them, and `hw_counters`,
//! as the device has them.
//!
//! In the tree they are 0. Who opens one gets the value of this process's device at that moment.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libc::{c_char, c_void};
use uroce_device::cm::PortCounters;
use uroce_device::hw_counter_names;

use crate::open_device::open_card;
use crate::return_value;

/// What the kernel shows of any port. What is not counted here is 0: most of it belongs to links that RoCE does not have.
const PORT_COUNTERS: [&str; 21] = [
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "multicast_rcv_packets",
    "multicast_xmit_packets",
    "port_rcv_constraint_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
    "unicast_rcv_packets",
    "unicast_xmit_packets",
];

/// Data is counted in words of so many bytes.
const WORD: u64 = 4;

/// All of them, by their paths below the port's folder.
pub fn names() -> impl Iterator<Item = String> {
    let port = PORT_COUNTERS.iter().map(|name| format!("counters/{name}"));
    port.chain(hw_counter_names().iter().map(|name| format!("hw_counters/{name}")))
}

/// The value of the counter with this path below the class's folder; 0 while the process does not have that device
/// open. `None`: that is no counter.
pub fn value(below: &Path) -> Option<u64> {
    own(below).map(|value| value.or_else(|| of_drop_in(below)).unwrap_or(0))
}

/// What this library's device has counted; within, `None` while it is not open.
fn own(below: &Path) -> Option<Option<u64>> {
    let mut parts = below.iter();
    let device = parts.next()?;
    let port = parts.as_path().strip_prefix("ports/1").ok()?;
    let (folder, name) = (port.parent()?.to_str()?, port.file_name()?.to_str()?);
    let known: &[&str] = match folder {
        "counters" => &PORT_COUNTERS,
        "hw_counters" => hw_counter_names(),
        _ => return None,
    };
    if !known.contains(&name) {
        return None;
    }
    let Some(open_device) = open_card(device) else { return Some(None) };
    if folder == "counters" {
        return Some(Some(port_counter(name, &open_device.device.port_counters())));
    }
    let all = open_device.device.counters();
    Some(all.into_iter().find(|(same, _)| *same == name).map(|(_, value)| value))
}

/// A device's counter, for the library with the functions that take a path where that is not the one with the devices.
/// False: there is none, or the device is not open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uroce_read_counter(below: *const c_char, out: *mut u64) -> bool {
    return_value::value(false, || {
        // SAFETY: `of_drop_in` passes a string.
        let below = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(below) }.to_bytes()));
        let Some(Some(value)) = own(below) else { return false };
        // SAFETY: and room for a number.
        unsafe { *out = value };
        true
    })
}

/// What the library says that stands in the place of the system's, if it is loaded.
fn of_drop_in(below: &Path) -> Option<u64> {
    let below = CString::new(below.as_os_str().as_bytes()).ok()?;
    let mut value = 0;
    // SAFETY: strings. A library that has a function of this name is ours, so that its type is known; the handle
    // is given back when it has returned.
    unsafe {
        let library =
            libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        if library.is_null() {
            return None;
        }
        let read = libc::dlsym(library, c"uroce_read_counter".as_ptr());
        type Read = unsafe extern "C" fn(*const c_char, *mut u64) -> bool;
        let found = !read.is_null()
            && std::mem::transmute::<*mut c_void, Read>(read)(below.as_ptr(), &raw mut value);
        libc::dlclose(library);
        found.then_some(value)
    }
}

fn port_counter(name: &str, port: &PortCounters) -> u64 {
    match name {
        "link_downed" => port.link_downed,
        "port_rcv_data" => port.rcv_bytes / WORD,
        "port_rcv_errors" => port.rcv_errors,
        "port_rcv_packets" => port.rcv_pkts,
        "port_xmit_data" => port.xmit_bytes / WORD,
        "port_xmit_discards" => port.xmit_discards,
        "port_xmit_packets" => port.xmit_pkts,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::ctx_of;
    use crate::contract_tests::world;
    use crate::object_of;

    #[test]
    fn v80_each_counter_of_the_device_has_a_file() {
        let world = world(71);
        let open_device = object_of!(ctx_of(world.context)).unwrap().opened().unwrap();
        let all = open_device.device.counters().into_iter().map(|(name, _)| name);
        let own: Vec<&str> = all.filter(|name| !name.starts_with("datapath_")).collect();
        assert_eq!(own, hw_counter_names());
        drop(open_device);
        world.end();
    }

    #[test]
    fn v80_a_device_that_is_not_open_has_counted_nothing() {
        for name in names() {
            let path = format!("uroce-closed/ports/1/{name}");
            assert_eq!(value(Path::new(&path)), Some(0), "{path}");
        }
        for other in ["", "d", "d/ports/1", "d/ports/1/counters", "d/ports/1/state"] {
            assert_eq!(value(Path::new(other)), None, "{other}");
        }
        let unknown = "d/ports/1/counters/sent_pkts";
        assert_eq!(value(Path::new(unknown)), None, "it is among the hw_counters");
    }

    #[test]
    fn v80_data_is_counted_in_words() {
        let port = PortCounters { xmit_bytes: 43, rcv_bytes: 8, rcv_pkts: 5, ..Default::default() };
        assert_eq!(port_counter("port_xmit_data", &port), 10);
        assert_eq!(port_counter("port_rcv_data", &port), 2);
        assert_eq!(port_counter("port_rcv_packets", &port), 5);
        assert_eq!(port_counter("symbol_error", &port), 0);
    }
}
