//! The bytes of a request packet.

use uroce_memory::Sge;
use uroce_wire::{
    AtomicEth, Bth, Deth, Feth, HeaderWriter, ICRC_LEN, Ieth, ImmDt, Operation, Psn, Reth, Service,
    XrcEth, opcode_for,
};

use crate::attr::QpType;
use crate::cause::Cause;
use crate::context::{Context, Path, Step, Transmit};
use crate::limits;
use crate::qp::config::QpConfig;
use crate::qp::config::pad_of;
use crate::qp::requester::Requester;
use crate::qp::requester::segment::{Segment, carries_payload, takes_receive};
use crate::qp::requester::send_queue::{Payload, SendWqe};
use crate::wc::WcStatus;
use crate::wr::{SendFlags, SendOp};

/// Why the oldest request cannot be sent.
pub(crate) type Failure = (WcStatus, Cause);

impl Requester {
    /// Writes the packet of `wqe` that carries the requester's current PSN.
    pub(crate) fn emit_request(
        &self,
        config: &QpConfig,
        wqe: &SendWqe,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Result<Transmit, Failure> {
        let psn = self.psn;
        let piece = Segment::of(wqe, psn, config.mtu());
        let header_len = self.write_headers(config, wqe, psn, &piece, out).ok_or((
            WcStatus::LocQpOpErr,
            Cause::NotOnThisQp { qp_type: config.init.qp_type.name() },
        ))?;
        let body = if carries_payload(&wqe.op) { piece.length } else { 0 };
        let end = header_len + body;
        self.gather(config, wqe, piece.offset, &mut out[header_len..end], cx)?;
        let pad = pad_of(body);
        out[end..end + pad].fill(0);
        let step = step_of(wqe, &piece);
        Ok(Transmit { len: end + pad + ICRC_LEN, path: self.path_of(config, wqe), step })
    }

    fn write_headers(
        &self,
        config: &QpConfig,
        wqe: &SendWqe,
        psn: Psn,
        piece: &Segment,
        out: &mut [u8],
    ) -> Option<usize> {
        let service = config.service();
        let (operation, imm, inv) = classify(&wqe.op);
        let with_imm = imm.is_some() && piece.ends();
        let with_inv = inv.is_some() && piece.ends();
        let position = piece.position(operation);
        let opcode = opcode_for(service, operation, position, with_imm, with_inv)?;
        let ud = self.send_queue.destination(wqe).filter(|_| service == Service::Ud);
        let dest = ud.map_or(config.peer_qpn(), |ud| ud.qpn);
        let mut bth = Bth::new(opcode, dest, psn);
        let body = if carries_payload(&wqe.op) { piece.length } else { 0 };
        bth.pad = pad_of(body) as u8;
        bth.solicited =
            piece.ends() && wqe.flags.contains(SendFlags::SOLICITED) && takes_receive(&wqe.op);
        bth.ack_req = config.init.qp_type.is_reliable() && self.wants_ack(config, wqe, piece);
        let mut writer = HeaderWriter::new(out);
        writer.put(&bth)?;
        if let Some(xrceth) = self.xrceth_of(config, wqe) {
            writer.put(&xrceth)?;
        }
        if let Some(ud) = ud {
            // R7: a privileged Q_Key stands for the QP's own.
            let qkey = if ud.qkey >> 31 == 1 { config.attr.qkey } else { ud.qkey };
            writer.put(&Deth { qkey, src_qpn: config.init.qpn })?;
        }
        self.write_remote(config, wqe, psn, piece, &mut writer)?;
        if let Some(imm) = imm.filter(|_| with_imm) {
            writer.put(&ImmDt(imm))?;
        }
        if let Some(rkey) = inv.filter(|_| with_inv) {
            writer.put(&Ieth(rkey))?;
        }
        Some(writer.len())
    }

    /// X2: what stands right behind the BTH of every request of XRC.
    pub(crate) fn xrceth_of(&self, config: &QpConfig, wqe: &SendWqe) -> Option<XrcEth> {
        let srqn = wqe.srqn.filter(|_| config.init.qp_type == QpType::XrcIni)?;
        Some(XrcEth { srqn })
    }

    /// RETH, AtomicETH, FETH: what the request does to the peer's memory.
    fn write_remote(
        &self,
        config: &QpConfig,
        wqe: &SendWqe,
        psn: Psn,
        piece: &Segment,
        writer: &mut HeaderWriter<'_>,
    ) -> Option<()> {
        match wqe.op {
            SendOp::Write { va, rkey } | SendOp::WriteWithImm { va, rkey, .. }
                if piece.starts() =>
            {
                writer.put(&Reth { va, rkey: rkey.0, length: wqe.length as u32 })?;
            }
            SendOp::Read { va, rkey } => {
                let last = self.read_request_last(psn, self.read_piece_last(config, wqe, psn));
                let end = (last.since(wqe.first_psn) as u64 + 1) * config.mtu();
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

    /// Copies payload bytes `offset..offset + out.len()` of `wqe` into `out`.
    fn gather(
        &self,
        config: &QpConfig,
        wqe: &SendWqe,
        offset: u64,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Result<(), Failure> {
        if out.is_empty() {
            return Ok(());
        }
        match self.send_queue.payload(wqe) {
            Payload::Inline(head, tail) => {
                let bytes = head.iter().chain(tail).skip(offset as usize);
                out.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
                Ok(())
            }
            payload @ Payload::Sges(..) => with_sges(payload, |sges| {
                cx.mem.gather(config.init.pd, sges, offset, out).map_err(|e| local_buffer(sges, e))
            }),
        }
    }

    /// Writes response bytes to payload bytes from `offset` on of `wqe`.
    pub(crate) fn scatter_response(
        &self,
        config: &QpConfig,
        wqe: &SendWqe,
        offset: u64,
        data: &[u8],
        cx: &mut Context<'_>,
    ) -> Result<(), Failure> {
        if data.is_empty() {
            return Ok(());
        }
        with_sges(self.send_queue.payload(wqe), |sges| {
            cx.mem.scatter(config.init.pd, sges, offset, data).map_err(|e| local_buffer(sges, e))
        })
    }

    fn path_of(&self, config: &QpConfig, wqe: &SendWqe) -> Path {
        match self.send_queue.destination(wqe) {
            Some(ud) if config.init.qp_type == QpType::Ud => config.path_to(&ud.av),
            _ => config.path(),
        }
    }
}

fn step_of(wqe: &SendWqe, piece: &Segment) -> Step {
    let write = matches!(wqe.op, SendOp::Write { .. } | SendOp::WriteWithImm { .. });
    match piece.ends() {
        true => Step::Ends,
        false if write && piece.starts() => Step::Leads,
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
fn with_sges<R>(payload: Payload<'_>, run: impl FnOnce(&[Sge]) -> R) -> R {
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

fn local_buffer(sges: &[Sge], error: uroce_memory::SgeError) -> Failure {
    let lkey = sges.get(error.index).map_or(0, |sge| sge.lkey.0);
    let cause = Cause::LocalBuffer { index: error.index as u32, lkey, error: error.error };
    (WcStatus::LocProtErr, cause)
}
