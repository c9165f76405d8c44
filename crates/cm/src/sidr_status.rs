//! How a SIDR_REP answers.

use std::fmt;

/// The status in a SIDR_REP. A newtype, as any 8 bits can come from the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SidrStatus(pub u8);

impl SidrStatus {
    /// QPN and Q_Key follow.
    pub const VALID: SidrStatus = SidrStatus(0);
    /// The service has no listener.
    pub const INVALID_SERVICE_ID: SidrStatus = SidrStatus(1);
    /// Refused by the application.
    pub const REJECTED: SidrStatus = SidrStatus(2);
    /// No queue pair.
    pub const NO_QP: SidrStatus = SidrStatus(3);
    /// The service is elsewhere.
    pub const REDIRECT: SidrStatus = SidrStatus(4);
    /// Version not supported.
    pub const VERSION: SidrStatus = SidrStatus(5);
}

impl fmt::Display for SidrStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.0 {
            0 => "valid",
            1 => "nobody listens on this port",
            2 => "refused by the application",
            3 => "no queue pair",
            4 => "the service is elsewhere",
            5 => "version not supported",
            _ => "a status that is not defined",
        };
        write!(f, "{words} (SIDR status {})", self.0)
    }
}
