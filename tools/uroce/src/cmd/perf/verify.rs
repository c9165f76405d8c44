//! `--verify`: did the bytes arrive? Works between two ends that both were asked to.

use super::args::{Atomic, Verb};
use super::session::PerfSession;

/// Both verdicts in one: a wrong byte anywhere is a wrong byte. `None`: nothing was checked.
pub fn worse(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one && other),
        (one, other) => one.or(other),
    }
}

/// What the client's operations of one size brought back: READ data, results of atomics. `counts`: operations
/// on each queue pair. `None`: not asked, or not possible.
pub fn requested(session: &PerfSession, size: u64, counts: &[u64]) -> Option<bool> {
    if !session.verifies() {
        return None;
    }
    match session.plan.args.verb {
        Verb::Read => Some(all_right(session, size, counts)),
        Verb::Atomic => Some(atomics_right(session, counts)),
        Verb::Write | Verb::Send => None,
    }
}

/// What the peer's WRITEs of one size left here. What they left earlier at the same places nobody saw.
pub fn arrived(session: &PerfSession, size: u64, counts: &[u64]) -> Option<bool> {
    let writes = session.plan.args.verb == Verb::Write;
    (writes && session.verifies()).then(|| all_right(session, size, counts))
}

/// What WRITEs or READs of one size left, of a test in which both ends request.
pub fn both(session: &PerfSession, size: u64, counts: &[u64]) -> Option<bool> {
    arrived(session, size, counts).or_else(|| requested(session, size, counts))
}

/// Says so if the peer does not know what to send.
pub fn warn_if_impossible(session: &PerfSession) {
    if session.plan.args.verify && !session.verifies() {
        tracing::warn!("the peer was not started with --verify: nothing is checked");
    }
}

/// What a verified run may say of itself.
pub fn sentence(verb: Verb) -> &'static str {
    match verb {
        Verb::Send => "verified: the bytes that arrived are those that were sent",
        Verb::Write | Verb::Read => {
            "verified: the bytes that arrived last at each place are those that were sent; those that were overwritten \
             before are not checked"
        }
        Verb::Atomic => {
            "verified: the last atomic at each place returned what those before it make"
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_byte_of_any_size_counts() {
        let verdicts = |all: &[Option<bool>]| all.iter().copied().fold(None, worse);
        assert_eq!(verdicts(&[]), None);
        assert_eq!(verdicts(&[None, Some(true)]), Some(true));
        assert_eq!(verdicts(&[Some(true), Some(false), Some(true), None]), Some(false));
    }
}
