//! Counters of the peer before and after.

use super::figures::{Change, Counted};
use crate::agent_link::wrong_reply;
use crate::verdict::fail;
use crate::{Bench, Counter, Reply, Request, Stop, limits};

/// Counters of the packets that a port has received: of rxe and of uroce, and of mlx5.
const RECEIVED: [&str; 2] = ["hw_counters/rcvd_pkts", "counters/port_rcv_packets"];

/// All counters of the peer at a moment.
pub(super) struct Counters {
    all: Vec<Counter>,
    missing: Option<String>,
}

impl Counters {
    /// Asks the agent.
    ///
    /// # Errors
    /// It answers something else, more than it may, or names that are none.
    pub(super) fn ask(b: &Bench<'_>) -> Result<Counters, Stop> {
        match b.ask(&Request::Counters)? {
            Reply::Counters { counters, .. } if counters.len() > limits::COUNTERS => {
                Err(Stop::Lost(format!("the agent sent {} counters at once", counters.len())))
            }
            Reply::Counters { counters, .. } if !counters.iter().all(is_named) => {
                Err(Stop::Lost("the agent sent a counter whose name is none of sysfs".to_owned()))
            }
            Reply::Counters { counters: all, missing } => Ok(Counters { all, missing }),
            other => wrong_reply(other),
        }
    }

    /// What has changed since.
    pub(super) fn changes(&self, after: &Counters) -> Counted {
        if let Some(why) = self.missing.as_ref().or(after.missing.as_ref()) {
            return Counted::Missing(why.clone());
        }
        let change = |now: &Counter| {
            let (before, after) = (self.value(&now.name)?, now.value);
            (before != after).then(|| Change { name: now.name.clone(), before, after })
        };
        Counted::Changed(after.all.iter().filter_map(change).collect())
    }

    /// The peer says that it has received what the tester sent, but for what may have been lost on the way and was sent
    /// again. What is remarkable, if something is.
    ///
    /// # Errors
    /// It has not.
    pub(super) fn judge(
        &self,
        after: &Counters,
        (sent, again): (u64, u64),
    ) -> Result<Option<String>, Stop> {
        let values = |name: &str| Some((self.value(name)?, after.value(name)?));
        let found = RECEIVED.iter().find_map(|name| Some((name, values(name)?)));
        let Some((name, (before, after))) = found else { return Ok(None) };
        if (before, after) == (0, 0) {
            return Ok(Some(format!("{name} stays 0: nothing is counted there")));
        }
        let Some(counted) = after.checked_sub(before) else {
            return Ok(Some(format!("{name} went back from {before} to {after}")));
        };
        match counted.saturating_add(again) >= sent {
            true => Ok(None),
            false => fail(format!(
                "{name} counted {counted} packets; the tester sent {sent}, {again} of them again"
            )),
        }
    }

    fn value(&self, name: &str) -> Option<u64> {
        self.all.iter().find(|counter| counter.name == name).map(|counter| counter.value)
    }
}

/// Its name can be one of sysfs, and be printed.
fn is_named(counter: &Counter) -> bool {
    let usual = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    let name = counter.name.as_bytes();
    (1..=limits::COUNTER_NAME).contains(&name.len()) && name.iter().copied().all(usual)
}
