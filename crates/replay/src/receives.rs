//! When the application of the responder had a receive posted.

use std::collections::{HashMap, HashSet};

use uroce_wire::SyndromeKind;

use crate::Recording;
use crate::request::{Request, takes_receive};

/// Decides for each request whether there was a receive for it: there was, unless the recording has an
/// RNR NAK for this attempt.
#[derive(Debug)]
pub(crate) struct Receives {
    /// Places in the recording of attempts that drew an RNR NAK.
    refused: HashSet<u64>,
    /// PSNs that have got their receive.
    given: HashSet<i64>,
    /// The PSN that waits for one; nothing behind it is executed before.
    waiting: Option<i64>,
}

impl Receives {
    pub(crate) fn of(recording: &Recording) -> Self {
        let mut not_ready: HashMap<i64, Vec<u64>> = HashMap::new();
        for answer in &recording.answers {
            if matches!(answer.syndrome(), Some(SyndromeKind::Rnr { .. })) {
                not_ready.entry(answer.place).or_default().push(answer.position);
            }
        }
        let mut refused = HashSet::new();
        let mut next: HashMap<i64, u64> = HashMap::new();
        for request in recording.requests.iter().rev() {
            let Some(answers) = not_ready.get(&request.place) else { continue };
            let end = next.insert(request.place, request.position).unwrap_or(u64::MAX);
            if answers.iter().any(|at| (request.position..end).contains(at)) {
                refused.insert(request.position);
            }
        }
        Self { refused, given: HashSet::new(), waiting: None }
    }

    /// A receive is to be posted before `request` is handed over.
    pub(crate) fn wants_receive(&mut self, request: &Request) -> bool {
        let place = request.place;
        if !request.packet().is_some_and(|packet| takes_receive(&packet)) {
            return false;
        }
        if self.refused.contains(&request.position) {
            self.waiting = Some(place);
            return false;
        }
        if self.waiting.is_some_and(|waiting| waiting != place) {
            return false;
        }
        self.waiting = None;
        self.given.insert(place)
    }
}
