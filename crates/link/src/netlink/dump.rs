//! Whole tables of the kernel, which come in many messages.

use netlink_packet_core::{
    Emitable, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer,
    Nla,
};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::message::word;
use super::socket::{HEADER, NetlinkSocket, errno};

/// Datagrams of one table: some hundred thousand interfaces.
const MOST_DATAGRAMS: usize = 16 * 1024;
/// Of a table that changes while it is read, this many readings are thrown away.
const MOST_REPEATS: usize = 4;

/// How a datagram of a dump ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DumpEnd {
    /// More datagrams follow.
    More,
    /// It was the last.
    Done,
}

/// What a dump has told so far.
struct Dump<T> {
    /// Type of the messages that are entries of the table.
    kind: u16,
    sequence: u32,
    entries: Vec<T>,
    /// The table changed meanwhile: entries may be missing, or there twice.
    changed: bool,
}

impl NetlinkSocket {
    /// Asks for a table by `RTM_GET...` and reads each of its entries with `read`, in the kernel's order; entries that `read`
    /// makes nothing of are left out.
    ///
    /// The kernel makes the next datagram ready whenever one is read, so nothing here waits.
    pub(super) fn dump<T>(
        &mut self,
        kind: u16,
        (body, attributes): (&impl Emitable, &[impl Nla]),
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>, Errno> {
        let mut repeats = 0;
        loop {
            let sequence = self.send((kind, NLM_F_REQUEST | NLM_F_DUMP), body, attributes)?;
            // Each RTM_GET... is two numbers behind its RTM_NEW....
            let mut dump = Dump { kind: kind - 2, sequence, entries: vec![], changed: false };
            self.read_dump(&mut dump, &read)?;
            if !dump.changed || repeats == MOST_REPEATS {
                return Ok(dump.entries);
            }
            repeats += 1;
        }
    }

    fn read_dump<T>(
        &mut self,
        dump: &mut Dump<T>,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<(), Errno> {
        for _ in 0..MOST_DATAGRAMS {
            let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
            let (room, (there, length)) =
                (self.buffer.len(), rustix::net::recv(&self.socket, &mut self.buffer[..], flags)?);
            if length > room {
                return Err(Errno::MSGSIZE);
            }
            if dump.take(&self.buffer[..there], &read)? == DumpEnd::Done {
                return Ok(());
            }
        }
        Err(Errno::PROTO)
    }
}

impl<T> Dump<T> {
    /// Reads the messages of one datagram, up to the first that is malformed.
    fn take(
        &mut self,
        datagram: &[u8],
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<DumpEnd, Errno> {
        let mut rest = datagram;
        while let Some((message, behind)) = split(rest) {
            rest = behind;
            let (header, body) = (NetlinkBuffer::new(message), &message[HEADER..]);
            if header.sequence_number() != self.sequence {
                continue;
            }
            self.changed |= header.flags() & NLM_F_DUMP_INTR != 0;
            match header.message_type() {
                NLMSG_ERROR => {
                    return Err(
                        word(body, 0).map_or(Errno::PROTO, |code| errno(code.cast_signed()))
                    );
                }
                // It may say why the table ends here.
                NLMSG_DONE => match word(body, 0).map_or(0, u32::cast_signed) {
                    0.. => return Ok(DumpEnd::Done),
                    code => return Err(errno(code)),
                },
                kind if kind == self.kind => self.entries.extend(read(body)),
                _ => {}
            }
        }
        Ok(DumpEnd::More)
    }
}

/// The first message of `bytes` and what is behind it; `None` if there is none that is whole.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    bytes.get(..HEADER)?;
    let length = usize::try_from(NetlinkBuffer::new(bytes).length()).ok()?;
    let message = bytes.get(..length).filter(|message| message.len() >= HEADER)?;
    Some((message, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

#[cfg(test)]
mod tests;
