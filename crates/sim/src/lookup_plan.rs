//! How an application finds the queue pair that serves datagrams: by asking for it (SIDR).

use std::fmt;
use std::time::Duration;

use uroce_device::cm::{PortSpace, ServiceId};

use crate::random::Random;

/// No question is sent again sooner, whatever the time code.
const SHORTEST_RESEND: Duration = Duration::from_millis(100);

/// How the queue pair of one end is looked up before datagrams are sent to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookupPlan {
    /// Which end asks.
    pub caller: usize,
    /// The service is one of rdma_cm's, and questions carry its header.
    pub is_rdma_cm: bool,
    /// Time for an answer, as a time code.
    pub response_timeout: u8,
    /// How often a question is sent again.
    pub max_retries: u8,
    /// Questions that come to nothing: nobody listens, or they are refused.
    pub failures: usize,
    /// Longest time in which the asked application decides, in nanoseconds.
    pub decision_ns: u64,
}

impl LookupPlan {
    /// Most questions of one connection, where faults last.
    pub(crate) const MOST: u64 = 6;

    pub(crate) fn draw(random: &mut Random) -> LookupPlan {
        LookupPlan {
            caller: random.below(2),
            is_rdma_cm: random.chance(60),
            response_timeout: random.range(8, 16) as u8,
            max_retries: random.below(16) as u8,
            failures: random.below(4),
            decision_ns: random.pick(&[1_000, 1_000_000, 40_000_000]),
        }
    }

    /// The service that the pair with this number is found by.
    pub(crate) fn service(&self, pair: usize) -> ServiceId {
        match self.is_rdma_cm {
            true => ServiceId::new(PortSpace::Udp, 7_000 + pair as u16),
            false => ServiceId(0x2000_0000_0000_0000 | pair as u64),
        }
    }

    /// From a question to its outcome.
    pub(crate) fn question_ns(&self) -> u64 {
        let time = Duration::from_millis(1 << self.response_timeout.saturating_sub(8));
        let interval = u64::try_from(time.max(SHORTEST_RESEND).as_nanos()).unwrap_or(u64::MAX);
        interval * (1 + u64::from(self.max_retries))
    }

    /// From the first question to the outcome of the last one.
    pub(crate) fn longest_ns(&self) -> u64 {
        Self::MOST * self.question_ns()
    }
}

impl fmt::Display for LookupPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LookupPlan { caller, is_rdma_cm, response_timeout, max_retries, .. } = self;
        write!(f, "found by SIDR: end {caller} asks, service of rdma_cm: {is_rdma_cm}, ")?;
        write!(f, "response timeout {response_timeout}, {max_retries} retries, ")?;
        write!(f, "{} fail, decisions within {} ns", self.failures, self.decision_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_takes_as_long_as_its_retries() {
        let mut plan = LookupPlan::draw(&mut Random::new(1, 1));
        (plan.response_timeout, plan.max_retries) = (16, 2);
        assert_eq!(plan.question_ns(), 3 * 256_000_000);
        plan.response_timeout = 8;
        assert_eq!(plan.question_ns(), 300_000_000, "not sooner than every 100 ms");
    }
}
