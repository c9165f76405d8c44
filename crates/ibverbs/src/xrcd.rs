//! XRC domains. The contexts of one process share a domain through a file, as ibv_open_xrcd(3) says;
//! processes cannot, since each has queue pairs and memory of its own.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use libc::c_int;
use uroce_device::Device;
use uroce_device::memory::PdId;
use uroce_device::transport::{CqId, XrcdId};
use uroce_device::wire::Qpn;

use crate::abi::{
    IBV_XRCD_INIT_ATTR_FD, IBV_XRCD_INIT_ATTR_OFLAGS, ibv_context, ibv_xrcd, ibv_xrcd_init_attr,
};
use crate::context::{Ctx, ctx_of};
use crate::errno::{BUSY, Errno, INVALID, NOT_SUPPORTED};
use crate::object::Object;
use crate::open_device::OpenDevice;
use crate::return_value::{pointer, status};
use crate::{input, object_of};

/// Both must be given.
const MASK: u32 = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
/// No file: the domain cannot be opened again.
const NO_FILE: c_int = -1;

/// The objects that stand for each target of a domain. The first one of a target gets its events.
pub type Targets = HashMap<Qpn, Vec<Holder>>;

/// An object that stands for a target.
#[derive(Debug)]
pub struct Holder {
    pub(crate) address: u64,
    pub(crate) ctx: Arc<Ctx>,
}

/// Device and inode of a file.
type FileId = (u64, u64);

/// A domain that the contexts of an open device share, and the file that they share it by.
struct SharedDomain {
    file: FileId,
    open_device: Weak<OpenDevice>,
    domain: Weak<Xrcd>,
}

static SHARED: Mutex<Vec<SharedDomain>> = Mutex::new(Vec::new());

fn shared_domains() -> MutexGuard<'static, Vec<SharedDomain>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A domain, which all objects that stand for it share.
#[derive(Debug)]
pub struct Xrcd {
    pub(crate) open_device: Arc<OpenDevice>,
    pub(crate) id: XrcdId,
    /// What the device gives to targets.
    own: (PdId, CqId),
    /// Objects of programs that stand for the domain; shared receive queues and targets hold it, too.
    opens: AtomicUsize,
    /// The objects that stand for the targets.
    targets: Mutex<Targets>,
}

impl Xrcd {
    fn new(open_device: &Arc<OpenDevice>) -> Result<Arc<Xrcd>, Errno> {
        let device = &open_device.device;
        let pd = device.memory().alloc_pd()?;
        let made = device.create_cq(1, None, 0).and_then(|cq| {
            let opened = device.xrc().open(pd, cq).map(|id| (cq, id));
            opened.inspect_err(|_| _ = device.destroy_cq(cq))
        });
        let (cq, id) = made.inspect_err(|_| _ = device.memory().dealloc_pd(pd))?;
        let (open_device, targets) = (Arc::clone(open_device), Mutex::default());
        let opens = AtomicUsize::new(1);
        Ok(Arc::new(Xrcd { open_device, id, own: (pd, cq), opens, targets }))
    }

    pub(crate) fn device(&self) -> &Device {
        &self.open_device.device
    }

    pub(crate) fn targets(&self) -> MutexGuard<'_, Targets> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Xrcd {
    fn drop(&mut self) {
        // Nothing belongs to it any more: whatever did held it.
        let _ = self.device().xrc().close(self.id);
        let _ = self.device().destroy_cq(self.own.1);
        let _ = self.device().memory().dealloc_pd(self.own.0);
    }
}

/// Our part of a domain.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub unsafe fn xrcd_of<'a>(xrcd: *const ibv_xrcd) -> Result<&'a Arc<Xrcd>, Errno> {
    // SAFETY: the caller's promise.
    unsafe { Object::<ibv_xrcd, Arc<Xrcd>>::live(xrcd) }
}

/// The slot behind `ibv_open_xrcd`.
pub unsafe extern "C" fn open_xrcd(
    context: *mut ibv_context,
    attr: *mut ibv_xrcd_init_attr,
) -> *mut ibv_xrcd {
    pointer(|| {
        let (ctx, attr) = (object_of!(ctx_of(context))?, input!(attr)?);
        if attr.comp_mask & !MASK != 0 {
            return Err(NOT_SUPPORTED);
        }
        if attr.comp_mask & MASK != MASK {
            return Err(INVALID);
        }
        let open_device = ctx.open_device()?;
        let domain = if attr.fd == NO_FILE {
            Xrcd::new(&open_device)?
        } else {
            shared(&open_device, file_id(attr.fd)?, attr.oflags)?
        };
        Ok(Object::create(ibv_xrcd { context }, domain))
    })
}

/// The domain of a file: `O_CREAT` makes one if there is none, `O_EXCL` accepts no other's.
fn shared(open_device: &Arc<OpenDevice>, file: FileId, flags: c_int) -> Result<Arc<Xrcd>, Errno> {
    let mut domains = shared_domains();
    domains.retain(|shared| shared.domain.strong_count() > 0);
    // Only a domain of this open device is taken hold of: the last hold of another one would destroy it here.
    let is_ours = |shared: &&SharedDomain| {
        shared.file == file && std::ptr::eq(shared.open_device.as_ptr(), Arc::as_ptr(open_device))
    };
    let found = domains.iter().find(is_ours).and_then(|shared| shared.domain.upgrade());
    match found {
        Some(_) if flags & libc::O_EXCL != 0 => Err(INVALID),
        Some(domain) => {
            domain.opens.fetch_add(1, Ordering::SeqCst);
            Ok(domain)
        }
        None if flags & libc::O_CREAT == 0 => Err(Errno(libc::EAGAIN)),
        None => {
            let domain = Xrcd::new(open_device)?;
            let (open_device, domain_of_file) =
                (Arc::downgrade(open_device), Arc::downgrade(&domain));
            domains.push(SharedDomain { file, open_device, domain: domain_of_file });
            Ok(domain)
        }
    }
}

fn file_id(fd: c_int) -> Result<FileId, Errno> {
    if fd < 0 {
        return Err(Errno(libc::EBADF));
    }
    // SAFETY: not negative, and only looked at during this call; a closed one gives EBADF.
    let file = unsafe { BorrowedFd::borrow_raw(fd) };
    let found = File::from(file.try_clone_to_owned()?).metadata()?;
    Ok((found.dev(), found.ino()))
}

/// The slot behind `ibv_close_xrcd`. Of those who share a domain the last learns whether it is still
/// in use.
pub unsafe extern "C" fn close_xrcd(xrcd: *mut ibv_xrcd) -> c_int {
    status(|| {
        if Object::<ibv_xrcd, Arc<Xrcd>>::is_inherited(xrcd) {
            return Ok(());
        }
        let domain = object_of!(xrcd_of(xrcd))?;
        // It is not opened meanwhile.
        let domains = shared_domains();
        let opens = domain.opens.load(Ordering::SeqCst);
        if opens == 1 && Arc::strong_count(domain) > opens {
            return Err(BUSY);
        }
        domain.opens.store(opens - 1, Ordering::SeqCst);
        drop(domains);
        // SAFETY: the manual pages ask that the object is not used any more.
        unsafe { Object::<ibv_xrcd, Arc<Xrcd>>::destroy(xrcd) };
        Ok(())
    })
}
