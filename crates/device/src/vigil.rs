//! How long the progress thread looks for packets in vain before it sleeps.
//!
//! To wake a thread whose processor sleeps costs 30 to 65 us. On a busy virtual machine it can cost 0.7 ms, in
//! which the processor of the one that wakes stands still as well; then the next packets are late too, and a
//! thread with little patience falls asleep again after each window of a stream. So a stream earns patience:
//! some time in vain for the time that was work, be it many short turns or, on a slow processor, one long one.
//! Single messages earn next to nothing.

use crate::limits::{EARNED_SPIN_NS, POLLER_GONE_NS, SPIN_NS, SPIN_PER_WORK, STREAM_GAP_NS};
use uroce_transport::Instant;

/// When the thread worked last, and what patience it has earned. Times in nanoseconds; 0 is never.
#[derive(Debug, Default)]
pub(crate) struct Vigil {
    worked_at: u64,
    earned: u64,
    application_at: u64,
    /// The last turn was work, and its end is not known yet.
    in_turn: bool,
}

impl Vigil {
    /// The thread found something to do.
    pub(crate) fn note_work(&mut self, now: Instant) {
        let now = now.as_nanos();
        let since = now.saturating_sub(self.worked_at);
        let earned = if since < STREAM_GAP_NS { since * SPIN_PER_WORK } else { 0 };
        let spent = since.saturating_sub(SPIN_NS);
        self.earned = (self.earned.saturating_sub(spent) + earned).min(EARNED_SPIN_NS);
        self.worked_at = now;
        self.in_turn = true;
    }

    /// The time before the next turn. If the last one was work, its end: a peer that is as slow may need as
    /// long for what comes next.
    pub(crate) fn note_time(&mut self, now: Instant) {
        let took = now.as_nanos().saturating_sub(self.worked_at);
        if std::mem::take(&mut self.in_turn) && took >= STREAM_GAP_NS {
            self.earned = (self.earned + took * SPIN_PER_WORK).min(EARNED_SPIN_NS);
            self.worked_at = now.as_nanos();
        }
    }

    /// The application polls. A thread that takes over for a moment, because somebody interrupted the
    /// application, must not get into its way when it returns.
    pub(crate) fn note_application(&mut self, now: Instant) {
        self.application_at = now.as_nanos();
    }

    /// True shortly after work, whatever was earned.
    pub(crate) fn is_warm(&self, now: Instant) -> bool {
        self.worked_at != 0 && now.as_nanos().saturating_sub(self.worked_at) < SPIN_NS
    }

    /// True while the thread stays awake after a stream. Others may need its processor more.
    pub(crate) fn is_patient(&self, now: Instant) -> bool {
        let since = |at: u64| now.as_nanos().saturating_sub(at);
        let polled = self.application_at != 0 && since(self.application_at) < POLLER_GONE_NS;
        self.worked_at != 0 && !polled && since(self.worked_at) < SPIN_NS + self.earned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1_000)
    }

    /// Work every `gap` us from 1 ms on; the last was at the returned time.
    fn work(vigil: &mut Vigil, gap: u64, times: u64) -> u64 {
        let last =
            (0..times).map(|n| 1_000 + n * gap).inspect(|&us| vigil.note_work(at(us))).last();
        last.expect("at least once")
    }

    #[test]
    fn who_has_not_worked_sleeps_at_once() {
        let vigil = Vigil::default();
        assert!(!vigil.is_warm(at(1)) && !vigil.is_patient(at(1)));
    }

    #[test]
    fn single_messages_earn_nothing() {
        let mut vigil = Vigil::default();
        let last = work(&mut vigil, 1_000, 1_000);
        assert!(vigil.is_warm(at(last + 199)) && vigil.is_patient(at(last + 199)));
        assert!(!vigil.is_warm(at(last + 200)) && !vigil.is_patient(at(last + 200)));
    }

    #[test]
    fn a_stream_earns_four_times_its_time_up_to_a_limit() {
        let mut vigil = Vigil::default();
        let last = work(&mut vigil, 20, 11);
        assert!(vigil.is_patient(at(last + 200 + 799)) && !vigil.is_patient(at(last + 200 + 800)));
        assert!(!vigil.is_warm(at(last + 200)), "that is patience");
        let last = work(&mut vigil, 20, 10_000);
        assert!(vigil.is_patient(at(last + 5_199)) && !vigil.is_patient(at(last + 5_200)));
    }

    #[test]
    fn a_turn_that_takes_long_earns_what_a_stream_earns() {
        let mut vigil = Vigil::default();
        vigil.note_work(at(10_000));
        vigil.note_time(at(10_040));
        assert!(!vigil.is_patient(at(10_200)), "that is no long turn");
        vigil.note_work(at(20_000));
        vigil.note_time(at(20_300));
        let end = 20_300 + 200 + 4 * 300;
        assert!(vigil.is_patient(at(end - 1)) && !vigil.is_patient(at(end)));
    }

    #[test]
    fn what_was_waited_in_vain_is_spent() {
        let mut vigil = Vigil::default();
        let last = work(&mut vigil, 20, 10_000) + 3_200;
        vigil.note_work(at(last));
        assert!(vigil.is_patient(at(last + 2_199)) && !vigil.is_patient(at(last + 2_200)));
    }

    #[test]
    fn an_application_that_polls_gets_its_processor_back() {
        let mut vigil = Vigil::default();
        let last = work(&mut vigil, 20, 10_000);
        vigil.note_application(at(last));
        assert!(vigil.is_warm(at(last + 199)) && !vigil.is_patient(at(last + 300)));
        let later = last + POLLER_GONE_NS / 1_000;
        vigil.note_work(at(later));
        let last = later
            + (1..=10)
                .map(|n| n * 20)
                .inspect(|us| vigil.note_work(at(later + us)))
                .last()
                .expect("ten");
        assert!(vigil.is_patient(at(last + 300)), "it has stopped long ago");
    }
}
