//! Answers of then and now, side by side.

use std::collections::{HashMap, HashSet};

use uroce_wire::SyndromeKind;

use crate::answer::Answer;
use crate::matching::pairs;
use crate::report::{Counts, Data, Difference, Line, Mark, Played, Report, Shown};
use crate::{Recording, Setup};

/// A capture or a connection that ends so soon behind a request may lack its answer, in nanoseconds.
const TAIL_NS: u64 = 1_000_000;

/// What counts as a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// The data of READ responses and the results of atomics count. They depend on what the
    /// application of the responder did, which no capture shows.
    pub data: bool,
    /// Credit counts of ACKs do not count: other implementations offer other ones.
    pub ignore_credits: bool,
    /// MSNs do not count.
    pub ignore_msn: bool,
}

struct Comparison<'a> {
    options: &'a Options,
    then: &'a [Answer],
    now: &'a [Answer],
    /// What the MSN of then was ahead of that of now.
    msn_offset: u32,
    /// The highest PSN that is acknowledged from this answer of then on.
    covered_then: Vec<i64>,
    /// The highest PSN that is acknowledged by any answer of now.
    covered_now: i64,
    /// Places in the recording of the requests of each PSN.
    came: HashMap<i64, Vec<u64>>,
    /// PSNs that sequence NAKs of then ask for.
    asked_then: HashSet<i64>,
    /// PSNs that sequence NAKs of now ask for.
    asked_now: HashSet<i64>,
    /// When the capture ended, and when the connection did.
    ends: [Option<u64>; 2],
}

/// Compares the answers of `recording` with those of now.
pub(crate) fn compare(
    recording: &Recording,
    setup: &Setup,
    now: Vec<Answer>,
    played: Played,
    options: &Options,
) -> Report {
    let then = &recording.answers;
    let pairs = pairs(then, &now);
    let acknowledged = |answer: &Answer| answer.acknowledges().unwrap_or(i64::MIN);
    let mut covered_then: Vec<i64> = then.iter().map(acknowledged).collect();
    for index in (1..covered_then.len()).rev() {
        covered_then[index - 1] = covered_then[index - 1].max(covered_then[index]);
    }
    let mut came: HashMap<i64, Vec<u64>> = HashMap::new();
    for request in &recording.requests {
        came.entry(request.place).or_default().push(request.position);
    }
    let asked = |answers: &[Answer]| {
        answers
            .iter()
            .filter(|answer| answer.is_sequence_nak())
            .map(|answer| answer.place)
            .collect()
    };
    let comparison = Comparison {
        came,
        asked_then: asked(then),
        asked_now: asked(&now),
        options,
        then,
        now: &now,
        msn_offset: if setup.is_start_known { 0 } else { msn_offset(then, &now, &pairs) },
        covered_then,
        covered_now: now.iter().map(acknowledged).max().unwrap_or(i64::MIN),
        ends: [Some(recording.duration), recording.closed],
    };
    let lines = comparison.lines(&pairs);
    let counts = Counts::of(&lines);
    let data = comparison.data(&pairs);
    let msn_offset = comparison.msn_offset;
    Report::new(recording, setup, played, msn_offset, lines, counts, data)
}

fn msn_offset(then: &[Answer], now: &[Answer], pairs: &[Option<usize>]) -> u32 {
    let both = pairs.iter().enumerate().find_map(|(index, pair)| {
        let (then, now) = (then[index].aeth?, now[(*pair)?].aeth?);
        Some(then.msn.wrapping_sub(now.msn) & 0xff_ffff)
    });
    both.unwrap_or(0)
}

impl Comparison<'_> {
    fn lines(&self, pairs: &[Option<usize>]) -> Vec<Line> {
        let mut lines = Vec::with_capacity(self.then.len().max(self.now.len()));
        let mut is_paired = vec![false; self.now.len()];
        for (index, pair) in pairs.iter().enumerate() {
            let then = &self.then[index];
            lines.push(match pair {
                Some(now) => {
                    is_paired[*now] = true;
                    self.pair(then, &self.now[*now])
                }
                None => self.line(then, self.mark_of_then(then), Some(then), None),
            });
        }
        for (now, _) in self.now.iter().zip(is_paired).filter(|(_, is_paired)| !is_paired) {
            lines.push(self.line(now, self.mark_of_now(now), None, Some(now)));
        }
        lines.sort_by_key(|line| line.position);
        lines
    }

    fn line(
        &self,
        place: &Answer,
        mark: Mark,
        then: Option<&Answer>,
        now: Option<&Answer>,
    ) -> Line {
        Line {
            position: place.position,
            time: place.time,
            frame: place.frame,
            mark,
            then: then.map(|answer| Shown::of(answer, 0)),
            now: now.map(|answer| Shown::of(answer, self.msn_offset)),
            differences: Vec::new(),
        }
    }

    fn pair(&self, then: &Answer, now: &Answer) -> Line {
        let differences = self.differences(then, now);
        let mark = if differences.is_empty() { Mark::Equal } else { Mark::Differs };
        Line { differences, ..self.line(then, mark, Some(then), Some(now)) }
    }

    fn differences(&self, then: &Answer, now: &Answer) -> Vec<Difference> {
        let data = self.options.data && has_other_data(then, now) == Some(true);
        let found = [
            (Difference::Opcode, then.info.opcode != now.info.opcode),
            (Difference::Syndrome, self.syndrome_differs(then, now)),
            (Difference::Msn, !self.options.ignore_msn && self.msn_differs(then, now)),
            (Difference::Length, length_differs(then, now)),
            (Difference::Data, data),
        ];
        found.into_iter().filter_map(|(what, differs)| differs.then_some(what)).collect()
    }

    fn syndrome_differs(&self, then: &Answer, now: &Answer) -> bool {
        match (then.syndrome(), now.syndrome()) {
            (Some(SyndromeKind::Ack { .. }), Some(SyndromeKind::Ack { .. }))
                if self.options.ignore_credits =>
            {
                false
            }
            (then, now) => then != now,
        }
    }

    fn msn_differs(&self, then: &Answer, now: &Answer) -> bool {
        match (then.aeth, now.aeth) {
            (Some(then), Some(now)) => (now.msn + self.msn_offset) & 0xff_ffff != then.msn,
            _ => false,
        }
    }

    /// An acknowledgement says all that those before it said.
    fn mark_of_then(&self, then: &Answer) -> Mark {
        let is_covered = then.is_plain_ack() && self.covered_now >= then.place;
        if is_covered || comes_again(then, &self.asked_now) {
            Mark::Covered
        } else {
            Mark::OnlyThen
        }
    }

    fn mark_of_now(&self, now: &Answer) -> Mark {
        let next = self.then.partition_point(|then| then.position < now.position);
        let covered = self.covered_then.get(next).is_some_and(|psn| *psn >= now.place);
        let is_covered = now.is_plain_ack() && covered;
        if is_covered || self.is_taken_back(now, next) || comes_again(now, &self.asked_then) {
            Mark::Covered
        } else if next == self.then.len() && self.is_at_an_end(now.time) {
            Mark::BehindTheEnd
        } else {
            Mark::OnlyNow
        }
    }

    fn is_at_an_end(&self, time: u64) -> bool {
        self.ends.iter().flatten().any(|end| end.abs_diff(time) < TAIL_NS)
    }

    /// The packet that a NAK asks for came before the next answer of then, which is `next`: a responder that took
    /// both in together has nothing to ask for.
    fn is_taken_back(&self, now: &Answer, next: usize) -> bool {
        let came = self.came.get(&now.place).filter(|_| now.is_sequence_nak());
        let came = came.and_then(|came| came.get(came.partition_point(|at| *at <= now.position)));
        came.is_some_and(|came| self.then.get(next).is_none_or(|then| then.position > *came))
    }

    fn data(&self, pairs: &[Option<usize>]) -> Data {
        let mut data = Data::default();
        for (index, pair) in pairs.iter().enumerate() {
            match pair.and_then(|now| has_other_data(&self.then[index], &self.now[now])) {
                Some(true) => data.other += 1,
                Some(false) => data.same += 1,
                None => {}
            }
        }
        data
    }
}

/// A sequence NAK with a list of gaps (ADR 33), for a PSN that the other side has `asked` for, too. It comes again
/// while packets arrive; how often depends on how many the device takes in together.
fn comes_again(nak: &Answer, asked: &HashSet<i64>) -> bool {
    nak.is_sequence_nak() && nak.length > 0 && asked.contains(&nak.place)
}

/// What a sequence NAK lists beyond the PSN that it asks for depends on whether the requester has asked for a list, which is in
/// packets that may not be played.
fn length_differs(then: &Answer, now: &Answer) -> bool {
    let are_naks = then.is_sequence_nak() && now.is_sequence_nak();
    then.length != now.length && !are_naks
}

/// `None` if there are no data, or if they were not captured whole.
fn has_other_data(then: &Answer, now: &Answer) -> Option<bool> {
    if let (Some(then), Some(now)) = (then.original, now.original) {
        return Some(then != now);
    }
    let has_payload = then.length > 0 && then.length == now.length;
    match (then.digest, now.digest) {
        (Some(then), Some(now)) if has_payload => Some(then != now),
        _ => None,
    }
}
