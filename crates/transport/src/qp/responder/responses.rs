//! Answers that wait to be sent, in PSN order, and their packets.

use std::collections::VecDeque;

use uroce_memory::{Access, MemTable, PdId};
use uroce_wire::{
    Aeth, AtomicAckEth, Bth, Gap, HeaderWriter, ICRC_LEN, NakCode, Opcode, Operation, Position,
    Psn, Syndrome, SyndromeKind, opcode_for, write_cnp, write_gap_list,
};

use super::replay::{ReplayCache, Saved, SavedKind};
use crate::context::{Path, Step, Transmit};
use crate::limits;
use crate::qp::config::{QpConfig, pad_of};
use crate::qp::run::{Origin, Run};
use crate::time::Instant;

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
    /// The whole READ was answered before.
    pub(super) repeats: bool,
    /// Reserved bits of the BTH, by which the requester has asked something (ADR 34).
    pub(super) reserved7: u8,
}

impl ReadResponse {
    /// Middle packets that go out before anything else of it.
    fn middle_packets(&self) -> u32 {
        match self.next == self.first {
            true => 0,
            false => u32::try_from(self.last.since(self.next)).unwrap_or(0),
        }
    }
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
    /// An ACK, without a limit of credits.
    pub(super) fn ack(psn: Psn, msn: u32) -> Response {
        Response::Ack { psn, syndrome: Syndrome::ack(Syndrome::ACK_UNLIMITED), msn }
    }

    fn psn(&self) -> Psn {
        match self {
            Response::Ack { psn, .. }
            | Response::Atomic { psn, .. }
            | Response::Placement { psn, .. } => *psn,
            Response::Read(train) => train.next,
        }
    }

    /// The last PSN that it answers.
    fn last_psn(&self) -> Psn {
        match self {
            Response::Read(train) => train.last,
            other => other.psn(),
        }
    }

    fn is_plain_ack(&self) -> bool {
        let Response::Ack { syndrome, .. } = self else { return false };
        matches!(syndrome.kind(), SyndromeKind::Ack { .. })
    }

    /// True if it says that the request with this PSN is missing.
    pub(super) fn is_sequence_nak(&self, expected: Psn) -> bool {
        let nak = Syndrome::nak(NakCode::PsnSequence);
        matches!(self, Response::Ack { psn, syndrome, .. } if *psn == expected && *syndrome == nak)
    }

    fn is_ack(&self) -> bool {
        matches!(self, Response::Ack { .. })
    }
}

/// The answers that wait to be sent, in PSN order.
#[derive(Debug, Default)]
pub(crate) struct Responses {
    queue: VecDeque<Response>,
    cnp_due: bool,
    last_cnp: Option<Instant>,
}

impl Responses {
    /// True if an answer waits.
    pub(crate) fn is_empty(&self) -> bool {
        !self.cnp_due && self.queue.is_empty()
    }

    /// True if one ACK waits, and nothing else.
    pub(crate) fn is_one_ack(&self) -> bool {
        !self.cnp_due && self.queue.len() == 1 && self.queue[0].is_plain_ack()
    }

    /// Drops what waits to be sent.
    pub(super) fn clear(&mut self) {
        self.queue.clear();
        self.cnp_due = false;
    }

    /// R102: a marked packet has come; it draws a CNP, at most one per interval.
    pub(super) fn note_congestion(&mut self, now: Instant) {
        let due = self.last_cnp.is_none_or(|last| now.since(last) >= limits::CNP_INTERVAL_NS);
        if due {
            self.last_cnp = Some(now);
            self.cnp_due = true;
        }
    }

    /// What holds between two calls.
    pub(super) fn assert_invariants(&self) {
        debug_assert!(
            self.queue.len() <= limits::RESPONSE_QUEUE + 1,
            "{} answers",
            self.queue.len()
        );
        debug_assert!(!self.cnp_due || self.last_cnp.is_some(), "a CNP that nothing asked for");
        for pair in self.queue.iter().zip(self.queue.iter().skip(1)) {
            debug_assert!(!(pair.0.is_ack() && pair.1.is_ack()), "one ACK says what two say");
            debug_assert!(
                !pair.1.is_ack() || pair.1.psn().since(pair.0.last_psn()) >= 0,
                "an ACK behind a response says less than that"
            );
        }
        if let Some(Response::Read(train)) = self.queue.front() {
            debug_assert!(train.first.since(train.base) >= 0, "a part of another READ");
            debug_assert!(train.next.since(train.first) >= 0, "responses go forwards");
            debug_assert!(train.last.since(train.next) >= 0, "a READ that is answered has left");
        }
    }

    /// True once if a CNP is to be sent.
    pub(super) fn take_cnp(&mut self) -> bool {
        std::mem::take(&mut self.cnp_due)
    }

    /// The next answer.
    pub(super) fn front(&self) -> Option<&Response> {
        self.queue.front()
    }

    /// The next answer has been sent.
    pub(super) fn pop(&mut self) -> Option<Response> {
        self.queue.pop_front()
    }

    /// `packets` packets of the READ response that is next have been sent, not the last one.
    pub(super) fn move_read(&mut self, packets: u32) {
        if let Some(Response::Read(front)) = self.queue.front_mut() {
            front.next = front.next.add(packets);
        }
    }

    /// Queues the whole answer to `saved`.
    pub(super) fn queue_saved(&mut self, saved: &Saved) {
        let (psn, msn) = (saved.first, saved.msn);
        match saved.kind {
            SavedKind::Read { length, .. } => {
                self.queue_part(saved, (psn, saved.last), length, 0);
            }
            SavedKind::Atomic { original, .. } => {
                self.queue_in_order(Response::Atomic { psn, msn, original }, true);
            }
            SavedKind::Placement => self.queue_in_order(Response::Placement { psn, msn }, true),
        }
    }

    /// Queues the responses `first..=last` to a READ, of which only the first `length` bytes count, with
    /// these reserved bits.
    pub(super) fn queue_part(
        &mut self,
        saved: &Saved,
        (first, last): (Psn, Psn),
        length: u64,
        reserved7: u8,
    ) {
        let SavedKind::Read { va, rkey, pd, .. } = saved.kind else {
            return;
        };
        let (base, msn, repeats) = (saved.first, saved.msn, saved.answered);
        let next = first;
        let train =
            ReadResponse { first, next, last, va, rkey, pd, length, base, msn, repeats, reserved7 };
        // A requester that misses only a part in the middle has the rest.
        self.queue_in_order(Response::Read(train), last == saved.last);
    }

    /// The middle packets of a READ response are next, and there are several.
    #[inline]
    pub(crate) fn starts_with_run(&self) -> bool {
        matches!(self.queue.front(), Some(Response::Read(train)) if train.middle_packets() > 1)
    }

    /// Up to `most` of them.
    pub(crate) fn plan_run(&self, config: &QpConfig, most: u32) -> Option<Run> {
        let Some(Response::Read(train)) = self.queue.front() else {
            return None;
        };
        let packets = train.middle_packets().min(most);
        if packets < 2 || self.cnp_due {
            return None;
        }
        let mtu = config.attr.path_mtu.bytes();
        let offset = train.next.since(train.base).max(0) as u64 * mtu as u64;
        let va = train.va.checked_add(offset)?;
        let mut bth = Bth::new(Opcode::RC_READ_RESPONSE_MIDDLE, config.peer_qpn(), train.next);
        bth.reserved7 = train.reserved7;
        let origin = Origin::Read { by: config.requirer(train.pd), rkey: train.rkey, va };
        Run::new(&bth, packets, mtu, origin, config.path())
    }

    /// Queues an ACK or NAK behind everything else (R49). One that directly follows another takes
    /// its place if its PSN is not lower: it then says all that the older one said. The ACK of a
    /// duplicate has a lower PSN than a NAK that waits, and says nothing new. True if only one of
    /// the two is sent.
    pub(super) fn queue_ack(&mut self, ack: Response) -> bool {
        if let Some(last) = self.queue.back_mut().filter(|last| last.is_ack()) {
            if ack.psn().since(last.psn()) >= 0 {
                *last = ack;
            }
            return true;
        }
        if self.queue.len() < limits::RESPONSE_QUEUE {
            self.queue.push_back(ack);
        }
        false
    }

    /// A sequence NAK that asks for `expected` has not left yet.
    pub(super) fn nak_waits(&self, expected: Psn) -> bool {
        self.queue.back().is_some_and(|last| last.is_sequence_nak(expected))
    }

    /// R54: the packet that a sequence NAK asks for has arrived after all. The NAK also acknowledged what came before, so an
    /// ACK takes its place, unless the request before has an answer of its own.
    pub(super) fn retract_nak(&mut self, expected: Psn, replay: &ReplayCache) {
        if !self.nak_waits(expected) {
            return;
        }
        let newest = expected.sub(1);
        if replay.ends_with(newest) {
            self.queue.pop_back();
        } else if let Some(Response::Ack { psn, syndrome, .. }) = self.queue.back_mut() {
            (*psn, *syndrome) = (newest, Syndrome::ack(Syndrome::ACK_UNLIMITED));
        }
    }

    /// Queues an answer at its place in PSN order. Parts of one READ that do not overlap are answered each; of
    /// two that do, the newer one replaces the older, so that a train in progress is rewound (R62).
    /// `goes_back`: the requester will ask for everything behind it again, so a train that has begun
    /// starts over behind this answer.
    fn queue_in_order(&mut self, answer: Response, goes_back: bool) {
        if self.queue.iter().any(|old| waits_already(old, &answer)) {
            return;
        }
        self.queue.retain(|old| !is_replaced(old, &answer));
        if self.queue.len() < limits::RESPONSE_QUEUE {
            self.insert_in_order(answer, goes_back);
        }
    }

    fn insert_in_order(&mut self, answer: Response, goes_back: bool) {
        let psn = answer.psn();
        let at = self.queue.iter().position(|other| other.psn().since(psn) > 0);
        if goes_back
            && at == Some(0)
            && let Some(Response::Read(train)) = self.queue.front_mut()
        {
            train.next = train.first;
        }
        self.queue.insert(at.unwrap_or(self.queue.len()), answer);
    }

    /// Drops answers from which `newest`, the last PSN of the newest request, is half of all PSNs away or more: a requester
    /// that sends it has them, since it never waits for so many (R17).
    pub(super) fn forget_old(&mut self, newest: Psn) {
        while self.queue.front().is_some_and(|oldest| newest.since(oldest.psn()) < 0) {
            self.queue.pop_front();
        }
    }

    /// Drops the answer to the request with this PSN, which can be given no more.
    pub(super) fn drop_answer(&mut self, key: Psn) {
        self.queue.retain(|answer| answer.is_ack() || key_of(answer) != key);
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

/// Writes the one packet of an answer, with the list of gaps and one past the last PSN that was seen if there is one; `None` if
/// there is no room, or it is a READ response.
pub(super) fn write_answer(
    config: &QpConfig,
    answer: &Response,
    gaps: Option<(&[Gap], Psn)>,
    out: &mut [u8],
) -> Option<Transmit> {
    let ack = Syndrome::ack(Syndrome::ACK_UNLIMITED);
    let (opcode, psn, syndrome, msn, result) = match *answer {
        Response::Ack { psn, syndrome, msn } => (Opcode::RC_ACKNOWLEDGE, psn, syndrome, msn, None),
        Response::Atomic { psn, msn, original } => {
            (Opcode::RC_ATOMIC_ACKNOWLEDGE, psn, ack, msn, Some(AtomicAckEth { original }))
        }
        Response::Placement { psn, msn } => (Opcode::RC_READ_RESPONSE_ONLY, psn, ack, msn, None),
        Response::Read(_) => return None,
    };
    // XRC has the opcodes of RC under its own service.
    let opcode = opcode.of_service(config.service());
    let mut writer = HeaderWriter::new(out);
    writer.put(&Bth::new(opcode, config.peer_qpn(), psn))?;
    writer.put(&Aeth { syndrome, msn })?;
    if let Some(result) = result {
        writer.put(&result)?;
    }
    let mut end = writer.len();
    if let Some((gaps, seen)) = gaps {
        end += write_gap_list(out.get_mut(end..)?, psn, gaps.iter().copied(), seen);
    }
    let len = end + ICRC_LEN;
    Some(Transmit { len, path: config.path(), step: Step::Within })
}

/// Writes the next packet of a READ response. `None`: the memory is gone (B12).
pub(super) fn write_read_response(
    config: &QpConfig,
    train: &ReadResponse,
    out: &mut [u8],
    mem: &MemTable,
) -> Option<Transmit> {
    let mtu = config.attr.path_mtu.bytes() as u64;
    let offset = train.next.since(train.base).max(0) as u64 * mtu;
    let length = train.length.saturating_sub(offset).min(mtu) as usize;
    let position = position_of(train.next, train.first, train.last);
    let opcode = opcode_for(config.service(), Operation::ReadResponse, position, false, false)?;
    let mut bth = Bth::new(opcode, config.peer_qpn(), train.next);
    (bth.pad, bth.reserved7) = (pad_of(length) as u8, train.reserved7);
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
        let by = config.requirer(train.pd);
        let slice = mem.check(train.rkey, by, Access::REMOTE_READ, va, length as u64).ok()?;
        slice.copy_out(0, &mut out[start..start + length]).ok()?;
    }
    let end = start + length + pad_of(length);
    out[start + length..end].fill(0);
    Some(Transmit { len: end + ICRC_LEN, path: config.path(), step: Step::Within })
}

fn position_of(next: Psn, first: Psn, last: Psn) -> Position {
    match (next == first, next == last) {
        (true, true) => Position::Only,
        (true, false) => Position::First,
        (false, false) => Position::Middle,
        (false, true) => Position::Last,
    }
}

/// R102, and E17: not in the class of the data, whose queues are full.
pub(super) fn write_congestion_notification(config: &QpConfig, out: &mut [u8]) -> Option<Transmit> {
    let length = write_cnp(out, config.peer_qpn())?;
    let path = Path { traffic_class: limits::CNP_DSCP << 2, ..config.path() };
    Some(Transmit { len: length + ICRC_LEN, path, step: Step::Within })
}
