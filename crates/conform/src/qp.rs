//! A queue pair under test, seen from the other end.

use std::cell::Cell;
use std::time::Duration;

use uroce_wire::{AtomicEth, Deth, Mtu, Opcode, Psn, Qpn, Reth, Service, XrcEth};

use crate::memory::Region;
use crate::stock::{Refusal, needs_agent, refusal};
use crate::{Application, Bench, Kind, Link, Packet, Stop, Takes, pattern};

/// Queue key of datagram queue pairs.
pub(crate) const QKEY: u32 = 0x1111_1111;

/// A queue pair under test, seen from the other end. PSNs count from the first of their direction: 0 is the first.
pub struct Qp<'b, 'r> {
    pub(crate) bench: &'b Bench<'r>,
    pub(crate) kind: Kind,
    /// The application that has made it.
    pub app: Application<'b, 'r>,
    /// Its queue pair number.
    pub(crate) qpn: u32,
    /// The tester's queue pair number.
    pub(crate) own_qpn: u32,
    /// The first PSN of requests of the tester.
    pub(crate) first: Psn,
    /// The first PSN of its own requests.
    pub(crate) peer_first: Psn,
    mtu: Mtu,
    /// The number of the XRC shared receive queue for its receives; 0 if there is none.
    pub(crate) srqn: u32,
    /// The newest PSN of its requests.
    pub(crate) newest: Cell<i32>,
    /// What it takes, if a stock program made it; `None`: all that the case asked the agent for.
    takes: Option<Takes>,
}

impl<'b, 'r> Qp<'b, 'r> {
    pub(crate) fn new(
        bench: &'b Bench<'r>,
        kind: Kind,
        (id, qpn): (u32, u32),
        link: &Link,
        region: Region,
        inbox: Region,
        receive_bytes: u32,
    ) -> Self {
        Qp {
            bench,
            kind,
            app: Application::new(bench, id, region, inbox, receive_bytes),
            qpn,
            own_qpn: link.qpn,
            first: Psn::new(link.rq_psn),
            peer_first: Psn::new(link.sq_psn),
            mtu: Mtu::from_code(link.mtu).unwrap_or(Mtu::M256),
            srqn: 0,
            newest: Cell::new(-1),
            takes: None,
        }
    }

    /// Connection management has agreed on the tester's queue pair, on the first PSNs of requests of the tester and of
    /// its own, and on the path MTU.
    pub(crate) fn is_connected(&mut self, own: Qpn, (first, peer_first): (Psn, Psn), mtu: u8) {
        (self.own_qpn, self.first, self.peer_first) = (own.get(), first, peer_first);
        self.mtu = Mtu::from_code(mtu).unwrap_or(Mtu::M256);
    }

    /// A stock program made it, and it takes this.
    pub(crate) fn of_program(self, takes: Takes) -> Self {
        Qp { takes: Some(takes), app: self.app.of_program(), ..self }
    }

    /// Payload bytes of a full packet.
    pub fn mtu(&self) -> usize {
        self.mtu.bytes()
    }

    /// Its queue pair number.
    pub fn qpn(&self) -> u32 {
        self.qpn
    }

    /// Address of byte `offset` of its region.
    pub fn at(&self, offset: usize) -> u64 {
        self.app.region.va.wrapping_add(offset as u64)
    }

    /// Remote key of its region.
    pub fn rkey(&self) -> u32 {
        self.app.region.rkey
    }

    /// Bytes of its region.
    pub fn region_bytes(&self) -> usize {
        self.app.region_bytes()
    }

    pub(crate) fn service(&self) -> Service {
        match self.kind {
            Kind::Rc => Service::Rc,
            Kind::Uc => Service::Uc,
            Kind::Ud => Service::Ud,
            Kind::XrcSend | Kind::XrcReceive => Service::Xrc,
        }
    }

    /// A request with the operation and position of this RC opcode and `length` bytes of
    /// [`pattern(1, ..)`](crate::pattern), right in every respect: it is about the start of the region.
    pub fn packet(&self, opcode: Opcode, length: usize) -> Packet {
        self.exactly(opcode.of_service(self.service()), length)
    }

    /// The same with this very opcode, whatever its service.
    pub fn exactly(&self, opcode: Opcode, length: usize) -> Packet {
        let mut packet = Packet::new(opcode, self.qpn, self.first, pattern(1, length));
        let (va, rkey) = (self.app.region.va, self.app.region.rkey);
        packet.reth = packet.reth.map(|_| Reth { va, rkey, length: length as u32 });
        packet.atomic = packet.atomic.map(|atomic| AtomicEth { va, rkey, ..atomic });
        let src_qpn = Qpn::new(self.own_qpn);
        packet.deth = packet.deth.map(|_| Deth { qkey: QKEY, src_qpn });
        packet.xrc = packet.xrc.map(|_| XrcEth { srqn: self.srqn });
        packet
    }

    /// SEND of one packet.
    pub fn send(&self, length: usize) -> Packet {
        self.packet(Opcode::RC_SEND_ONLY, length)
    }

    /// WRITE of one packet to the start of the region.
    pub fn write(&self, length: usize) -> Packet {
        self.packet(Opcode::RC_WRITE_ONLY, length)
    }

    /// READ from the start of the region.
    pub fn read(&self, length: usize) -> Packet {
        self.packet(Opcode::RC_READ_REQUEST, 0).dma_length(length)
    }

    /// Fetch and add on the first word of the region.
    pub fn fetch_add(&self, add: u64) -> Packet {
        let mut packet = self.packet(Opcode::RC_FETCH_ADD, 0);
        packet.atomic = packet.atomic.map(|atomic| AtomicEth { swap_add: add, ..atomic });
        packet
    }

    /// Compare and swap on the first word of the region.
    pub fn compare_swap(&self, compare: u64, swap_add: u64) -> Packet {
        let mut packet = self.packet(Opcode::RC_COMPARE_SWAP, 0);
        packet.atomic = packet.atomic.map(|atomic| AtomicEth { compare, swap_add, ..atomic });
        packet
    }

    /// SEND of one packet that invalidates a key.
    pub fn send_invalidate(&self, length: usize, key: u32) -> Packet {
        let mut packet = self.packet(Opcode::RC_SEND_ONLY_INV, length);
        packet.invalidate = Some(key);
        packet
    }

    /// A request without an effect that it must answer with an ACK of its kind: an empty WRITE, which needs neither key
    /// nor receive (C9-88). A queue pair of a stock program that takes no WRITE gets an empty READ, a fetch and add of 0, or
    /// an empty SEND.
    pub(crate) fn probe(&self) -> Packet {
        match self.takes {
            Some(Takes { write: false, read: true, .. }) => self.read(0),
            Some(Takes { write: false, atomic: true, .. }) => self.fetch_add(0),
            Some(Takes { write: false, .. }) => self.send(0),
            _ => self.write(0),
        }
    }

    /// Whether the packet can be judged, if a stock program made the queue pair.
    pub(crate) fn judgeable(&self, packet: &Packet) -> Result<(), Stop> {
        let Some(takes) = self.takes else { return Ok(()) };
        if self.bench.newest.get() != self.own_qpn {
            return needs_agent("two queue pairs at a time");
        }
        match refusal(packet, takes, &self.app.region) {
            Ok(()) => Ok(()),
            Err(Refusal::NeedsAgent(what)) => needs_agent(what),
            Err(Refusal::Takes(missing)) => {
                needs_agent(&format!("no program takes {}", self.bench.need(missing)))
            }
        }
    }

    /// Sends a packet.
    ///
    /// # Errors
    /// It cannot be sent, or not to the queue pair of a stock program.
    pub fn tx(&self, packet: &Packet) -> Result<(), Stop> {
        self.judgeable(packet)?;
        self.bench.player.borrow_mut().send(packet)
    }

    /// Sends packets one after the other.
    ///
    /// # Errors
    /// One cannot be sent.
    pub fn tx_all<'p>(&self, packets: impl IntoIterator<Item = &'p Packet>) -> Result<(), Stop> {
        packets.into_iter().try_for_each(|packet| self.tx(packet))
    }

    /// Time since the run began.
    pub fn now(&self) -> Duration {
        self.bench.player.borrow().now()
    }
}
