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
    TooShort "too_short" "Shorter than BTH and ICRC: not RoCE, or cut on the way.";
    NotRoce "not_roce" "Not a RoCE packet: wrong Ethertype, protocol or UDP port.";
    Fragment "fragment" "An IP fragment; RoCE sets DF, so a middlebox or a tunnel cut the packet.";
    IpOptions "ip_options" "IPv4 options or IPv6 extension headers, which RoCE does not use.";
    BadLength "bad_length" "IP, UDP and transport lengths do not agree.";
    UnknownOpcode "unknown_opcode" "The BTH opcode is not defined.";
    BadPad "bad_pad" "Pad bytes where there is no payload.";
    BadTransportVersion "bad_transport_version" "BTH transport version other than 0 (R2).";
    UnknownQpn "unknown_qpn" "No such queue pair here: it was destroyed, or the peer uses an old QPN (R4).";
    SmiQpn "smi_qpn" "Addressed to QP 0, which RoCE does not have.";
    GsiQpn "gsi_qpn" "Addressed to QP 1, and no connection manager listens.";
    ServiceMismatch "service_mismatch" "The opcode is not of the queue pair's service; RC talks to UC, say (R3).";
    QpState "qp_state" "The queue pair is not ready: RTR is needed for requests, RTS for responses (R5).";
    ErrorState "error_state" "The queue pair is in the error state.";
    WrongPeer "wrong_peer" "The source address is not the connected peer's (R8): a wrong GID index there, or a forgery.";
    WrongDestination "wrong_destination" "The destination address is not the one this queue pair is connected from (R8).";
    PkeyMismatch "pkey_mismatch" "The P_Key does not match (R6).";
    QkeyMismatch "qkey_mismatch" "The Q_Key does not match the UD queue pair's (R7).";
    MulticastNotUd "multicast_not_ud" "A multicast QPN for a queue pair that is not UD (R14).";
    NoMulticastMember "no_multicast_member" "No queue pair is attached to the multicast group.";
    BadIcrc "bad_icrc" "The ICRC is wrong (R9): damaged, or altered by NAT or a mirror.";
    PsnOutOfSequence "psn_out_of_sequence" "Packets before this one are missing; answered with one NAK (R53).";
    PsnNakPending "psn_nak_pending" "Behind a gap that was already NAKed (R53).";
    DuplicateRequest "duplicate_request_answered" "Executed before; answered again, not executed again (R57).";
    DuplicateReadInvalid "duplicate_read_invalid" "A repeated READ that is not part of a remembered one (R58).";
    DuplicateAtomicUnknown "duplicate_atomic_unknown" "A repeated atomic whose result is no longer stored (R59).";
    RnrPending "rnr_pending" "No receive was posted, or an RNR wait is under way (R37).";
    ReplyBudget "reply_budget" "Too many answers to duplicates and gaps in a short time (S6).";
    UcOutOfSequence "uc_out_of_sequence" "UC: part of a damaged message, or a repetition (R97).";
    UcNoReceive "uc_no_receive" "UC: no receive was posted.";
    UcInvalid "uc_invalid" "UC: a request that is not valid.";
    UcAccess "uc_access" "UC: key, right or range do not allow the access (R98).";
    UdNoReceive "ud_no_receive" "UD: no receive was posted (R99).";
    UdTooLong "ud_too_long" "UD: longer than the receive buffer or the port MTU (R99, B9).";
    UdAccess "ud_access" "UD: the receive buffer is not usable under its lkey.";
    GhostAck "ghost_ack" "An acknowledgement of what was already acknowledged (R70).";
    StaleResponse "stale_response" "A READ or atomic response that was already taken in.";
    UnexpectedResponse "unexpected_response" "A response to nothing that was asked (A13).";
    ResponseOutOfOrder "response_out_of_order" "A response behind one that is missing; the READ is asked for again (R68).";
    ReservedSyndrome "reserved_syndrome" "An AETH syndrome that is not defined (R51, R74).";
    NakOutsideWindow "nak_outside_window" "A NAK for a PSN that is not outstanding (R72).";
    QueueFull "queue_full" "A receive ring inside the device was full.";
    TxFailed "tx_failed" "The packet could not be sent; the requester recovers by retry.";
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
