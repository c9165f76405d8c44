//! Which of the matching packets a rule takes.

use std::fmt;

use super::quantity::{Expected, Probability, ShowTime};
use crate::Time;

/// Which of the matching packets a rule takes, and when.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Options {
    pub probability: Option<Probability>,
    pub bursts: Option<GilbertElliott>,
    /// Packets taken at most.
    pub count: Option<u32>,
    /// Matching packets that are left alone first.
    pub skip: Option<u32>,
    /// Of those behind `skip`, one of so many is taken.
    pub every: Option<u32>,
    pub from: Option<Time>,
    pub until: Option<Time>,
    pub seed: Option<u64>,
    /// Name of the rule that begins when this one has done its work.
    pub then: Option<String>,
    /// Later rules see the packet too.
    pub also: bool,
    /// No event and no comment, only counters.
    pub quiet: bool,
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut put = |key: &str, value: Option<&dyn fmt::Display>| match value {
            Some(value) => write!(f, " {key}={value}"),
            None => Ok(()),
        };
        let (from, until) = (self.from.map(ShowTime), self.until.map(ShowTime));
        put("p", self.probability.as_ref().map(|value| value as _))?;
        put("ge", self.bursts.as_ref().map(|value| value as _))?;
        put("skip", self.skip.as_ref().map(|value| value as _))?;
        put("every", self.every.as_ref().map(|value| value as _))?;
        put("count", self.count.as_ref().map(|value| value as _))?;
        put("from", from.as_ref().map(|value| value as _))?;
        put("until", until.as_ref().map(|value| value as _))?;
        put("seed", self.seed.as_ref().map(|value| value as _))?;
        put("then", self.then.as_ref().map(|value| value as _))?;
        f.write_str(if self.also { " also" } else { "" })?;
        f.write_str(if self.quiet { " quiet" } else { "" })
    }
}

/// The model of Gilbert and Elliott: a good and a bad state, each with a loss of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GilbertElliott {
    /// From good to bad, per packet.
    pub to_bad: Probability,
    /// From bad to good, per packet.
    pub to_good: Probability,
    /// Share of packets taken in the bad state.
    pub in_bad: Probability,
    /// Share of packets taken in the good state.
    pub in_good: Probability,
}

impl GilbertElliott {
    /// The bad state lasts one packet, as netem has it if only `p` is given.
    pub(crate) fn independent(to_bad: Probability) -> Self {
        let (in_bad, in_good) = (Probability::ALWAYS, Probability::NEVER);
        Self { to_bad, to_good: to_bad.complement(), in_bad, in_good }
    }

    /// `p,r,h,k`; `h` is 1 and `k` is 0 where they are not given.
    pub(crate) fn parse(text: &str) -> Result<Self, Expected> {
        let mut values = text.split(',').map(Probability::parse);
        let (to_bad, to_good) = (values.next(), values.next());
        let in_bad = values.next().unwrap_or(Ok(Probability::ALWAYS));
        let in_good = values.next().unwrap_or(Ok(Probability::NEVER));
        match (to_bad, to_good, in_bad, in_good, values.next()) {
            (Some(Ok(to_bad)), Some(Ok(to_good)), Ok(in_bad), Ok(in_good), None) => {
                Ok(Self { to_bad, to_good, in_bad, in_good })
            }
            _ => Err("two to four probabilities p,r,h,k: from good to bad, from bad to good, \
                      loss in the bad state (1), loss in the good state (0)"
                .into()),
        }
    }
}

impl fmt::Display for GilbertElliott {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{},{}", self.to_bad, self.to_good, self.in_bad, self.in_good)
    }
}
