//! Rules about ACK and NAK.

use crate::judge::rule::{Assumption, Rule, Severity};

pub(crate) static ACK_OF_UNSENT: Rule = Rule {
    id: "R70",
    name: "ack-of-unsent",
    severity: Severity::Warning,
    title: "ACK or NAK for a PSN that was not sent",
    meaning: "A forged or wrong acknowledgement: a requester that believes it completes work that was not \
     done.",
    advice: "The responder; or packets that the capture lost.",
    assumption: Assumption::CompleteInOrder,
    threshold: 1,
};

pub(crate) static ACK_GOES_BACK: Rule = Rule {
    id: "R45",
    name: "ack-goes-back",
    severity: Severity::Note,
    title: "ACK with a lower PSN than one before",
    meaning: "The network delivered acknowledgements in another order, the responder went back, or it \
     acknowledged a duplicate without the READ that came after it.",
    advice: "Requesters ignore it.",
    assumption: Assumption::Complete,
    threshold: 1,
};

pub(crate) static ACK_INSIDE_READ: Rule = Rule {
    id: "R49",
    name: "ack-inside-read",
    severity: Severity::Warning,
    title: "ACK for an earlier request between two responses of a READ",
    meaning: "Responses leave in the order of their PSNs, so the network delivered this ACK late, or the responder \
     sent it out of order. Requesters ignore it, but rxe takes it for the end of the READ: it completes with \
     success, and what had not arrived stays as it was in memory.",
    advice: "Wrong bytes in what was read, if the requester is rxe; a network that reorders, or two copies of a \
     request before the READ.",
    assumption: Assumption::Complete,
    threshold: 1,
};

pub(crate) static MSN_GOES_BACK: Rule = Rule {
    id: "R50",
    name: "msn-goes-back",
    severity: Severity::Warning,
    title: "MSN falls though the PSN rises",
    meaning: "The message sequence number counts completed messages.",
    advice: "A fault of the responder; requesters that complete by MSN are confused.",
    assumption: Assumption::CompleteInOrder,
    threshold: 1,
};

pub(crate) static MSN_MISMATCH: Rule = Rule {
    id: "R50",
    name: "msn-mismatch",
    severity: Severity::Note,
    title: "MSN does not rise by the number of completed messages",
    meaning: "It counts completed new messages, not duplicates.",
    advice: "A responder that counts differently; requesters that complete by MSN are confused.",
    assumption: Assumption::CompleteInOrder,
    threshold: 1,
};

pub(crate) static NAK_REPEATED: Rule = Rule {
    id: "R53",
    name: "nak-repeated",
    severity: Severity::Warning,
    title: "Three or more sequence NAKs for the same gap",
    meaning: "A responder tells of a gap once and is silent until the missing packet comes. A second NAK may be a copy \
     that the network made; each one from the third on is counted.",
    advice: "A fault of the responder: the requester may send everything again for each of them.",
    assumption: Assumption::CompleteInOrder,
    threshold: 1,
};

pub(crate) static NAK_OF_ACKNOWLEDGED: Rule = Rule {
    id: "R53",
    name: "nak-of-acknowledged",
    severity: Severity::Warning,
    title: "Sequence NAK for a PSN that was acknowledged",
    meaning: "The PSN of a NAK is the first missing one.",
    advice: "A fault of the responder.",
    assumption: Assumption::CompleteInOrder,
    threshold: 2,
};

pub(crate) static NAK_NOT_HONOURED: Rule = Rule {
    id: "R71",
    name: "nak-not-honoured",
    severity: Severity::Warning,
    title: "The PSN that a sequence NAK asks for is never sent again",
    meaning: "The requester has to go back to that PSN.",
    advice: "A fault of the requester, or the capture lost the repetition.",
    assumption: Assumption::Complete,
    threshold: 1,
};

pub(crate) static UNANSWERED: Rule = Rule {
    id: "R43",
    name: "unanswered",
    severity: Severity::Warning,
    title: "Requests without any answer",
    meaning: "The peer does not receive them, drops them silently, or its answers are lost or not captured.",
    advice: "Does the peer have this queue pair, in state RTR or RTS? Firewall for UDP 4791, path MTU, \
     wrong destination address, the drop counters of the peer; whether the capture has both directions.",
    assumption: Assumption::Complete,
    threshold: 1,
};
