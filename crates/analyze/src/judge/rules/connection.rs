//! Rules about connection management.

use crate::judge::rule::{Assumption, Rule, Severity};

pub(crate) static CM_MALFORMED: Rule = Rule {
    id: "C7",
    name: "cm-malformed",
    severity: Severity::Warning,
    title: "Malformed connection management message",
    meaning: "Receivers drop it.",
    advice: "The sender of the message.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static CM_REJECTED: Rule = Rule {
    id: "R111",
    name: "cm-rejected",
    severity: Severity::Warning,
    title: "Connection refused",
    meaning: "The called side sent a REJ with a reason.",
    advice: "The reason in the text.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static CM_REFUSED_BY_APPLICATION: Rule = Rule {
    id: "R111",
    name: "cm-refused-by-application",
    severity: Severity::Note,
    title: "Connection refused by the application",
    meaning: "The program at the called side, or the calling one after the reply, said no.",
    advice: "The log of that program.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static CM_REPEATED: Rule = Rule {
    id: "R114",
    name: "cm-repeated",
    severity: Severity::Warning,
    title: "Connection management message sent again",
    meaning: "Its answer was late or lost.",
    advice: "Is the peer alive, and does it get datagrams to queue pair 1? Firewall for UDP 4791.",
    assumption: Assumption::Nothing,
    threshold: 2,
};

pub(crate) static CM_NO_REPLY: Rule = Rule {
    id: "R114",
    name: "cm-no-reply",
    severity: Severity::Error,
    title: "Connection request without an answer",
    meaning: "Neither a reply nor a refusal came.",
    advice: "The address; a firewall for UDP 4791; whether the peer has an RDMA device on that address at \
     all.",
    assumption: Assumption::Complete,
    threshold: 1,
};

pub(crate) static CM_NO_RTU: Rule = Rule {
    id: "R113",
    name: "cm-no-rtu",
    severity: Severity::Warning,
    title: "The reply was never confirmed",
    meaning: "Neither an RTU nor a packet of the caller followed the REP.",
    advice: "The calling program: it may have ended, or be busy.",
    assumption: Assumption::Complete,
    threshold: 1,
};

pub(crate) static CM_NO_DREP: Rule = Rule {
    id: "R110",
    name: "cm-no-drep",
    severity: Severity::Note,
    title: "Disconnect request without an answer",
    meaning: "The other end was gone already, or its answer was lost.",
    advice: "Nothing, if the other process had ended.",
    assumption: Assumption::Complete,
    threshold: 1,
};
