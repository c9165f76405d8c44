//! Checks of READ responses and atomic responses against their requests.

use uroce_wire::{OpcodeInfo, Operation, Position};

use super::finding::Ledger;
use super::flow_state::FlowState;
use super::requests::{Request, RequestsSeen};
use super::rules::response::{
    ATOMIC_REPLAY, ATOMIC_RESENT_DIFFERENT, READ_DEPTH, RESPONSE_LENGTH, RESPONSE_POSITION,
    RESPONSE_UNKNOWN,
};
use super::sight::Sight;

/// How a response agrees with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Agreement {
    Position,
    Length,
    Whole,
}

/// Looks at a response to `requester`'s requests. `mtu` is that of the responses.
pub(super) fn check(
    sight: &Sight<'_>,
    requester: &mut FlowState,
    mtu: Option<u32>,
    ledger: &mut Ledger,
) {
    let Some(info) = sight.answer() else { return };
    let requests = &mut requester.requests;
    if sight.packet.aeth.is_some_and(|aeth| aeth.syndrome.0 >> 5 != 0) {
        return;
    }
    match info.operation {
        Operation::ReadResponse if sight.packet.is_cut => {}
        Operation::ReadResponse => check_read(sight, info, requests, mtu, ledger),
        Operation::AtomicAcknowledge => check_atomic(sight, requests, ledger),
        _ => {}
    }
}

fn check_read(
    sight: &Sight<'_>,
    info: &OpcodeInfo,
    requests: &RequestsSeen,
    mtu: Option<u32>,
    ledger: &mut Ledger,
) {
    let agreements = || {
        let candidates = requests.responded_at(sight.psn, mtu);
        candidates.filter_map(|request| Some((agrees(sight, info, request, mtu)?, request)))
    };
    // Mostly the newest request agrees, and the others need not be looked at.
    if agreements().any(|(agreement, _)| agreement == Agreement::Whole) {
        return;
    }
    match agreements().max_by_key(|(agreement, _)| *agreement) {
        Some((Agreement::Whole, _)) => {}
        Some((Agreement::Length, request)) => sight.breaks(&RESPONSE_LENGTH, ledger, || {
            let (bytes, asked) = (sight.packet.payload_len, length_of(request));
            format!("{} with {bytes} bytes; frame {} asks for {asked}", info.name, request.frame)
        }),
        Some((Agreement::Position, request)) => sight.breaks(&RESPONSE_POSITION, ledger, || {
            let at = sight.psn - request.psn;
            let (frame, asked) = (request.frame, length_of(request));
            format!("{} as packet {at} of what frame {frame} asks for ({asked} bytes)", info.name)
        }),
        None => note_unknown(sight, requests, ledger),
    }
}

fn length_of(request: &Request) -> u32 {
    request.target.map_or(0, |(_, _, length)| length)
}

/// How far a READ response is what `request` asks for; the best is [`Agreement::Whole`]. `None` if
/// the path MTU would have to be known to tell, and for atomics.
fn agrees(
    sight: &Sight<'_>,
    info: &OpcodeInfo,
    request: &Request,
    mtu: Option<u32>,
) -> Option<Agreement> {
    if request.is_atomic() {
        return Some(Agreement::Position);
    }
    let length = match request.info.operation {
        // A snap length may have cut what says it.
        Operation::ReadRequest => u64::from(request.target?.2),
        _ => 0,
    };
    let Some(mtu) = mtu.map(u64::from) else {
        let is_whole = u64::from(sight.packet.payload_len) == length;
        let is_only = info.position == Position::Only;
        return Some(if is_whole || !is_only { Agreement::Whole } else { Agreement::Length });
    };
    let (at, span) = (sight.psn - request.psn, length.div_ceil(mtu).max(1));
    let expected = match (at == 0, at + 1 == span) {
        (true, true) => Position::Only,
        (true, false) => Position::First,
        (false, true) => Position::Last,
        (false, false) => Position::Middle,
    };
    if info.position != expected && !(request.is_repeated && is_alike(info.position, expected)) {
        return Some(Agreement::Position);
    }
    let rest = length.saturating_sub(at * mtu).min(mtu);
    let agrees = rest == u64::from(sight.packet.payload_len);
    Some(if agrees { Agreement::Whole } else { Agreement::Length })
}

/// rxe begins the answer to a repeated READ with MIDDLE or LAST, as if it went on with the first one.
const fn is_alike(position: Position, expected: Position) -> bool {
    matches!(
        (position, expected),
        (Position::Middle, Position::First) | (Position::Last, Position::Only)
    )
}

fn check_atomic(sight: &Sight<'_>, requests: &mut RequestsSeen, ledger: &mut Ledger) {
    let Some(request) = requests.atomic_at(sight.psn) else {
        return note_unknown(sight, requests, ledger);
    };
    let Some(value) = sight.packet.atomic_ack else { return };
    match request.result.replace(value) {
        Some(before) if before != value => sight.breaks(&ATOMIC_REPLAY, ledger, || {
            format!("{value:#x} instead of {before:#x} for PSN {}", sight.packet.bth.psn)
        }),
        _ => {}
    }
}

fn note_unknown(sight: &Sight<'_>, requests: &RequestsSeen, ledger: &mut Ledger) {
    if requests.is_since_first(sight.psn)
        && sight.psn < requests.sent_below()
        && !requests.has_forgotten()
    {
        sight.breaks(&RESPONSE_UNKNOWN, ledger, || {
            format!("PSN {} belongs to no READ or atomic", sight.packet.bth.psn)
        });
    }
}

/// Looks at a request before it is remembered.
pub(super) fn check_request(sight: &Sight<'_>, state: &mut FlowState, ledger: &mut Ledger) {
    let depth = state.agreed.map_or(0, |agreed| agreed.depth);
    if depth > 0 && sight.reads > u32::from(depth) {
        sight.breaks(&READ_DEPTH, ledger, || {
            format!("{} are outstanding, agreed are {depth}", sight.reads)
        });
    }
    let Some(atomic) = sight.packet.atomic_eth.filter(|_| sight.is_retransmission) else { return };
    let operands = (atomic.va, atomic.rkey, atomic.swap_add, atomic.compare);
    let before = state.requests.atomic_at(sight.psn);
    let differs = |before: &&mut Request| before.operands.is_some_and(|old| old != operands);
    if let Some(before) = before.filter(differs) {
        sight.breaks(&ATOMIC_RESENT_DIFFERENT, ledger, || {
            format!("PSN {} differs from frame {}", sight.packet.bth.psn, before.frame)
        });
    }
}
