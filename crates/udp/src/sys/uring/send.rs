//! Batches of sends, in order, by one system call.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use libc::{iovec, mmsghdr};
use rustix::io::Errno;

use crate::sys::udp::{MAX_BATCH, Message, NOTHING, empty_header, point_at};

/// System calls for one batch before something is thought to be wrong with the ring.
const MAX_WAITS: usize = 1000;

/// A ring that sends.
pub(crate) struct SendRing {
    ring: IoUring,
    pieces: Box<[iovec]>,
    headers: Box<[mmsghdr]>,
    results: [i32; MAX_BATCH],
    /// A batch did not end: nothing must be sent any more.
    stuck: bool,
}

// SAFETY: the pointers in `pieces` and `headers` are used only within `send`, which sets them anew.
unsafe impl Send for SendRing {}

impl SendRing {
    /// # Errors
    ///
    /// What io_uring_setup(2) says.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            ring: IoUring::builder().dontfork().build(MAX_BATCH as u32)?,
            pieces: vec![NOTHING; MAX_BATCH].into_boxed_slice(),
            headers: vec![empty_header(); MAX_BATCH].into_boxed_slice(),
            results: [0; MAX_BATCH],
            stuck: false,
        })
    }

    /// Sends up to [`MAX_BATCH`] messages; returns how many the kernel took from the front. Each send
    /// starts when the one before it has succeeded; the first that fails ends the batch.
    ///
    /// # Errors
    ///
    /// Why the first was not taken.
    pub(crate) fn send<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        messages: impl Iterator<Item = Message<'a>>,
    ) -> io::Result<usize> {
        if self.stuck {
            return Err(Errno::BADF.into());
        }
        let count = point_at(messages, &mut self.pieces, &mut self.headers);
        self.push(socket, count);
        self.finish(count);
        let done = &self.results[..count];
        let sent = done.iter().take_while(|result| **result >= 0).count();
        match done.get(sent) {
            Some(failed) if sent == 0 => Err(io::Error::from_raw_os_error(-failed)),
            _ => Ok(sent),
        }
    }

    fn push(&mut self, socket: BorrowedFd<'_>, count: usize) {
        let fd = Fd(socket.as_raw_fd());
        let mut queue = self.ring.submission();
        for (index, header) in self.headers[..count].iter().enumerate() {
            let flags = (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as u32;
            let entry = opcode::SendMsg::new(fd, &raw const header.msg_hdr).flags(flags).build();
            let chain =
                if index + 1 < count { squeue::Flags::IO_LINK } else { squeue::Flags::empty() };
            // SAFETY: the header and its piece live as long as the ring; what they point to lives
            // until `send` returns, which is after the kernel has finished. Sends only read.
            let pushed = unsafe { queue.push(&entry.flags(chain).user_data(index as u64)) };
            pushed.expect("the queue has room for a batch and is empty between batches");
        }
    }

    /// Waits until all of them are done, which needs no waiting for the network: none may block.
    fn finish(&mut self, count: usize) {
        self.results[..count].fill(-libc::ECANCELED);
        let mut left = count;
        for _ in 0..MAX_WAITS {
            if left == 0 {
                return;
            }
            // An interrupted or refused call is repeated; what was submitted stays so.
            let _ = self.ring.submit_and_wait(left);
            for event in self.ring.completion() {
                if let Some(result) = self.results.get_mut(event.user_data() as usize) {
                    *result = event.result();
                }
                left = left.saturating_sub(1);
            }
        }
        self.stuck = left > 0;
    }
}
