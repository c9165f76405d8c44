//! Rules that a packet alone keeps or breaks.

use crate::judge::rule::{Assumption, Rule, Severity};

pub(crate) static PAD_WRONG: Rule = Rule {
    id: "R11",
    name: "pad-wrong",
    severity: Severity::Error,
    title: "Wrong pad count",
    meaning: "Pad bytes fill the payload up to a multiple of 4; only a packet that ends a payload has any.",
    advice: "A fault of the sender; the receiver drops the packet or refuses the request.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static VERSION: Rule = Rule {
    id: "R2",
    name: "transport-version",
    severity: Severity::Error,
    title: "Transport version is not 0",
    meaning: "There is no other version; receivers drop the packet.",
    advice: "Damage, or something on UDP port 4791 that is not RoCE.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static RESERVED_BITS: Rule = Rule {
    id: "R1",
    name: "reserved-bits",
    severity: Severity::Note,
    title: "Reserved bits of the BTH are set",
    meaning: "Receivers have to ignore them; some network cards set one.",
    advice: "Nothing, unless the peer drops these packets.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static OPCODE_UNDEFINED: Rule = Rule {
    id: "R23",
    name: "opcode-undefined",
    severity: Severity::Warning,
    title: "Opcode that the specification does not define",
    meaning: "Receivers drop it, or refuse it as an invalid request.",
    advice: "Damage, an extension of one maker (such as verification), or traffic that is not RoCE.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static OPCODE_OTHER_SERVICE: Rule = Rule {
    id: "R3",
    name: "opcode-not-judged",
    severity: Severity::Note,
    title: "Opcode of a service that is not judged",
    meaning: "Reliable datagrams, services of one maker (DC) or a range that is left to makers.",
    advice: "Nothing; these packets are shown but not judged.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static LENGTH_TOO_LONG: Rule = Rule {
    id: "R24",
    name: "payload-too-long",
    severity: Severity::Error,
    title: "Payload longer than any path MTU",
    meaning: "No packet has more than 4096 bytes of payload.",
    advice: "A fault of the sender, or a frame that offload glued together.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static LENGTH_OF_OPCODE: Rule = Rule {
    id: "R24",
    name: "payload-of-opcode",
    severity: Severity::Error,
    title: "Payload that its opcode does not allow",
    meaning: "Some packets have none, an ATOMIC WRITE has 8 bytes, and a LAST at least one.",
    advice: "A fault of the sender; a responder refuses it as an invalid request.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static DMA_LENGTH: Rule = Rule {
    id: "R25",
    name: "dma-length",
    severity: Severity::Error,
    title: "RETH length above 2 GiB",
    meaning: "A message has at most 2^31 bytes.",
    advice: "A fault of the sender.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static ATOMIC_MISALIGNED: Rule = Rule {
    id: "R33",
    name: "atomic-misaligned",
    severity: Severity::Error,
    title: "Atomic operation at an address that is no multiple of 8",
    meaning: "The responder refuses it as an invalid request, which ends the queue pair.",
    advice: "The remote address in the work request.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static SYNDROME_RESERVED: Rule = Rule {
    id: "R51",
    name: "syndrome-reserved",
    severity: Severity::Error,
    title: "Reserved AETH syndrome",
    meaning: "Neither an ACK, nor an RNR NAK, nor a defined NAK; requesters ignore it.",
    advice: "A fault of the responder.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static RESPONSE_WITH_NAK: Rule = Rule {
    id: "R47",
    name: "response-with-nak",
    severity: Severity::Error,
    title: "READ response that says NAK",
    meaning: "READ responses carry an ACK; a NAK travels in an Acknowledge packet. Some responders refuse an atomic in \
     its response: that is told as a NAK like any other.",
    advice: "A fault of the responder.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static HOP_LIMIT: Rule = Rule {
    id: "E7",
    name: "hop-limit-low",
    severity: Severity::Note,
    title: "Hop limit of 1 or 0",
    meaning: "The packet does not pass another router.",
    advice: "The hop limit of the address vector, if the peers are in different subnets.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static GSI_SERVICE: Rule = Rule {
    id: "R101",
    name: "gsi-service",
    severity: Severity::Error,
    title: "Not a UD packet, though sent to queue pair 1",
    meaning: "Queue pair 1 takes management datagrams only.",
    advice: "The queue pair number that the peer was told.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static GSI_QKEY: Rule = Rule {
    id: "R7",
    name: "gsi-qkey",
    severity: Severity::Error,
    title: "Management datagram with a Q_Key other than 0x80010000",
    meaning: "The receiver drops it silently.",
    advice: "The sender of management datagrams.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static GSI_LENGTH: Rule = Rule {
    id: "R101",
    name: "gsi-length",
    severity: Severity::Error,
    title: "Management datagram that does not have 256 bytes",
    meaning: "The receiver drops it silently.",
    advice: "The sender of management datagrams.",
    assumption: Assumption::Nothing,
    threshold: 1,
};

pub(crate) static MULTICAST_SERVICE: Rule = Rule {
    id: "R14",
    name: "multicast-service",
    severity: Severity::Error,
    title: "Not a UD packet, though sent to the multicast queue pair",
    meaning: "Only datagrams are sent to groups.",
    advice: "The queue pair number that the peer was told.",
    assumption: Assumption::Nothing,
    threshold: 1,
};
