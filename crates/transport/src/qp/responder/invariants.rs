//! What holds for a responder between two calls. Asserted in builds with debug assertions.

use super::{Responder, delayed_ack};
use crate::qp::config::QpConfig;
use crate::qp_state::QpState;

/// Asserts it.
pub(crate) fn assert_invariants(responder: &Responder, config: &QpConfig) {
    let is_reliable = config.init.qp_type.is_reliable();
    let Responder { reorder_buffer, reorders, message, msn, drop_rest, .. } = responder;
    responder.receives.assert_invariants();
    responder.responses.assert_invariants();
    responder.replay.assert_invariants(responder.expected);
    debug_assert!(is_reliable || reorder_buffer.is_none(), "only RC and XRC keep packets");
    let is_over = matches!(config.state, QpState::Reset | QpState::Init | QpState::Err);
    let answers = is_reliable && !is_over;
    debug_assert!(answers || delayed_ack::deadline(responder).is_none(), "an ACK waits for nobody");
    debug_assert!(*reorders || reorder_buffer.is_none(), "a buffer that is not used");
    debug_assert!(!drop_rest || !is_reliable, "a reliable QP drops no message");
    debug_assert!(message.is_none() || config.state != QpState::Err, "a message goes on");
    debug_assert!(*msn < 1 << 24, "an MSN has 24 bits");
}
