//! Buffers that the peer may write to while the program does something else: `riomap`, `riounmap`, `riowrite`.

use std::time::Duration;

use libc::off_t;
use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_ibverbs::owned_mr::OwnedMr;
use uroce_rdmacm::OwnedId;

use crate::connection::State;
use crate::deadline::Deadline;
use crate::fd_table::Handle;
use crate::mapped::{Mapped, Mapping};
use crate::protocol::{Iomap, Remote};
use crate::stream::{Peer, Stream};
use crate::transfer::send_with;

/// How long a mapping waits for room to tell the peer of it.
const LONG: Duration = Duration::from_secs(10);

/// A buffer that a program wants to map.
#[derive(Debug, Clone, Copy)]
pub struct Buffer {
    /// Where it begins.
    pub addr: usize,
    /// Bytes.
    pub length: usize,
    /// The peer may write to it.
    pub writable: bool,
    /// Where it is mapped; -1: anywhere.
    pub offset: off_t,
}

impl Handle {
    /// Maps a buffer, which `register` registers for the device of the id: `riomap`. Returns its offset.
    ///
    /// # Errors
    /// What rdma-core's riomap says.
    pub fn map(
        &self,
        buffer: &Buffer,
        register: impl Fn(&OwnedId) -> Result<OwnedMr, Errno>,
    ) -> Result<off_t, Errno> {
        let socket = self.stream()?;
        let (offset, index) =
            socket.wait(Deadline::after(LONG), |state| match state.connected()? {
                Ok(_) => Some(map(state, buffer, &register)),
                Err(errno) => Some(Err(errno)),
            })?;
        if let Some(index) = index {
            let told = socket.wait(Deadline::after(LONG), |state| tell(state, index));
            if told.is_err() {
                socket.state().mapped.remove_at(index);
            }
            told?;
        }
        off_t::try_from(offset).map_err(|_| INVALID)
    }

    /// `riounmap`. The peer is told before anything that is sent later. What it writes nevertheless is refused, since the buffer
    /// is registered no more.
    ///
    /// # Errors
    /// EINVAL: it is not mapped.
    pub fn unmap(&self, addr: usize, length: usize) -> Result<(), Errno> {
        let socket = self.stream()?;
        let take = |state: &mut State| state.mapped.take(addr, length).map(drop).ok_or(INVALID);
        let taken = socket.wait_through_signals(&Deadline::after(LONG), |state| {
            tell_unmapped(state, addr, length).then(|| take(state))
        });
        match taken {
            // A peer that takes nothing is not told. The program has its buffer back all the same.
            Err(Errno(libc::EAGAIN | libc::EBADF)) => take(&mut socket.state()),
            other => other,
        }
    }

    /// Writes to what the peer has mapped at an offset: `riowrite`. Returns how many bytes were written.
    ///
    /// # Errors
    /// EINVAL: nothing is mapped there; those of a send.
    pub fn write_mapped(&self, data: &[u8], offset: off_t, flags: i32) -> Result<usize, Errno> {
        let offset = u64::try_from(offset).map_err(|_| INVALID)?;
        send_with(self.stream()?, data.len(), flags, |stream, done| {
            stream.write_mapped(&data[done..], offset + done as u64)
        })
    }
}

/// Registers a buffer, and notes where it is mapped: its offset, and its entry in the peer's table. A buffer may be mapped
/// several times, so that only the entry tells which mapping it is.
fn map(
    state: &mut State,
    wanted: &Buffer,
    register: impl Fn(&OwnedId) -> Result<OwnedMr, Errno>,
) -> Result<(u64, Option<u32>), Errno> {
    let entries = state.stream.as_ref().map_or(0, Stream::peer_iomaps);
    let (offset, index) = place(&state.mapped, entries, wanted)?;
    let Buffer { addr, length, .. } = *wanted;
    let mr = register(&state.id)?;
    state.mapped.add(Mapping { mr, addr, length, offset, index });
    Ok((offset, index))
}

/// Tells the peer of a mapping. `None`: try again later.
fn tell(state: &mut State, index: u32) -> Option<Result<(), Errno>> {
    // Another thread may have unmapped it meanwhile.
    let Some(mapping) = state.mapped.at(index) else { return Some(Ok(())) };
    let length = u32::try_from(mapping.length).unwrap_or(u32::MAX);
    let buffer = Remote { addr: mapping.addr as u64, rkey: mapping.mr.rkey(), length };
    let iomap = Iomap { offset: mapping.offset, buffer };
    match state.stream.as_mut()?.tell_mapped(index, &iomap) {
        Ok(told) => told.then_some(Ok(())),
        Err(errno) => Some(Err(errno)),
    }
}

/// Tells the peer that a buffer will not be mapped any more, if it knows of it. False: try again later.
fn tell_unmapped(state: &mut State, addr: usize, length: usize) -> bool {
    let Some(index) = state.mapped.of(addr, length).and_then(|mapping| mapping.index) else {
        return true;
    };
    match state.connected() {
        // A connection that breaks with this has no peer any more.
        Some(Ok(stream)) if stream.broken.is_none() && stream.peer != Peer::Gone => {
            stream.tell_unmapped(index).unwrap_or(true)
        }
        _ => true,
    }
}

/// Where a buffer is mapped: its offset, and its entry in the peer's table.
fn place(mapped: &Mapped, entries: u32, wanted: &Buffer) -> Result<(u64, Option<u32>), Errno> {
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
