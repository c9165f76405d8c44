//! Where a packet goes, and when.

use std::time::Duration;

use super::answer::AnswerPacket;
use super::store::NewPacket;
use super::treatment::{Mute, Subject};
use super::{FaultInjector, Origin, What};
use crate::rule::{Action, Answer};

/// Bytes in front of the BTH, the Ethernet header included.
const FRONT_IPV4: u64 = 14 + 20 + 8;
const FRONT_IPV6: u64 = 14 + 40 + 8;

impl FaultInjector {
    /// Where the packet goes, and when.
    pub(super) fn decide(&mut self, index: usize, subject: &Subject<'_>) {
        for at in 0..self.rules[index].actions.len() {
            let what = match self.rules[index].actions[at] {
                Action::Drop => Some(self.drop_as(What::Dropped)),
                Action::Pass => Some(What::Passed),
                Action::Duplicate(copies) => {
                    self.treatment.copies = self.treatment.copies.saturating_add(copies);
                    Some(What::Duplicated(copies))
                }
                Action::Delay { time, jitter } => {
                    let delay = self.states[index].jittered(time, jitter);
                    self.treatment.delay += delay;
                    Some(What::Delayed(delay))
                }
                Action::Hold { others, limit } => {
                    self.treatment.hold = Some(others);
                    self.treatment.delay += limit;
                    Some(What::Held(others))
                }
                Action::Rate { bits_per_second, queue } => {
                    self.wait_for_turn(index, subject, bits_per_second, queue)
                }
                Action::Mute(time) => Some(self.mute(index, subject, time)),
                Action::Stop => {
                    self.is_stopped = true;
                    Some(What::Stopped)
                }
                _ => None,
            };
            if let Some(what) = what {
                self.tell(index, subject, what);
            }
        }
    }

    fn drop_as(&mut self, what: What) -> What {
        self.treatment.is_dropped = true;
        what
    }

    fn mute(&mut self, rule: usize, subject: &Subject<'_>, time: Duration) -> What {
        let until = subject.now.saturating_add(time);
        self.mutes.push(Mute { rule, until, meta: *subject.meta });
        self.drop_as(What::MuteBegan(time))
    }

    /// A packet leaves when those before it have left, at the rate.
    fn wait_for_turn(
        &mut self,
        index: usize,
        subject: &Subject<'_>,
        bits_per_second: u64,
        queue: u64,
    ) -> Option<What> {
        let front = if subject.meta.flow.is_ipv4() { FRONT_IPV4 } else { FRONT_IPV6 };
        let length = subject.view.bytes().len() as u64 + front;
        let ready = subject.now.saturating_add(self.treatment.delay);
        let begin = self.states[index].busy_until.max(ready);
        let waits = begin - ready;
        let waiting = waits.as_nanos() * u128::from(bits_per_second) / 8_000_000_000;
        if waiting + u128::from(length) > u128::from(queue) {
            return Some(self.drop_as(What::QueueFull));
        }
        let nanoseconds = u128::from(length) * 8_000_000_000 / u128::from(bits_per_second);
        let on_wire = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        self.states[index].busy_until = begin.saturating_add(on_wire);
        let wait = waits.saturating_add(on_wire);
        self.treatment.delay = self.treatment.delay.saturating_add(wait);
        Some(What::Delayed(wait))
    }

    /// An acknowledgement takes the place of the packet; a CNP does not.
    pub(super) fn reply(
        &mut self,
        index: usize,
        subject: &Subject<'_>,
        kind: Answer,
        reply: &AnswerPacket,
    ) {
        self.tell(index, subject, What::Answered(kind));
        let passes = self.rules[index].actions.contains(&Action::Pass);
        if kind != Answer::Cnp && !passes {
            self.treatment.is_dropped = true;
        }
        let packet = NewPacket {
            meta: reply.meta,
            bytes: reply.bytes(),
            comment: &self.treatment.comment,
            origin: Origin::Answer,
            is_damaged: false,
        };
        if !self.store.put(subject.now, packet, None) {
            self.counters.added_lost += 1;
        }
    }
}
