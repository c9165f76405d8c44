//! `ibv_get_device_list` and what can be asked about a device that is not open.

use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::{c_char, c_int};
use uroce_device::Interface;

use crate::abi::{IBV_NODE_CA, IBV_TRANSPORT_IB, ibv_device};
use crate::errno::{Errno, INVALID, made};
use crate::object::{Object, zeroed};
use crate::return_value::{pointer, value};
use crate::settings;

/// A device that was listed. Devices are few and live as long as the process: a program may keep a pointer from one list and
/// find it in the next.
#[derive(Debug)]
pub(crate) struct Listed {
    device: *mut ibv_device,
    /// As it was when it was listed last.
    interface: Interface,
    /// The number in its name.
    index: usize,
}

impl Listed {
    /// True if that one is the same address of the same network interface, whose MTU or carrier may have changed.
    fn is_place_of(&self, other: &Interface) -> bool {
        self.interface.address == other.address && self.interface.netdev == other.netdev
    }

    fn is_of(&self, other: &Interface) -> bool {
        self.is_place_of(other) && self.interface.name == other.name
    }
}

// SAFETY: the object is never changed or freed after it was made.
unsafe impl Send for Listed {}

/// Devices, in the order in which they were found.
pub(crate) type Devices = Vec<Listed>;

pub(crate) static LISTED: Mutex<Devices> = Mutex::new(Vec::new());

/// ibv_get_device_list(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    pointer(|| {
        let devices: Vec<_> = settings::devices().into_iter().map(device_of).collect();
        // SAFETY: null, or an int of the program.
        unsafe { list_of(&devices, count) }
    })
}

/// What C gets as a list: memory of its own, with a null behind the last. How many they are goes to `count`.
///
/// # Safety
/// `count` is null or an int.
pub unsafe fn list_of<T>(objects: &[*mut T], count: *mut c_int) -> Result<*mut *mut T, Errno> {
    let length = c_int::try_from(objects.len()).map_err(|_| INVALID)?;
    // SAFETY: calloc with sizes that do not overflow (it checks).
    let list = made(unsafe { libc::calloc(objects.len() + 1, size_of::<*mut T>()) })?;
    let list = list.cast::<*mut T>();
    // SAFETY: the list has one more place than there are objects; the last stays null.
    unsafe { list.copy_from_nonoverlapping(objects.as_ptr(), objects.len()) };
    if !count.is_null() {
        // SAFETY: not null, so an int by the caller's promise.
        unsafe { *count = length };
    }
    Ok(list)
}

/// ibv_free_device_list(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    // SAFETY: null, or a list that came from calloc.
    unsafe { libc::free(list.cast()) }
}

/// The device on an interface, the same each time as long as its name is.
pub fn device_of(interface: Interface) -> *mut ibv_device {
    let mut listed = devices();
    if let Some(known) = listed.iter_mut().find(|known| known.is_of(&interface)) {
        known.interface = interface;
        return known.device;
    }
    let before = listed.iter().find(|known| known.is_place_of(&interface));
    let free = || listed.iter().map(|known| known.index + 1).max().unwrap_or(0);
    let index = before.map_or_else(free, |known| known.index);
    let device = Object::create(describe(&interface, index), ());
    listed.push(Listed { device, interface, index });
    device
}

/// The device that was listed for this interface.
pub(crate) fn listed_device(interface: &Interface) -> Option<*mut ibv_device> {
    devices().iter().find(|known| known.is_of(interface)).map(|known| known.device)
}

/// What a device is on, as it was when it was listed last; `None` if it was never listed.
pub(crate) fn interface_on(device: *const ibv_device) -> Option<Interface> {
    let listed = devices();
    let found = listed.iter().find(|known| std::ptr::eq(known.device, device));
    found.map(|known| known.interface.clone())
}

fn devices() -> MutexGuard<'static, Devices> {
    LISTED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn describe(interface: &Interface, index: usize) -> ibv_device {
    // SAFETY: integers, bytes and empty slots.
    let mut device: ibv_device = unsafe { zeroed() };
    device.node_type = IBV_NODE_CA;
    device.transport_type = IBV_TRANSPORT_IB;
    put_text(&mut device.name, &interface.name);
    put_text(&mut device.dev_name, &format!("uverbs{index}"));
    put_text(&mut device.dev_path, &format!("/sys/class/infiniband_verbs/uverbs{index}"));
    put_text(&mut device.ibdev_path, &format!("/sys/class/infiniband/{}", interface.name));
    device
}

/// As much of `text` as fits, with a 0 at the end.
pub fn put_text<const N: usize>(field: &mut [c_char; N], text: &str) {
    field.fill(0);
    for (place, byte) in field[..N - 1].iter_mut().zip(text.bytes()) {
        *place = byte as c_char;
    }
}

/// ibv_get_device_name(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    if device.is_null() {
        return null_mut();
    }
    // SAFETY: not null, and so a device of the list, which is never destroyed.
    unsafe { std::ptr::addr_of!((*device).name).cast() }
}

/// ibv_get_device_guid(3), in network byte order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_guid(device: *mut ibv_device) -> u64 {
    value(0, || interface_on(device).map_or(0, |interface| interface.guid().to_be()))
}

/// ibv_get_device_index(3): the place among the devices of this machine, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_index(device: *mut ibv_device) -> c_int {
    value(-1, || {
        let Some(wanted) = interface_on(device) else { return -1 };
        let all = uroce_device::interfaces();
        let place = all.iter().position(|found| found.address == wanted.address);
        place.and_then(|place| c_int::try_from(place).ok()).unwrap_or(-1)
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use uroce_device::interface_of;

    use super::*;

    fn name_of(interface: &Interface) -> String {
        let device = device_of(interface.clone());
        // SAFETY: a device of the list, whose name ends with a 0.
        let name = unsafe { CStr::from_ptr(std::ptr::addr_of!((*device).dev_name).cast()) };
        name.to_str().expect("ASCII").to_owned()
    }

    #[test]
    fn a_device_stays_the_same_when_its_interface_changes() {
        let of = |address: &str| {
            interface_of(address.parse().expect("an address")).expect("it is local")
        };
        let (first, other) = (of("127.91.70.1"), of("127.91.70.2"));
        let changed = Interface { mtu: first.mtu + 1, running: !first.running, ..first.clone() };
        let device = device_of(first.clone());
        assert_eq!(interface_on(device).as_ref(), Some(&first));
        assert_eq!(device_of(changed.clone()), device);
        assert_eq!(interface_on(device), Some(changed));
        assert_ne!(device_of(other), device);
        assert_eq!(interface_on(null_mut()), None);
    }

    #[test]
    fn a_device_that_gets_another_name_is_another_one_with_the_same_number() {
        let address = "127.91.70.3".parse().expect("an address");
        let first = interface_of(address).expect("it is local");
        let renamed = Interface { name: "uroce99".to_owned(), ..first.clone() };
        assert_eq!(name_of(&renamed), name_of(&first));
        assert_ne!(device_of(renamed), device_of(first));
    }
}
