//! Questions to the families of generic netlink.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socket_with};

use super::message::{Attributes, Request, answer};

/// Bytes of the header that follows netlink's: command, version, two reserved.
const HEADER: usize = 4;

/// The family that knows the others, and what it is asked (linux/genetlink.h).
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// Room for an answer; the longest lists the 60-odd features of an interface.
const ANSWER: usize = 32 * 1024;

/// A socket of one family.
#[derive(Debug)]
pub(crate) struct Family {
    socket: OwnedFd,
    id: u16,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Family {
    /// Opens the family called `name`, which is shorter than 16 bytes.
    pub(crate) fn open(name: &str) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let protocol = Some(netlink::GENERIC);
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        rustix::net::connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        let mut family = Self { socket, id: CONTROL, sequence: 0, buffer: vec![0; ANSWER] };
        let mut padded = [0; 16];
        padded[..name.len()].copy_from_slice(name.as_bytes());
        let length = (name.len() + 1).next_multiple_of(4);
        let found = family.ask(GET_FAMILY, FAMILY_NAME, &padded[..length])?;
        let id = found.find(FAMILY_ID).and_then(|id| id.first_chunk()).ok_or(Errno::PROTO)?;
        family.id = u16::from_ne_bytes(*id);
        Ok(family)
    }

    /// The attributes of the answer to a command with one attribute, whose length is a multiple of
    /// four.
    pub(crate) fn ask(
        &mut self,
        command: u8,
        attribute: u16,
        value: &[u8],
    ) -> io::Result<Attributes<'_>> {
        self.sequence += 1;
        let mut request = Request::new(self.id, &[command, 1, 0, 0]);
        request.push(attribute, value);
        rustix::net::send(&self.socket, request.finish(self.sequence), SendFlags::empty())?;
        let (length, _) =
            rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT)?;
        let body = answer(&self.buffer[..length], self.sequence).ok_or(Errno::PROTO)??;
        Ok(Attributes::after(&self.buffer[body], HEADER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_that_does_not_exist_is_an_error() {
        let error = Family::open("nobody").expect_err("no such family");
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }
}
