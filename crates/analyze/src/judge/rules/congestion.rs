//! Rules about congestion notification.

use crate::judge::rule::{Assumption, Rule, Severity};

pub(crate) static CNP_FORMAT: Rule = Rule {
    id: "R13",
    name: "cnp-format",
    severity: Severity::Warning,
    title: "Malformed congestion notification",
    meaning: "A CNP has BECN set and 16 bytes behind the BTH.",
    advice: "A fault of the sender; receivers may drop it.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static CNP_FIELDS: Rule = Rule {
    id: "R102",
    name: "cnp-fields",
    severity: Severity::Note,
    title: "Congestion notification with a PSN or reserved bytes",
    meaning: "PSN, AckReq and the 16 bytes are 0.",
    advice: "Nothing: receivers ignore them.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static CNP_RATE: Rule = Rule {
    id: "R103",
    name: "cnp-rate",
    severity: Severity::Note,
    title: "Congestion notifications closer together than 4 us",
    meaning: "Notifications of one connection are paced; 4 us is the smallest interval that network cards \
     offer.",
    advice: "Settings of the notification point.",
    assumption: Assumption::CompleteInOrder,
    threshold: 2,
};

pub(crate) static CNP_WITHOUT_MARK: Rule = Rule {
    id: "R102",
    name: "cnp-without-mark",
    severity: Severity::Note,
    title: "Congestion notification though no packet was marked",
    meaning: "The mark was set behind the place of the capture, or the card also tells of losses by it.",
    advice: "Nothing, unless rates fall without congestion.",
    assumption: Assumption::Complete,
    threshold: 1,
};

pub(crate) static MARK_WITHOUT_CNP: Rule = Rule {
    id: "R102",
    name: "mark-without-cnp",
    severity: Severity::Note,
    title: "Marked packets that drew no congestion notification",
    meaning: "The receiver does not tell the sender of congestion, so nothing slows down.",
    advice: "ECN settings of the receiver; software implementations have none.",
    assumption: Assumption::Complete,
    threshold: 1,
};
