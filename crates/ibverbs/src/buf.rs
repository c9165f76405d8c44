//! Buffers that a program asks the device for. A NIC may need memory of a certain kind; this one takes any, so that they are
//! pages of the process.

use std::sync::Arc;

use libc::{c_int, c_void};

use crate::abi::{ibv_buf, ibv_mr, ibv_pd};
use crate::arg::not_null;
use crate::device_memory::Memory;
use crate::errno::{Errno, INVALID};
use crate::mr::{Holds, register};
use crate::object::Object;
use crate::object_of;
use crate::pd::pd_of;
use crate::return_value::{number, pointer, value};

/// What we keep about a buffer. Registrations of it hold the memory too.
#[derive(Debug)]
pub(crate) struct Buf {
    memory: Arc<Memory>,
    /// The domain that it was allocated for: an address to compare with.
    pd: usize,
}

impl Buf {
    /// The memory, if these bytes are within it. EINVAL: they are not, or the buffer is of another domain.
    pub(crate) fn range(
        &self,
        pd: *const ibv_pd,
        addr: *const c_void,
        length: usize,
    ) -> Result<&Arc<Memory>, Errno> {
        let offset = addr.addr().checked_sub(self.memory.start().addr()).ok_or(INVALID)?;
        self.memory.at(offset as u64, length)?;
        if pd.addr() == self.pd { Ok(&self.memory) } else { Err(INVALID) }
    }
}

/// Our part of a buffer; ENOENT if there is none at that address.
///
/// # Safety
/// The buffer is not freed while the result is in use.
pub(crate) unsafe fn buf_of<'a>(buf: *const ibv_buf) -> Result<&'a Buf, Errno> {
    // SAFETY: the caller's promise.
    unsafe { Object::<ibv_buf, Buf>::live_any_process(buf) }
}

/// ibv_alloc_buf(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_alloc_buf(
    pd: *mut ibv_pd,
    size: usize,
    buf: *mut *mut ibv_buf,
) -> *mut c_void {
    pointer(|| {
        object_of!(pd_of(pd))?;
        let out = not_null(buf)?;
        let memory = Memory::anonymous(size)?;
        let addr = memory.start().cast();
        let made = Object::create(ibv_buf { addr }, Buf { memory, pd: pd.addr() });
        // SAFETY: not null, and so room that the program has for the result.
        unsafe { out.write(made) };
        Ok(addr)
    })
}

/// ibv_free_buf(3). The memory stays as long as it is registered.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_free_buf(buf: *mut ibv_buf) {
    // SAFETY: the manual page asks that it is not used any more.
    value((), || unsafe {
        if buf_of(buf).is_ok() {
            Object::<ibv_buf, Buf>::destroy(buf);
        }
    });
}

/// ibv_reg_buf_mr(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_reg_buf_mr(
    pd: *mut ibv_pd,
    buf: *mut ibv_buf,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    pointer(|| {
        let holds = Holds::memory(object_of!(buf_of(buf))?.range(pd, addr, length)?);
        // SAFETY: the arguments are those of a call from C.
        unsafe { register(pd, (addr, length), addr.addr() as u64, access as u32, holds) }
    })
}

/// ibv_export_buf_dmabuf_fd(3): ENODATA, there is no DMA-buf behind it.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_export_buf_dmabuf_fd(buf: *mut ibv_buf) -> c_int {
    number(|| Err(object_of!(buf_of(buf)).err().unwrap_or(Errno(libc::ENODATA))))
}
