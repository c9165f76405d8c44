//! The packets that answer requests.

use uroce_memory::{Access, MemTable};
use uroce_wire::{
    Aeth, AtomicAckEth, Bth, HeaderWriter, ICRC_LEN, Opcode, Operation, Position, Psn, Syndrome,
    opcode_for, write_cnp,
};

use super::responses::{ReadResponse, Response};
use crate::context::{Path, Step, Transmit};
use crate::limits;
use crate::qp::config::{QpConfig, pad_of};

/// Writes the one packet of an answer; `None` if there is no room, or it is a READ response.
pub(super) fn write_answer(
    config: &QpConfig,
    answer: &Response,
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
    let len = writer.len() + ICRC_LEN;
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
