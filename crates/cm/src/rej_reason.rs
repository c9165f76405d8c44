//! Why a REJ was sent.

use std::fmt;

macro_rules! reasons {
    ($($name:ident = $code:literal $words:literal;)*) => {
        /// The reason in a REJ. A newtype, as any 16 bits can come from the wire.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct RejReason(pub u16);

        impl RejReason {
            $(#[doc = $words] pub const $name: RejReason = RejReason($code);)*

            /// In words; the kernel prints similar ones.
            pub const fn words(self) -> &'static str {
                match self.0 { $($code => $words,)* _ => "a reason that is not defined" }
            }
        }
    };
}

reasons! {
    NO_QP = 1 "no queue pair";
    NO_EEC = 2 "no end-to-end context";
    NO_RESOURCES = 3 "no resources";
    TIMEOUT = 4 "timeout";
    UNSUPPORTED = 5 "unsupported request";
    INVALID_COMM_ID = 6 "invalid communication id";
    INVALID_COMM_INSTANCE = 7 "invalid communication instance";
    INVALID_SERVICE_ID = 8 "nobody listens on this port";
    INVALID_TRANSPORT_TYPE = 9 "invalid transport type";
    STALE_CONNECTION = 10 "stale connection";
    RDC_MISSING = 11 "reliable datagram channel missing";
    INVALID_GID = 12 "invalid GID";
    INVALID_LID = 13 "invalid LID";
    INVALID_SL = 14 "invalid service level";
    INVALID_TRAFFIC_CLASS = 15 "invalid traffic class";
    INVALID_HOP_LIMIT = 16 "invalid hop limit";
    INVALID_PACKET_RATE = 17 "invalid packet rate";
    INVALID_ALT_GID = 18 "invalid GID of the alternate path";
    INVALID_ALT_LID = 19 "invalid LID of the alternate path";
    INVALID_ALT_SL = 20 "invalid service level of the alternate path";
    INVALID_ALT_TRAFFIC_CLASS = 21 "invalid traffic class of the alternate path";
    INVALID_ALT_HOP_LIMIT = 22 "invalid hop limit of the alternate path";
    INVALID_ALT_PACKET_RATE = 23 "invalid packet rate of the alternate path";
    CM_REDIRECT = 24 "the connection manager is elsewhere";
    PORT_REDIRECT = 25 "the service is at another port";
    INVALID_MTU = 26 "invalid path MTU";
    INSUFFICIENT_RESPONDER_RESOURCES = 27 "insufficient responder resources";
    CONSUMER = 28 "refused by the application";
    INVALID_RNR_RETRY = 29 "invalid RNR retry count";
    DUPLICATE_COMM_ID = 30 "duplicate local communication id";
    INVALID_CLASS_VERSION = 31 "invalid class version";
    INVALID_FLOW_LABEL = 32 "invalid flow label";
    INVALID_ALT_FLOW_LABEL = 33 "invalid flow label of the alternate path";
    VENDOR_OPTION_NOT_SUPPORTED = 35 "vendor option not supported";
}

impl fmt::Display for RejReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (REJ reason {})", self.words(), self.0)
    }
}
