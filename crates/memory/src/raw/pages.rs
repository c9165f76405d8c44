//! What the kernel is told and asked about pages.

use std::ffi::c_int;
use std::io;
use std::ptr::{NonNull, with_exposed_provenance_mut};
use std::sync::LazyLock;

use libc::{EFAULT, EINVAL, MADV_POPULATE_READ, MADV_POPULATE_WRITE, c_void};

/// Fetches the pages of `len` bytes at `addr`, as the registration of a region does.
///
/// # Errors
/// `ENOMEM` or `EFAULT` where nothing is mapped, the page may not be accessed so, or is memory of a
/// device, which no registration can hold; `EINVAL` from kernels before 5.14, which know neither advice.
pub fn fault_in(addr: usize, len: usize, write: bool) -> io::Result<()> {
    let advice = if write { MADV_POPULATE_WRITE } else { MADV_POPULATE_READ };
    match populate(addr, len, advice) {
        Err(error) if error.raw_os_error() == Some(EINVAL) && *KERNEL_POPULATES => {
            Err(io::Error::from_raw_os_error(EFAULT))
        }
        done => done,
    }
}

/// Whether `EINVAL` says something about the page, and not about the kernel.
static KERNEL_POPULATES: LazyLock<bool> = LazyLock::new(|| {
    let own = 0u8;
    populate((&raw const own).expose_provenance(), 1, MADV_POPULATE_WRITE).is_ok()
});

fn populate(addr: usize, len: usize, advice: c_int) -> io::Result<()> {
    let into_page = addr % page_size();
    let Some(len) = len.checked_add(into_page).filter(|_| len > 0) else {
        return Ok(());
    };
    let page = with_exposed_provenance_mut::<c_void>(addr - into_page);
    // SAFETY: this advice changes no byte, and addresses without memory are an error.
    match unsafe { libc::madvise(page, len, advice) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets the kernel use huge pages for memory of ours; without an effect where there are none.
pub(super) fn ask_for_huge_pages(start: NonNull<u8>, len: usize) {
    if len > 0 && !cfg!(miri) {
        // SAFETY: this advice changes no byte; a refusal leaves the pages as they are.
        unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
    }
}

pub(super) fn page_size() -> usize {
    // SAFETY: no arguments that could be wrong.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}
