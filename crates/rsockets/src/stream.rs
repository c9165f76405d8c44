//! A connection with its buffers: bytes in, bytes out, and the messages about room for them.

use std::sync::Arc;

use uroce_device::memory::{Access, Sge};
use uroce_device::transport::{Wc, WcStatus};
use uroce_ibverbs::errno::Errno;
use uroce_rdmacm::OwnedId;

use crate::credit_table::CreditTable;
use crate::deadline::Asleep;
use crate::inbound::Inbound;
use crate::options::Options;
use crate::outbound::{Outbound, Piece};
use crate::protocol::{BUFFERS, Iomap, Message, PrivateData, Remote};
use crate::queue_pair::{QueuePair, Write};
use crate::registered::Registered;

/// Messages about the connection itself that may be on their way: places in the send queue beside those
/// for data, and receives beside those that the peer may use for data.
const CONTROLS: u32 = 4;
/// Completions that are taken at once.
const BATCH: usize = 16;
/// Marks the completions of messages about the connection itself; those of data bear their length.
const CONTROL: u64 = 1 << 62;
const BIG_ENDIAN: bool = cfg!(target_endian = "big");
const RESET: Errno = Errno(libc::ECONNRESET);

/// What the peer said last about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// It may send.
    Talks,
    /// It sends nothing any more.
    Silent,
    /// It takes and sends nothing any more.
    Gone,
}

/// The queue pair and the buffers of a connection.
#[derive(Debug)]
pub(crate) struct Stream {
    // The queue pair goes before the memory that it uses.
    queue_pair: QueuePair,
    pub inbound: Inbound,
    pub outbound: Outbound,
    pub tables: CreditTable,
    receive: Registered,
    send: Registered,
    table: Registered,
    /// What the peer said when it connected.
    private_data: Option<PrivateData>,
    /// The peer can take what we send.
    open: bool,
    /// The entry of the peer's table that is written next.
    entry: u32,
    /// Places for messages about the connection.
    controls: u32,
    slots: u32,
    limit: u16,
    iomaps: u32,
    pub peer: Peer,
    pub broken: Option<Errno>,
}

impl Stream {
    /// The queue pair and the buffers for an id that has its device. They take what a peer sends as soon
    /// as the connection stands.
    pub fn new(id: &Arc<OwnedId>, options: &Options) -> Result<Stream, Errno> {
        let (open_device, pd) = (id.open_device()?, id.pd()?);
        let memory = |len, access| Registered::new(&open_device, pd, len, access);
        let written = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let receive = memory(options.receive_buffer, written)?;
        let send = memory(options.send_buffer, Access::LOCAL_WRITE)?;
        let table = memory(CreditTable::size(options.iomaps), written)?;
        let (slots, limit) = (u32::from(options.send_queue), options.receive_queue);
        let receives = u32::from(limit) + CONTROLS;
        let queue_pair = QueuePair::new(id, false, slots + CONTROLS, receives)?;
        queue_pair.post_receives(receives as usize)?;
        Ok(Stream {
            queue_pair,
            inbound: Inbound::new(receive.region.clone(), limit),
            outbound: Outbound::new(send.region.clone(), slots),
            tables: CreditTable::new(table.region.clone(), options.iomaps),
            receive,
            send,
            table,
            private_data: None,
            open: false,
            entry: 1,
            controls: CONTROLS,
            slots,
            limit,
            iomaps: options.iomaps,
            peer: Peer::Talks,
            broken: None,
        })
    }

    /// What the peer must know of us.
    pub fn private_data(&self) -> [u8; PrivateData::LEN] {
        let half = u32::try_from(self.receive.region.len() / 2).unwrap_or(u32::MAX);
        let private_data = PrivateData {
            big_endian: BIG_ENDIAN,
            credits: self.limit,
            table: self.table.remote(0, BUFFERS as u32),
            iomaps: self.iomaps,
            data: self.receive.remote(0, half),
        };
        private_data.encode()
    }

    /// This is what the peer said when it called, or accepted our call.
    ///
    /// # Errors
    /// ECONNRESET: it is none that we know.
    pub fn begin(&mut self, private_data: &[u8]) -> Result<(), Errno> {
        let private_data =
            PrivateData::decode(private_data).ok_or(crate::protocol_error::ProtocolError)?;
        self.outbound.begin(private_data.data, private_data.credits);
        self.private_data = Some(private_data);
        Ok(())
    }

    /// Whether the peer has said who it is.
    pub fn is_begun(&self) -> bool {
        self.private_data.is_some()
    }

    /// The connection stands.
    pub fn open(&mut self) {
        self.open = true;
    }

    /// Takes what has come, and tells the peer of room. A connection that breaks stays broken.
    pub fn progress(&mut self) {
        // What comes with, or right behind, the answer to a call waits until the answer was heard.
        if self.broken.is_none() && self.is_begun() {
            self.broken = self.advance().err();
        }
    }

    fn advance(&mut self) -> Result<(), Errno> {
        let mut done = [Wc::default(); BATCH];
        loop {
            let count = self.queue_pair.poll(&mut done);
            let received =
                done[..count].iter().filter(|wc| QueuePair::is_receive(wc) && wc.is_ok());
            let again = received.count();
            for wc in &done[..count] {
                self.completed(wc)?;
            }
            if self.peer != Peer::Gone {
                self.queue_pair.post_receives(again)?;
            }
            if count < BATCH {
                break;
            }
        }
        self.tell_of_room()
    }

    fn completed(&mut self, wc: &Wc) -> Result<(), Errno> {
        if !wc.is_ok() {
            // What is flushed after an orderly end is no surprise.
            let expected = wc.status == WcStatus::WrFlushErr && self.peer == Peer::Gone;
            return if expected { Ok(()) } else { Err(RESET) };
        }
        if QueuePair::is_receive(wc) {
            return self.heard(wc);
        }
        if wc.wr_id & CONTROL != 0 {
            self.controls += 1;
        } else {
            self.outbound.done(wc.wr_id as usize);
        }
        Ok(())
    }

    fn heard(&mut self, wc: &Wc) -> Result<(), Errno> {
        let message =
            wc.imm.and_then(Message::decode).ok_or(crate::protocol_error::ProtocolError)?;
        match message {
            Message::Data(length) if length == wc.byte_len => self.inbound.arrived(length)?,
            Message::Data(_) => return Err(crate::protocol_error::ProtocolError.into()),
            Message::Credits(limit) => self.outbound.credits(limit)?,
            Message::IomapUpdated(_) | Message::Keepalive => {}
            Message::Shutdown if self.peer == Peer::Talks => self.peer = Peer::Silent,
            Message::Shutdown => {}
            Message::Disconnect => self.peer = Peer::Gone,
        }
        Ok(())
    }

    fn tell_of_room(&mut self) -> Result<(), Errno> {
        let Some(private_data) = self.private_data else { return Ok(()) };
        if !self.open || self.peer != Peer::Talks {
            return Ok(());
        }
        while self.controls > 0 && self.inbound.wants_grant() {
            let grant = self.inbound.grant();
            let imm = Message::Credits(grant.credits);
            let Some(half) = grant.half else {
                self.control(imm)?;
                continue;
            };
            let length = u32::try_from(self.receive.region.len() / 2).unwrap_or(u32::MAX);
            let bytes = self.receive.remote(half, length).entry(private_data.big_endian);
            let at = u64::from(self.entry) * Remote::LEN as u64;
            self.entry = (self.entry + 1) % private_data.table.length;
            let to = Remote { addr: private_data.table.addr + at, ..private_data.table };
            self.controls -= 1;
            self.queue_pair.write_inline(write(to, imm, CONTROL), &bytes)?;
        }
        Ok(())
    }

    /// Says something about the connection; there must be a place.
    fn control(&mut self, message: Message) -> Result<(), Errno> {
        self.controls -= 1;
        self.queue_pair.write(write(Remote::default(), message, CONTROL), &[])
    }

    /// Says that nothing more will be sent, or that the connection is over. False: try again later.
    ///
    /// # Errors
    /// ECONNRESET.
    pub fn say(&mut self, message: Message) -> Result<bool, Errno> {
        if self.controls == 0 {
            return Ok(false);
        }
        self.control(message).map(|()| true)
    }

    /// Sends as much as there is room for; 0: nothing now.
    ///
    /// # Errors
    /// ECONNRESET.
    pub fn send(&mut self, data: &[u8]) -> Result<usize, Errno> {
        let mut sent = 0;
        while sent < data.len() {
            let room = self.outbound.room(&self.tables)?.min(data.len() - sent);
            if room == 0 {
                break;
            }
            let piece = self.outbound.push(&data[sent..sent + room]);
            self.put(&piece, room, Some(Message::Data(room as u32)))?;
            sent += room;
        }
        Ok(sent)
    }

    /// Writes as much as there is room for into a buffer that the peer has mapped.
    ///
    /// # Errors
    /// ECONNRESET; EINVAL: nothing is mapped there.
    pub fn write_mapped(&mut self, data: &[u8], offset: u64) -> Result<usize, Errno> {
        let mut done = 0;
        while done < data.len() {
            let found = offset.checked_add(done as u64).and_then(|at| self.tables.mapped(at));
            let Some(to) = found else {
                return if done > 0 { Ok(done) } else { Err(Errno(libc::EINVAL)) };
            };
            let room = self.outbound.free().min(data.len() - done).min(to.length as usize);
            if room == 0 {
                break;
            }
            let parts = self.outbound.keep(&data[done..done + room]);
            self.put(&Piece { parts, to }, room, None)?;
            done += room;
        }
        Ok(done)
    }

    fn put(&self, piece: &Piece, bytes: usize, message: Option<Message>) -> Result<(), Errno> {
        let sges: [Sge; 2] = piece.parts.map(|(at, length)| self.send.sge(at, length));
        let parts = if piece.parts[1].1 > 0 { 2 } else { 1 };
        let (va, rkey) = (piece.to.addr, piece.to.rkey);
        let imm = message.map(Message::encode);
        self.queue_pair.write(Write { va, rkey, imm, wr_id: bytes as u64 }, &sges[..parts])
    }

    /// Tells the peer of a buffer of ours that is mapped. False: try again later.
    ///
    /// # Errors
    /// ECONNRESET; ENOSPC: the peer has no such entry.
    pub fn tell_mapped(&mut self, index: u32, iomap: &Iomap) -> Result<bool, Errno> {
        let private_data = self.private_data.ok_or(Errno(libc::ENOTCONN))?;
        if index >= private_data.iomaps {
            return Err(Errno(libc::ENOSPC));
        }
        if !self.outbound.has_slot() {
            return Ok(false);
        }
        let table = u64::from(private_data.table.length) * Remote::LEN as u64;
        let at = table + u64::from(index) * Iomap::LEN as u64;
        let to = Remote { addr: private_data.table.addr + at, ..private_data.table };
        self.outbound.take_slot();
        let index = u16::try_from(index).unwrap_or(u16::MAX);
        let write = write(to, Message::IomapUpdated(index), 0);
        self.queue_pair.write_inline(write, &iomap.entry(private_data.big_endian)).map(|()| true)
    }

    /// Tells the peer that an entry stands for no buffer any more: it has no bytes. The protocol has no other word for it. False:
    /// try again later.
    ///
    /// # Errors
    /// ECONNRESET; ENOSPC: the peer has no such entry.
    pub fn tell_unmapped(&mut self, index: u32) -> Result<bool, Errno> {
        self.tell_mapped(index, &Iomap { offset: 0, buffer: Remote::default() })
    }

    /// Buffers that the peer lets us tell it of.
    pub fn peer_iomaps(&self) -> u32 {
        self.private_data.map_or(0, |private_data| private_data.iomaps)
    }

    /// Whether something can be sent now.
    pub fn has_room(&mut self) -> bool {
        match self.outbound.room(&self.tables) {
            Ok(room) => room > 0,
            Err(broken) => {
                self.broken = Some(broken.into());
                true
            }
        }
    }

    /// The peer has all that was sent.
    pub fn is_idle(&self) -> bool {
        self.outbound.is_idle(self.slots) && self.controls == CONTROLS
    }

    pub fn arm(&mut self, asleep: &Asleep<'_>) -> bool {
        self.queue_pair.arm(asleep)
    }

    pub fn fd(&self) -> libc::c_int {
        self.queue_pair.fd()
    }

    pub fn segment(&self) -> usize {
        self.queue_pair.segment()
    }
}

fn write(to: Remote, message: Message, wr_id: u64) -> Write {
    Write { va: to.addr, rkey: to.rkey, imm: Some(message.encode()), wr_id }
}
