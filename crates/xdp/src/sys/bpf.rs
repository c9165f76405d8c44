//! bpf(2): maps, the program, and the link that attaches it.
//!
//! Each command takes a structure whose layout is that of `union bpf_attr` in `linux/bpf.h`; the
//! kernel reads as many bytes as it is told and takes the rest for zero.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::program::Insn;

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const MAP_DELETE_ELEM: libc::c_int = 3;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;

const PROG_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;
const PROG_HAS_FRAGS: u32 = 1 << 5;

/// Which map; the values are those of `enum bpf_map_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum MapKind {
    /// Bytes to bytes.
    Hash = 1,
    /// Queue number to AF_XDP socket.
    Xsk = 17,
}

/// Where the kernel runs the program; the values are those of `XDP_FLAGS_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Hook {
    /// In the kernel's receive path, on any interface.
    Generic = 1 << 1,
    /// In the driver.
    Native = 1 << 2,
}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    inner_map: u32,
    numa_node: u32,
    name: [u8; 16],
}

#[repr(C)]
struct MapElement {
    map: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgLoad {
    kind: u32,
    count: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// Bytes of the verifier's log that are kept.
const LOG: usize = 8192;

/// Makes a map.
pub(crate) fn create_map(
    kind: MapKind,
    key_size: usize,
    value_size: usize,
    max_entries: u32,
) -> io::Result<OwnedFd> {
    let mut attr = MapCreate {
        kind: kind as u32,
        key_size: key_size as u32,
        value_size: value_size as u32,
        max_entries,
        flags: 0,
        inner_map: 0,
        numa_node: 0,
        name: name("uroce"),
    };
    // SAFETY: `attr` has the layout of this command and holds no pointer.
    let fd = unsafe { bpf(MAP_CREATE, &mut attr)? };
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A map whose keys and values have the sizes of `K` and `V`.
///
/// `K` and `V` must be plain integers or byte arrays: the kernel reads all their bytes.
#[derive(Debug)]
pub(crate) struct Map<K, V> {
    fd: OwnedFd,
    entry: std::marker::PhantomData<fn(K, V)>,
}

/// Types without padding, so that every byte of them may be read.
pub(crate) trait Plain: Copy {}

impl Plain for u32 {}
impl Plain for [u8; 16] {}
impl Plain for [u8; 4] {}

impl<K: Plain, V: Plain> Map<K, V> {
    /// Makes a map with room for `max_entries`.
    pub(crate) fn new(kind: MapKind, max_entries: u32) -> io::Result<Self> {
        let fd = create_map(kind, size_of::<K>(), size_of::<V>(), max_entries)?;
        Ok(Self { fd, entry: std::marker::PhantomData })
    }

    /// The map's descriptor, as instructions name it.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.fd)
    }

    /// Sets an entry.
    pub(crate) fn insert(&self, key: K, value: V) -> io::Result<()> {
        let mut attr = self.element(&key, &raw const value as u64);
        // SAFETY: key and value are as long as the map's, plain, and live until the call is done.
        unsafe { bpf(MAP_UPDATE_ELEM, &mut attr) }.map(drop)
    }

    /// Removes an entry.
    pub(crate) fn remove(&self, key: K) -> io::Result<()> {
        let mut attr = self.element(&key, 0);
        // SAFETY: the key is as long as the map's, plain, and lives until the call is done.
        unsafe { bpf(MAP_DELETE_ELEM, &mut attr) }.map(drop)
    }

    fn element(&self, key: &K, value: u64) -> MapElement {
        let key = &raw const *key as u64;
        MapElement { map: raw(self.fd()), _pad: 0, key, value, flags: 0 }
    }
}

/// Why the kernel did not take a program.
#[derive(Debug)]
pub(crate) struct LoadError {
    pub(crate) source: io::Error,
    /// The last lines that the verifier wrote, when it had something to say.
    pub(crate) log: String,
}

/// Loads an XDP program; with `frags` it also sees frames that lie in several buffers.
pub(crate) fn load(insns: &[Insn], frags: bool) -> Result<OwnedFd, LoadError> {
    match try_load(insns, frags, &mut []) {
        Ok(fd) => Ok(fd),
        Err(source) => {
            let mut log = vec![0; LOG];
            // A second time for the log alone: asking for it at once would fail when it is long.
            drop(try_load(insns, frags, &mut log));
            let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
            let log = String::from_utf8_lossy(&log[..end]).trim_end().to_owned();
            Err(LoadError { source, log })
        }
    }
}

fn try_load(insns: &[Insn], frags: bool, log: &mut [u8]) -> io::Result<OwnedFd> {
    // Helpers that a program of any licence may call are all that is used; the name is that of
    // the kernel's list of licences.
    let license = c"Dual MIT/GPL";
    let mut attr = ProgLoad {
        kind: PROG_TYPE_XDP,
        count: insns.len() as u32,
        insns: insns.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        kernel_version: 0,
        flags: if frags { PROG_HAS_FRAGS } else { 0 },
        name: name("uroce"),
        interface: 0,
        attach_type: ATTACH_TYPE_XDP,
    };
    // SAFETY: `insns`, `license` and `log` outlive the call and are as long as `attr` says; the
    // kernel writes only to `log`, which is borrowed mutably.
    let fd = unsafe { bpf(PROG_LOAD, &mut attr)? };
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Attaches the program to an interface for as long as the returned descriptor is open.
pub(crate) fn attach(program: BorrowedFd<'_>, interface: u32, hook: Hook) -> io::Result<OwnedFd> {
    let mut attr = LinkCreate {
        program: raw(program),
        interface,
        attach_type: ATTACH_TYPE_XDP,
        flags: hook as u32,
    };
    // SAFETY: `attr` has the layout of this command and holds no pointer.
    let fd = unsafe { bpf(LINK_CREATE, &mut attr)? };
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn raw(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

/// A name as `bpftool` shows it, cut to what fits.
fn name(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    for (to, from) in name.iter_mut().take(15).zip(text.bytes()) {
        *to = from;
    }
    name
}

/// bpf(2).
///
/// # Safety
///
/// `attr` must have the layout of `command`, and every pointer in it must be good for as many
/// bytes as the command takes from it or writes to it.
unsafe fn bpf<A>(command: libc::c_int, attr: &mut A) -> io::Result<libc::c_int> {
    let size = size_of::<A>();
    // SAFETY: the kernel reads and writes at most `size` bytes of `attr`, which is borrowed
    // mutably; the pointers in it are the caller's word.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attr, size) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result as libc::c_int)
}

#[cfg(test)]
pub(crate) mod test_run {
    //! Running a loaded program on one frame without an interface.

    use super::*;

    const PROG_TEST_RUN: libc::c_int = 10;

    #[repr(C)]
    struct TestRun {
        program: u32,
        verdict: u32,
        size_in: u32,
        size_out: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
        ctx_size_in: u32,
        ctx_size_out: u32,
        ctx_in: u64,
        ctx_out: u64,
    }

    /// The verdict on a frame, as `enum xdp_action` counts.
    pub(crate) fn verdict(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<u32> {
        let mut attr = TestRun {
            program: raw(program),
            verdict: 0,
            size_in: frame.len() as u32,
            size_out: 0,
            data_in: frame.as_ptr() as u64,
            data_out: 0,
            repeat: 1,
            duration: 0,
            ctx_size_in: 0,
            ctx_size_out: 0,
            ctx_in: 0,
            ctx_out: 0,
        };
        // SAFETY: `frame` outlives the call and is as long as `attr` says; nothing is written out.
        unsafe { bpf(PROG_TEST_RUN, &mut attr)? };
        Ok(attr.verdict)
    }
}
