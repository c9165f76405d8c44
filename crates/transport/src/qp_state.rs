//! States of a queue pair.

/// State of a queue pair, with the values of `ibv_qp_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum QpState {
    /// Nothing works; all is cleared.
    #[default]
    Reset = 0,
    /// Receives may be posted; packets are dropped.
    Init,
    /// The responder works.
    Rtr,
    /// The requester works too.
    Rts,
    /// No new request starts; those in flight finish.
    Sqd,
    /// The send queue failed (UC, UD); the receive queue works.
    Sqe,
    /// Everything flushes.
    Err,
}

impl QpState {
    /// The name that users know.
    pub fn name(self) -> &'static str {
        match self {
            QpState::Reset => "RESET",
            QpState::Init => "INIT",
            QpState::Rtr => "RTR",
            QpState::Rts => "RTS",
            QpState::Sqd => "SQD",
            QpState::Sqe => "SQE",
            QpState::Err => "ERR",
        }
    }
}
