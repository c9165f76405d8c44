//! Every reason for which a packet dies, in the whole product.

use core::fmt;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $counter:literal $explain:literal;)*) => {
        /// Why a packet was dropped. Each reason has a counter; none of them draws an answer
        /// unless the rule named here says so.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DropReason {
            $(#[doc = $explain] $(#[$doc])* $name,)*
        }

        impl DropReason {
            /// All reasons.
            pub const ALL: [DropReason; DropReason::COUNT] = [$(DropReason::$name,)*];
            /// How many there are.
            pub const COUNT: usize = [$($counter,)*].len();

            /// Name of its counter.
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$name => $counter,)* }
            }

            /// What it means and what to look at.
            pub const fn explain(self) -> &'static str {
                match self { $(DropReason::$name => $explain,)* }
            }
        }
    };
}

reasons! {
    RxTruncated "rx_truncated" "The packet was longer than the receive buffer; is the peer's path MTU above 4096?";
    TooShort "too_short" "Shorter than its headers and ICRC: not RoCE, or cut on the way; look at a capture.";
    NotRoce "not_roce" "Not a RoCE packet, by Ethertype, protocol or UDP port; harmless unless it counts on and on.";
    Fragment "fragment" "An IP fragment; RoCE sets DF, so a middlebox or a tunnel cut the packet.";
    IpOptions "ip_options" "IPv4 options or IPv6 extension headers, which RoCE does not use.";
    BadLength "bad_length" "IP, UDP and transport lengths do not agree: a faulty or hostile sender, or a cut packet (B2, B3).";
    UnknownOpcode "unknown_opcode" "The BTH opcode is not one we know: a vendor's own service (DC, say), RD, or a forgery (B1).";
    BadPad "bad_pad" "Pad bytes where there is no payload to pad: a faulty or hostile sender (B2).";
    BadTransportVersion "bad_transport_version" "BTH transport version other than 0 (R2): a faulty sender, as no other version exists.";
    UnknownQpn "unknown_qpn" "No such queue pair here: it was destroyed, or the peer uses an old QPN (R4).";
    NoProcess "no_process" "No process has the slot that the QPN's upper 8 bits name: the one that had it ended, or the peer uses an old QPN.";
    SmiQpn "smi_qpn" "Addressed to QP 0, which RoCE does not have: an InfiniBand tool, or a scan.";
    GsiQpn "gsi_qpn" "Addressed to QP 1, but no single datagram from another QP 1 (A22): no connection manager sends that.";
    ServiceMismatch "service_mismatch" "The opcode is not of the queue pair's service; RC talks to UC, say (R3).";
    XrcDirection "xrc_direction" "An XRC request for an initiator, or an XRC response for a target (X1): the peer has the wrong QPN, or a forgery.";
    QpState "qp_state" "The queue pair is not ready: RTR is needed for requests, RTS for responses (R5).";
    ErrorState "error_state" "The queue pair is in the error state; its first failed completion says why.";
    WrongPeer "wrong_peer" "The source address is not the connected peer's (R8): a wrong GID index there, or a forgery.";
    WrongDestination "wrong_destination" "The destination address is not the one this queue pair is connected from (R8): look at its GID index.";
    PkeyMismatch "pkey_mismatch" "The P_Key does not match (R6); we have one, 0xffff.";
    QkeyMismatch "qkey_mismatch" "The Q_Key is not the UD queue pair's (R7): both sides must agree on it.";
    MulticastNotUd "multicast_not_ud" "A multicast QPN for a queue pair that is not UD (R14).";
    NoMulticastMember "no_multicast_member" "No queue pair is attached to the multicast group; attach one, or leave the group.";
    BadIcrc "bad_icrc" "The ICRC is wrong (R9): the packet was damaged, or NAT, a mirror or a forger altered it.";
    PsnOutOfSequence "psn_out_of_sequence" "Packets before this one are missing; answered with one NAK (R53). SENDs and WRITEs that are kept count as kept_request.";
    PsnNakPending "psn_nak_pending" "Behind a gap that was already NAKed (R53), and not kept: no SEND or WRITE, there already, or too far ahead.";
    KeptDiscarded "kept_discarded" "Kept behind a gap, and thrown away before it was executed: what came before it met no receive (R37) or was refused (R63), or the queue pair failed, was reset or got another path.";
    DuplicateRequest "duplicate_request_answered" "Executed before, and not executed again; answered again, unless the answer to a READ or an atomic behind it says as much, or the end of its message is about to come (R57).";
    DuplicateReadInvalid "duplicate_read_invalid" "A repeated READ that is not part of a remembered one (R58).";
    DuplicateAtomicUnknown "duplicate_atomic_unknown" "A repeated atomic whose result is no longer stored (R59).";
    RnrPending "rnr_pending" "No receive was posted, or an RNR wait is under way (R37).";
    ReplyBudget "reply_budget" "Too many answers to duplicates and gaps in a short time (A26).";
    UcOutOfSequence "uc_out_of_sequence" "UC: part of a damaged message, or a repetition (R97).";
    UcNoReceive "uc_no_receive" "UC: no receive was posted, so the message is lost; post receives ahead.";
    UcInvalid "uc_invalid" "UC: a request that is not valid: wrong lengths or opcode order; look at the sender.";
    UcAccess "uc_access" "UC: key, right or range do not allow the access (R98).";
    UdNoReceive "ud_no_receive" "UD: no receive was posted, so the datagram is lost (R99); post receives ahead.";
    UdTooLong "ud_too_long" "UD: longer than the receive buffer or the port MTU (R99, B9).";
    UdAccess "ud_access" "UD: the receive buffer is not usable under its lkey; look at LOCAL_WRITE and the range.";
    GhostAck "ghost_ack" "An acknowledgement of what was already acknowledged (R70).";
    StaleResponse "stale_response" "A READ or atomic response that was already taken in: a retry crossed its answer; harmless.";
    UnexpectedResponse "unexpected_response" "A response to nothing that was asked (A13): a faulty peer, or a forgery.";
    ResponseOutOfOrder "response_out_of_order" "A response behind a missing one that is not as it was asked for, or has no buffer any more (R69); it is asked for again.";
    ReservedSyndrome "reserved_syndrome" "An AETH syndrome that is not defined (R51, R74): a faulty peer.";
    NakOutsideWindow "nak_outside_window" "A NAK for a PSN that is not outstanding (R72): late, or forged.";
    MadLength "mad_length" "A packet for QP 1 that is no MAD of 256 bytes (R101): a faulty or hostile sender.";
    MadHeader "mad_header" "A MAD of a version, class, method or status that nothing here takes (A22): another service, or a forgery.";
    MadAttribute "mad_attribute" "A MAD whose attribute is no message of connection management (A22): a newer or hostile peer.";
    CmUnknownId "cm_unknown_id" "A message for a connection that is not, or under ids that do not fit it (A23): late, or forged.";
    CmWrongPeer "cm_wrong_peer" "A message for a connection with somebody else (A23): a forgery, or a peer with several addresses.";
    CmWrongState "cm_wrong_state" "A message that does not fit the state of its connection: it was overtaken on the way, or forged.";
    CmDuplicate "cm_duplicate" "A message that came before; its answer was sent again if that helps (R108, R109).";
    CmStale "cm_stale" "A request from a queue pair that a connection here still has (R112): it is asked whether it is alive; 10 s of silence mean that the peer restarted.";
    CmBadRequest "cm_bad_request" "A request whose path, MTU, transport or addresses make no sense; it was rejected.";
    CmNoListener "cm_no_listener" "A request for a port on which nobody listens; it was rejected.";
    CmBacklog "cm_backlog" "Too many requests wait for the application or for their peers (A21); raise the backlog, or accept faster.";
    CmRateLimit "cm_rate_limit" "More requests per second than one source, or all together, may send (A21).";
    CmUnsupported "cm_unsupported" "A message about alternate paths, which RoCE does not have.";
    QueueFull "queue_full" "A receive ring inside the device was full: the application polls too seldom, or the sender is too fast.";
    TxFailed "tx_failed" "The packet could not be sent (no route, link down, send buffer full); the requester retries.";
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_snake_case_and_explained() {
        for (i, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, i);
            let name = reason.name();
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            assert!(DropReason::ALL[..i].iter().all(|other| other.name() != name), "{name}");
            assert!(reason.explain().len() > 20 && reason.explain().ends_with(['.', '?']));
        }
    }
}
