//! `--verify`: did the bytes arrive? Works between two ends that both were asked to.

use std::sync::atomic::Ordering;

use super::args::{Atomic, Verb};
use super::session::PerfSession;

/// What the client's operations brought back: READ data, results of atomics. `counts`: operations of
/// the last size on each queue pair. `None`: not asked, or not possible.
pub fn requested(session: &PerfSession, counts: &[u64]) -> Option<bool> {
    let plan = &session.plan;
    if !is_possible(session) {
        return None;
    }
    match plan.args.verb {
        Verb::Read => Some(all_right(session, plan.largest(), counts)),
        Verb::Atomic => Some(atomics_right(session, counts)),
        Verb::Write | Verb::Send => None,
    }
}

/// What the peer's messages left here.
pub fn arrived(session: &PerfSession, size: u64, counts: &[u64]) -> Option<bool> {
    let comes = matches!(session.plan.args.verb, Verb::Write | Verb::Send);
    (comes && is_possible(session)).then(|| all_right(session, size, counts))
}

/// Both directions.
pub fn both(session: &PerfSession, size: u64, counts: &[u64]) -> Option<bool> {
    arrived(session, size, counts).or_else(|| requested(session, counts))
}

fn is_possible(session: &PerfSession) -> bool {
    let args = &session.plan.args;
    let peer_verifies = session.peer_verifies.load(Ordering::Relaxed);
    if args.verify && !peer_verifies {
        tracing::warn!("the peer was not started with --verify: nothing is checked");
    }
    args.verify && peer_verifies
}

fn all_right(session: &PerfSession, size: u64, counts: &[u64]) -> bool {
    let wrong = (0..).zip(counts).find_map(|(qp, &count)| {
        let checked = session.buffers.check(&session.plan, qp, size, count);
        checked.err().map(|offset| (qp, offset))
    });
    if let Some((qp, offset)) = wrong {
        tracing::error!(
            "wrong byte at offset {offset} of a message of {size} bytes on queue pair {qp}"
        );
    }
    wrong.is_none()
}

/// Each word was zero and got 1 added by every operation on it: the last of n returned n - 1. A
/// compare and swap of zeros returns zero.
fn atomics_right(session: &PerfSession, counts: &[u64]) -> bool {
    let plan = &session.plan;
    let adds = plan.args.atomic_type == Atomic::FetchAndAdd;
    let mut fine = true;
    for (qp, &count) in (0..).zip(counts) {
        let slots = slots(session, count);
        let used = slots.len() as u64;
        for (slot, &offset) in (0..).zip(&slots) {
            let rounds = count / used + u64::from(slot < count % used);
            let wanted = if adds { rounds - 1 } else { 0 };
            let found = session.buffers.returned(qp, offset);
            if found != wanted {
                tracing::error!(
                    "the last atomic at offset {offset} returned {found}, not {wanted}"
                );
                fine = false;
            }
        }
    }
    fine
}

/// The offsets that `count` operations visit, each once.
fn slots(session: &PerfSession, count: u64) -> Vec<u64> {
    let mut offset = 0;
    let mut found = Vec::new();
    while (found.len() as u64) < count {
        found.push(offset);
        offset = session.plan.next_offset(offset, 8);
        if offset == 0 {
            break;
        }
    }
    found
}
