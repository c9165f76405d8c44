//! Memory regions.

use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

use libc::{c_int, c_uint, c_void};
use uroce_device::memory::{self, Access, MrId, Region, Rereg, ReregError};

use crate::abi::{
    IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT,
    IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, IBV_REREG_MR_CHANGE_ACCESS,
    IBV_REREG_MR_CHANGE_PD, IBV_REREG_MR_CHANGE_TRANSLATION, IBV_REREG_MR_ERR_INPUT, ibv_mr,
    ibv_pd, ibv_sge,
};
use crate::device_memory::Memory;
use crate::errno::{Errno, INVALID, NOT_SUPPORTED};
use crate::object::Object;
use crate::object_of;
use crate::open_device::OpenDevice;
use crate::pd::{Pd, pd_of};
use crate::return_value::{pointer, status, value};
use crate::sge::sge_list;
use crate::use_count::Use;

/// What we keep about a memory region.
#[derive(Debug)]
pub(crate) struct Mr {
    open_device: Arc<OpenDevice>,
    id: MrId,
    holds: Holds,
    /// The parent domain that it belongs to, which `ibv_rereg_mr` may change.
    parent: Mutex<Option<Use>>,
}

impl Mr {
    pub(crate) fn open_device(&self) -> &Arc<OpenDevice> {
        &self.open_device
    }
}

/// What stays as long as a registration of it.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    memory: Option<Arc<Memory>>,
    _dmah: Option<Use>,
}

impl Holds {
    /// Memory that this library provides.
    pub(crate) fn memory(memory: &Arc<Memory>) -> Holds {
        Holds { memory: Some(Arc::clone(memory)), _dmah: None }
    }

    /// And a DMA handle.
    pub(crate) fn and_dmah(self, dmah: Option<Use>) -> Holds {
        Holds { _dmah: dmah, ..self }
    }
}

const KNOWN_CHANGES: c_int =
    IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;

/// Our part of a region; ENOENT if there is none at that address.
///
/// # Safety
/// The region is not destroyed while the result is in use.
pub(crate) unsafe fn mr_of<'a>(mr: *const ibv_mr) -> Result<&'a Mr, Errno> {
    // SAFETY: the caller's promise.
    unsafe { Object::<ibv_mr, Mr>::live(mr) }
}

/// ibv_reg_mr(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the caller's promise is the same.
    unsafe { ibv_reg_mr_iova2(pd, addr, length, addr.addr() as u64, access as c_uint) }
}

/// ibv_reg_mr_iova(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the caller's promise is the same.
    unsafe { ibv_reg_mr_iova2(pd, addr, length, iova, access as c_uint) }
}

/// What the macros `ibv_reg_mr` and `ibv_reg_mr_iova` call for flags that are not constant.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    // SAFETY: the caller's promise is the same.
    pointer(|| unsafe { register(pd, (addr, length), iova, access, Holds::default()) })
}

/// Registers memory of the program, or of this library if `holds` has it.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn register(
    pd: *mut ibv_pd,
    (addr, length): (*mut c_void, usize),
    iova: u64,
    access: c_uint,
    holds: Holds,
) -> Result<*mut ibv_mr, Errno> {
    let owner = object_of!(pd_of(pd))?;
    let access = Access::from_bits_retain(access);
    let region = region(addr, length, access)?;
    let mr = owner.device().memory().reg_mr(owner.id, region, iova, access)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { object(pd, owner, &mr, (addr, length), holds) })
}

/// What the program gets for a registration.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn object(
    pd: *mut ibv_pd,
    owner: &Pd,
    made: &uroce_device::memory::Mr,
    (addr, length): (*mut c_void, usize),
    holds: Holds,
) -> *mut ibv_mr {
    // SAFETY: a domain that was found, whose context does not change.
    let context = unsafe { (*pd).context };
    let (handle, lkey, rkey) = (made.id.place(), made.lkey.0, made.rkey.0);
    let c = ibv_mr { context, pd, addr, length, handle, lkey, rkey };
    let open_device = Arc::clone(&owner.open_device);
    let parent = Mutex::new(owner.hold_parent());
    Object::create(c, Mr { open_device, id: made.id, holds, parent })
}

/// The program's memory. As a kernel does when it pins pages, this faults them in, and finds out
/// whether they are there at all. Memory on demand need not be there, unless this host's kernel cannot look for it at each access.
fn region(addr: *mut c_void, length: usize, access: Access) -> Result<Region, Errno> {
    let on_demand = access.contains(Access::ON_DEMAND);
    if on_demand && addr.is_null() && length == usize::MAX {
        // SAFETY: C knows no references; the rest is what the program asks for with these arguments.
        return unsafe { Region::whole_process() }.ok_or(NOT_SUPPORTED);
    }
    if length == 0 || length > isize::MAX as usize || addr.addr().checked_add(length).is_none() {
        return Err(INVALID);
    }
    // SAFETY: as above.
    let region = on_demand.then(|| unsafe { Region::on_demand(addr.expose_provenance(), length) });
    if let Some(region) = region.flatten() {
        return Ok(region);
    }
    fault_in(addr.addr(), length, access)?;
    // SAFETY: the manual page asks that memory stays mapped until it is deregistered, and C knows no
    // references.
    Ok(unsafe { Region::from_raw(addr.cast(), length) })
}

fn fault_in(addr: usize, length: usize, access: Access) -> Result<(), Errno> {
    let write = access.contains(Access::LOCAL_WRITE);
    match memory::fault_in(addr, length, write).map_err(|error| error.raw_os_error()) {
        Err(Some(libc::ENOMEM | libc::EFAULT)) => Err(Errno(libc::EFAULT)),
        // Before Linux 5.14: nothing is known.
        _ => Ok(()),
    }
}

/// The slot behind `ibv_advise_mr`. The addresses are checked; the processor fetches pages when they
/// are touched, so there is nothing to fetch before.
pub(crate) unsafe extern "C" fn advise_mr(
    pd: *mut ibv_pd,
    advice: c_int,
    flags: u32,
    list: *mut ibv_sge,
    count: u32,
) -> c_int {
    status(|| {
        let owner = object_of!(pd_of(pd))?;
        // SAFETY: the arguments are those of a call from C.
        let sges = unsafe { sge_list(list, c_int::try_from(count).map_err(|_| INVALID)?)? };
        if sges.is_empty() || flags & !IBV_ADVISE_MR_FLAG_FLUSH != 0 {
            return Err(INVALID);
        }
        let need = match advice {
            IBV_ADVISE_MR_ADVICE_PREFETCH | IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT => {
                Access::empty()
            }
            IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE => Access::LOCAL_WRITE,
            _ => return Err(NOT_SUPPORTED),
        };
        Ok(owner.device().memory().check_sges(owner.id, sges, need)?)
    })
}

/// ibv_rereg_mr(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    let rereg = || {
        let inner = object_of!(mr_of(mr))?;
        // SAFETY: the arguments are those of a call from C.
        let change = unsafe { change_of(inner, flags, pd, (addr, length), access)? };
        let (new_pd, moved) = (change.pd.is_some(), change.translation.is_some());
        // SAFETY: a domain that was found, if it is to change.
        let parent = if new_pd { unsafe { pd_of(pd)? }.hold_parent() } else { None };
        let keys = inner
            .open_device
            .device
            .memory()
            .rereg_mr(inner.id, change)
            .map_err(|error: ReregError| Errno::from(error))?;
        // SAFETY: the object was found, and the program does not write to this field.
        unsafe {
            (*mr).lkey = keys.lkey.0;
            (*mr).rkey = keys.rkey.0;
            if new_pd {
                (*mr).pd = pd;
                *inner.parent.lock().unwrap_or_else(PoisonError::into_inner) = parent;
            }
            if moved {
                ((*mr).addr, (*mr).length) = (addr, length);
            }
        }
        Ok::<c_int, Errno>(0)
    };
    value(IBV_REREG_MR_ERR_INPUT, || {
        rereg().unwrap_or_else(|errno| {
            crate::errno::set_errno(errno);
            IBV_REREG_MR_ERR_INPUT
        })
    })
}

/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn change_of(
    mr: &Mr,
    flags: c_int,
    pd: *mut ibv_pd,
    (addr, length): (*mut c_void, usize),
    access: c_int,
) -> Result<Rereg, Errno> {
    if flags == 0 || flags & !KNOWN_CHANGES != 0 {
        return Err(INVALID);
    }
    let mut change = Rereg::default();
    let access = Access::from_bits_retain(access as u32);
    if flags & IBV_REREG_MR_CHANGE_PD != 0 {
        let owner = object_of!(pd_of(pd))?;
        mr.open_device.check_same(&owner.open_device)?;
        change.pd = Some(owner.id);
    }
    if flags & IBV_REREG_MR_CHANGE_ACCESS != 0 {
        change.access = Some(access);
    }
    let (memory, rights) = mr.open_device.device.memory().region_of(mr.id).ok_or(INVALID)?;
    let rights = change.access.unwrap_or(rights);
    if flags & IBV_REREG_MR_CHANGE_TRANSLATION != 0 {
        if addr.is_null() {
            return Err(INVALID);
        }
        change.translation = Some((region(addr, length, rights)?, addr.addr() as u64));
    } else if flags & IBV_REREG_MR_CHANGE_ACCESS != 0 && !rights.contains(Access::ON_DEMAND) {
        fault_in(memory.addr() as usize, memory.len(), rights)?;
    }
    Ok(change)
}

/// ibv_import_mr(3): the region with that handle. Where its memory is, only who registered it knows.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_import_mr(pd: *mut ibv_pd, handle: u32) -> *mut ibv_mr {
    pointer(|| {
        let owner = object_of!(pd_of(pd))?;
        let found = owner.device().memory().mr_at(handle).ok_or(Errno(libc::ENOENT))?;
        // SAFETY: the arguments are those of a call from C.
        Ok(unsafe { object(pd, owner, &found, (null_mut(), 0), Holds::default()) })
    })
}

/// ibv_unimport_mr(3): the region itself stays. One that holds memory of this library was registered, not imported: peers reach
/// that memory until it is deregistered.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_unimport_mr(mr: *mut ibv_mr) {
    // SAFETY: the manual pages ask that it was imported, and is not used any more.
    value((), || unsafe {
        if mr_of(mr).is_ok_and(|inner| inner.holds.memory.is_none()) {
            Object::<ibv_mr, Mr>::destroy(mr);
        }
    });
}

/// ibv_dereg_mr(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    status(|| {
        if Object::<ibv_mr, Mr>::is_inherited(mr) {
            return Ok(());
        }
        let inner = object_of!(mr_of(mr))?;
        inner.open_device.device.memory().dereg_mr(inner.id)?;
        // SAFETY: the manual pages ask that the object is not used any more.
        unsafe { Object::<ibv_mr, Mr>::destroy(mr) };
        Ok(())
    })
}
