//! vmsplice(2) and splice(2): memory of this process becomes the payload of a datagram without a copy.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{
    IoSliceRaw, PipeFlags, SpliceFlags, fcntl_getpipe_size, pipe_with, splice, vmsplice,
};
use uroce_datapath::PAGE;

/// Pages that the kernel takes out of a pipe for one part of a datagram (`splice_to_socket`), and that a new pipe has room for.
pub(crate) const PAGES: usize = 16;

/// A pipe from memory to sockets. It is empty between two sends, or to be dropped.
#[derive(Debug)]
pub struct SplicePipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl SplicePipe {
    /// Opens one with room for 16 pages. One with less is what users get whose pipes have much memory altogether
    /// (`fs.pipe-user-pages-soft`).
    ///
    /// # Errors
    ///
    /// When the process has no free descriptors, or the pipe has less room.
    pub fn new() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let room = fcntl_getpipe_size(&write)?;
        if room < PAGES * PAGE {
            return Err(Errno::NOBUFS.into());
        }
        Ok(Self { read, write })
    }

    /// Sends `payload`, which lies in up to 16 pages, as one datagram of the connected socket. The kernel reads the bytes when it
    /// needs them, as late as when the peer takes them out of its socket: until then a change of them is a change of the datagram.
    ///
    /// # Errors
    ///
    /// Those of vmsplice(2) and send(2). The pipe is to be dropped then: it may hold what was not sent.
    pub fn send(&self, socket: BorrowedFd<'_>, payload: &[u8]) -> io::Result<()> {
        self.fill(payload)?;
        self.drain(socket, payload.len())
    }

    /// The first half of [`send`](Self::send): puts the pages of `payload` into the pipe.
    ///
    /// # Errors
    ///
    /// When the pipe does not take all of it. It is to be dropped then.
    pub(crate) fn fill(&self, payload: &[u8]) -> io::Result<()> {
        let pages = [IoSliceRaw::from_slice(payload)];
        // SAFETY: `write` is the end of the pipe that takes, so the kernel only reads of the memory. It counts itself among
        // the users of the pages, so that they stay after the memory is unmapped; and no reference to what it reads is ours.
        let held = unsafe { vmsplice(&self.write, &pages, SpliceFlags::NONBLOCK)? };
        if held == payload.len() { Ok(()) } else { Err(Errno::NOBUFS.into()) }
    }

    /// The second half: sends what is in the pipe, `len` bytes.
    ///
    /// # Errors
    ///
    /// Those of send(2). The pipe is to be dropped then: it holds what was not sent.
    pub(crate) fn drain(&self, socket: BorrowedFd<'_>, len: usize) -> io::Result<()> {
        let sent = splice(&self.read, None, socket, None, len, SpliceFlags::NONBLOCK)?;
        // Never seen; a datagram without its end would be the price of relying on it.
        if sent == len { Ok(()) } else { Err(Errno::INVAL.into()) }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn what_was_spliced_arrives_as_one_datagram() {
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        sender.connect(receiver.local_addr().expect("an address")).expect("connected");
        let pipe = SplicePipe::new().expect("a pipe");
        let mut room = vec![0; 1 << 16];
        for len in [1, 4096, 60_000] {
            let payload: Vec<u8> = (0..len).map(|at: u32| at as u8).collect();
            pipe.send(sender.as_fd(), &payload).expect("sent");
            assert_eq!(receiver.recv(&mut room).expect("a datagram"), payload.len());
            assert_eq!(room[..payload.len()], payload);
        }
    }

    #[test]
    fn a_refusal_is_that_of_the_socket() {
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let pipe = SplicePipe::new().expect("a pipe");
        let refused = pipe.send(sender.as_fd(), &[7; 100]).expect_err("without a peer");
        assert_eq!(Errno::from_io_error(&refused), Some(Errno::DESTADDRREQ));
    }
}
