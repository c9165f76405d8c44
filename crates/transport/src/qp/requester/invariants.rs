//! What holds for a requester between two calls. Asserted in builds with debug assertions.

use uroce_memory::mutation::mutated;

use super::Requester;
use crate::limits;
use crate::qp::config::QpConfig;
use crate::qp_state::QpState;

/// Asserts it.
pub(crate) fn assert_invariants(requester: &Requester, config: &QpConfig) {
    requester.psns.assert_invariants();
    requester.window.assert_invariants();
    requester.send_queue.assert_invariants();
    requester.tail_probe.assert_invariants();
    requester.rnr_wait.assert_invariants(&requester.psns);
    requester.selective_repeat.assert_invariants(&requester.psns);
    requester.ack_timer.assert_invariants(requester.psns.in_flight());
    assert_reads(requester);
    if config.init.qp_type.is_reliable() && requester.psns.in_flight() {
        assert_oldest(requester);
        assert_timed(requester, config);
    }
}

/// R79: the READs and atomics on their way, in PSN order, each with a response that is missing.
fn assert_reads(requester: &Requester) {
    let Requester { reads, psns, .. } = requester;
    // The depth of the QP may have become less while they were on their way.
    let depth = usize::from(limits::MAX_RD_ATOMIC);
    debug_assert!(reads.len() <= depth, "{} READs of {depth}", reads.len());
    let mut before = psns.una();
    for read in reads {
        debug_assert!(read.last.since(read.first) >= 0, "a READ has responses");
        debug_assert!(read.last.since(before) >= 0, "READs are in order, and none is done");
        before = read.last.add(1);
    }
    debug_assert!(psns.next().since(before) >= 0 || reads.is_empty(), "READs were sent");
}

/// The oldest unacknowledged PSN belongs to the oldest request.
fn assert_oldest(requester: &Requester) {
    let una = requester.psns.una();
    let Some(oldest) = requester.send_queue.front().filter(|wqe| wqe.numbered) else { return };
    debug_assert!(una.since(oldest.first_psn) >= 0, "a request was passed by");
    debug_assert!(una.since(oldest.last_psn()) <= 0, "a request did not complete");
}

/// R75: whoever waits for an answer does not wait for ever: something is sent, or a timer runs.
fn assert_timed(requester: &Requester, config: &QpConfig) {
    let waits = config.state == QpState::Rts && config.attr.timeout != 0 && !requester.has_failed();
    // The simulator has to notice that mutation without help.
    let is_timed = requester.awake || requester.deadline().is_some() || mutated("timer-forgotten");
    debug_assert!(!waits || is_timed, "it waits for an answer without a timer");
}
