//! Rules about what stays the same in a connection.

use crate::judge::rule::{Assumption, Rule, Severity};

pub(crate) static PORT_CHANGES: Rule = Rule {
    id: "E16",
    name: "source-port-changes",
    severity: Severity::Note,
    title: "The UDP source port of a connection changes",
    meaning: "Networks choose a path by it, so packets may overtake each other.",
    advice: "Expected if the sender spreads packets over paths on purpose; otherwise a cause of \
     reordering.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static TRAFFIC_CLASS_CHANGES: Rule = Rule {
    id: "E8",
    name: "dscp-changes",
    severity: Severity::Note,
    title: "The DSCP of a connection changes",
    meaning: "Packets of one connection may be in different queues of a switch and overtake each other.",
    advice: "Traffic class settings of the sender; rewriting of DSCP by a switch.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static PKEY_CHANGES: Rule = Rule {
    id: "R6",
    name: "pkey-changes",
    severity: Severity::Warning,
    title: "The P_Key of a connection changes",
    meaning: "A queue pair has one P_Key; receivers drop packets with another one.",
    advice: "A queue pair number that was used again with another partition, or a fault of the sender.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static MIGREQ_CHANGES: Rule = Rule {
    id: "R12",
    name: "migreq-changes",
    severity: Severity::Note,
    title: "MigReq changes within a connection",
    meaning: "Path migration does not exist on RoCE; some network cards handle packets with MigReq 0 on a \
     slow path.",
    advice: "Firmware of the sender.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static MIGREQ_DIFFERS: Rule = Rule {
    id: "R12",
    name: "migreq-differs",
    severity: Severity::Note,
    title: "One end sets MigReq, the other does not",
    meaning: "Some network cards handle packets with MigReq 0 on a slow path and drop them under load.",
    advice: "Counters of discards on the end that sets it.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static MTU_ABOVE_AGREED: Rule = Rule {
    id: "R24",
    name: "mtu-above-agreed",
    severity: Severity::Error,
    title: "Packets larger than the path MTU that was agreed",
    meaning: "The receiver refuses them as an invalid request.",
    advice: "The path MTU that the sender set against that of the connection request.",
    assumption: Assumption::Nothing,
    threshold: 1,
};
