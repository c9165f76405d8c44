//! Requests that were lost between the place of the capture and the responder.

use std::collections::{HashMap, HashSet};

use crate::Recording;

/// Places in the recording of requests that a later sequence NAK asks for and that did not arrive after all,
/// and of those that were sent again before anything was acknowledged and before anything behind them was
/// sent: nothing but silence could tell of their loss.
pub(crate) fn lost(recording: &Recording) -> HashSet<u64> {
    let answers = &recording.answers;
    let mut acknowledged = i64::MIN;
    let mut reached = Vec::with_capacity(answers.len());
    let mut naks: HashMap<i64, u64> = HashMap::new();
    for answer in answers {
        acknowledged = acknowledged.max(answer.acknowledges().unwrap_or(i64::MIN));
        reached.push(acknowledged);
        if answer.is_sequence_nak() {
            naks.insert(answer.place, answer.position);
        }
    }
    let mut lost = HashSet::new();
    let mut next: HashMap<i64, u64> = HashMap::new();
    let mut ahead: Option<(i64, u64)> = None;
    for request in recording.requests.iter().rev() {
        let (place, position) = (request.place, request.position);
        let again = next.insert(place, position);
        let is_asked_for = naks.get(&place).is_some_and(|nak| *nak > position);
        // The last one of a place that is acknowledged has arrived, whatever NAK it has crossed.
        let has_arrived = again.is_none() && acknowledged >= place;
        let is_missed = is_asked_for && !has_arrived;
        let is_silent = again.is_some_and(|again| {
            let before = answers.partition_point(|answer| answer.position < again);
            let was_heard = before > 0 && reached[before - 1] >= place;
            !was_heard && ahead.is_none_or(|(other, at)| other == place && at == again)
        });
        if is_missed || is_silent {
            lost.insert(position);
        }
        ahead = Some((place, position));
    }
    lost
}
