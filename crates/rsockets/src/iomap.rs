//! Buffers that the peer may write to without our doing: `riomap`, `riounmap`, `riowrite`.

use std::time::Duration;

use libc::{c_int, c_void, off_t, size_t};

use super::connection::State;
use super::directory;
use super::patience::Patience;
use super::protocol::{Iomap, Remote};
use super::stream::Stream;
use super::transfer::{send_with, slice};
use crate::abi::ibv_mr;
use crate::errno::{Errno, INVALID, NOT_SUPPORTED, made};
use crate::mr::{ibv_dereg_mr, ibv_reg_mr};
use crate::outcome::{minus_one, number};

/// `IBV_ACCESS_LOCAL_WRITE` and `IBV_ACCESS_REMOTE_WRITE`.
const WRITTEN: c_int = 0b11;
/// How long a mapping waits for room to tell the peer of it.
const LONG: Duration = Duration::from_secs(10);

/// A registered buffer of the program.
#[derive(Debug)]
struct Mapping {
    mr: *mut ibv_mr,
    addr: usize,
    length: usize,
    offset: u64,
    /// The entry in the peer's table; `None`: the peer does not know of it.
    index: Option<u32>,
}

// SAFETY: the registration may be used by any thread, and nobody else has it.
unsafe impl Send for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it came from `ibv_reg_mr`, and goes once.
        unsafe { ibv_dereg_mr(self.mr) };
    }
}

/// What a socket has mapped.
#[derive(Debug, Default)]
pub(super) struct Mapped(Vec<Mapping>);

impl Mapped {
    /// An entry of the peer's table that is free.
    fn free_index(&self, entries: u32) -> Option<u32> {
        (0..entries).find(|index| !self.0.iter().any(|mapping| mapping.index == Some(*index)))
    }

    fn overlaps(&self, offset: u64, length: usize) -> bool {
        let end = offset.saturating_add(length as u64);
        self.0
            .iter()
            .filter(|mapping| mapping.index.is_some())
            .any(|mapping| offset < mapping.offset + mapping.length as u64 && mapping.offset < end)
    }

    fn find(&self, addr: usize, length: usize) -> Option<&Mapping> {
        self.0.iter().find(|mapping| (mapping.addr, mapping.length) == (addr, length))
    }

    /// False: it is not mapped.
    fn remove(&mut self, addr: usize, length: usize) -> bool {
        let is_it = |mapping: &Mapping| (mapping.addr, mapping.length) == (addr, length);
        let at = self.0.iter().position(is_it);
        at.map(|at| drop(self.0.remove(at))).is_some()
    }

    /// An offset behind all that is mapped.
    fn free_offset(&self) -> u64 {
        let ends = self.0.iter().map(|mapping| mapping.offset + mapping.length as u64);
        ends.max().unwrap_or(0)
    }
}

/// What a program asks for.
struct Wanted {
    buffer: *mut c_void,
    length: usize,
    writable: bool,
    offset: off_t,
}

/// riomap(3): the offset, or -1.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn riomap(
    socket: c_int,
    buffer: *mut c_void,
    length: size_t,
    prot: c_int,
    flags: c_int,
    offset: off_t,
) -> off_t {
    number(|| {
        let writable = prot == libc::PROT_WRITE;
        let known = writable || prot == libc::PROT_NONE;
        if buffer.is_null() || length == 0 || u32::try_from(length).is_err() || !known {
            return Err(INVALID);
        }
        if flags != 0 {
            return Err(NOT_SUPPORTED);
        }
        let socket = directory::stream(socket)?;
        let wanted = Wanted { buffer, length, writable, offset };
        let offset = socket.wait(Patience::of(LONG), |state| match state.connected()? {
            Ok(_) => Some(map(state, &wanted)),
            Err(errno) => Some(Err(errno)),
        })?;
        let told = socket.wait(Patience::of(LONG), |state| tell(state, &wanted));
        if told.is_err() {
            socket.state().mapped.remove(buffer.addr(), length);
        }
        told?;
        off_t::try_from(offset).map_err(|_| INVALID)
    })
}

/// Registers a buffer, and notes where it is mapped.
fn map(state: &mut State, wanted: &Wanted) -> Result<u64, Errno> {
    let entries = state.stream.as_ref().map_or(0, Stream::peer_iomaps);
    let (offset, index) = place(&state.mapped, entries, wanted)?;
    let pd = state.identity.used()?.pd;
    let Wanted { buffer, length, .. } = *wanted;
    // SAFETY: by the contract of `riomap`.
    let mr = made(unsafe { ibv_reg_mr(pd, buffer, length, WRITTEN) })?;
    state.mapped.0.push(Mapping { mr, addr: buffer.addr(), length, offset, index });
    Ok(offset)
}

/// Tells the peer of a mapping, if it is for the peer. `None`: try again later.
fn tell(state: &mut State, wanted: &Wanted) -> Option<Result<(), Errno>> {
    let mapping = state.mapped.find(wanted.buffer.addr(), wanted.length);
    let Some((index, mapping)) = mapping.and_then(|found| Some((found.index?, found))) else {
        return Some(Ok(()));
    };
    // SAFETY: the registration is alive as long as the mapping.
    let rkey = unsafe { (*mapping.mr).rkey };
    let length = u32::try_from(mapping.length).unwrap_or(u32::MAX);
    let buffer = Remote { addr: mapping.addr as u64, rkey, length };
    let iomap = Iomap { offset: mapping.offset, buffer };
    match state.stream.as_mut()?.tell_mapped(index, &iomap) {
        Ok(told) => told.then_some(Ok(())),
        Err(errno) => Some(Err(errno)),
    }
}

/// Where a buffer is mapped: its offset, and its entry in the peer's table.
fn place(mapped: &Mapped, entries: u32, wanted: &Wanted) -> Result<(u64, Option<u32>), Errno> {
    if !wanted.writable {
        return Ok((0, None));
    }
    let index = mapped.free_index(entries).ok_or(Errno(libc::ENOMEM))?;
    let offset = match wanted.offset {
        -1 => mapped.free_offset(),
        offset => u64::try_from(offset).map_err(|_| INVALID)?,
    };
    let end = offset.checked_add(wanted.length as u64).ok_or(INVALID)?;
    if end > off_t::MAX as u64 || mapped.overlaps(offset, wanted.length) {
        return Err(INVALID);
    }
    Ok((offset, Some(index)))
}

/// riounmap(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn riounmap(socket: c_int, buffer: *mut c_void, length: size_t) -> c_int {
    minus_one(|| {
        let socket = directory::stream(socket)?;
        let removed = socket.state().mapped.remove(buffer.addr(), length);
        if removed { Ok(()) } else { Err(INVALID) }
    })
}

/// riowrite(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn riowrite(
    socket: c_int,
    data: *const c_void,
    length: size_t,
    offset: off_t,
    flags: c_int,
) -> size_t {
    let written: isize = number(|| {
        let socket = directory::stream(socket)?;
        // SAFETY: by the contract.
        let data = unsafe { slice(data, length)? };
        let offset = u64::try_from(offset).map_err(|_| INVALID)?;
        let written = send_with(&socket, data.len(), flags, |stream, done| {
            stream.write_mapped(&data[done..], offset + done as u64)
        });
        written.map(|written| written as isize)
    });
    written as size_t
}
