//! Rules about READ and atomic responses.

use crate::judge::rule::{Assumption, Rule, Severity};

pub(crate) static RESPONSE_UNKNOWN: Rule = Rule {
    id: "R69",
    name: "response-unknown",
    severity: Severity::Warning,
    title: "Response that no request asked for",
    meaning: "A READ response or atomic response at a PSN of no READ or atomic request.",
    advice: "A fault of the responder, or the capture lost the request.",
    assumption: Assumption::CompleteInOrder,
    threshold: 1,
};

pub(crate) static RESPONSE_POSITION: Rule = Rule {
    id: "R48",
    name: "response-position",
    severity: Severity::Error,
    title: "READ response of the wrong kind",
    meaning: "FIRST, MIDDLE, LAST or ONLY does not agree with the place in the READ.",
    advice: "A fault of the responder; the requester fails with a bad response.",
    assumption: Assumption::CompleteInOrder,
    threshold: 1,
};

pub(crate) static RESPONSE_LENGTH: Rule = Rule {
    id: "R48",
    name: "response-length",
    severity: Severity::Error,
    title: "READ response of the wrong length",
    meaning: "FIRST and MIDDLE have the path MTU, LAST the rest of what the request asked for.",
    advice: "Ends that disagree about the path MTU, or a fault of the responder.",
    assumption: Assumption::CompleteInOrder,
    threshold: 1,
};

pub(crate) static ATOMIC_REPLAY: Rule = Rule {
    id: "R59",
    name: "atomic-replay-differs",
    severity: Severity::Error,
    title: "A repeated atomic got another result",
    meaning: "A repetition gets the saved result; another one means that it was executed twice.",
    advice: "A fault of the responder: counters and locks in remote memory may be wrong.",
    assumption: Assumption::CompleteInOrder,
    threshold: 1,
};

pub(crate) static ATOMIC_RESENT_DIFFERENT: Rule = Rule {
    id: "R59",
    name: "atomic-resent-differently",
    severity: Severity::Warning,
    title: "An atomic was sent again with other operands",
    meaning: "A retransmission is the same request again.",
    advice: "A fault of the requester.",
    assumption: Assumption::CompleteInOrder,
    threshold: 1,
};

pub(crate) static READ_DEPTH: Rule = Rule {
    id: "R79",
    name: "read-depth",
    severity: Severity::Error,
    title: "More READ and atomic requests outstanding than agreed",
    meaning: "The responder has no room to remember them and refuses with an invalid request.",
    advice: "initiator_depth and responder_resources of the connection; max_rd_atomic of the requester.",
    assumption: Assumption::CompleteInOrder,
    threshold: 1,
};
