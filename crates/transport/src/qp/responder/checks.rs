//! The steps before a request is executed.

use uroce_memory::mutation::mutated;
use uroce_memory::{Access, AccessError, MemTable, Requirer};
use uroce_wire::{NakCode, Operation, Packet, PayloadRule, Position};

use super::message::{Message, Remote, remote_of};
use crate::cause::Cause;
use crate::limits;
use crate::qp::config::{QpConfig, pad_of};
use crate::wc_status::WcStatus;

/// Why a request is not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No receive is posted (R37).
    NotReady,
    /// NAK and error state (R63). `status` is for the receive work request, if one is in use.
    Nak { code: NakCode, status: WcStatus, cause: Cause },
}

impl Refusal {
    pub(super) fn invalid(packet: &Packet<'_>, what: &'static str) -> Refusal {
        Refusal::Nak {
            code: NakCode::InvalidRequest,
            status: WcStatus::RemInvReqErr,
            cause: Cause::BadRequest { psn: packet.bth.psn, what },
        }
    }

    pub(super) fn too_long(length: u64, max: u64) -> Refusal {
        Refusal::Nak {
            code: NakCode::InvalidRequest,
            status: WcStatus::LocLenErr,
            cause: Cause::LongMessage { arrived: length, max },
        }
    }

    pub(super) fn access(packet: &Packet<'_>, error: AccessError) -> Refusal {
        Refusal::Nak {
            code: NakCode::RemoteAccess,
            status: WcStatus::LocAccessErr,
            cause: Cause::BadRemoteKey { psn: packet.bth.psn, error },
        }
    }

    pub(super) fn local(status: WcStatus, cause: Cause) -> Refusal {
        Refusal::Nak { code: NakCode::RemoteOperational, status, cause }
    }
}

/// True if a receive has to be there for this packet: a SEND begins, or a WRITE with immediate ends.
pub(super) fn needs_receive(packet: &Packet<'_>) -> bool {
    match packet.info.operation {
        Operation::Send => packet.info.starts(),
        Operation::Write => packet.info.has_imm(),
        _ => false,
    }
}

/// R21, R22: FIRST, MIDDLE and LAST of one kind follow each other, nothing in between.
pub(super) fn check_sequence(
    message: Option<&Message>,
    packet: &Packet<'_>,
) -> Result<(), Refusal> {
    let fits = match (message, packet.info.position) {
        (None, Position::First | Position::Only) => true,
        (Some(message), Position::Middle | Position::Last) => {
            message.operation == packet.info.operation
        }
        (None, Position::Middle | Position::Last) | (Some(_), Position::First | Position::Only) => {
            false
        }
    };
    let what = if message.is_some() {
        "it interrupts a message that is not finished"
    } else {
        "MIDDLE or LAST without FIRST"
    };
    if fits { Ok(()) } else { Err(Refusal::invalid(packet, what)) }
}

/// R36: the QP's own access flags.
pub(super) fn check_enabled(config: &QpConfig, packet: &Packet<'_>) -> Result<(), Refusal> {
    let mut need = remote_right(packet.info.operation);
    if let Some(feth) = packet.feth() {
        need = flush_rights(feth.placement);
        // oA19-6: FLUSH has no solicited event; it names global, persistent or both.
        if packet.bth.solicited || need.is_empty() || feth.selectivity > 1 {
            return Err(Refusal::invalid(packet, "the FLUSH header is not valid"));
        }
    }
    if config.attr.access.contains(need) {
        return Ok(());
    }
    Err(Refusal::invalid(packet, "the QP's access flags do not allow this operation"))
}

/// R24 to R27, R30, R33: lengths, pad and alignment. The receive in use has `room` bytes.
pub(super) fn check_length(
    config: &QpConfig,
    message: Option<&Message>,
    room: u64,
    packet: &Packet<'_>,
) -> Result<(), Refusal> {
    let payload = packet.payload().len();
    if usize::from(packet.bth.pad) != pad_of(payload) {
        return Err(Refusal::invalid(packet, "the pad count does not match the payload"));
    }
    check_payload(config.attr.path_mtu.bytes(), packet, payload)?;
    match packet.info.operation {
        Operation::Send => check_send_length(message, room, payload as u64),
        Operation::Write => check_write_length(message, packet, payload as u64),
        operation => check_remote_length(packet, operation),
    }
}

fn check_payload(mtu: usize, packet: &Packet<'_>, payload: usize) -> Result<(), Refusal> {
    let fits = match (packet.info.payload, packet.info.position) {
        (PayloadRule::None, _) => payload == 0,
        (PayloadRule::Exact(length), _) => payload == usize::from(length),
        (PayloadRule::Any, Position::First | Position::Middle) => payload == mtu,
        (PayloadRule::Any, Position::Last) => (1..=mtu).contains(&payload),
        (PayloadRule::Any, Position::Only) => payload <= mtu,
    };
    if fits {
        return Ok(());
    }
    Err(Refusal::invalid(packet, "the payload length does not fit the opcode and the path MTU"))
}

/// R27.
fn check_send_length(message: Option<&Message>, room: u64, payload: u64) -> Result<(), Refusal> {
    let length = message.map_or(0, |message| message.done) + payload;
    if length > room { Err(Refusal::too_long(length, room)) } else { Ok(()) }
}

/// R25, R26: the announced length, and the sum of the pieces.
fn check_write_length(
    message: Option<&Message>,
    packet: &Packet<'_>,
    payload: u64,
) -> Result<(), Refusal> {
    let message = match message {
        Some(message) => *message,
        None => match remote_of(packet) {
            Some(remote) => Message::write(&remote),
            None => return Err(Refusal::invalid(packet, "a WRITE without RETH")),
        },
    };
    if message.length > limits::MAX_MESSAGE {
        return Err(Refusal::invalid(packet, "the DMA length is above 2^31"));
    }
    let done = message.done + payload;
    let fits = if packet.info.ends() { done == message.length } else { done < message.length };
    if fits {
        return Ok(());
    }
    Err(Refusal::invalid(packet, "the pieces of the WRITE do not add up to its DMA length"))
}

/// R28 to R32: the key, checked for the whole range before any byte moves.
pub(super) fn check_rkey(packet: &Packet<'_>, by: Requirer, mem: &MemTable) -> Result<(), Refusal> {
    let Some(remote) = remote_of(packet) else {
        return Ok(());
    };
    let denied = |error| Refusal::access(packet, error);
    if let Some(feth) = packet.feth() {
        return check_flush(&remote, feth.placement, feth.selectivity, by, mem).map_err(denied);
    }
    // R29, C9-88: the key of an empty READ or WRITE is not looked at.
    let is_empty = remote.length == 0 && !mutated("empty-key-checked");
    if is_empty || mutated("range-late") {
        return Ok(());
    }
    let need = remote_right(packet.info.operation);
    mem.check(remote.rkey, by, need, remote.va, remote.length).map(|_| ()).map_err(denied)
}

/// R30: a FLUSH is always validated.
fn check_flush(
    remote: &Remote,
    placement: u8,
    selectivity: u8,
    by: Requirer,
    mem: &MemTable,
) -> Result<(), AccessError> {
    let need = flush_rights(placement);
    if selectivity == 1 {
        mem.check_whole(remote.rkey, by, need).map(|_| ())
    } else {
        mem.check(remote.rkey, by, need, remote.va, remote.length).map(|_| ())
    }
}

fn flush_rights(placement: u8) -> Access {
    let mut need = Access::empty();
    need.set(Access::FLUSH_GLOBAL, placement & 1 != 0);
    need.set(Access::FLUSH_PERSISTENT, placement & 2 != 0);
    need
}

fn check_remote_length(packet: &Packet<'_>, operation: Operation) -> Result<(), Refusal> {
    let Some(remote) = remote_of(packet) else {
        return Err(Refusal::invalid(packet, "a header that names the memory is missing"));
    };
    let aligned_8 =
        matches!(operation, Operation::CompareSwap | Operation::FetchAdd | Operation::AtomicWrite);
    if operation == Operation::AtomicWrite && remote.length != 8 {
        return Err(Refusal::invalid(packet, "an ATOMIC WRITE has exactly 8 bytes"));
    }
    if aligned_8 && remote.va % 8 != 0 {
        return Err(Refusal::invalid(packet, "the address of an atomic is not a multiple of 8"));
    }
    if operation == Operation::ReadRequest && remote.length > limits::MAX_MESSAGE {
        return Err(Refusal::invalid(packet, "the DMA length is above 2^31"));
    }
    Ok(())
}

/// The rights an operation needs.
fn remote_right(operation: Operation) -> Access {
    match operation {
        Operation::Write | Operation::AtomicWrite => Access::REMOTE_WRITE,
        Operation::ReadRequest => Access::REMOTE_READ,
        Operation::CompareSwap | Operation::FetchAdd => Access::REMOTE_ATOMIC,
        // A SEND names no memory of the peer's; the header of a FLUSH says which rights it needs.
        Operation::Send | Operation::Flush => Access::empty(),
        // No requests.
        Operation::ReadResponse
        | Operation::Acknowledge
        | Operation::AtomicAcknowledge
        | Operation::Cnp => Access::empty(),
    }
}
