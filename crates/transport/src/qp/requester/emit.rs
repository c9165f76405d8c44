//! The bytes of a request packet.

use uroce_memory::{MemTable, Sge};
use uroce_wire::{
    AtomicEth, Bth, Deth, Feth, HeaderWriter, ICRC_LEN, Ieth, ImmDt, MORE_PARTS, Operation, Psn,
    Reth, Service, opcode_for,
};

use super::segment::{Segment, carries_payload, takes_receive};
use super::send_queue::{Payload, SendQueue, SendWqe};
use crate::attr::QpType;
use crate::cause::Cause;
use crate::context::{Path, Step, Transmit};
use crate::limits;
use crate::qp::config::{QpConfig, pad_of};
use crate::wc_status::WcStatus;
use crate::wr::{SendFlags, SendOp};

/// Why the oldest request cannot be sent.
pub(crate) type Failure = (WcStatus, Cause);

/// A packet of a request.
pub(super) struct RequestPacket<'a> {
    pub(super) config: &'a QpConfig,
    pub(super) queue: &'a SendQueue,
    pub(super) wqe: &'a SendWqe,
    pub(super) psn: Psn,
    pub(super) ack_req: bool,
    /// The last PSN that a READ REQUEST asks for.
    pub(super) read_last: Psn,
    /// Reserved bits beside AckReq that selective repeat wants.
    pub(super) reserved7: u8,
}

impl RequestPacket<'_> {
    /// Writes it.
    pub(super) fn write(&self, out: &mut [u8], mem: &MemTable) -> Result<Transmit, Failure> {
        let (config, wqe) = (self.config, self.wqe);
        let piece = Segment::of(wqe, self.psn, config.mtu());
        let header_len = self.write_headers(&piece, out).ok_or((
            WcStatus::LocQpOpErr,
            Cause::NotOnThisQp { qp_type: config.init.qp_type.name() },
        ))?;
        let body = if carries_payload(&wqe.op) { piece.length } else { 0 };
        let end = header_len + body;
        self.gather(piece.offset, &mut out[header_len..end], mem)?;
        let pad = pad_of(body);
        out[end..end + pad].fill(0);
        let step = step_of(wqe, &piece);
        Ok(Transmit { len: end + pad + ICRC_LEN, path: self.path(), step })
    }

    fn write_headers(&self, piece: &Segment, out: &mut [u8]) -> Option<usize> {
        let (config, wqe) = (self.config, self.wqe);
        let service = config.service();
        let (operation, imm, inv) = classify(&wqe.op);
        let with_imm = imm.is_some() && piece.ends();
        let with_inv = inv.is_some() && piece.ends();
        let position = piece.position(operation);
        let opcode = opcode_for(service, operation, position, with_imm, with_inv)?;
        let ud = self.queue.destination(wqe).filter(|_| service == Service::Ud);
        let dest = ud.map_or(config.peer_qpn(), |ud| ud.qpn);
        let mut bth = Bth::new(opcode, dest, self.psn);
        let body = if carries_payload(&wqe.op) { piece.length } else { 0 };
        bth.pad = pad_of(body) as u8;
        bth.solicited =
            piece.ends() && wqe.flags.contains(SendFlags::SOLICITED) && takes_receive(&wqe.op);
        bth.ack_req = self.ack_req && config.init.qp_type.is_reliable();
        let more = if wqe.split && !piece.ends() { MORE_PARTS } else { 0 };
        bth.reserved7 = self.reserved7 | more;
        let mut writer = HeaderWriter::new(out);
        writer.put(&bth)?;
        if let Some(xrceth) = config.xrceth_of(wqe.srqn) {
            writer.put(&xrceth)?;
        }
        if let Some(ud) = ud {
            // R7: a privileged Q_Key stands for the QP's own.
            let qkey = if ud.qkey >> 31 == 1 { config.attr.qkey } else { ud.qkey };
            writer.put(&Deth { qkey, src_qpn: config.init.qpn })?;
        }
        self.write_remote(piece, &mut writer)?;
        if let Some(imm) = imm.filter(|_| with_imm) {
            writer.put(&ImmDt(imm))?;
        }
        if let Some(rkey) = inv.filter(|_| with_inv) {
            writer.put(&Ieth(rkey))?;
        }
        Some(writer.len())
    }

    /// RETH, AtomicETH, FETH: what the request does to the peer's memory.
    fn write_remote(&self, piece: &Segment, writer: &mut HeaderWriter<'_>) -> Option<()> {
        let wqe = self.wqe;
        match wqe.op {
            SendOp::Write { va, rkey } | SendOp::WriteWithImm { va, rkey, .. }
                if piece.starts() || wqe.split =>
            {
                let length = if wqe.split { piece.length as u64 } else { wqe.length };
                let va = va.wrapping_add(piece.offset);
                writer.put(&Reth { va, rkey: rkey.0, length: length as u32 })?;
            }
            SendOp::Read { va, rkey } => {
                let packets = self.read_last.since(wqe.first_psn) as u64 + 1;
                let end = packets * self.config.mtu();
                let length = (end.min(wqe.length) - piece.offset) as u32;
                writer.put(&Reth { va: va.wrapping_add(piece.offset), rkey: rkey.0, length })?;
            }
            SendOp::CompareSwap { va, rkey, compare, swap } => {
                writer.put(&AtomicEth { va, rkey: rkey.0, swap_add: swap, compare })?;
            }
            SendOp::FetchAdd { va, rkey, add } => {
                writer.put(&AtomicEth { va, rkey: rkey.0, swap_add: add, compare: 0 })?;
            }
            SendOp::AtomicWrite { va, rkey } => {
                writer.put(&Reth { va, rkey: rkey.0, length: 8 })?;
            }
            SendOp::Flush { va, rkey, length, placement, selectivity } => {
                writer.put(&Feth { placement, selectivity })?;
                writer.put(&Reth { va, rkey: rkey.0, length })?;
            }
            _ => {}
        }
        Some(())
    }

    /// Copies payload bytes `offset..offset + out.len()` into `out`.
    fn gather(&self, offset: u64, out: &mut [u8], mem: &MemTable) -> Result<(), Failure> {
        if out.is_empty() {
            return Ok(());
        }
        match self.queue.payload(self.wqe) {
            Payload::Inline(head, tail) => {
                let bytes = head.iter().chain(tail).skip(offset as usize);
                out.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
                Ok(())
            }
            payload @ Payload::Sges(..) => with_sges(payload, |sges| {
                mem.gather(self.config.init.pd, sges, offset, out)
                    .map_err(|e| local_buffer(sges, e))
            }),
        }
    }

    fn path(&self) -> Path {
        match self.queue.destination(self.wqe) {
            Some(ud) if self.config.init.qp_type == QpType::Ud => self.config.path_to(&ud.av),
            _ => self.config.path(),
        }
    }
}

fn step_of(wqe: &SendWqe, piece: &Segment) -> Step {
    let write = matches!(wqe.op, SendOp::Write { .. } | SendOp::WriteWithImm { .. });
    match piece.ends() {
        true => Step::Ends,
        false if write && piece.starts() && !wqe.split => Step::Leads,
        false => Step::Within,
    }
}

fn classify(op: &SendOp) -> (Operation, Option<u32>, Option<u32>) {
    match *op {
        SendOp::SendWithImm(imm) => (Operation::Send, Some(imm), None),
        SendOp::SendWithInvalidate(rkey) => (Operation::Send, None, Some(rkey.0)),
        SendOp::Write { .. } => (Operation::Write, None, None),
        SendOp::WriteWithImm { imm, .. } => (Operation::Write, Some(imm), None),
        SendOp::Read { .. } => (Operation::ReadRequest, None, None),
        SendOp::CompareSwap { .. } => (Operation::CompareSwap, None, None),
        SendOp::FetchAdd { .. } => (Operation::FetchAdd, None, None),
        SendOp::AtomicWrite { .. } => (Operation::AtomicWrite, None, None),
        SendOp::Flush { .. } => (Operation::Flush, None, None),
        SendOp::Send | SendOp::LocalInvalidate(_) | SendOp::BindMw { .. } => {
            (Operation::Send, None, None)
        }
    }
}

/// Lends the entries of a payload as one slice; they are copied only where the ring wraps.
pub(super) fn with_sges<R>(payload: Payload<'_>, run: impl FnOnce(&[Sge]) -> R) -> R {
    match payload {
        Payload::Sges(head, []) => run(head),
        Payload::Sges(head, tail) => {
            let mut joined = [Sge::default(); limits::MAX_SGE as usize];
            let count = (head.len() + tail.len()).min(joined.len());
            for (to, from) in joined.iter_mut().zip(head.iter().chain(tail)) {
                *to = *from;
            }
            run(&joined[..count])
        }
        Payload::Inline(..) => run(&[]),
    }
}

pub(super) fn local_buffer(sges: &[Sge], error: uroce_memory::SgeError) -> Failure {
    let lkey = sges.get(error.index).map_or(0, |sge| sge.lkey.0);
    let cause = Cause::LocalBuffer { index: error.index as u32, lkey, error: error.error };
    (WcStatus::LocProtErr, cause)
}
