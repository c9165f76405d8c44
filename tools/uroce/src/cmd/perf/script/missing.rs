//! Messages that do not come: where packets are lost for good an end goes on without them, and says so.

use std::time::Duration;

use crate::cmd::perf::plan::Plan;
use crate::stop::{Stop, Watch};

/// How long an end that has sent all of its messages waits for the next one of the peer. It may be that both wait, each
/// for messages that were lost.
const LOST: Duration = Duration::from_secs(2);

/// The peer went on to the next step: the end of a timed run, or messages are missing.
pub fn peer_went_on(plan: &Plan, came: u64) {
    warn(plan, came, "before the peer went on");
}

/// Nothing came, says `idle`, to an end that has sent all of its messages on an unreliable transport. True if it need not
/// wait for those that are missing.
///
/// # Errors
/// Those of `idle`, but for a peer that went on.
pub fn is_rest_lost(
    plan: &Plan,
    came: u64,
    watch: &Watch<'_>,
    idle: Result<bool, Stop>,
) -> Result<bool, Stop> {
    match idle {
        Err(Stop::PeerDone) => peer_went_on(plan, came),
        Ok(true) if watch.quiet() >= LOST => {
            warn(plan, came, &format!("and none for {} s", LOST.as_secs()));
        }
        other => return other.map(|_| false),
    }
    Ok(true)
}

fn warn(plan: &Plan, came: u64, until: &str) {
    if plan.duration.is_some() {
        return;
    }
    let expected = plan.iters * u64::from(plan.args.qp);
    let help = if plan.is_reliable() {
        "give both ends the same -n"
    } else {
        "this transport does not repeat lost packets: use -c RC, or a smaller -t at the sender"
    };
    tracing::warn!("{came} of {expected} messages came {until}: {help}");
}
