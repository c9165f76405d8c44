//! Questions to the families of generic netlink.

use std::io;

use rustix::io::Errno;
use rustix::net::netlink;

use super::message::{BorrowedAttribute, FixedPart};
use super::socket::{NetlinkSocket, find};

/// Bytes of the header that follows netlink's: command, version, two reserved.
const HEADER: usize = 4;

/// Room for an answer; the longest lists the 60-odd features of an interface.
const ANSWER: usize = 32 * 1024;

/// A socket of one family.
#[derive(Debug)]
pub(crate) struct Family {
    socket: NetlinkSocket,
    id: u16,
}

impl Family {
    /// Opens the family called `name`, which is shorter than 16 bytes.
    pub(crate) fn open(name: &str) -> io::Result<Self> {
        let socket = NetlinkSocket::open(Some(netlink::GENERIC), ANSWER)?;
        let mut family = Self { socket, id: libc::GENL_ID_CTRL as u16 };
        let name = [name.as_bytes(), &[0]].concat();
        let wanted = BorrowedAttribute::new(libc::CTRL_ATTR_FAMILY_NAME as u16, &name);
        let found = family.ask(libc::CTRL_CMD_GETFAMILY as u8, wanted)?;
        let id = find(found, libc::CTRL_ATTR_FAMILY_ID as u16).and_then(|id| id.first_chunk());
        family.id = u16::from_ne_bytes(*id.ok_or(Errno::PROTO)?);
        Ok(family)
    }

    /// The attributes of the answer to a command with one attribute.
    pub(crate) fn ask(
        &mut self,
        command: u8,
        attribute: BorrowedAttribute<'_>,
    ) -> io::Result<&[u8]> {
        let command: FixedPart<HEADER> = FixedPart([command, 1, 0, 0]);
        let answer = self.socket.ask(self.id, &command, &[attribute])?;
        Ok(answer.get(HEADER..).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_that_does_not_exist_is_an_error() {
        let error = Family::open("no-such").expect_err("no such family");
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }
}
