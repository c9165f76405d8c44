//! Outcomes of work requests.

use std::fmt;

/// Outcome of a work request, with the values of `ibv_wc_status`. The `cause` of the completion says more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WcStatus {
    /// The work request is done.
    #[default]
    Success = 0,
    /// The message does not fit: a receive of this side is shorter than what the peer sent, or a send is too long.
    LocLenErr = 1,
    /// The work request cannot be done on this queue pair: a mistake of the program.
    LocQpOpErr = 2,
    /// End-to-end context error; RD only, never raised.
    LocEecOpErr = 3,
    /// A buffer of this side is not covered by its lkey, or lacks a right: a mistake of the program.
    LocProtErr = 4,
    /// Flushed because the queue pair is in the error state; the cause of the completion says why.
    WrFlushErr = 5,
    /// A memory window of this side could not be bound.
    MwBindErr = 6,
    /// The peer's response is not what was asked for: the peer is faulty.
    BadRespErr = 7,
    /// The peer sent a WRITE with immediate to memory that it may not write.
    LocAccessErr = 8,
    /// The peer calls the request invalid: it is too long for the peer's receive, or not allowed on its queue pair.
    RemInvReqErr = 9,
    /// The peer refuses access to its memory: wrong rkey, range or rights.
    RemAccessErr = 10,
    /// The peer could not complete the request: a receive or an lkey of the peer is wrong.
    RemOpErr = 11,
    /// All retries are used up: the peer is gone, not connected yet, or the path loses packets.
    RetryExcErr = 12,
    /// The peer had no receive posted in all retries.
    RnrRetryExcErr = 13,
    /// A device failed fatally; this one never raises it.
    FatalErr = 19,
    /// Anything else.
    GeneralErr = 21,
}

impl WcStatus {
    /// The constant's name in `verbs.h`.
    pub fn name(self) -> &'static str {
        match self {
            WcStatus::Success => "IBV_WC_SUCCESS",
            WcStatus::LocLenErr => "IBV_WC_LOC_LEN_ERR",
            WcStatus::LocQpOpErr => "IBV_WC_LOC_QP_OP_ERR",
            WcStatus::LocEecOpErr => "IBV_WC_LOC_EEC_OP_ERR",
            WcStatus::LocProtErr => "IBV_WC_LOC_PROT_ERR",
            WcStatus::WrFlushErr => "IBV_WC_WR_FLUSH_ERR",
            WcStatus::MwBindErr => "IBV_WC_MW_BIND_ERR",
            WcStatus::BadRespErr => "IBV_WC_BAD_RESP_ERR",
            WcStatus::LocAccessErr => "IBV_WC_LOC_ACCESS_ERR",
            WcStatus::RemInvReqErr => "IBV_WC_REM_INV_REQ_ERR",
            WcStatus::RemAccessErr => "IBV_WC_REM_ACCESS_ERR",
            WcStatus::RemOpErr => "IBV_WC_REM_OP_ERR",
            WcStatus::RetryExcErr => "IBV_WC_RETRY_EXC_ERR",
            WcStatus::RnrRetryExcErr => "IBV_WC_RNR_RETRY_EXC_ERR",
            WcStatus::FatalErr => "IBV_WC_FATAL_ERR",
            WcStatus::GeneralErr => "IBV_WC_GENERAL_ERR",
        }
    }
}

impl fmt::Display for WcStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WcStatus::Success => "success",
            WcStatus::LocLenErr => "local length error",
            WcStatus::LocQpOpErr => "local QP operation error",
            WcStatus::LocEecOpErr => "local EE context operation error",
            WcStatus::LocProtErr => "local protection error",
            WcStatus::WrFlushErr => "Work Request Flushed Error",
            WcStatus::MwBindErr => "memory bind operation error",
            WcStatus::BadRespErr => "bad response error",
            WcStatus::LocAccessErr => "local access error",
            WcStatus::RemInvReqErr => "remote invalid request error",
            WcStatus::RemAccessErr => "remote access error",
            WcStatus::RemOpErr => "remote operation error",
            WcStatus::RetryExcErr => "transport retry counter exceeded",
            WcStatus::RnrRetryExcErr => "RNR retry counter exceeded",
            WcStatus::FatalErr => "fatal error",
            WcStatus::GeneralErr => "general error",
        })
    }
}
