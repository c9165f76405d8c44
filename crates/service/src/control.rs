//! The unix socket between a client and the service.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use uroce_host::fork::keep_from_children;
use uroce_host::option::refuse_descriptors;

use crate::message::LONGEST;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 256;

/// Most descriptors with one message.
pub(crate) const DESCRIPTORS: usize = 2;

/// A message that was received.
#[derive(Debug)]
pub(crate) struct Datagram {
    bytes: [u8; LONGEST],
    len: usize,
    /// The first descriptors that came with it; others were closed.
    pub(crate) descriptors: [Option<OwnedFd>; DESCRIPTORS],
}

impl Datagram {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A connected end.
#[derive(Debug)]
pub(crate) struct ControlSocket(OwnedFd);

impl AsFd for ControlSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    keep_from_children(&socket);
    Ok(socket)
}

/// A socket at `path` that clients connect to, with these permissions. One that nobody listens on is replaced; nothing
/// else is.
pub(crate) fn listen(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let listener = socket()?;
    match net::bind(&listener, &address) {
        Err(Errno::ADDRINUSE) if !std::fs::symlink_metadata(path)?.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is no socket"));
        }
        Err(Errno::ADDRINUSE) if net::connect(&socket()?, &address) == Err(Errno::CONNREFUSED) => {
            std::fs::remove_file(path)?;
            net::bind(&listener, &address)?;
        }
        bound => bound?,
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    refuse_descriptors(&listener);
    net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// The next client that waits, if any.
pub(crate) fn accept(listener: &OwnedFd) -> io::Result<Option<ControlSocket>> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    match net::accept_with(listener, flags) {
        Ok(socket) => Ok(Some(ControlSocket(socket))),
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl ControlSocket {
    /// One end of a [`pair`].
    pub(crate) fn of(socket: OwnedFd) -> Self {
        keep_from_children(&socket);
        Self(socket)
    }

    /// Connects to the service at `path`.
    pub(crate) fn connect(path: &Path) -> io::Result<Self> {
        let socket = socket()?;
        net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Self(socket))
    }

    /// Sends a message without ever waiting; the flag of this call counts, not one of the socket.
    pub(crate) fn send(&self, message: &[u8]) -> Result<(), Errno> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        net::send(&self.0, message, flags).map(drop)
    }

    /// Sends a message to the service, which reads soon what it has not read yet; waits for that until `end`.
    pub(crate) fn send_by(&self, message: &[u8], end: Instant) -> io::Result<()> {
        loop {
            match self.send(message) {
                Err(Errno::AGAIN) => {}
                sent => return Ok(sent?),
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let timeout = Timespec::try_from(left).ok();
            poll(&mut [PollFd::new(self, PollFlags::OUT)], timeout.as_ref()).ok();
        }
    }

    /// Sends a message with descriptors, at most [`DESCRIPTORS`].
    pub(crate) fn send_with(
        &self,
        message: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(descriptors));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        net::sendmsg(&self.0, &[IoSlice::new(message)], &mut control, flags).map(drop)
    }

    /// The next message; `None` if there is none yet. An error: the other end is gone, or sends what is no
    /// message.
    pub(crate) fn receive(&self) -> io::Result<Option<Datagram>> {
        let mut bytes = [0; LONGEST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let got = net::recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags);
        let got = match got {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            got => got?,
        };
        let mut descriptors = [None, None];
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(arrived) = message {
                descriptors.iter_mut().zip(arrived).for_each(|(place, fd)| *place = Some(fd));
            }
        }
        if got.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if got.flags.contains(ReturnFlags::TRUNC) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Some(Datagram { bytes, len: got.bytes, descriptors }))
    }
}

/// Two sockets that are connected to each other, for two clients.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (one, other) = net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    [&one, &other].into_iter().for_each(|socket| _ = refuse_descriptors(socket));
    Ok((one, other))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Closing one may take as long as its sender likes: a TCP socket with unsent bytes and a linger time, for example.
    #[test]
    fn a31_a_client_sends_no_descriptors_to_the_service_nor_to_another_client() {
        let folder = std::env::temp_dir().join(format!("uroce-rights-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("socket");
        let listener = listen(&path, 0o600).expect("free");
        let can_refuse = refuse_descriptors(&listener);
        let client = ControlSocket::connect(&path).expect("listened on");
        let _served = accept(&listener).expect("accepted").expect("it waits");
        let (one, other) = pair().expect("sockets");
        for sender in &[client, ControlSocket::of(one), ControlSocket::of(other)] {
            let sent = sender.send_with(b"x", &[listener.as_fd()]);
            assert_eq!(sent, if can_refuse { Err(Errno::PERM) } else { Ok(()) });
            sender.send(b"without one").expect("sent");
        }
        std::fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn a_dead_socket_is_replaced_and_a_living_one_is_not() {
        let folder = std::env::temp_dir().join(format!("uroce-control-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("socket");
        let listener = listen(&path, 0o600).expect("free");
        assert!(listen(&path, 0o600).is_err(), "taken");
        drop(listener);
        let listener = listen(&path, 0o600).expect("nobody listens any more");
        let client = ControlSocket::connect(&path).expect("listened on");
        let served = accept(&listener).expect("accepted").expect("it waits");
        assert!(accept(&listener).expect("no error").is_none());
        served.send_with(b"hello", &[listener.as_fd(); DESCRIPTORS]).expect("sent");
        let got = client.receive().expect("connected").expect("sent");
        assert_eq!(got.bytes(), b"hello");
        assert!(
            got.descriptors.iter().all(Option::is_some)
                && client.receive().expect("connected").is_none()
        );
        served.send(&[7; LONGEST + 1]).expect("sent");
        assert!(client.receive().is_err(), "too long");
        drop(served);
        assert!(client.receive().is_err(), "gone");
        std::fs::remove_dir_all(folder).expect("removed");
    }
}
