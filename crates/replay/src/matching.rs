//! Which answer of then belongs to which answer of now.

use std::collections::HashMap;

use uroce_wire::SyndromeKind;

use crate::answer::{Answer, Class};

/// A capture of several receive queues may have an answer so many packets before its request.
const ORDER_TOLERANCE: u64 = 64;

/// What two answers have in common that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    class: Class,
    place: i64,
    kind: u8,
}

fn key(answer: &Answer, with_kind: bool) -> Key {
    let kind = match answer.syndrome() {
        _ if !with_kind || answer.class() != Class::Acknowledge => 0,
        Some(SyndromeKind::Ack { .. }) => 1,
        Some(SyndromeKind::Rnr { .. }) => 2,
        Some(SyndromeKind::Nak(code)) => 3 + code as u8,
        Some(SyndromeKind::ReservedNak(_) | SyndromeKind::Reserved(_)) | None => 0xff,
    };
    Key { class: answer.class(), place: answer.place, kind }
}

/// Answers of now that no answer of then has, by their key; the first ones last.
struct Free {
    waiting: Vec<usize>,
    /// Those with a place before the answer in hand.
    ready: Vec<usize>,
}

/// For each answer of then its answer of now. Of several that could be meant it is the newest one before
/// it; so an acknowledgement that was left out then is not taken for a later one.
pub(crate) fn pairs(then: &[Answer], now: &[Answer]) -> Vec<Option<usize>> {
    let mut pairs = vec![None; then.len()];
    let mut used = vec![false; now.len()];
    // First those that say the same thing, then those that say another thing about the same PSN.
    for with_kind in [true, false] {
        let mut free: HashMap<Key, Free> = HashMap::new();
        for (index, answer) in now.iter().enumerate().rev().filter(|(index, _)| !used[*index]) {
            let empty = || Free { waiting: Vec::new(), ready: Vec::new() };
            free.entry(key(answer, with_kind)).or_insert_with(empty).waiting.push(index);
        }
        for (index, answer) in then.iter().enumerate() {
            if pairs[index].is_some() {
                continue;
            }
            let Some(free) = free.get_mut(&key(answer, with_kind)) else { continue };
            let found = free.take(now, answer.position);
            if let Some(found) = found {
                pairs[index] = Some(found);
                used[found] = true;
            }
        }
    }
    pairs
}

impl Free {
    fn take(&mut self, now: &[Answer], position: u64) -> Option<usize> {
        while let Some(index) = self.waiting.pop_if(|index| now[*index].position <= position) {
            self.ready.push(index);
        }
        let late = |index: &mut usize| now[*index].position <= position + ORDER_TOLERANCE;
        self.ready.pop().or_else(|| self.waiting.pop_if(late))
    }
}
