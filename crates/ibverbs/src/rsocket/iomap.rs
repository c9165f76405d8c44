//! Buffers that the peer may write to without our doing: `riomap`, `riounmap`, `riowrite`.

use super::directory;
use super::patience::Patience;
use super::protocol::{Iomap, Remote};
use super::transfer::{send_with, slice};
use crate::abi::ibv_mr;
use crate::errno::{Errno, INVALID, NOT_SUPPORTED};
use crate::mr::{ibv_dereg_mr, ibv_reg_mr};
use crate::outcome::{minus_one, number};
use libc::{c_int, c_void, off_t, size_t};
use std::time::Duration;

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
        self.0.iter().filter(|mapping| mapping.index.is_some()).any(|mapping| {
            offset < mapping.offset + mapping.length as u64 && mapping.offset < end
        })
    }

    /// An offset behind all that is mapped.
    fn free_offset(&self) -> u64 {
        let ends = self.0.iter().map(|mapping| mapping.offset + mapping.length as u64);
        ends.max().unwrap_or(0)
    }
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
        if buffer.is_null() || length == 0 || !(writable || prot == libc::PROT_NONE) {
            return Err(INVALID);
        }
        if flags != 0 {
            return Err(NOT_SUPPORTED);
        }
        let bytes = u32::try_from(length).map_err(|_| INVALID)?;
        let socket = directory::get(socket)?;
        let mut made = None;
        socket.wait(Patience::of(LONG), |state| {
            let result = (|| {
                let entries = match state.connected()? {
                    Ok(stream) => stream.peer_iomaps(),
                    Err(errno) => return Some(Err(errno)),
                };
                if made.is_none() {
                    let place = match place(&state.mapped, entries, writable, offset, length) {
                        Ok(place) => place,
                        Err(errno) => return Some(Err(errno)),
                    };
                    let Ok(used) = state.identity.used() else { return Some(Err(INVALID)) };
                    // SAFETY: by the contract.
                    let mr = unsafe { ibv_reg_mr(used.pd, buffer, length, WRITTEN) };
                    if mr.is_null() {
                        return Some(Err(super::link::last_error()));
                    }
                    let (offset, index) = place;
                    made = Some(Mapping { mr, addr: buffer.addr(), length, offset, index });
                }
                let mapping = made.as_ref()?;
                let Some(index) = mapping.index else { return Some(Ok(())) };
                // SAFETY: alive as long as the mapping.
                let rkey = unsafe { (*mapping.mr).rkey };
                let remote = Remote { addr: mapping.addr as u64, rkey, length: bytes };
                let iomap = Iomap { offset: mapping.offset, buffer: remote };
                let stream = state.stream.as_mut()?;
                match stream.tell_mapped(index, &iomap) {
                    Ok(true) => Some(Ok(())),
                    Ok(false) => None,
                    Err(errno) => Some(Err(errno)),
                }
            })();
            if let Some(Ok(())) = result
                && let Some(mapping) = made.take()
            {
                let offset = mapping.offset;
                state.mapped.0.push(mapping);
                return Some(Ok(off_t::try_from(offset).unwrap_or(off_t::MAX)));
            }
            result.map(|done| done.map(|()| 0))
        })
    })
}

/// Where a buffer is mapped: its offset, and its entry in the peer's table.
fn place(
    mapped: &Mapped,
    entries: u32,
    writable: bool,
    offset: off_t,
    length: usize,
) -> Result<(u64, Option<u32>), Errno> {
    if !writable {
        return Ok((0, None));
    }
    let index = mapped.free_index(entries).ok_or(Errno(libc::ENOMEM))?;
    let offset = match offset {
        -1 => mapped.free_offset(),
        offset => u64::try_from(offset).map_err(|_| INVALID)?,
    };
    let end = offset.checked_add(length as u64).ok_or(INVALID)?;
    if end > off_t::MAX as u64 || mapped.overlaps(offset, length) {
        return Err(INVALID);
    }
    Ok((offset, Some(index)))
}

/// riounmap(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn riounmap(socket: c_int, buffer: *mut c_void, length: size_t) -> c_int {
    minus_one(|| {
        let socket = directory::get(socket)?;
        let mut state = socket.state();
        let is_it = |mapping: &Mapping| (mapping.addr, mapping.length) == (buffer.addr(), length);
        let at = state.mapped.0.iter().position(is_it).ok_or(INVALID)?;
        drop(state.mapped.0.remove(at));
        Ok(())
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
        let socket = directory::get(socket)?;
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
