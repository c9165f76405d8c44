//! Functions of the C library that take a path: one below /sys/class/infiniband is looked up among our
//! devices, the device file of one of them is a character device that anybody may open, and every other path goes to
//! the C library as it came.
//!
//! `cargo xtask dist` gives these functions the names of those they stand before (`open` for
//! `uroce_open`), and only in the library that is loaded before others. Under their own names they do
//! nothing to a process, so that tests can be linked with them.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{DIR, FILE, c_char, c_int, c_uint, c_void, mode_t, size_t, ssize_t};
use uroce_ibverbs::return_value::value;
use uroce_ibverbs::sysfs::CLASS;
use uroce_ibverbs::{settings, sysfs_counters, sysfs_tree};

/// A path that is used instead of the program's.
#[derive(Debug)]
struct Instead {
    path: CString,
    /// It is a file for this one call.
    once: bool,
}

impl Drop for Instead {
    fn drop(&mut self) {
        if self.once {
            // SAFETY: a string. What opened the file has it.
            let _gone = unsafe { libc::unlink(self.path.as_ptr()) };
        }
    }
}

/// Where the program finds what it asks about; `None`: the path is none of ours.
///
/// # Safety
/// Null, or a string that ends with 0.
unsafe fn found(path: *const c_char) -> Option<Instead> {
    // SAFETY: the caller's promise.
    let path = unsafe { candidate(path)? };
    value(None, || place(path))
}

/// The same for a program that opens a file: that of a counter says what it is at this moment.
///
/// # Safety
/// Null, or a string that ends with 0.
unsafe fn opened(path: *const c_char) -> Option<Instead> {
    // SAFETY: the caller's promise.
    let path = unsafe { candidate(path)? };
    value(None, || counter(path.to_bytes()).or_else(|| place(path)))
}

fn place(path: &CStr) -> Option<Instead> {
    let path = translated(path.to_bytes()).or_else(|| device_file(path))?;
    Some(Instead { path, once: false })
}

/// A file with the value of this counter. Where it cannot be written there is none: a wrong value would be worse.
fn counter(path: &[u8]) -> Option<Instead> {
    let below = below_class(path)?;
    let value = sysfs_counters::value(below)?;
    let _ours = translated(path)?;
    let file = sysfs_tree::write_once(&format!("{value}\n")).unwrap_or_default();
    let once = !file.as_os_str().is_empty();
    Some(Instead { path: CString::new(file.into_os_string().as_bytes()).ok()?, once })
}

/// The path if it may be one of ours.
///
/// # Safety
/// Null, or a string that ends with 0.
unsafe fn candidate<'a>(path: *const c_char) -> Option<&'a CStr> {
    // SAFETY: the comparison ends at the first difference, so at the 0 at the latest.
    let begins =
        |with: &CStr| unsafe { libc::strncmp(path, with.as_ptr(), with.to_bytes().len()) == 0 };
    if path.is_null() || !(begins(CLASS_START) || begins(FILES_START)) {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { CStr::from_ptr(path) })
}

/// [`CLASS`] as C has it.
const CLASS_START: &CStr = c"/sys/class/infiniband";

/// Where the kernel has the files by which programs reach devices; some look whether they are there, and may be used.
const FILES_START: &CStr = c"/dev/infiniband/";
/// What stands for such a file: a character device that everybody may read and write. Nothing here is asked through it.
const DEVICE_FILE: &CStr = c"/dev/null";

fn device_file(path: &CStr) -> Option<CString> {
    let name = path.to_bytes().strip_prefix(FILES_START.to_bytes())?;
    let devices = settings::devices().len();
    let is_ours = name == b"rdma_cm" && devices > 0
        || (0..devices).any(|index| name == format!("uverbs{index}").as_bytes());
    if !is_ours {
        let name = String::from_utf8_lossy(name);
        uroce_ibverbs::log::tell(&format_args!(
            "the program looks for the device file {name}: it is none of ours"
        ));
    }
    // That of a device of the kernel's own is not hidden.
    (is_ours && !is_there(path)).then(|| DEVICE_FILE.to_owned())
}

/// Whether the kernel has this file. Not by a function of the C library, for which ours stand.
fn is_there(path: &CStr) -> bool {
    // SAFETY: a system call with a string and numbers.
    unsafe { libc::syscall(libc::SYS_faccessat, libc::AT_FDCWD, path.as_ptr(), libc::F_OK) == 0 }
}

fn below_class(path: &[u8]) -> Option<&Path> {
    Path::new(OsStr::from_bytes(path)).strip_prefix(CLASS).ok()
}

fn translated(path: &[u8]) -> Option<CString> {
    let below = below_class(path)?;
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
pub unsafe fn next<T: Copy>(name: &CStr, cache: &AtomicPtr<c_void>) -> T {
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

/// Functions with a path: as first argument, or behind a folder's descriptor. `$instead` says which path is
/// used instead of it.
macro_rules! with_path {
    ($instead:ident; $($ours:ident = $name:literal ($([$before:ident: $btype:ty],)? path $(, $after:ident: $atype:ty)*)
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
                match $instead(path) {
                    Some(ours) => function($($before,)? ours.path.as_ptr() $(, $after)*),
                    None => function($($before,)? path $(, $after)*),
                }
            }
        }
    )*};
}

// `open` takes its last argument only with O_CREAT. On the systems that this library runs on
// (x86-64, AArch64) a function without `...` passes and receives it in the same register.
with_path! {
    opened;
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
}

with_path! {
    found;
    uroce_opendir = c"opendir" (path) -> *mut DIR;
    uroce_scandir = c"scandir" (path, list: *mut c_void, filter: *const c_void,
        compare: *const c_void) -> c_int;
    uroce_scandir64 = c"scandir64" (path, list: *mut c_void, filter: *const c_void,
        compare: *const c_void) -> c_int;
    uroce_chdir = c"chdir" (path) -> c_int;
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
    use std::io::Read;
    use std::os::fd::FromRawFd;
    use std::sync::Arc;

    use uroce_device::cm::PortSpace;
    use uroce_device::transport::{
        AddressVector, SendData, SendFlags, SendOp, SendWr, UdDestination, Wc,
    };
    use uroce_rdmacm::{OwnedId, OwnedQueuePair, QueueSizes};
    use uroce_verbs_abi::RDMA_UDP_QKEY;

    use super::*;

    #[test]
    fn v72_our_devices_are_found_and_other_files_are_left_alone() {
        let device = uroce_ibverbs::settings::devices().remove(0).name;
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

    /// What is read from a file that was opened by this path.
    fn read(path: &str) -> String {
        let path = CString::new(path).expect("no 0 inside");
        // SAFETY: strings; the descriptor is this test's own.
        let mut file = unsafe { std::fs::File::from_raw_fd(uroce_open(path.as_ptr(), 0, 0)) };
        let mut text = String::new();
        file.read_to_string(&mut text).expect("a file that can be read");
        text
    }

    /// A datagram without bytes, from a queue pair of this device to itself.
    fn send_to_itself(address: std::net::IpAddr) {
        let id = Arc::new(OwnedId::new(PortSpace::Udp).expect("a descriptor"));
        id.bind((address, 0).into()).expect("an address of this machine");
        let sizes = QueueSizes { is_datagram: true, sends: 1, receives: 1, inline: 0 };
        let qp = OwnedQueuePair::new(&id, sizes).expect("the device has room");
        let av = AddressVector::new(address, address);
        let ud = Some(UdDestination { av, qpn: qp.qpn(), qkey: RDMA_UDP_QKEY });
        let (flags, data) = (SendFlags::SIGNALED, SendData::Sges(&[]));
        let wr = SendWr { wr_id: 1, op: SendOp::Send, flags, data, ud, srqn: None };
        qp.device().post_send(qp.qpn(), &[wr]).expect("it is ready");
        let mut out = [Wc::default()];
        while qp.device().poll_cq(qp.cq(), &mut out) == Ok(0) {}
        assert!(out[0].is_ok(), "{}", out[0]);
    }

    #[test]
    fn v80_a_counter_has_its_value_when_it_is_opened() {
        let interface = uroce_ibverbs::settings::devices().remove(0);
        let port = format!("{CLASS}/{}/ports/1", interface.name);
        let number = |name: &str| -> u64 {
            read(&format!("{port}/{name}")).trim_end().parse().expect("a decimal number")
        };
        let before = number("hw_counters/sent_pkts");
        send_to_itself(interface.address);
        let (sent, words) = (number("hw_counters/sent_pkts"), number("counters/port_xmit_data"));
        assert!(sent > before && words >= 4 * sent, "a datagram: {sent}, {words}");
        let text = read(&format!("{port}/counters/port_xmit_packets"));
        assert!(text.ends_with('\n') && text.trim_end().parse::<u64>().is_ok(), "{text:?}");
        // SAFETY: a string.
        unsafe {
            let wrong = CString::new(format!("{port}/counters/none")).expect("no 0 inside");
            assert_eq!(uroce_open(wrong.as_ptr(), 0, 0), -1);
        }
    }

    #[test]
    fn v80_folders_name_all_counters() {
        let device = uroce_ibverbs::settings::devices().remove(0).name;
        for name in sysfs_counters::names() {
            let path = format!("{CLASS}/{device}/ports/1/{name}");
            let path = CString::new(path).expect("no 0 inside");
            // SAFETY: a string.
            assert_eq!(unsafe { uroce_access(path.as_ptr(), libc::R_OK) }, 0, "{path:?}");
        }
    }

    #[test]
    fn v80_a_file_for_one_call_is_gone_after_it() {
        let device = uroce_ibverbs::settings::devices().remove(0).name;
        let path = format!("{CLASS}/{device}/ports/1/counters/symbol_error");
        let instead = counter(path.as_bytes()).expect("a counter");
        let file = instead.path.clone().into_string().expect("a name");
        assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "0\n");
        drop(instead);
        assert!(!Path::new(&file).exists());
    }

    #[test]
    fn v71_a_device_has_a_file_that_may_be_used() {
        // SAFETY: integers; strings, and room for what is said about a file.
        unsafe {
            let mut found: libc::stat = std::mem::zeroed();
            let (file, out) = (c"/dev/infiniband/uverbs0".as_ptr(), (&raw mut found).cast());
            assert_eq!(uroce_stat(file, out), 0);
            assert_eq!(found.st_mode & libc::S_IFMT, libc::S_IFCHR);
            assert_eq!(uroce_access(file, libc::R_OK | libc::W_OK), 0);
            let opened = uroce_open(file, libc::O_RDWR, 0);
            assert!(opened >= 0 && libc::close(opened) == 0);
            assert_eq!(uroce_access(c"/dev/infiniband/uverbs999".as_ptr(), libc::F_OK), -1);
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
