//! Ways in which our device is broken on purpose.

use super::stage::Broken;

/// One way, and two cases by which CI tells that it is noticed, and that nothing else is.
#[derive(Debug, Clone, Copy)]
pub struct Defect {
    /// Its name in the pages.
    pub name: &'static str,
    /// How it is done.
    pub how: Broken,
    /// What such a NIC does wrong.
    pub about: &'static str,
    /// A case that must fail.
    pub noticed: &'static str,
    /// A case about something near that must pass.
    pub spared: &'static str,
}

const fn fault(
    name: &'static str,
    rule: &'static str,
    about: &'static str,
    noticed: &'static str,
    spared: &'static str,
) -> Defect {
    Defect { name, how: Broken::Fault(rule), about, noticed, spared }
}

const fn mutation(
    name: &'static str,
    about: &'static str,
    noticed: &'static str,
    spared: &'static str,
) -> Defect {
    Defect { name, how: Broken::Mutation(name), about, noticed, spared }
}

/// Faults that the performance cases notice.
pub const PERFORMANCE: &[Defect] = &[fault(
    "nak-under-load",
    "tx op=ack -> set:syndrome=0x61",
    "refuses SENDs and WRITEs",
    "rc.performance.write",
    "rc.performance.read",
)];

/// Faults in what our device sends and receives.
#[rustfmt::skip]
pub const FAULTS: &[Defect] = &[
    fault("nak-twice", "tx op=nak -> dup", "sends each NAK twice",
        "rc.responder.nak-once-per-gap", "rc.responder.send-only"),
    fault("msn-constant", "tx op=ack -> set:msn=77", "does not count messages",
        "rc.responder.msn-counts", "rc.responder.rnr-send"),
    fault("ack-too-far", "tx op=ack -> set:psn=+1", "acknowledges a PSN that did not come",
        "rc.responder.send-only", "rc.responder.read-headers"),
    fault("ack-without-aeth", "tx op=ack -> truncate=16,fix-icrc", "sends ACKs without AETH",
        "rc.responder.send-only", "rc.responder.read-headers"),
    fault("ack-bad-icrc", "tx op=ack -> corrupt=icrc", "sends ACKs with a wrong ICRC",
        "rc.responder.send-only", "rc.responder.read-headers"),
    fault("ack-pkey", "tx op=ack -> set:pkey=0x7fff", "sends ACKs with another P_Key",
        "rc.responder.ack-fields", "rc.responder.send-only"),
    fault("credits-limited", "tx op=ack -> set:syndrome=5", "limits the credits of a shared receive queue",
        "rc.responder.credits-shared", "rc.responder.credits"),
    fault("rnr-lost", "tx op=rnr -> drop", "sends no RNR NAK",
        "rc.responder.rnr-send", "rc.responder.send-only"),
    fault("rnr-timer", "tx op=rnr -> set:syndrome=0x21", "sends RNR NAKs with another timer",
        "rc.responder.rnr-send", "rc.responder.send-only"),
    fault("response-psn", "tx op=read-resp -> set:psn=+1", "answers READs with the wrong PSNs",
        "rc.responder.psn-wrap-in-read", "rc.responder.send-only"),
    fault("response-stale", "tx op=read-resp len=>0 -> corrupt=payload@0.0,fix-icrc", "answers READs with other bytes than memory has",
        "rc.responder.duplicate-read", "rc.responder.send-only"),
    fault("response-short", "tx op=read-resp part=last -> truncate=24,fix-icrc", "ends the response to a long READ early",
        "rc.responder.read-headers", "rc.responder.send-only"),
    fault("response-middle-lost", "tx op=read-resp part=middle -> drop", "leaves the middle out of the response to a long READ",
        "rc.responder.read-headers", "rc.responder.duplicate-atomic"),
    fault("response-reordered", "tx op=read-resp -> hold=1", "lets the next packet overtake a READ response",
        "rc.responder.response-order", "rc.responder.send-only"),
    fault("atomic-result", "tx op=atomic-ack -> set:original=+1", "answers atomics with another value",
        "rc.responder.atomic-result", "rc.responder.send-only"),
    fault("pkey-unchecked", "rx op=request -> set:pkey=0xffff", "takes requests with any P_Key",
        "rc.responder.foreign-pkey", "rc.responder.send-only"),
    fault("version-unchecked", "rx op=request -> set:tver=0", "takes requests of any transport version",
        "rc.responder.transport-version", "rc.responder.send-only"),
    fault("solicited-ignored", "rx op=request -> set:se=0", "raises no solicited event",
        "rc.responder.solicited-last", "rc.responder.immediate"),
    fault("immediate", "rx op=send-only-imm|write-only-imm -> set:imm=+1", "delivers other immediate data",
        "rc.responder.immediate", "rc.responder.send-only"),
    fault("nak-ignored", "rx op=nak -> drop", "ignores NAKs",
        "rc.requester.nak-mid", "rc.requester.read-good"),
    fault("rnr-as-nak", "rx op=rnr -> set:syndrome=0x60", "sends again at once after an RNR NAK",
        "rc.requester.rnr-times", "rc.requester.nak-mid"),
    fault("resend-other-bytes", "tx op=write iter=2.. len=>0 -> corrupt=payload@0.0,fix-icrc", "sends other bytes when it sends again",
        "rc.requester.resend-bytes", "rc.requester.coalesced-ack"),
    fault("cnp-psn", "tx op=cnp -> set:psn=5", "sends CNPs with a PSN",
        "rc.responder.ce-gives-cnp", "rc.responder.send-only"),
    fault("ce-without-mark", "rx op=write -> ce", "takes requests for marked that are not",
        "rc.responder.no-mark-no-cnp", "rc.responder.ce-gives-cnp"),
    fault("rej-twice", "tx op=rej -> dup", "sends each REJ twice",
        "cm.responder.no-listener", "cm.responder.req-ok"),
    fault("rep-source-qp", "tx op=rep -> set:src_qp=7", "sends REPs from another queue pair than QP 1",
        "cm.responder.req-ok", "cm.responder.no-listener"),
    fault("rep-once", "tx op=rep -> drop skip=1", "does not repeat its REP",
        "cm.responder.rep-resent", "cm.responder.req-ok"),
    fault("drep-once", "tx op=drep -> drop skip=1", "does not repeat its DREP",
        "cm.responder.dreq", "cm.responder.req-ok"),
    fault("req-once", "tx op=req -> drop skip=1", "does not repeat its REQ",
        "cm.requester.req-resent", "cm.responder.req-ok"),
    fault("rtu-once", "tx op=rtu -> drop skip=1", "does not repeat its RTU",
        "cm.requester.rep-duplicate", "cm.responder.req-ok"),
    fault("mra-ignored", "rx op=mra -> drop", "ignores MRAs",
        "cm.requester.mra-given", "cm.requester.req-resent"),
    fault("flush-lost", "tx op=flush -> drop", "sends no FLUSH",
        "rc.requester.flush", "rc.requester.coalesced-ack"),
    fault("atomics-lost", "rx op=fetch-add -> drop", "answers no FETCH ADD",
        "rc.responder.atomic-two-queue-pairs", "rc.responder.send-only"),
];

/// Faults that make most cases wait for what never comes: only CI tries them, with a few cases.
#[rustfmt::skip]
pub const SLOW: &[Defect] = &[
    fault("nak-lost", "tx op=nak -> drop", "sends no NAK",
        "rc.responder.nak-once-per-gap", "rc.responder.send-only"),
    fault("ack-late", "tx op=ack -> delay=4s", "acknowledges after four seconds",
        "rc.responder.send-only", "rc.responder.read-headers"),
    fault("ack-ignored", "rx op=ack -> drop", "ignores ACKs",
        "rc.requester.coalesced-ack", "rc.requester.read-good"),
];

/// Faults that only frames of the tester's own show, and floods.
#[rustfmt::skip]
pub const FRAMES: &[Defect] = &[
    fault("icrc-without-ip-id", "rx op=write len=16 -> corrupt=payload,fix-icrc", "takes packets with another IPv4 identification",
        "rc.responder.icrc-covers-ip-id", "rc.responder.udp-checksum"),
    fault("icrc-without-port", "rx op=write len=16 -> corrupt=payload,fix-icrc", "takes packets with another UDP source port",
        "rc.responder.icrc-covers-source-port", "rc.responder.vlan-priority"),
    fault("icrc-over-all", "rx op=write len=16 -> drop", "drops packets whose masked fields have changed",
        "rc.responder.icrc-masked-fields", "rc.responder.icrc-covers-ip-id"),
    fault("padding-refused", "rx op=send -> drop", "drops packets of padded frames",
        "rc.responder.ethernet-padding", "rc.responder.udp-checksum"),
    fault("deaf-after-icmp", "rx op=ack -> drop", "takes no ACK after an ICMP message",
        "rc.requester.icmp", "rc.responder.stranger"),
    fault("damage-taken", "rx op=write len=64 -> corrupt=payload,fix-icrc", "takes a flood of damaged packets",
        "rc.robustness.damaged-flood", "rc.robustness.unknown-qpn"),
];

/// Mutations of our transport: each is in one line of `crates/transport`.
#[rustfmt::skip]
pub const MUTATIONS: &[Defect] = &[
    mutation("go-back-late", "goes back to the PSN behind the one that is missing",
        "rc.requester.nak-mid", "rc.requester.read-good"),
    mutation("rnr-at-once", "does not wait after an RNR NAK",
        "rc.requester.rnr-times", "rc.requester.nak-mid"),
    mutation("nak-again", "sends a NAK for each packet behind a gap",
        "rc.responder.nak-not-repeated", "rc.responder.send-only"),
    mutation("duplicate-executed", "executes a SEND that comes again",
        "rc.responder.duplicate-send", "rc.responder.duplicate-write"),
    mutation("atomic-again", "executes an atomic that comes again",
        "rc.responder.duplicate-atomic", "rc.responder.atomic-result"),
    mutation("read-not-counted", "does not count READs in the MSN",
        "rc.responder.msn-counts", "rc.responder.send-only"),
    mutation("range-late", "checks the key of each packet instead of that of the whole range",
        "rc.responder.write-checked-whole", "rc.responder.key-unknown"),
];

#[cfg(test)]
mod tests {
    use uroce_conform::cases;

    use super::*;

    #[test]
    fn names_are_unique_and_cases_exist() {
        for list in [FAULTS, SLOW, FRAMES, MUTATIONS] {
            for (number, defect) in list.iter().enumerate() {
                assert!(list[..number].iter().all(|other| other.name != defect.name));
                for id in [defect.noticed, defect.spared] {
                    assert!(cases::all().any(|case| case.id == id), "{}: {id}", defect.name);
                }
            }
        }
    }
}
