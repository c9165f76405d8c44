//! Functions of the dynamic linker: a program that opens libibverbs or librdmacm by name gets the library that was loaded
//! before others, and so one device for all of it, whether it is linked with them or not.
//!
//! As those of [`interpose`](crate::interpose), they get the names of what they stand before in `cargo xtask dist`.
//!
//! The dynamic linker takes from the return address who calls, and searches that one's folders (RUNPATH); so a function
//! here decides and then jumps, and leaves the return address where it was.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::LazyLock;
use std::sync::atomic::AtomicPtr;

use libc::{c_char, c_int, c_void};

use uroce_device::host::{symbols, verbs_names};
use uroce_ibverbs::return_value::value;

use crate::interpose::next;

/// How the libraries that we stand for begin their file names.
const NAMES: [&[u8]; 2] = [b"libibverbs.so", b"librdmacm.so"];
/// Versions of their symbols. Ours has none: those of the system's library, which is loaded too, count for it.
const VERSIONS: [&[u8]; 2] = [b"IBVERBS_", b"RDMACM_"];

/// The first argument for a function, and the function: in two registers, by both calling conventions.
#[repr(C)]
struct Call {
    argument: *const c_void,
    function: *const c_void,
}

/// Null, or one of the libraries' names, in whatever folder.
///
/// # Safety
/// Null, or a string that ends with 0.
unsafe fn is_ours(name: *const c_char) -> bool {
    // SAFETY: the caller's promise; it is not null.
    let Some(name) = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_bytes()) else {
        return false;
    };
    let file = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let rest = NAMES.iter().find_map(|ours| file.strip_prefix(*ours));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
}

/// The path of this library as the dynamic linker knows it; it lives as long as the library.
fn own_path() -> *const c_char {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: an address in this library, and room for what is found; all of it may be zero.
    unsafe {
        libc::dladdr(own_path as *const c_void, found.as_mut_ptr());
        found.assume_init().dli_fname
    }
}

/// A file that needs names of libibverbs which we lack: those of the system's library would take our objects for its own. In its
/// place the dynamic linker gets a sentence for a name, so that what the program shows (dlerror(3)) says what is wrong.
///
/// # Safety
/// Null, or a string that ends with 0.
unsafe fn refused(name: *const c_char) -> Option<*const c_char> {
    static OURS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
        // SAFETY: a string of the dynamic linker's, or null.
        let path = unsafe { own_path().as_ref().map(|path| CStr::from_ptr(path)) };
        let path = path.map_or(OsStr::new(""), |path| OsStr::from_bytes(path.to_bytes()));
        symbols::exports(Path::new(path)).unwrap_or_default()
    });
    // SAFETY: the caller's promise; it is not null.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_bytes())?;
    // A name without a folder is searched for; what programs load of their own (modules of Python) has one.
    if !name.contains(&b'/') {
        return None;
    }
    value(None, || {
        let file = Path::new(OsStr::from_bytes(name));
        // Without one name of our own there is nothing to compare with.
        let lacking = verbs_names::missing(file, &OURS);
        if lacking.is_empty() || OURS.is_empty() {
            return None;
        }
        let sentence = verbs_names::sentence(file, &lacking);
        eprintln!("uroce: {sentence}");
        // The program may keep it.
        CString::new(sentence).ok().map(|text| text.into_raw().cast_const())
    })
}

/// # Safety
/// As dlopen(3).
unsafe extern "C" fn dlopen_of(name: *const c_char) -> Call {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    // SAFETY: the caller's promise, and dlopen is a function.
    let (ours, function) = unsafe { (is_ours(name), next::<*const c_void>(c"dlopen", &NEXT)) };
    // SAFETY: the caller's promise.
    let path = if ours { own_path() } else { unsafe { refused(name) }.unwrap_or(name) };
    Call { argument: if path.is_null() { name } else { path }.cast(), function }
}

/// # Safety
/// As dlvsym(3).
unsafe extern "C" fn dlvsym_of(
    handle: *mut c_void,
    _name: *const c_char,
    version: *const c_char,
) -> Call {
    static VERSIONED: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    static PLAIN: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    // SAFETY: a string, by the caller's promise; both are functions, and one does not look at a third argument.
    let function = unsafe {
        let ours = !version.is_null()
            && VERSIONS.iter().any(|ours| CStr::from_ptr(version).to_bytes().starts_with(ours));
        match ours {
            true => next(c"dlsym", &PLAIN),
            false => next(c"dlvsym", &VERSIONED),
        }
    };
    Call { argument: handle, function }
}

/// Defines a function that calls `$choose` with its own arguments, of which there are three at most, and goes on to
/// what that says.
macro_rules! jump {
    ($ours:ident($($argument:ident: $kind:ty),*), $choose:ident) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $ours($($argument: $kind),*) -> *mut c_void {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                "push rsi",
                "push rdx",
                "sub rsp, 8",
                "call {choose}",
                "mov rdi, rax",
                "mov r11, rdx",
                "add rsp, 8",
                "pop rdx",
                "pop rsi",
                "jmp r11",
                choose = sym $choose,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-32]!",
                "stp x1, x2, [sp, #16]",
                "bl {choose}",
                "mov x16, x1",
                "ldp x1, x2, [sp, #16]",
                "ldp x29, x30, [sp], #32",
                "br x16",
                choose = sym $choose,
            );
        }
    };
}

jump!(uroce_dlopen(_name: *const c_char, _flags: c_int), dlopen_of);
jump!(uroce_dlvsym(_handle: *mut c_void, _name: *const c_char, _version: *const c_char), dlvsym_of);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v134_the_libraries_are_known_by_their_file_names() {
        // SAFETY: strings, and null.
        unsafe {
            for name in [c"libibverbs.so.1", c"libibverbs.so", c"/usr/lib/librdmacm.so.1"] {
                assert!(is_ours(name.as_ptr()), "{name:?}");
            }
            for name in
                [c"libmlx5.so.1", c"libibverbs.so1", c"/libibverbs.so.1/x", c"", c"libm.so.6"]
            {
                assert!(!is_ours(name.as_ptr()), "{name:?}");
            }
            assert!(!is_ours(std::ptr::null()));
        }
    }

    #[test]
    fn v134_other_libraries_are_opened_as_before() {
        // SAFETY: strings, and what the dynamic linker gave out.
        unsafe {
            let own = uroce_dlopen(std::ptr::null(), libc::RTLD_NOW);
            assert!(!own.is_null());
            assert!(uroce_dlopen(c"libno-such-library.so".as_ptr(), libc::RTLD_NOW).is_null());
            let c = uroce_dlopen(c"libc.so.6".as_ptr(), libc::RTLD_NOW);
            assert_eq!(libc::dlsym(c, c"getpid".as_ptr()), libc::getpid as *mut c_void);
            assert!(uroce_dlvsym(c, c"getpid".as_ptr(), c"NO_SUCH_1".as_ptr()).is_null());
            assert!(!uroce_dlvsym(c, c"getpid".as_ptr(), c"IBVERBS_1.1".as_ptr()).is_null());
        }
    }
}
