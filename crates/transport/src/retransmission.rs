//! Why a packet is sent again.

/// Why the requester sends a packet again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Retransmission {
    /// The local ACK timeout passed without an answer (R75).
    #[default]
    AckTimeout,
    /// A NAK says that it is missing; it and all behind it are sent again (R71).
    SequenceNak,
    /// A NAK says that it is missing; only that is sent again (ADR 17).
    SelectiveRepeat,
    /// A later response shows that the one to it was lost (R68).
    ImpliedNak,
    /// The responder had no receive posted (R76).
    RnrNak,
    /// The peer is silent for longer than it was before.
    TailProbe,
}

impl Retransmission {
    /// In words, for a capture.
    pub const fn comment(self) -> &'static str {
        match self {
            Retransmission::AckTimeout => "retransmission: local ACK timeout",
            Retransmission::SequenceNak => "retransmission: sequence NAK",
            Retransmission::SelectiveRepeat => "retransmission: sequence NAK, only what is missing",
            Retransmission::ImpliedNak => "retransmission: implied NAK",
            Retransmission::RnrNak => "retransmission: RNR NAK",
            Retransmission::TailProbe => "retransmission: tail probe",
        }
    }
}
