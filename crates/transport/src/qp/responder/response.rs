//! Answers that wait to be sent, in PSN order, and their packets.

use uroce_memory::{Access, PdId};
use uroce_wire::{
    Aeth, AtomicAckEth, Bth, DropReason, HeaderWriter, ICRC_LEN, NakCode, Opcode, Operation,
    Position, Psn, Syndrome, SyndromeKind, opcode_for, write_cnp,
};

use crate::context::{Context, Path, Step, Transmit};
use crate::limits;
use crate::qp::config::QpConfig;
use crate::qp::config::pad_of;

use super::Responder;

/// The response packets of one READ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadResponse {
    /// PSN of the first packet of this train; later than `base` when it repeats a part.
    pub(super) first: Psn,
    /// PSN of the packet that goes out next.
    pub(super) next: Psn,
    /// PSN of the last packet.
    pub(super) last: Psn,
    /// Address, key and length of the whole READ, which starts at PSN `base`.
    pub(super) va: u64,
    pub(super) rkey: u32,
    pub(super) pd: PdId,
    pub(super) length: u64,
    pub(super) base: Psn,
    pub(super) msn: u32,
}

/// Something to send to the requester.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Response {
    /// ACK, NAK or RNR NAK.
    Ack { psn: Psn, syndrome: Syndrome, msn: u32 },
    /// Result of an atomic.
    Atomic { psn: Psn, msn: u32, original: u64 },
    /// Response to FLUSH and ATOMIC WRITE: an empty READ response.
    Placement { psn: Psn, msn: u32 },
    /// READ responses.
    Read(ReadResponse),
}

impl Response {
    fn psn(&self) -> Psn {
        match self {
            Response::Ack { psn, .. }
            | Response::Atomic { psn, .. }
            | Response::Placement { psn, .. } => *psn,
            Response::Read(train) => train.next,
        }
    }

    pub(super) fn is_plain_ack(&self) -> bool {
        let Response::Ack { syndrome, .. } = self else { return false };
        matches!(syndrome.kind(), SyndromeKind::Ack { .. })
    }

    fn is_ack(&self) -> bool {
        matches!(self, Response::Ack { .. })
    }
}

impl Responder {
    /// Queues an ACK or NAK behind everything else (R49). One that directly follows another takes
    /// its place if its PSN is not lower: it then says all that the older one said. The ACK of a
    /// duplicate has a lower PSN than a NAK that waits, and says nothing new. True if only one of
    /// the two is sent.
    pub(super) fn queue_ack(&mut self, ack: Response) -> bool {
        if let Some(last) = self.responses.back_mut().filter(|last| last.is_ack()) {
            if ack.psn().since(last.psn()) >= 0 {
                *last = ack;
            }
            return true;
        }
        if self.responses.len() < limits::RESPONSE_QUEUE {
            self.responses.push_back(ack);
        }
        false
    }

    /// R54: the packet that a sequence NAK asks for has arrived after all. The NAK also
    /// acknowledged what came before, so an ACK takes its place.
    pub(super) fn retract_nak(&mut self) {
        let nak = Syndrome::nak(NakCode::PsnSequence);
        let Some(Response::Ack { psn, syndrome, .. }) = self.responses.back_mut() else {
            return;
        };
        if *syndrome == nak && *psn == self.expected {
            *syndrome = Syndrome::ack(Syndrome::ACK_UNLIMITED);
            *psn = self.expected.sub(1);
        }
    }

    /// Queues an answer at its place in PSN order. Parts of one READ that do not overlap are answered each; of
    /// two that do, the newer one replaces the older, so that a train in progress is rewound (R62).
    /// `goes_back`: the requester will ask for everything behind it again, so a train that has begun
    /// starts over behind this answer.
    pub(super) fn queue_in_order(&mut self, answer: Response, goes_back: bool) {
        if self.responses.iter().any(|old| waits_already(old, &answer)) {
            return;
        }
        self.responses.retain(|old| !is_replaced(old, &answer));
        if self.responses.len() >= limits::RESPONSE_QUEUE {
            return;
        }
        let psn = answer.psn();
        let at = self.responses.iter().position(|other| other.psn().since(psn) > 0);
        if goes_back
            && at == Some(0)
            && let Some(Response::Read(train)) = self.responses.front_mut()
        {
            train.next = train.first;
        }
        self.responses.insert(at.unwrap_or(self.responses.len()), answer);
    }

    /// Drops the answer to the request with this PSN, which can be given no more.
    pub(super) fn drop_answer(&mut self, key: Psn) {
        self.responses.retain(|answer| answer.is_ack() || key_of(answer) != key);
    }
}

/// True if `old`, which waits, will send what `new` asks for.
fn waits_already(old: &Response, new: &Response) -> bool {
    if old.is_ack() || key_of(old) != key_of(new) {
        return false;
    }
    let (Response::Read(old), Response::Read(new)) = (old, new) else {
        return true;
    };
    let inside = match new.last.since(old.last) {
        0 => old.length == new.length,
        beyond => beyond < 0,
    };
    old.next == old.first && old.first.since(new.first) <= 0 && inside
}

/// True if what is left of `old` and `new` are parts of one READ that overlap.
fn is_replaced(old: &Response, new: &Response) -> bool {
    let (Response::Read(old), Response::Read(new)) = (old, new) else {
        return false;
    };
    old.base == new.base && old.next.since(new.last) <= 0 && new.first.since(old.last) <= 0
}

/// The PSN by which an answer is known: that of its request.
fn key_of(answer: &Response) -> Psn {
    match answer {
        Response::Read(train) => train.base,
        other => other.psn(),
    }
}

impl Responder {
    /// Writes the next answer, if one waits.
    pub(crate) fn poll_response(
        &mut self,
        config: &QpConfig,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        if std::mem::take(&mut self.cnp_due) {
            return self.emit_cnp(config, out);
        }
        let answer = *self.responses.front()?;
        let length = match answer {
            Response::Ack { psn, syndrome, msn } => {
                self.responses.pop_front();
                let opcode = Opcode::RC_ACKNOWLEDGE;
                self.emit_answer(config, opcode, psn, Some(Aeth { syndrome, msn }), None, out)?
            }
            Response::Atomic { psn, msn, original } => {
                self.responses.pop_front();
                self.note_answered(psn, psn);
                let aeth = Aeth { syndrome: Syndrome::ack(Syndrome::ACK_UNLIMITED), msn };
                let result = Some(AtomicAckEth { original });
                self.emit_answer(
                    config,
                    Opcode::RC_ATOMIC_ACKNOWLEDGE,
                    psn,
                    Some(aeth),
                    result,
                    out,
                )?
            }
            Response::Placement { psn, msn } => {
                self.responses.pop_front();
                self.note_answered(psn, psn);
                let aeth = Aeth { syndrome: Syndrome::ack(Syndrome::ACK_UNLIMITED), msn };
                self.emit_answer(config, Opcode::RC_READ_RESPONSE_ONLY, psn, Some(aeth), None, out)?
            }
            Response::Read(train) => match self.emit_read_response(config, &train, out, cx) {
                Some(length) => length,
                None => {
                    cx.counters.drop(DropReason::TxFailed);
                    self.fail_read(config, train.next, cx);
                    return self.poll_nak(config, out);
                }
            },
        };
        Some(Transmit { len: length + ICRC_LEN, path: config.path(), step: Step::Within })
    }

    /// The NAK that [`QueuePair::fail_read`] has just queued.
    fn poll_nak(&mut self, config: &QpConfig, out: &mut [u8]) -> Option<Transmit> {
        let Response::Ack { psn, syndrome, msn } = self.responses.pop_front()? else {
            return None;
        };
        let aeth = Some(Aeth { syndrome, msn });
        let length = self.emit_answer(config, Opcode::RC_ACKNOWLEDGE, psn, aeth, None, out)?;
        Some(Transmit { len: length + ICRC_LEN, path: config.path(), step: Step::Within })
    }

    /// `opcode` is that of RC; XRC has the same under its own service.
    fn emit_answer(
        &self,
        config: &QpConfig,
        opcode: Opcode,
        psn: Psn,
        aeth: Option<Aeth>,
        result: Option<AtomicAckEth>,
        out: &mut [u8],
    ) -> Option<usize> {
        let opcode = opcode.of_service(config.service());
        let mut writer = HeaderWriter::new(out);
        writer.put(&Bth::new(opcode, config.peer_qpn(), psn))?;
        if let Some(aeth) = aeth {
            writer.put(&aeth)?;
        }
        if let Some(result) = result {
            writer.put(&result)?;
        }
        Some(writer.len())
    }

    /// Writes the next packet of a train and moves it on. `None`: the memory is gone (B12).
    fn emit_read_response(
        &mut self,
        config: &QpConfig,
        train: &ReadResponse,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<usize> {
        let mtu = config.attr.path_mtu.bytes() as u64;
        let offset = train.next.since(train.base).max(0) as u64 * mtu;
        let length = train.length.saturating_sub(offset).min(mtu) as usize;
        let position = match (train.next == train.first, train.next == train.last) {
            (true, true) => Position::Only,
            (true, false) => Position::First,
            (false, false) => Position::Middle,
            (false, true) => Position::Last,
        };
        let opcode = opcode_for(config.service(), Operation::ReadResponse, position, false, false)?;
        let mut bth = Bth::new(opcode, config.peer_qpn(), train.next);
        bth.pad = pad_of(length) as u8;
        let mut writer = HeaderWriter::new(out);
        writer.put(&bth)?;
        // R47: MIDDLE has no AETH.
        if position != Position::Middle {
            let syndrome = Syndrome::ack(Syndrome::ACK_UNLIMITED);
            writer.put(&Aeth { syndrome, msn: train.msn })?;
        }
        let start = writer.len();
        if length > 0 {
            let va = train.va.checked_add(offset)?;
            let by = self.requirer_in(config, train.pd);
            let slice =
                cx.mem.check(train.rkey, by, Access::REMOTE_READ, va, length as u64).ok()?;
            slice.copy_out(0, &mut out[start..start + length]).ok()?;
        }
        let end = start + length + pad_of(length);
        out[start + length..end].fill(0);
        self.move_train(train);
        Some(end)
    }

    fn move_train(&mut self, train: &ReadResponse) {
        if train.next == train.last {
            self.responses.pop_front();
            self.note_answered(train.base, train.last);
        } else if let Some(Response::Read(front)) = self.responses.front_mut() {
            front.next = train.next.add(1);
        }
    }

    /// R102, and E17: not in the class of the data, whose queues are full.
    fn emit_cnp(&self, config: &QpConfig, out: &mut [u8]) -> Option<Transmit> {
        let length = write_cnp(out, config.peer_qpn())?;
        let path = Path { traffic_class: limits::CNP_DSCP << 2, ..config.path() };
        Some(Transmit { len: length + ICRC_LEN, path, step: Step::Within })
    }
}
