//! How the connections of a pair are made and broken, if that is done by connection management.

use std::fmt;
use std::time::Duration;

use uroce_device::cm::{PortSpace, ServiceId};

use crate::random::Random;

/// No message is sent again sooner, whatever the time code.
const SHORTEST_RESEND: Duration = Duration::from_millis(100);
/// An answer is sent again for so long at most.
const LONGEST_ANSWER: Duration = Duration::from_secs(60);
/// MRAs make a caller wait for so long at most, before it sends its REQ again.
const LONGEST_MRA_WAIT: Duration = Duration::from_secs(120);
/// The ACK delay of our NICs, as a time code.
const ACK_DELAY: u8 = 15;

/// How the connections of a pair are made and broken by connection management.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CmPlan {
    /// Which end calls.
    pub caller: usize,
    /// The service is one of rdma_cm's, and requests carry its header.
    pub is_rdma_cm: bool,
    /// Packet lifetime of the path, as a time code.
    pub packet_lifetime: u8,
    /// Time for an answer, as a time code.
    pub response_timeout: u8,
    /// How often a message is sent again.
    pub max_retries: u8,
    /// READs and atomics that each end serves, and wants to have in flight.
    pub depths: [[u8; 2]; 2],
    /// RNR retries that each end asks of the other one.
    pub rnr_retries: [u8; 2],
    /// Calls that come to nothing: nobody listens, the backlog is full, they are rejected or given up.
    pub failures: usize,
    /// Longest time in which the called application decides, in nanoseconds.
    pub decision_ns: u64,
    /// Percentage of connections that an end releases without a word to its application.
    pub releases: usize,
}

/// The time of a code, as the kernel reckons it: in milliseconds.
fn time_of(code: u8) -> Duration {
    Duration::from_millis(1 << code.saturating_sub(8))
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl CmPlan {
    /// What a seed draws. `is_live`: faults end, and calls succeed then.
    pub(crate) fn draw(is_live: bool, random: &mut Random) -> CmPlan {
        let mut depth = || if random.chance(25) { 1 } else { random.range(2, 16) as u8 };
        let depths = [[depth(), depth()], [depth(), depth()]];
        let mut rnr_retry = || if is_live { 7 } else { random.below(8) as u8 };
        let rnr_retries = [rnr_retry(), rnr_retry()];
        CmPlan {
            caller: random.below(2),
            is_rdma_cm: random.chance(70),
            packet_lifetime: random.below(7) as u8,
            response_timeout: random.range(8, 16) as u8,
            max_retries: if is_live { random.range(8, 15) } else { random.below(16) } as u8,
            depths,
            rnr_retries,
            failures: if random.chance(50) { random.range(1, 3) } else { 0 },
            decision_ns: random.pick(&[1_000, 1_000_000, 40_000_000, 350_000_000]),
            releases: random.pick(&[0, 20, 60]),
        }
    }

    /// The service that the pair with this number connects by.
    pub(crate) fn service(&self, pair: usize) -> ServiceId {
        match self.is_rdma_cm {
            true => ServiceId::new(PortSpace::Tcp, 7_000 + pair as u16),
            false => ServiceId(0x1000_0000_0000_0000 | pair as u64),
        }
    }

    /// Between two copies of a REQ.
    pub(crate) fn req_interval_ns(&self) -> u64 {
        let time = time_of(self.packet_lifetime) * 2 + time_of(self.response_timeout);
        ns(time.max(SHORTEST_RESEND))
    }

    /// From a call to its outcome, if no MRA comes. A peer with a smaller path MTU makes it begin again once.
    pub(crate) fn call_ns(&self) -> u64 {
        2 * self.req_interval_ns() * (1 + u64::from(self.max_retries))
    }

    /// By how much MRAs make it longer.
    pub(crate) fn mra_ns(&self) -> u64 {
        ns(LONGEST_MRA_WAIT + LONGEST_ANSWER)
    }

    /// From a REP or DREQ to its answer, or the end of the wait for it.
    pub(crate) fn answer_ns(&self) -> u64 {
        let interval = time_of(self.response_timeout).max(SHORTEST_RESEND);
        ns((interval * (1 + u32::from(self.max_retries))).min(LONGEST_ANSWER))
    }

    /// The longest TIMEWAIT: as long as the ACK timeout, which is at least twice the lifetime and not much more
    /// than the ACK delay.
    pub(crate) fn timewait_ns(&self) -> u64 {
        ns(time_of(ACK_DELAY.max(self.packet_lifetime + 1) + 1))
    }

    /// From a call to the end of what is left of it, whatever happens between.
    pub(crate) fn longest_ns(&self) -> u64 {
        let end = 2 * self.answer_ns() + 2 * self.timewait_ns();
        self.call_ns() + self.mra_ns() + self.decision_ns + self.answer_ns() + end
    }
}

impl fmt::Display for CmPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CmPlan { caller, is_rdma_cm, packet_lifetime, response_timeout, .. } = self;
        let CmPlan { max_retries, depths, rnr_retries, failures, decision_ns, releases, .. } = self;
        write!(f, "connected by CM: end {caller} calls, service of rdma_cm: {is_rdma_cm}, ")?;
        write!(f, "packet lifetime {packet_lifetime}, response timeout {response_timeout}, ")?;
        writeln!(f, "{max_retries} retries")?;
        write!(f, "    depths {depths:?}, RNR retries {rnr_retries:?}, {failures} calls fail, ")?;
        write!(f, "decisions within {decision_ns} ns, {releases} % are released")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_that_the_codes_of_a_call_stand_for() {
        let mut plan = CmPlan::draw(false, &mut Random::new(1, 1));
        (plan.packet_lifetime, plan.response_timeout, plan.max_retries) = (10, 16, 2);
        assert_eq!(plan.req_interval_ns(), 264_000_000);
        assert_eq!(plan.call_ns(), 2 * 3 * 264_000_000);
        assert_eq!(plan.answer_ns(), 3 * 256_000_000);
        plan.response_timeout = 8;
        assert_eq!(plan.answer_ns(), 300_000_000, "not sooner than every 100 ms");
        assert_eq!(plan.timewait_ns(), 256_000_000);
    }
}
