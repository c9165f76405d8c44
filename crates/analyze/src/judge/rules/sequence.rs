//! Rules about messages of several packets.

use crate::judge::rule::{Assumption, Rule, Severity};

pub(crate) static OPCODE_SEQUENCE: Rule = Rule {
    id: "R21",
    name: "opcode-sequence",
    severity: Severity::Error,
    title: "Opcode that may not follow the one before",
    meaning: "A message is FIRST, MIDDLE, LAST of one kind with successive PSNs, or ONLY.",
    advice: "A fault of the sender; the responder refuses it as an invalid request.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static LENGTH_NOT_MTU: Rule = Rule {
    id: "R24",
    name: "payload-not-mtu",
    severity: Severity::Error,
    title: "FIRST or MIDDLE that is not as long as the path MTU",
    meaning: "All packets of a message but the last have exactly the path MTU.",
    advice: "Ends that disagree about the path MTU, or a fault of the sender.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static LENGTH_ABOVE_MTU: Rule = Rule {
    id: "R24",
    name: "payload-above-mtu",
    severity: Severity::Error,
    title: "Payload longer than the path MTU of the flow",
    meaning: "Longer than the other full packets of the same flow.",
    advice: "Ends that disagree about the path MTU, or a fault of the sender.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static WRITE_LENGTH: Rule = Rule {
    id: "R26",
    name: "write-length",
    severity: Severity::Error,
    title: "A WRITE has more or fewer bytes than its RETH says",
    meaning: "The responder refuses it as an invalid request.",
    advice: "A fault of the sender.",
    assumption: Assumption::Complete,
    threshold: 1,
};

pub(crate) static PSN_WINDOW: Rule = Rule {
    id: "R17",
    name: "psn-window",
    severity: Severity::Error,
    title: "2^23 or more PSNs outstanding",
    meaning: "The responder cannot tell new packets from duplicates.",
    advice: "A fault of the requester.",
    assumption: Assumption::Complete,
    threshold: 1,
};
