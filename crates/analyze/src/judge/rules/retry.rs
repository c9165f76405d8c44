//! Rules about repetitions, and how connections end.

use crate::judge::rule::{Assumption, Rule, Severity};

pub(crate) static RNR: Rule = Rule {
    id: "R37",
    name: "receiver-not-ready",
    severity: Severity::Note,
    title: "RNR NAK",
    meaning: "No receive was posted when the message came; it is sent again later.",
    advice: "Post receives earlier or more of them, if this costs too much time.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static RNR_LOOP: Rule = Rule {
    id: "R76",
    name: "rnr-loop",
    severity: Severity::Warning,
    title: "The same message met RNR NAKs many times",
    meaning: "The receiver posts receives far more slowly than messages come.",
    advice: "Receives of the peer; its event loop.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static RNR_TIMER_IGNORED: Rule = Rule {
    id: "R76",
    name: "rnr-timer-ignored",
    severity: Severity::Warning,
    title: "Sent again before the time of the RNR NAK was over",
    meaning: "The requester has to wait as long as the timer code says.",
    advice: "A fault of the requester.",
    assumption: Assumption::CompleteInOrder,
    threshold: 2,
};

pub(crate) static RNR_EXCEEDED: Rule = Rule {
    id: "R76",
    name: "rnr-retries-exceeded",
    severity: Severity::Error,
    title: "Gave up after RNR NAKs",
    meaning: "The requester completes with RNR_RETRY_EXC_ERR and its queue pair ends.",
    advice: "The peer has posted no receive: post receives before the connection is made; rnr_retry 7 \
     waits for ever.",
    assumption: Assumption::Complete,
    threshold: 1,
};

pub(crate) static RETRIES_EXCEEDED: Rule = Rule {
    id: "R75",
    name: "retries-exceeded",
    severity: Severity::Error,
    title: "Gave up after repetitions without an answer",
    meaning: "The requester completes with RETRY_EXC_ERR and its queue pair ends.",
    advice: "Is the peer alive, and its queue pair still there? Routes, firewall for UDP 4791, path MTU, \
     and pause or drops on the way.",
    assumption: Assumption::Complete,
    threshold: 1,
};

pub(crate) static CLOSED_UNANSWERED: Rule = Rule {
    id: "R75",
    name: "closed-unanswered",
    severity: Severity::Note,
    title: "Closed while a request was sent again and again, or behind an RNR NAK",
    meaning: "A DREQ came before silence shows whether the requester had given up. Its application may have closed \
     the connection, or it closed because the queue pair had failed just before: the capture cannot tell.",
    advice: "Completions of the requester: RETRY_EXC_ERR or RNR_RETRY_EXC_ERR if it gave up, WR_FLUSH_ERR if it was \
     closed.",
    assumption: Assumption::Complete,
    threshold: 1,
};

pub(crate) static TIMEOUT_STORM: Rule = Rule {
    id: "R75",
    name: "timeout-storm",
    severity: Severity::Warning,
    title: "The same packet was sent many times",
    meaning: "Nothing tells the requester what is missing; it waits for its timer each time.",
    advice: "Loss of the last packets or of acknowledgements; a local ACK timeout that is too short.",
    assumption: Assumption::Complete,
    threshold: 1,
};

pub(crate) static EARLY_RETRANSMISSION: Rule = Rule {
    id: "R75",
    name: "early-retransmission",
    severity: Severity::Note,
    title: "Sent again earlier than the local ACK timeout, without a NAK",
    meaning: "Adaptive timers and tail probes do so; so does a wrong timeout.",
    advice: "Adaptive retransmission of the network card, if repetitions cost too much.",
    assumption: Assumption::CompleteInOrder,
    threshold: 1,
};

pub(crate) static FATAL_NAK: Rule = Rule {
    id: "R73",
    name: "fatal-nak",
    severity: Severity::Error,
    title: "NAK that ends the queue pair",
    meaning: "The responder refused a request for good; both queue pairs go to the error state.",
    advice: "Invalid request: lengths, path MTU, READ depth, access flags of the queue pair. Remote \
     access: rkey, address range, access flags of the region. Remote operational: the receive \
     work request of the responder.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static SENDS_AFTER_FATAL: Rule = Rule {
    id: "R73",
    name: "sends-after-fatal-nak",
    severity: Severity::Warning,
    title: "Goes on after a NAK that ends the queue pair",
    meaning: "The requester has to stop and flush.",
    advice: "A fault of the requester, or a queue pair number that was used again at once.",
    assumption: Assumption::CompleteInOrder,
    threshold: 1,
};
