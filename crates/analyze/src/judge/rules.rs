//! The rules, by subject.

pub(super) mod acknowledge;
pub(super) mod capture;
pub(super) mod congestion;
pub(super) mod connection;
pub(super) mod icrc;
pub(super) mod packet;
pub(super) mod path;
pub(super) mod response;
pub(super) mod retry;
pub(super) mod sequence;

use super::rule::Rule;

/// All rules, by subject.
pub static RULES: &[&Rule] = &[
    &icrc::ICRC_WRONG,
    &icrc::ICRC_NEVER_RIGHT,
    &icrc::ICRC_PORT_REWRITTEN,
    &icrc::ICRC_ID_REWRITTEN,
    &packet::PAD_WRONG,
    &packet::VERSION,
    &packet::RESERVED_BITS,
    &packet::OPCODE_UNDEFINED,
    &packet::OPCODE_OTHER_SERVICE,
    &packet::LENGTH_TOO_LONG,
    &packet::LENGTH_OF_OPCODE,
    &packet::DMA_LENGTH,
    &packet::ATOMIC_MISALIGNED,
    &packet::SYNDROME_RESERVED,
    &packet::RESPONSE_WITH_NAK,
    &packet::HOP_LIMIT,
    &packet::GSI_SERVICE,
    &packet::GSI_QKEY,
    &packet::GSI_LENGTH,
    &packet::MULTICAST_SERVICE,
    &path::PORT_CHANGES,
    &path::TRAFFIC_CLASS_CHANGES,
    &path::PKEY_CHANGES,
    &path::MIGREQ_CHANGES,
    &path::MIGREQ_DIFFERS,
    &path::MTU_ABOVE_AGREED,
    &sequence::OPCODE_SEQUENCE,
    &sequence::LENGTH_NOT_MTU,
    &sequence::LENGTH_ABOVE_MTU,
    &sequence::WRITE_LENGTH,
    &sequence::PSN_WINDOW,
    &acknowledge::ACK_OF_UNSENT,
    &acknowledge::ACK_GOES_BACK,
    &acknowledge::ACK_INSIDE_READ,
    &acknowledge::MSN_GOES_BACK,
    &acknowledge::MSN_MISMATCH,
    &acknowledge::NAK_REPEATED,
    &acknowledge::NAK_OF_ACKNOWLEDGED,
    &acknowledge::NAK_NOT_HONOURED,
    &acknowledge::UNANSWERED,
    &response::RESPONSE_UNKNOWN,
    &response::RESPONSE_POSITION,
    &response::RESPONSE_LENGTH,
    &response::ATOMIC_REPLAY,
    &response::ATOMIC_RESENT_DIFFERENT,
    &response::READ_DEPTH,
    &retry::RNR,
    &retry::RNR_LOOP,
    &retry::RNR_TIMER_IGNORED,
    &retry::RNR_EXCEEDED,
    &retry::RETRIES_EXCEEDED,
    &retry::CLOSED_UNANSWERED,
    &retry::TIMEOUT_STORM,
    &retry::EARLY_RETRANSMISSION,
    &retry::FATAL_NAK,
    &retry::SENDS_AFTER_FATAL,
    &congestion::CNP_FORMAT,
    &congestion::CNP_FIELDS,
    &congestion::CNP_RATE,
    &congestion::CNP_WITHOUT_MARK,
    &congestion::MARK_WITHOUT_CNP,
    &connection::CM_MALFORMED,
    &connection::CM_REJECTED,
    &connection::CM_REFUSED_BY_APPLICATION,
    &connection::CM_REPEATED,
    &connection::CM_NO_REPLY,
    &connection::CM_NO_RTU,
    &connection::CM_NO_DREP,
    &capture::CAPTURE_INCOMPLETE,
    &capture::FINDINGS_LIMIT,
];

impl Rule {
    /// The rule with this short name.
    pub fn by_name(name: &str) -> Option<&'static Rule> {
        RULES.iter().copied().find(|rule| rule.name == name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        let names: HashSet<_> = RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(names.len(), RULES.len());
        for rule in RULES {
            assert_eq!(Rule::by_name(rule.name), Some(*rule));
        }
        assert_eq!(Rule::by_name("no-such-rule"), None);
    }
}
