//! What an AETH says: syndrome, credits, timers.

/// What an AETH says (R51).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Syndrome(pub u8);

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NakCode {
    /// A packet is missing.
    PsnSequence = 0,
    /// The request is not valid.
    InvalidRequest = 1,
    /// Key, right or range do not allow the access.
    RemoteAccess = 2,
    /// The responder has a problem of its own.
    RemoteOperational = 3,
    /// Invalid RD request; RD does not exist on RoCE.
    InvalidRdRequest = 4,
}

/// A syndrome, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SyndromeKind {
    /// Acknowledged; 31 stands for unlimited credits.
    Ack {
        /// Credit code (R52).
        credits: u8,
    },
    /// Receiver not ready.
    Rnr {
        /// Timer code, see [`rnr_timer_us`].
        timer: u8,
    },
    /// Refused.
    Nak(NakCode),
    /// Refused with a code that is not defined (R74).
    ReservedNak(u8),
    /// Not defined (R51).
    Reserved(u8),
}

impl NakCode {
    /// What it says, in words.
    pub const fn name(self) -> &'static str {
        match self {
            NakCode::PsnSequence => "PSN sequence error",
            NakCode::InvalidRequest => "invalid request",
            NakCode::RemoteAccess => "remote access error",
            NakCode::RemoteOperational => "remote operational error",
            NakCode::InvalidRdRequest => "invalid RD request",
        }
    }
}

impl Syndrome {
    /// Credit code that means "no limit".
    pub const ACK_UNLIMITED: u8 = 31;

    /// An acknowledgement with a credit code.
    pub const fn ack(credits: u8) -> Syndrome {
        Syndrome(credits & 0x1f)
    }

    /// An RNR NAK with a timer code.
    pub const fn rnr(timer: u8) -> Syndrome {
        Syndrome(0x20 | (timer & 0x1f))
    }

    /// A NAK.
    pub const fn nak(code: NakCode) -> Syndrome {
        Syndrome(0x60 | code as u8)
    }

    /// Takes the syndrome apart; total over all bytes.
    pub const fn kind(self) -> SyndromeKind {
        let value = self.0 & 0x1f;
        match self.0 >> 5 {
            0 => SyndromeKind::Ack { credits: value },
            1 => SyndromeKind::Rnr { timer: value },
            3 => match value {
                0 => SyndromeKind::Nak(NakCode::PsnSequence),
                1 => SyndromeKind::Nak(NakCode::InvalidRequest),
                2 => SyndromeKind::Nak(NakCode::RemoteAccess),
                3 => SyndromeKind::Nak(NakCode::RemoteOperational),
                4 => SyndromeKind::Nak(NakCode::InvalidRdRequest),
                other => SyndromeKind::ReservedNak(other),
            },
            _ => SyndromeKind::Reserved(self.0),
        }
    }
}

/// RNR timer code to microseconds. Code 25 is 61440; rxe has 61410 there, a slip (B29).
pub const fn rnr_timer_us(code: u8) -> u32 {
    const TABLE: [u32; 32] = [
        655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560,
        3_840, 5_120, 7_680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880,
        163_840, 245_760, 327_680, 491_520,
    ];
    TABLE[(code & 0x1f) as usize]
}

/// RNR timer code to nanoseconds, as [`rnr_timer_us`].
pub const fn rnr_timer_ns(code: u8) -> u64 {
    rnr_timer_us(code) as u64 * 1000
}

/// Local ACK timeout code to nanoseconds: 4.096 us * 2^code; 0 is never (R75).
pub const fn ack_timeout_ns(code: u8) -> Option<u64> {
    match code & 0x1f {
        0 => None,
        code => Some(4096 << code),
    }
}

/// Credit code to count; 31 is unlimited (R52).
pub const fn credit_count(code: u8) -> Option<u32> {
    match code & 0x1f {
        31 => None,
        code if code < 2 => Some(code as u32),
        code if code % 2 == 0 => Some(1 << (code / 2)),
        code => Some(3 << (code / 2 - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r51_every_byte_has_one_meaning() {
        for byte in 0..=255u8 {
            let again = match Syndrome(byte).kind() {
                SyndromeKind::Ack { credits } => Syndrome::ack(credits).0,
                SyndromeKind::Rnr { timer } => Syndrome::rnr(timer).0,
                SyndromeKind::Nak(code) => Syndrome::nak(code).0,
                SyndromeKind::ReservedNak(code) => 0x60 | code,
                SyndromeKind::Reserved(raw) => raw,
            };
            assert_eq!(again, byte);
        }
    }

    #[test]
    fn b29_rnr_code_25_is_61440_us() {
        assert_eq!(rnr_timer_ns(25), 61_440_000);
        assert_eq!((rnr_timer_us(25), rnr_timer_us(0), rnr_timer_us(12)), (61_440, 655_360, 640));
    }

    #[test]
    fn r75_ack_timeout_codes() {
        assert_eq!(ack_timeout_ns(0), None);
        assert_eq!(ack_timeout_ns(14), Some(67_108_864));
        assert_eq!(ack_timeout_ns(31), Some(4096 << 31));
    }

    #[test]
    fn r52_credit_codes() {
        let counts: [u32; 12] = core::array::from_fn(|i| credit_count(i as u8).unwrap());
        assert_eq!(counts, [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48]);
        assert_eq!((credit_count(30), credit_count(31)), (Some(32_768), None));
    }
}
