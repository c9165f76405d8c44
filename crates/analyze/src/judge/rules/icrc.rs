//! Rules about the ICRC.

use crate::judge::rule::{Assumption, Rule, Severity};

pub(crate) static ICRC_WRONG: Rule = Rule {
    id: "R9",
    name: "icrc-wrong",
    severity: Severity::Error,
    title: "Wrong ICRC",
    meaning: "The receiver drops such a packet without a word, and the sender finds out by a NAK or a \
     timeout.",
    advice: "Damage on the way, or a middlebox that changed a header under the ICRC: compare with a \
     capture at the other end. An ICRC that is wrong in every packet of a flow points to the \
     sender or to a rewritten address.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static ICRC_NEVER_RIGHT: Rule = Rule {
    id: "R9",
    name: "icrc-never-right",
    severity: Severity::Note,
    title: "No packet of a flow has a right ICRC, and that is no damage",
    meaning: "The other end answers or heeds them, or all have the same ICRC, as 0: the capture was made before the \
     network card writes it, or behind something that rewrote the packets.",
    advice: "Nothing to repair in the traffic. Capture at the other end, or at a switch, if the ICRC is \
     in doubt.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static ICRC_PORT_REWRITTEN: Rule = Rule {
    id: "E10",
    name: "icrc-port-rewritten",
    severity: Severity::Note,
    title: "The ICRC is right for another UDP source port",
    meaning: "Something rewrote the port on the way to the capture, as port mirrors do.",
    advice: "Harmless if only the mirror did it; a receiver behind the same device would drop the \
     packets.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static ICRC_ID_REWRITTEN: Rule = Rule {
    id: "E11",
    name: "icrc-id-rewritten",
    severity: Severity::Note,
    title: "The ICRC is right for another IPv4 identification",
    meaning: "The capture was made before or behind the place that fills the field in, or a translator of \
     addresses changed it.",
    advice: "Harmless if the receiver answers; otherwise look for NAT between the hosts.",
    assumption: Assumption::Nothing,
    threshold: 1,
};
