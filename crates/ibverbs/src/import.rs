//! Finding the device that a descriptor stands for.
//!
//! A program shares a device by a duplicate of the descriptor of its context. A NIC in the kernel is found
//! through it from any process; ours is in this process, so only here.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use libc::c_int;
use uroce_device::Interface;

use crate::errno::{Errno, NOT_SUPPORTED};

/// What tells a file from all others.
type Identity = (libc::dev_t, libc::ino_t);

/// The files that were made, and for which device, as long as a context holds that.
static MADE: Mutex<Vec<(Identity, Weak<Interface>)>> = Mutex::new(Vec::new());

/// A new file that stands for the device on this interface.
pub(crate) fn new_file(interface: &Arc<Interface>) -> Result<File, Errno> {
    // SAFETY: a string that ends with 0.
    let descriptor = unsafe { libc::memfd_create(c"uroce".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(Errno::last());
    }
    // SAFETY: just made.
    let file = unsafe { File::from_raw_fd(descriptor) };
    let identity = identity(file.as_raw_fd())?;
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    // The system may give the number of a file that is gone to the next one.
    made.retain(|(known, interface)| *known != identity && interface.strong_count() > 0);
    made.push((identity, Arc::downgrade(interface)));
    Ok(file)
}

/// The interface of the device that the descriptor, or what it is a duplicate of, was made for.
pub(crate) fn interface_of(descriptor: c_int) -> Result<Arc<Interface>, Errno> {
    let wanted = identity(descriptor)?;
    let made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let found = made.iter().find(|(known, _)| *known == wanted);
    found.and_then(|(_, interface)| interface.upgrade()).ok_or(NOT_SUPPORTED)
}

fn identity(descriptor: c_int) -> Result<Identity, Errno> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: room for what the kernel writes.
    if unsafe { libc::fstat(descriptor, status.as_mut_ptr()) } != 0 {
        return Err(Errno::last());
    }
    // SAFETY: the kernel has written it.
    let status = unsafe { status.assume_init() };
    Ok((status.st_dev, status.st_ino))
}

#[cfg(test)]
mod tests {
    use libc::{dup, memcmp};

    use super::*;
    use crate::abi::ibv_alloc_dm_attr;
    use crate::contract_tests::opened;
    use crate::dm::{alloc_dm, free_dm, ibv_import_dm, ibv_unimport_dm};
    use crate::mr::{ibv_dereg_mr, ibv_import_mr, ibv_reg_mr, ibv_unimport_mr};
    use crate::open::{ibv_close_device, ibv_import_device};
    use crate::pd::{ibv_alloc_pd, ibv_dealloc_pd, ibv_import_pd, ibv_unimport_pd};

    #[test]
    fn objects_of_one_context_are_found_with_another() {
        let context = opened(207);
        let mut bytes = [0u8; 64];
        // SAFETY: as the manual pages want it.
        unsafe {
            let pd = ibv_alloc_pd(context);
            let mr = ibv_reg_mr(pd, bytes.as_mut_ptr().cast(), 64, 1);
            let second = ibv_import_device(dup((*context).cmd_fd));
            assert!(!second.is_null());
            assert_eq!((*second).device, (*context).device);
            let imported_pd = ibv_import_pd(second, (*pd).handle);
            let imported_mr = ibv_import_mr(imported_pd, (*mr).handle);
            assert_eq!(((*imported_mr).lkey, (*imported_mr).rkey), ((*mr).lkey, (*mr).rkey));
            assert!((*imported_mr).addr.is_null());
            ibv_unimport_mr(imported_mr);
            assert!(ibv_import_mr(imported_pd, u32::MAX).is_null());
            ibv_unimport_pd(imported_pd);
            assert_eq!((ibv_dereg_mr(mr), ibv_dealloc_pd(pd)), (0, 0), "they were still there");
            assert!(ibv_import_pd(second, u32::MAX).is_null());
            assert_eq!((ibv_close_device(second), ibv_close_device(context)), (0, 0));
        }
    }

    #[test]
    fn imported_device_memory_is_the_same_memory() {
        let context = opened(208);
        let mut attr = ibv_alloc_dm_attr { length: 8, log_align_req: 0, comp_mask: 0 };
        let mut seen = [0u8; 8];
        // SAFETY: as the manual pages want it.
        unsafe {
            let dm = alloc_dm(context, &raw mut attr);
            let second = ibv_import_device(dup((*context).cmd_fd));
            let imported = ibv_import_dm(second, (*dm).handle);
            assert_eq!(((*dm).memcpy_to_dm)(dm, 0, b"12345678".as_ptr().cast(), 8), 0);
            assert_eq!(((*dm).memcpy_from_dm)(seen.as_mut_ptr().cast(), imported, 0, 8), 0);
            assert_eq!(memcmp(seen.as_ptr().cast(), b"12345678".as_ptr().cast(), 8), 0);
            assert_eq!(free_dm(dm), libc::EBUSY);
            ibv_unimport_dm(imported);
            assert_eq!(free_dm(dm), 0);
            assert!(ibv_import_dm(second, u32::MAX).is_null());
            assert_eq!((ibv_close_device(second), ibv_close_device(context)), (0, 0));
        }
    }

    #[test]
    fn a_descriptor_of_something_else_is_refused() {
        // SAFETY: nothing is done with a descriptor that is refused.
        unsafe {
            assert!(ibv_import_device(0).is_null() && ibv_import_device(-1).is_null());
        }
        assert_eq!(interface_of(-1).err(), Some(Errno(libc::EBADF)));
        let null = File::open("/dev/null").expect("every system has it");
        assert_eq!(interface_of(null.as_raw_fd()).err(), Some(NOT_SUPPORTED));
    }
}
