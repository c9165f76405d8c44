//! The other end of a stream without a socket: a queue pair and memory, with which a test says what it likes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libc::c_int;
use uroce_device::cm::PortSpace;
use uroce_device::memory::Access;
use uroce_device::transport::{Wc, WcStatus};
use uroce_ibverbs::errno::Errno;
use uroce_rdmacm::{ConnectionEvent, OwnedId};

use super::{LONG_MS, at, handle, wait_for};
use crate::protocol::{Iomap, Message, PrivateData, Remote};
use crate::queue_pair::{QueuePair, Write};
use crate::registered::Registered;

/// Bytes that the socket may write to.
const DATA: usize = 4_096;
/// Entries of the table of receive buffers.
pub(super) const ENTRIES: u32 = 3;
/// Entries of the table of mapped buffers.
const IOMAPS: u32 = 2;
const CREDITS: u16 = 16;
/// Longer than anything takes.
const LONG: Duration = Duration::from_secs(5);
const TABLE: usize = ENTRIES as usize * Remote::LEN + IOMAPS as usize * Iomap::LEN;

/// A peer that speaks the protocol word by word.
#[derive(Debug)]
pub(super) struct RawPeer {
    // The queue pair goes before the memory that it uses.
    queue_pair: QueuePair,
    pub data: Registered,
    pub table: Registered,
    pub id: Arc<OwnedId>,
    /// What the socket has said of itself.
    pub theirs: PrivateData,
    received: Vec<Wc>,
}

/// The next event that is about the connection.
pub(super) fn event(id: &OwnedId) -> ConnectionEvent {
    loop {
        match id.poll_event() {
            Some(ConnectionEvent::Other) => {}
            Some(event) => return event,
            None => assert_ne!(wait_for(id.fd(), libc::POLLIN, LONG_MS), 0, "an event comes"),
        }
    }
}

impl RawPeer {
    /// On an id that has its device, with a queue pair that takes what comes.
    fn on(id: OwnedId) -> RawPeer {
        let id = Arc::new(id);
        let queue_pair = QueuePair::new(&id, false, 64, 64).expect("the id has a device");
        queue_pair.post_receives(64).expect("there is room");
        let memory = |len| {
            let (open_device, pd) =
                (id.open_device().expect("a device"), id.pd().expect("a device"));
            let written = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
            Registered::new(&open_device, pd, len, written).expect("memory")
        };
        let (data, table) = (memory(DATA), memory(TABLE));
        let theirs = PrivateData::decode(&hello(Remote::default()).encode()).expect("it may be");
        RawPeer { queue_pair, data, table, id, theirs, received: Vec::new() }
    }

    /// An id that has found its way to a listener.
    pub fn towards(from: &str, to: SocketAddr) -> RawPeer {
        let id = OwnedId::new(PortSpace::Tcp).expect("an id");
        id.bind(at(from)).expect("a free port");
        id.resolve(to).expect("it is on this machine");
        RawPeer::on(id)
    }

    /// What a peer should say of itself.
    pub fn hello(&self) -> PrivateData {
        let data = self.data.remote(0, DATA as u32);
        PrivateData { table: self.table.remote(0, ENTRIES), ..hello(data) }
    }

    /// Calls a listener, which accepts; returns the socket of the connection.
    pub fn connected(
        from: &str,
        listener: c_int,
        change: impl Fn(&mut PrivateData),
    ) -> (Self, c_int) {
        let to = handle(listener).local().expect("it listens");
        let mut peer = RawPeer::towards(from, to);
        let mut hello = peer.hello();
        change(&mut hello);
        peer.id.connect(&hello.encode()).expect("it has a way");
        let socket = handle(listener).accept().expect("a request").into_fd();
        let ConnectionEvent::Established(answer) = event(&peer.id) else { panic!("no connection") };
        peer.theirs = PrivateData::decode(&answer).expect("a socket says what may be");
        // From now on the connection stands for the socket as well.
        assert_ne!(wait_for(socket, libc::POLLOUT, LONG_MS) & libc::POLLOUT, 0);
        if hello.table == peer.hello().table {
            let all = Message::Credits(peer.theirs.credits);
            assert_eq!(peer.heard(), all, "with the second half of its buffer");
        }
        (peer, socket)
    }

    /// Answers the next call of a socket with this private data.
    pub fn answering(listener: &OwnedId, answer: impl Fn(&RawPeer) -> Vec<u8>) -> RawPeer {
        let ConnectionEvent::Request(request) = event(listener) else { panic!("no request") };
        let theirs = PrivateData::decode(&request.private_data());
        let mut peer = RawPeer::on(request.take().expect("a descriptor"));
        peer.theirs = theirs.expect("a socket says what may be");
        peer.id.accept(&answer(&peer)).expect("it waits for an answer");
        peer
    }

    /// Writes bytes, or none, and this immediate; how that ended.
    pub fn write(&mut self, to: Remote, offset: u64, bytes: &[u8], imm: Option<u32>) -> WcStatus {
        const ID: u64 = 77;
        let write = Write { va: to.addr + offset, rkey: to.rkey, imm, wr_id: ID };
        if bytes.len() <= Iomap::LEN {
            self.queue_pair.write_inline(write, bytes).expect("it is connected");
        } else {
            self.data.region.write(0, bytes).expect("no longer than that");
            let from = [self.data.sge(0, bytes.len())];
            self.queue_pair.write(write, &from).expect("it is connected");
        }
        let end = Instant::now() + LONG;
        loop {
            if let Some(done) = self.poll() {
                return done;
            }
            assert!(Instant::now() < end, "it does not end");
            std::thread::yield_now();
        }
    }

    /// Keeps what was received; returns how what was sent has ended.
    fn poll(&mut self) -> Option<WcStatus> {
        let mut wc = [Wc::default()];
        if self.queue_pair.poll(&mut wc) == 0 {
            return None;
        }
        if !QueuePair::is_receive(&wc[0]) {
            return Some(wc[0].status);
        }
        if wc[0].is_ok() {
            self.received.push(wc[0]);
        }
        None
    }

    /// Says something without bytes.
    pub fn say(&mut self, imm: u32) {
        assert_eq!(self.write(Remote::default(), 0, &[], Some(imm)), WcStatus::Success);
    }

    /// Says it in bytes of the socket's receive buffer.
    pub fn send(&mut self, offset: u64, bytes: &[u8]) {
        let imm = Message::Data(bytes.len() as u32).encode();
        assert_eq!(self.write(self.theirs.data, offset, bytes, Some(imm)), WcStatus::Success);
    }

    /// Writes an entry of the socket's table.
    pub fn write_entry(&mut self, index: u64, entry: Remote) {
        let bytes = entry.entry(cfg!(target_endian = "big"));
        let at = index * Remote::LEN as u64;
        assert_eq!(self.write(self.theirs.table, at, &bytes, None), WcStatus::Success);
    }

    /// What the socket says next.
    pub fn heard(&mut self) -> Message {
        let end = Instant::now() + LONG;
        loop {
            assert!(Instant::now() < end, "the socket says nothing");
            if !self.received.is_empty() {
                let wc = self.received.remove(0);
                return Message::decode(wc.imm.expect("with immediate")).expect("a message");
            }
            if self.poll().is_none() {
                std::thread::yield_now();
            }
        }
    }

    /// Whether the socket has said anything.
    pub fn has_heard(&mut self) -> bool {
        while self.poll().is_some() {}
        !self.received.is_empty()
    }

    /// Bytes that the socket has written.
    pub fn read(&self, from: &Registered, at: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        from.region.read(at, &mut bytes).expect("inside");
        bytes
    }
}

fn hello(data: Remote) -> PrivateData {
    PrivateData {
        big_endian: cfg!(target_endian = "big"),
        credits: CREDITS,
        table: Remote { addr: 0, rkey: 0, length: ENTRIES },
        iomaps: IOMAPS,
        data,
    }
}

pub(super) const RESET: Errno = Errno(libc::ECONNRESET);
