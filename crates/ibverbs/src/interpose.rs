//! Functions of the C library that take a path: one below /sys/class/infiniband is looked up among our
//! devices, every other goes to the C library as it came.
//!
//! `cargo xtask dist` gives these functions the names of those they stand before (`open` for
//! `uroce_open`), and only in the library that is loaded before others. Under their own names they do
//! nothing to a process, so that tests can be linked with them.

use crate::outcome::value;
use crate::sysfs::CLASS;
use crate::sysfs_tree;
use libc::{DIR, FILE, c_char, c_int, c_uint, c_void, mode_t, size_t, ssize_t};
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The path in our tree; `None`: the path is none of ours.
///
/// # Safety
/// Null, or a string that ends with 0.
unsafe fn ours(path: *const c_char) -> Option<CString> {
    // SAFETY: the comparison ends at the first difference, so at the 0 at the latest.
    if path.is_null() || unsafe { libc::strncmp(path, CLASS_START.as_ptr(), CLASS.len()) } != 0 {
        return None;
    }
    // SAFETY: the caller's promise.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    value(None, || translated(path))
}

/// [`CLASS`] as C has it.
const CLASS_START: &CStr = c"/sys/class/infiniband";

fn translated(path: &[u8]) -> Option<CString> {
    let below = Path::new(OsStr::from_bytes(path)).strip_prefix(CLASS).ok()?;
    let root = sysfs_tree::root()?;
    let device = below.components().next();
    // A device of the kernel's own is not hidden.
    if device.is_some_and(|device| !root.join(device).exists()) {
        return None;
    }
    CString::new(root.join(below).into_os_string().as_bytes()).ok()
}

/// The function that would have been called without us; its address is looked up once.
///
/// # Safety
/// `T` is the type of the function of that name.
unsafe fn next<T: Copy>(name: &CStr, cache: &AtomicPtr<c_void>) -> T {
    const { assert!(size_of::<T>() == size_of::<*mut c_void>(), "T is a pointer to a function") };
    let mut found = cache.load(Ordering::Relaxed);
    if found.is_null() {
        // SAFETY: a string; the C library has every function that is asked for here.
        found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        if found.is_null() {
            // Without the C library's `open` nothing can go on, not even a message.
            std::process::abort();
        }
        cache.store(found, Ordering::Relaxed);
    }
    // SAFETY: the caller's promise, and the sizes are the same.
    unsafe { std::mem::transmute_copy(&found) }
}

/// Functions with a path: as first argument, or behind a folder's descriptor.
macro_rules! with_path {
    ($($ours:ident = $name:literal ($([$before:ident: $btype:ty],)? path $(, $after:ident: $atype:ty)*)
       -> $result:ty;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $ours(
            $($before: $btype,)? path: *const c_char $(, $after: $atype)*
        ) -> $result {
            static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            type Function = unsafe extern "C" fn(
                $($btype,)? *const c_char $(, $atype)*
            ) -> $result;
            // SAFETY: the arguments are those that the program gave to the C library; the string
            // lives until the call returns.
            unsafe {
                let function: Function = next($name, &NEXT);
                match ours(path) {
                    Some(ours) => function($($before,)? ours.as_ptr() $(, $after)*),
                    None => function($($before,)? path $(, $after)*),
                }
            }
        }
    )*};
}

// `open` takes its last argument only with O_CREAT. On the systems that this library runs on
// (x86-64, AArch64) a function without `...` passes and receives it in the same register.
with_path! {
    uroce_open = c"open" (path, flags: c_int, mode: mode_t) -> c_int;
    uroce_open64 = c"open64" (path, flags: c_int, mode: mode_t) -> c_int;
    uroce___open_2 = c"__open_2" (path, flags: c_int) -> c_int;
    uroce___open64_2 = c"__open64_2" (path, flags: c_int) -> c_int;
    uroce_openat = c"openat" ([folder: c_int], path, flags: c_int, mode: mode_t) -> c_int;
    uroce_openat64 = c"openat64" ([folder: c_int], path, flags: c_int, mode: mode_t) -> c_int;
    uroce___openat_2 = c"__openat_2" ([folder: c_int], path, flags: c_int) -> c_int;
    uroce___openat64_2 = c"__openat64_2" ([folder: c_int], path, flags: c_int) -> c_int;
    uroce_fopen = c"fopen" (path, mode: *const c_char) -> *mut FILE;
    uroce_fopen64 = c"fopen64" (path, mode: *const c_char) -> *mut FILE;
    uroce_opendir = c"opendir" (path) -> *mut DIR;
    uroce_scandir = c"scandir" (path, list: *mut c_void, filter: *const c_void,
        compare: *const c_void) -> c_int;
    uroce_scandir64 = c"scandir64" (path, list: *mut c_void, filter: *const c_void,
        compare: *const c_void) -> c_int;
    uroce_access = c"access" (path, mode: c_int) -> c_int;
    uroce_faccessat = c"faccessat" ([folder: c_int], path, mode: c_int, flags: c_int) -> c_int;
    uroce_stat = c"stat" (path, out: *mut c_void) -> c_int;
    uroce_stat64 = c"stat64" (path, out: *mut c_void) -> c_int;
    uroce_lstat = c"lstat" (path, out: *mut c_void) -> c_int;
    uroce_lstat64 = c"lstat64" (path, out: *mut c_void) -> c_int;
    uroce_fstatat = c"fstatat" ([folder: c_int], path, out: *mut c_void, flags: c_int) -> c_int;
    uroce_fstatat64 = c"fstatat64" ([folder: c_int], path, out: *mut c_void, flags: c_int) -> c_int;
    uroce_statx = c"statx" ([folder: c_int], path, flags: c_int, mask: c_uint, out: *mut c_void)
        -> c_int;
    uroce_readlink = c"readlink" (path, out: *mut c_char, size: size_t) -> ssize_t;
    uroce_readlinkat = c"readlinkat" ([folder: c_int], path, out: *mut c_char, size: size_t)
        -> ssize_t;
    uroce_realpath = c"realpath" (path, out: *mut c_char) -> *mut c_char;
    uroce___realpath_chk = c"__realpath_chk" (path, out: *mut c_char, size: size_t)
        -> *mut c_char;
}

/// What this library itself calls for a socket: `cargo xtask dist` has the linker put it in the place of
/// `socket` (`--wrap`). A library that is loaded beside this one and makes sockets into rsockets
/// (librspreload) must not have those that the device sends its packets from.
#[unsafe(no_mangle)]
extern "C" fn __wrap_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: a system call with three numbers.
    unsafe { libc::syscall(libc::SYS_socket, domain, kind, protocol) as c_int }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::FromRawFd;

    #[test]
    fn our_devices_are_found_and_other_files_are_left_alone() {
        let device = crate::settings::devices().remove(0).name;
        let path = CString::new(format!("{CLASS}/{device}/node_type")).expect("no 0 inside");
        // SAFETY: strings; the descriptor is this test's own.
        let mut file = unsafe { std::fs::File::from_raw_fd(uroce_open(path.as_ptr(), 0, 0)) };
        let mut text = String::new();
        file.read_to_string(&mut text).expect("a file that can be read");
        assert_eq!(text, "1: CA\n");
        // SAFETY: strings.
        unsafe {
            assert_eq!(uroce_access(c"/proc/self/status".as_ptr(), libc::R_OK), 0);
            assert_eq!(uroce_access(c"/sys/class/infiniband/no-such".as_ptr(), libc::R_OK), -1);
        }
    }

    #[test]
    fn only_paths_of_the_class_are_translated() {
        assert_eq!(translated(b"/sys/class/infiniband_mad/abi_version"), None);
        assert_eq!(translated(b"/sys/class/infiniband/mlx5_0/ports"), None);
        assert!(translated(b"/sys/class/infiniband").is_some());
        assert!(translated(b"/sys/class/infiniband/").is_some());
        assert_eq!(CLASS_START.to_bytes(), CLASS.as_bytes());
    }
}
