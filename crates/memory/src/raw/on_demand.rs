//! Memory that may not be there when a peer asks for it: all addresses of this process.
//!
//! Where nothing is mapped an access by this process would end it, and peers choose the addresses.
//! So pages are fetched by the kernel before an access is granted, and copies are made by the
//! kernel, which says no where a program would get a signal. Between the two the program may
//! unmap the memory: a copy in is then lost as if it had come just before, a copy out gives zeros.

use std::ptr::with_exposed_provenance_mut;

use libc::{c_ulong, iovec, pid_t};

use super::pages::fault_in;

/// Whether the kernel does all of this here: it is new enough, and no filter forbids it.
pub(super) fn is_possible() -> bool {
    let mut word = [1u8; 8];
    let addr = word.as_mut_ptr().expose_provenance();
    let mut seen = [0u8; 8];
    fault_in(addr, 8, true).is_ok() && copy_out(addr, &mut seen) && copy_in(addr, &seen)
}

/// Copies `data` to `addr`, its last bytes last; false where not all of it is mapped.
pub(super) fn copy_in(addr: usize, data: &[u8]) -> bool {
    let (head, end) = data.split_at(data.len().saturating_sub(8));
    move_bytes(libc::process_vm_writev, addr, head.as_ptr().cast_mut(), head.len())
        && move_bytes(
            libc::process_vm_writev,
            addr + head.len(),
            end.as_ptr().cast_mut(),
            end.len(),
        )
}

/// Copies what is at `addr` to `out`; false, with zeros, where not all of it is mapped.
pub(super) fn copy_out(addr: usize, out: &mut [u8]) -> bool {
    let done = move_bytes(libc::process_vm_readv, addr, out.as_mut_ptr(), out.len());
    if !done {
        out.fill(0);
    }
    done
}

/// process_vm_readv(2) or process_vm_writev(2).
type Move =
    unsafe extern "C" fn(pid_t, *const iovec, c_ulong, *const iovec, c_ulong, c_ulong) -> isize;

/// Calls `by` for this process itself. `private` is readable for a write, writable for a read.
fn move_bytes(by: Move, addr: usize, private: *mut u8, len: usize) -> bool {
    let at = |iov_base| iovec { iov_base, iov_len: len };
    let (local, remote) = (at(private.cast()), at(with_exposed_provenance_mut(addr)));
    // SAFETY: the kernel looks at every address before it touches it; `private` is a slice of
    // the caller with `len` bytes, borrowed mutably for a read.
    let done = unsafe { by(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(done) == Ok(len)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::super::pages::page_size;
    use super::*;

    /// Two pages, of which the second is not mapped.
    fn half_mapped() -> (usize, usize) {
        let page = page_size();
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a mapping of its own at a place of the kernel's choice, half of it given back.
        unsafe {
            let start = libc::mmap(std::ptr::null_mut(), 2 * page, protection, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            assert_eq!(libc::munmap(start.byte_add(page), page), 0);
            (start.expose_provenance(), page)
        }
    }

    #[test]
    fn what_is_mapped_is_copied_and_the_rest_refused() {
        let (start, page) = half_mapped();
        assert!(is_possible());
        for write in [false, true] {
            assert!(fault_in(start + 5, page - 5, write).is_ok());
            assert!(fault_in(start + 5, page, write).is_err());
            assert!(fault_in(0, 1, write).is_err() && fault_in(usize::MAX, 1, write).is_err());
        }
        for len in [0, 1, 7, 8, 9, 100] {
            let data: Vec<u8> = (1..=len as u8).collect();
            assert!(copy_in(start + page - len, &data));
            let mut out = vec![0; len];
            assert!(copy_out(start + page - len, &mut out) && out == data, "{len}");
        }
        let mut out = [1; 16];
        assert!(!copy_out(start + page - 8, &mut out) && out == [0; 16]);
        assert!(!copy_in(start + page - 8, &out) && !copy_in(0, b"null"));
    }

    #[test]
    fn memory_that_may_only_be_read_is_not_written() {
        let (start, page) = half_mapped();
        // SAFETY: the page is this test's own.
        let done =
            unsafe { libc::mprotect(with_exposed_provenance_mut(start), page, libc::PROT_READ) };
        assert_eq!(done, 0);
        assert!(fault_in(start, 8, false).is_ok());
        let refused = fault_in(start, 8, true).expect_err("it cannot be written");
        assert_eq!(refused.raw_os_error(), Some(libc::EFAULT));
        assert!(!copy_in(start, b"no") && copy_out(start, &mut [0; 8]));
    }
}
