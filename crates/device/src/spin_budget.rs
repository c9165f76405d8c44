//! How long the progress thread spins without finding packets before it sleeps: an adaptive
//! busy-poll budget.
//!
//! To wake a thread whose processor sleeps costs 30 to 65 us. On a busy virtual machine it can cost
//! 0.7 ms, during which the processor of the waking thread is stalled as well; then the next
//! packets are late too, and a thread with a small budget falls asleep again after each window of a
//! stream. A stream therefore adds to the budget: a multiple of the time that was spent on work, in
//! many short poll iterations or, on a slow processor, a single long one. Single messages add next
//! to nothing.

use uroce_transport::Instant;

use crate::limits::{
    APPLICATION_IDLE_NS, EXTRA_SPIN_PER_WORK, MAX_EXTRA_SPIN_NS, SPIN_NS, STREAM_GAP_NS,
};

/// Time of the last work, and the budget beyond [`SPIN_NS`]. Times in nanoseconds; 0 stands for
/// never.
#[derive(Debug, Default)]
pub(crate) struct SpinBudget {
    worked_at: u64,
    budget: u64,
    application_at: u64,
    /// The last poll iteration was work, and its end is not known yet.
    working: bool,
}

impl SpinBudget {
    /// The poll iteration at `now` was work.
    pub(crate) fn record_work(&mut self, now: Instant) {
        let now = now.as_nanos();
        let since = now.saturating_sub(self.worked_at);
        let budget = if since < STREAM_GAP_NS { since * EXTRA_SPIN_PER_WORK } else { 0 };
        let spent = since.saturating_sub(SPIN_NS);
        self.budget = (self.budget.saturating_sub(spent) + budget).min(MAX_EXTRA_SPIN_NS);
        debug_assert!(self.budget <= MAX_EXTRA_SPIN_NS, "a thread sleeps in the end");
        self.worked_at = now;
        self.working = true;
    }

    /// The last poll iteration has ended at `now`. A long one adds to the budget: a peer that is as
    /// slow may need as long for what comes next.
    pub(crate) fn record_end_of_work(&mut self, now: Instant) {
        let took = now.as_nanos().saturating_sub(self.worked_at);
        if std::mem::take(&mut self.working) && took >= STREAM_GAP_NS {
            self.budget = (self.budget + took * EXTRA_SPIN_PER_WORK).min(MAX_EXTRA_SPIN_NS);
            self.worked_at = now.as_nanos();
        }
    }

    /// The application polls. A thread that takes over for a moment, because the application was
    /// preempted, must not compete with it when it returns.
    pub(crate) fn record_application_poll(&mut self, now: Instant) {
        self.application_at = now.as_nanos();
    }

    /// True shortly after work, whatever the budget.
    pub(crate) fn worked_recently(&self, now: Instant) -> bool {
        self.worked_at != 0 && now.as_nanos().saturating_sub(self.worked_at) < SPIN_NS
    }

    /// True while the thread spins after a stream. Other threads may need its processor more.
    pub(crate) fn may_spin(&self, now: Instant) -> bool {
        let since = |at: u64| now.as_nanos().saturating_sub(at);
        let polled = self.application_at != 0 && since(self.application_at) < APPLICATION_IDLE_NS;
        self.worked_at != 0 && !polled && since(self.worked_at) < SPIN_NS + self.budget
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1_000)
    }

    /// Work every `gap` us from 1 ms on; the last was at the returned time.
    fn work(spin_budget: &mut SpinBudget, gap: u64, times: u64) -> u64 {
        let last = (0..times)
            .map(|n| 1_000 + n * gap)
            .inspect(|&us| spin_budget.record_work(at(us)))
            .last();
        last.expect("at least once")
    }

    #[test]
    fn who_has_not_worked_sleeps_at_once() {
        let spin_budget = SpinBudget::default();
        assert!(!spin_budget.worked_recently(at(1)) && !spin_budget.may_spin(at(1)));
    }

    #[test]
    fn single_messages_add_nothing() {
        let mut spin_budget = SpinBudget::default();
        let last = work(&mut spin_budget, 1_000, 1_000);
        assert!(
            spin_budget.worked_recently(at(last + 199)) && spin_budget.may_spin(at(last + 199))
        );
        assert!(
            !spin_budget.worked_recently(at(last + 200)) && !spin_budget.may_spin(at(last + 200))
        );
    }

    #[test]
    fn a_stream_earns_four_times_its_time_up_to_a_limit() {
        let mut spin_budget = SpinBudget::default();
        let last = work(&mut spin_budget, 20, 11);
        assert!(
            spin_budget.may_spin(at(last + 200 + 799))
                && !spin_budget.may_spin(at(last + 200 + 800))
        );
        assert!(!spin_budget.worked_recently(at(last + 200)), "that is patience");
        let last = work(&mut spin_budget, 20, 10_000);
        assert!(spin_budget.may_spin(at(last + 5_199)) && !spin_budget.may_spin(at(last + 5_200)));
    }

    #[test]
    fn a_turn_that_takes_long_earns_what_a_stream_earns() {
        let mut spin_budget = SpinBudget::default();
        spin_budget.record_work(at(10_000));
        spin_budget.record_end_of_work(at(10_040));
        assert!(!spin_budget.may_spin(at(10_200)), "that is no long turn");
        spin_budget.record_work(at(20_000));
        spin_budget.record_end_of_work(at(20_300));
        let end = 20_300 + 200 + 4 * 300;
        assert!(spin_budget.may_spin(at(end - 1)) && !spin_budget.may_spin(at(end)));
    }

    #[test]
    fn what_was_waited_in_vain_is_spent() {
        let mut spin_budget = SpinBudget::default();
        let last = work(&mut spin_budget, 20, 10_000) + 3_200;
        spin_budget.record_work(at(last));
        assert!(spin_budget.may_spin(at(last + 2_199)) && !spin_budget.may_spin(at(last + 2_200)));
    }

    #[test]
    fn an_application_that_polls_gets_its_processor_back() {
        let mut spin_budget = SpinBudget::default();
        let last = work(&mut spin_budget, 20, 10_000);
        spin_budget.record_application_poll(at(last));
        assert!(
            spin_budget.worked_recently(at(last + 199)) && !spin_budget.may_spin(at(last + 300))
        );
        let later = last + APPLICATION_IDLE_NS / 1_000;
        spin_budget.record_work(at(later));
        let last = later
            + (1..=10)
                .map(|n| n * 20)
                .inspect(|us| spin_budget.record_work(at(later + us)))
                .last()
                .expect("ten");
        assert!(spin_budget.may_spin(at(last + 300)), "it has stopped long ago");
    }
}
