//! Why a request is sent again.

/// Why a request is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RetransmissionCause {
    /// A NAK said that it is missing; it and all behind it are sent again.
    SequenceNak,
    /// A NAK said that it is missing; only what is missing is sent again.
    SelectiveRepair,
    /// The responder had no receive posted, and asked for a pause.
    RnrNak,
    /// A later answer shows that the response to it was lost.
    ImpliedNak,
    /// The local ACK timeout passed without an answer.
    AckTimeout,
    /// A single packet in a silence that is shorter than a timeout.
    TailProbe,
    /// Nothing in the capture explains it.
    Unexplained,
}

impl RetransmissionCause {
    /// All causes, in the order of [`RetransmissionCause::index`].
    pub const ALL: [Self; 7] = [
        Self::SequenceNak,
        Self::SelectiveRepair,
        Self::RnrNak,
        Self::ImpliedNak,
        Self::AckTimeout,
        Self::TailProbe,
        Self::Unexplained,
    ];

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SequenceNak => "sequence NAK",
            Self::SelectiveRepair => "sequence NAK, only what is missing",
            Self::RnrNak => "RNR NAK",
            Self::ImpliedNak => "implied NAK",
            Self::AckTimeout => "local ACK timeout",
            Self::TailProbe => "tail probe",
            Self::Unexplained => "unexplained",
        }
    }

    /// Its place in [`RetransmissionCause::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_index_and_a_name_of_its_own() {
        for (index, cause) in RetransmissionCause::ALL.into_iter().enumerate() {
            assert_eq!(cause.index(), index);
            let same = |other: &&RetransmissionCause| other.name() == cause.name();
            assert_eq!(RetransmissionCause::ALL.iter().filter(same).count(), 1);
        }
    }
}
