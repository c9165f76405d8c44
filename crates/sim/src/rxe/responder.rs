//! The responder of the model: what it accepts, refuses, puts off and answers again.

use std::collections::VecDeque;

use uroce_device::memory::Sge;
use uroce_device::transport::{WcOpcode, WcStatus};
use uroce_wire::{
    Aeth, AtomicAckEth, AtomicEth, NakCode, Operation, Packet, Position, Reth, Service, Syndrome,
    opcode_for,
};

use super::packet::PacketWriter;
use super::{Io, RxeLink};
use crate::monitor::PsnLine;

/// A receive work request.
#[derive(Debug)]
pub(super) struct RxeReceive {
    pub(super) wr_id: u64,
    pub(super) sges: Vec<Sge>,
}

/// A message of which the first packet has arrived.
#[derive(Debug, Clone, Copy)]
struct OpenMessage {
    operation: Operation,
    /// Bytes that have arrived.
    arrived: usize,
    /// Where a WRITE goes.
    va: u64,
}

/// A READ or atomic operation that may come again.
#[derive(Debug, Clone, Copy)]
enum SavedAnswer {
    /// A READ with its first PSN and one past its last one, and what of it may be asked for again.
    Read {
        first: u64,
        end: u64,
        reth: Reth,
    },
    Atomic {
        psn: u64,
        original: u64,
    },
}

/// What has arrived from the peer.
#[derive(Debug)]
pub(super) struct RxeResponder {
    line: PsnLine,
    expected: u64,
    msn: u32,
    /// A NAK was sent for the gap before what has arrived.
    has_sent_nak: bool,
    pub(super) receives: VecDeque<RxeReceive>,
    message: Option<OpenMessage>,
    replays: VecDeque<SavedAnswer>,
}

impl RxeResponder {
    pub(super) fn new(start: u32) -> RxeResponder {
        let line = PsnLine::new(start);
        RxeResponder {
            line,
            expected: line.start(),
            msn: 0,
            has_sent_nak: false,
            receives: VecDeque::new(),
            message: None,
            replays: VecDeque::new(),
        }
    }

    /// A request. An error is a NAK that ends the connection.
    pub(super) fn handle_request(
        &mut self,
        packet: &Packet<'_>,
        io: &mut Io<'_>,
    ) -> Result<(), NakCode> {
        let psn = self.line.extend(packet.bth.psn, self.expected);
        if psn > self.expected {
            // One NAK for a gap. An RNR NAK does not count as one.
            if !std::mem::replace(&mut self.has_sent_nak, true) {
                io.counters.naks_sent += 1;
                self.acknowledge(self.expected, Syndrome::nak(NakCode::PsnSequence), io);
            }
            return Ok(());
        }
        if psn < self.expected {
            self.answer_again(packet, psn, io);
            return Ok(());
        }
        self.has_sent_nak = false;
        self.check_order(packet)?;
        if self.lacks_receive(packet) {
            io.counters.rnr_naks_sent += 1;
            self.acknowledge(psn, Syndrome::rnr(io.link.min_rnr_timer), io);
            return Ok(());
        }
        self.execute(packet, psn, io)
    }

    /// Sends the NAK that ends the connection.
    pub(super) fn refuse(&self, code: NakCode, io: &mut Io<'_>) {
        self.acknowledge(self.expected, Syndrome::nak(code), io);
    }

    fn acknowledge(&self, psn: u64, syndrome: Syndrome, io: &mut Io<'_>) {
        let opcode = opcode_for(Service::Rc, Operation::Acknowledge, Position::Only, false, false);
        let writer = PacketWriter::new(opcode.expect("it exists"), io.link.dest, psn);
        io.send(writer.with(&Aeth { syndrome, msn: self.msn }).payload(&[]));
    }

    /// First packets and those behind them.
    fn check_order(&self, packet: &Packet<'_>) -> Result<(), NakCode> {
        let goes_on = self.message.is_some_and(|m| m.operation == packet.info.operation);
        let holds = if packet.info.starts() { self.message.is_none() } else { goes_on };
        if holds { Ok(()) } else { Err(NakCode::InvalidRequest) }
    }

    fn lacks_receive(&self, packet: &Packet<'_>) -> bool {
        let needs = match packet.info.operation {
            Operation::Send => true,
            Operation::Write => packet.immdt().is_some(),
            _ => false,
        };
        needs && self.receives.is_empty()
    }

    fn execute(&mut self, packet: &Packet<'_>, psn: u64, io: &mut Io<'_>) -> Result<(), NakCode> {
        match packet.info.operation {
            Operation::Send | Operation::Write => self.take_message(packet, io)?,
            Operation::ReadRequest => {
                let reth = packet.reth().ok_or(NakCode::InvalidRequest)?;
                check_range(&reth, io)?;
                let end = psn + packets(&reth, io.link);
                self.remember(SavedAnswer::Read { first: psn, end, reth }, io.link);
                (self.msn, self.expected) = (self.msn + 1, end);
                self.send_read(&reth, psn, io);
                return Ok(());
            }
            Operation::FetchAdd | Operation::CompareSwap => {
                let eth = packet.atomic_eth().ok_or(NakCode::InvalidRequest)?;
                let original = run_atomic(packet.info.operation, &eth, io)?;
                self.remember(SavedAnswer::Atomic { psn, original }, io.link);
                (self.msn, self.expected) = (self.msn + 1, psn + 1);
                self.send_atomic(psn, original, io);
                return Ok(());
            }
            _ => return Err(NakCode::InvalidRequest),
        }
        self.expected = psn + 1;
        self.msn += u32::from(packet.info.ends());
        if packet.bth.ack_req {
            self.acknowledge(psn, Syndrome::ack(Syndrome::ACK_UNLIMITED), io);
        }
        Ok(())
    }

    /// A packet of a SEND or a WRITE.
    fn take_message(&mut self, packet: &Packet<'_>, io: &mut Io<'_>) -> Result<(), NakCode> {
        let (payload, operation) = (packet.payload(), packet.info.operation);
        let is_short = payload.len() != io.link.mtu && !packet.info.ends();
        if is_short || payload.len() > io.link.mtu {
            return Err(NakCode::InvalidRequest);
        }
        let message = match self.message {
            Some(message) => message,
            None => {
                let reth = packet.reth().filter(|_| operation == Operation::Write);
                reth.map_or(Ok(()), |reth| check_range(&reth, io))?;
                let va = reth.map_or(0, |reth| reth.va);
                OpenMessage { operation, arrived: 0, va }
            }
        };
        if operation == Operation::Write {
            let va = message.va.wrapping_add(message.arrived as u64);
            if !payload.is_empty() {
                let at = io.memory.offset(va, payload.len()).ok_or(NakCode::RemoteAccess)?;
                io.memory.region.write(at, payload).map_err(|_| NakCode::RemoteAccess)?;
            }
        } else {
            let receive = self.receives.front().ok_or(NakCode::RemoteOperational)?;
            let placed = io.memory.scatter(&receive.sges, message.arrived, payload);
            placed.ok_or(NakCode::InvalidRequest)?;
        }
        let message = OpenMessage { arrived: message.arrived + payload.len(), ..message };
        self.message = Some(message).filter(|_| !packet.info.ends());
        let imm = packet.immdt();
        let opcode = match operation {
            Operation::Send => WcOpcode::Recv,
            _ if imm.is_some() => WcOpcode::RecvRdmaWithImm,
            _ => return Ok(()),
        };
        if let Some(receive) = packet.info.ends().then(|| self.receives.pop_front()).flatten() {
            let length = message.arrived as u32;
            io.complete_receive(receive.wr_id, opcode, length, imm, WcStatus::Success);
        }
        Ok(())
    }

    fn remember(&mut self, replay: SavedAnswer, link: &RxeLink) {
        while self.replays.len() >= usize::from(link.rd_atomic).next_power_of_two() {
            self.replays.pop_front();
        }
        self.replays.push_back(replay);
    }

    /// A request that has come before.
    fn answer_again(&mut self, packet: &Packet<'_>, psn: u64, io: &mut Io<'_>) {
        io.counters.duplicates += 1;
        match packet.info.operation {
            Operation::Send | Operation::Write => {
                let good = Syndrome::ack(Syndrome::ACK_UNLIMITED);
                self.acknowledge(self.expected - 1, good, io);
            }
            Operation::ReadRequest => {
                let Some(again) = packet.reth() else { return };
                let read = self.replays.iter_mut().find_map(|replay| match replay {
                    // By its PSN: the ranges of two READs may overlap.
                    SavedAnswer::Read { first, end, reth } if (*first..*end).contains(&psn) => {
                        Some(reth)
                    }
                    _ => None,
                });
                let read = read.filter(|read| is_part_of(&again, read));
                let Some(read) = read.filter(|_| check_range(&again, io).is_ok()) else { return };
                // A habit of rxe: it never answers what is before this part again.
                *read = Reth {
                    va: again.va,
                    length: (end(read) - u128::from(again.va)) as u32,
                    ..*read
                };
                self.send_read(&again, psn, io);
            }
            _ => {
                let known = self.replays.iter().find_map(|replay| match *replay {
                    SavedAnswer::Atomic { psn: own, original } if own == psn => Some(original),
                    _ => None,
                });
                if let Some(original) = known {
                    self.send_atomic(psn, original, io);
                }
            }
        }
    }

    /// All responses of a READ at once, from what the memory holds now.
    fn send_read(&self, reth: &Reth, psn: u64, io: &mut Io<'_>) {
        let count = packets(reth, io.link);
        for index in 0..count {
            let position = match (index == 0, index + 1 == count) {
                (true, true) => Position::Only,
                (true, false) => Position::First,
                (false, true) => Position::Last,
                (false, false) => Position::Middle,
            };
            let skip = index as usize * io.link.mtu;
            let mut payload = vec![0; (reth.length as usize - skip).min(io.link.mtu)];
            let offset = io.memory.offset(reth.va.wrapping_add(skip as u64), payload.len());
            if let Some(offset) = offset {
                io.memory.region.read(offset, &mut payload).expect("inside the region");
            }
            let opcode = opcode_for(Service::Rc, Operation::ReadResponse, position, false, false);
            let aeth = Aeth { syndrome: Syndrome::ack(Syndrome::ACK_UNLIMITED), msn: self.msn };
            let has_aeth = position != Position::Middle;
            let writer = PacketWriter::new(opcode.expect("it exists"), io.link.dest, psn + index);
            io.send(writer.with_some(has_aeth.then_some(aeth)).payload(&payload));
        }
    }

    fn send_atomic(&self, psn: u64, original: u64, io: &mut Io<'_>) {
        let operation = Operation::AtomicAcknowledge;
        let opcode = opcode_for(Service::Rc, operation, Position::Only, false, false);
        let writer = PacketWriter::new(opcode.expect("it exists"), io.link.dest, psn);
        let aeth = Aeth { syndrome: Syndrome::ack(Syndrome::ACK_UNLIMITED), msn: self.msn };
        io.send(writer.with(&aeth).with(&AtomicAckEth { original }).payload(&[]));
    }
}

/// PSNs that a READ takes.
fn packets(reth: &Reth, link: &RxeLink) -> u64 {
    (reth.length as usize).div_ceil(link.mtu).max(1) as u64
}

/// The key and the range of an access. Those of an empty one are not looked at.
fn check_range(reth: &Reth, io: &Io<'_>) -> Result<(), NakCode> {
    let is_inside = io.memory.offset(reth.va, reth.length as usize).is_some();
    let holds = reth.length == 0 || reth.rkey == io.memory.key && is_inside;
    if holds { Ok(()) } else { Err(NakCode::RemoteAccess) }
}

/// True if a READ that comes again asks for a part of the first one.
fn is_part_of(again: &Reth, first: &Reth) -> bool {
    again.rkey == first.rkey && again.va >= first.va && end(again) <= end(first)
}

/// One past the last byte.
fn end(reth: &Reth) -> u128 {
    u128::from(reth.va) + u128::from(reth.length)
}

/// Executes an atomic operation. Gives what the word was before.
fn run_atomic(operation: Operation, eth: &AtomicEth, io: &Io<'_>) -> Result<u64, NakCode> {
    if !eth.va.is_multiple_of(8) {
        return Err(NakCode::InvalidRequest);
    }
    let offset = io.memory.offset(eth.va, 8).filter(|_| eth.rkey == io.memory.key);
    let offset = offset.ok_or(NakCode::RemoteAccess)?;
    let original = io.memory.region.load_u64(offset).map_err(|_| NakCode::RemoteAccess)?;
    let new = match operation {
        Operation::FetchAdd => original.wrapping_add(eth.swap_add),
        _ if original == eth.compare => eth.swap_add,
        _ => original,
    };
    io.memory.region.store_u64(offset, new).map_err(|_| NakCode::RemoteAccess)?;
    Ok(original)
}
