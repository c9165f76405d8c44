//! Messages that arrive without being asked for one by one (multishot recvmsg).

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};
use libc::msghdr;
use rustix::io::Errno;
use uroce_host::address::NAME;

use super::can_cancel;
use super::pool::Pool;
use crate::sys::udp::{CONTROL, Received};

/// The only group of buffers.
const GROUP: u16 = 0;

/// What the kernel writes before name, control messages and payload: four 32-bit numbers, the length
/// of each of the three, and flags (`struct io_uring_recvmsg_out`).
const HEAD: usize = 16;

/// Room for a name, so that the payload starts at a multiple of 64.
const NAME_ROOM: usize = 48;

/// Where the payload starts in a buffer.
const PAYLOAD: usize = HEAD + NAME_ROOM + CONTROL;

/// Waits for the end of cancelled receives, 10 ms each.
const MAX_WAITS: usize = 200;

/// A message that arrived, or the end of a receive.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// The receive that it belongs to.
    pub(crate) id: u64,
    /// The receive goes on by itself.
    pub(crate) more: bool,
    /// The message, or why there is none.
    pub(crate) message: Result<Held, Errno>,
}

/// A buffer with a message; the kernel does not have it until it is given back.
#[derive(Debug)]
pub(crate) struct Held {
    buffer: u16,
    length: usize,
}

/// A ring whose receives put messages into buffers of a pool.
pub(crate) struct RecvRing {
    ring: IoUring,
    pool: ManuallyDrop<Pool>,
    /// Says how much room names and control messages get in each buffer. The kernel reads it when a
    /// receive is submitted.
    template: Box<msghdr>,
    /// Receives that have not ended.
    armed: usize,
}

// SAFETY: the template has no pointers but null; the ring and the pool are `Send`.
unsafe impl Send for RecvRing {}

impl RecvRing {
    /// A ring with `buffers` buffers, a power of two, for payloads of up to `room` bytes.
    ///
    /// # Errors
    ///
    /// What io_uring_setup(2) says; `InvalidInput` before Linux 6.0.
    pub(crate) fn new(buffers: u16, room: usize) -> io::Result<Self> {
        // Each buffer can be in one completion, and each receive can end.
        let ring = IoUring::builder()
            .dontfork()
            .setup_cqsize(u32::from(buffers) * 2)
            .build(u32::from(buffers).min(64))?;
        if !can_cancel(&ring) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let pool = Pool::new(buffers, (PAYLOAD + room).next_multiple_of(64));
        let (address, count) = (pool.ring() as u64, pool.count());
        // SAFETY: the ring of buffers is valid for `count` entries and stays so until `drop` has
        // unregistered it, or for ever.
        unsafe { ring.submitter().register_buf_ring_with_flags(address, count, GROUP, 0) }?;
        // SAFETY: `msghdr` holds pointers and integers, for which zero is a value.
        let mut template: Box<msghdr> = Box::new(unsafe { std::mem::zeroed() });
        template.msg_namelen = NAME_ROOM as libc::socklen_t;
        template.msg_controllen = CONTROL;
        Ok(Self { ring, pool: ManuallyDrop::new(pool), template, armed: 0 })
    }

    /// Receives from `socket`, which must be a blocking one, until told otherwise. Its arrivals
    /// carry `id`.
    pub(crate) fn arm(&mut self, socket: BorrowedFd<'_>, id: u64) -> io::Result<()> {
        let fd = Fd(socket.as_raw_fd());
        let entry = opcode::RecvMsgMulti::new(fd, &raw const *self.template, GROUP).build();
        // SAFETY: the template lives as long as the ring, and the buffers that the kernel writes to
        // are those of the pool. The kernel takes a reference to the socket of its own.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(id)) };
        pushed.map_err(|_| Errno::AGAIN)?;
        self.armed += 1;
        match self.ring.submit() {
            Ok(_) => Ok(()),
            // What was pushed goes out with the next submission.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Ends the receive `id`; its last arrival says so.
    pub(crate) fn disarm(&self, id: u64) {
        let cancel = CancelBuilder::user_data(id);
        if let Err(error) = self.ring.submitter().register_sync_cancel(Some(ten_ms()), cancel) {
            tracing::debug!(id, %error, "the receive ends when its socket is next used");
        }
    }

    /// The next arrival, if there is one.
    pub(crate) fn next(&mut self) -> Option<Arrival> {
        let event = self.ring.completion().next()?;
        let more = cqueue::more(event.flags());
        if !more {
            self.armed = self.armed.saturating_sub(1);
        }
        let message = match (event.result(), cqueue::buffer_select(event.flags())) {
            (length, Some(buffer)) if length >= 0 => Ok(Held { buffer, length: length as usize }),
            (result, Some(buffer)) => {
                self.pool.give(buffer);
                Err(Errno::from_raw_os_error(-result))
            }
            (result, None) if result < 0 => Err(Errno::from_raw_os_error(-result)),
            (_, None) => Err(Errno::NOBUFS),
        };
        Some(Arrival { id: event.user_data(), more, message })
    }

    /// Nothing has arrived that was not [taken](Self::next).
    pub(crate) fn is_empty(&mut self) -> bool {
        self.ring.completion().is_empty()
    }

    /// The message in a buffer.
    pub(crate) fn message(&self, held: &Held) -> Received<'_> {
        // SAFETY: the kernel has returned the buffer, and `recycle` would have consumed `held`.
        read(unsafe { self.pool.bytes(held.buffer, held.length) })
    }

    /// Gives the buffer back to the kernel.
    pub(crate) fn recycle(&mut self, held: Held) {
        self.pool.give(held.buffer);
    }

    /// A descriptor of the ring: readable while something has arrived.
    pub(crate) fn waiter(&self) -> io::Result<OwnedFd> {
        // SAFETY: the ring is open as long as `self` lives.
        let ring = unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) };
        Ok(rustix::io::fcntl_dupfd_cloexec(ring, 0)?)
    }

    /// Ends all receives; true when all have.
    fn end_all(&mut self) -> bool {
        let _ = self.ring.submitter().register_sync_cancel(Some(ten_ms()), CancelBuilder::any());
        for _ in 0..MAX_WAITS {
            while self.next().is_some() {}
            if self.armed == 0 {
                return true;
            }
            let wait = ten_ms();
            let _ = self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&wait));
        }
        false
    }
}

impl Drop for RecvRing {
    fn drop(&mut self) {
        let ended = self.end_all();
        if !ended || self.ring.submitter().unregister_buf_ring(GROUP).is_err() {
            tracing::warn!("io_uring still receives: its buffers are left to it");
            return;
        }
        // SAFETY: the kernel has released the pool, which is not used after this.
        unsafe { ManuallyDrop::drop(&mut self.pool) };
    }
}

fn ten_ms() -> Timespec {
    Timespec::new().nsec(10_000_000)
}

/// The parts of a message in its buffer.
fn read(bytes: &[u8]) -> Received<'_> {
    let number = |index: usize| {
        let word = bytes.get(4 * index..).and_then(|rest| rest.first_chunk());
        word.map_or(0, |word| u32::from_ne_bytes(*word))
    };
    let part = |start: usize, length: u32, room: usize| {
        let end = start + (length as usize).min(room);
        bytes.get(start..end.min(bytes.len())).unwrap_or_default()
    };
    Received {
        name: part(HEAD, number(0), NAME),
        control: part(HEAD + NAME_ROOM, number(1), CONTROL),
        payload: part(PAYLOAD, number(2), bytes.len().saturating_sub(PAYLOAD)),
        truncated: number(3) & libc::MSG_TRUNC as u32 != 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_parts_of_a_message_are_found() {
        let mut bytes = vec![0; PAYLOAD];
        for (index, number) in [16, 24, 3, libc::MSG_TRUNC].into_iter().enumerate() {
            bytes[4 * index..4 * index + 4].copy_from_slice(&number.to_ne_bytes());
        }
        bytes.extend(*b"abcd");
        let message = read(&bytes);
        assert_eq!((message.name.len(), message.control.len()), (16, 24));
        assert_eq!((message.payload, message.truncated), (&b"abc"[..], true));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let message = read(&bytes);
            prop_assert!(message.payload.len() <= bytes.len().saturating_sub(PAYLOAD));
            prop_assert!(message.name.len() <= NAME && message.control.len() <= CONTROL);
        }
    }
}
