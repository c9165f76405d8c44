//! Why a work request failed, in words that say whose fault it was and what to do.

use std::fmt;
use std::net::IpAddr;

use uroce_memory::AccessError;
use uroce_wire::{NakCode, Psn};

use crate::wc_status::WcStatus;

/// Why a work request failed, in more detail than the status of its completion. `Display` gives a sentence that says
/// which side is at fault and what to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Cause {
    /// Nothing to explain.
    #[default]
    None,
    /// No acknowledgement arrived in time, too often (R75).
    NoAnswer {
        /// The peer.
        peer: Option<IpAddr>,
        /// The oldest request that was not acknowledged.
        psn: Psn,
        /// Retries made.
        retries: u8,
        /// How long the first try waited, in nanoseconds; the second waits twice, the others four
        /// times as long.
        timeout_ns: u64,
        /// True if this peer has answered on this QP before.
        heard: bool,
    },
    /// The peer asked for the same packet again too often (R75).
    TooManySequenceNaks {
        /// The peer.
        peer: Option<IpAddr>,
        /// The request that the peer keeps missing.
        psn: Psn,
        /// Retries made.
        retries: u8,
    },
    /// The receiver had no receive work request, too often (R76).
    NeverReady {
        /// The peer.
        peer: Option<IpAddr>,
        /// The request that was refused.
        psn: Psn,
        /// Retries made.
        retries: u8,
        /// How long the peer asked us to wait, in microseconds.
        wait_us: u32,
    },
    /// The responder refused the request (R73).
    Refused {
        /// The peer.
        peer: Option<IpAddr>,
        /// The refused request.
        psn: Psn,
        /// Why.
        code: NakCode,
    },
    /// A local buffer is not usable under its lkey.
    LocalBuffer {
        /// Which scatter/gather entry.
        index: u32,
        /// Its lkey.
        lkey: u32,
        /// What is wrong with it.
        error: AccessError,
    },
    /// The operation does not exist on this kind of QP.
    NotOnThisQp {
        /// RC, UC or UD.
        qp_type: &'static str,
    },
    /// The message does not fit.
    TooLong {
        /// Its length in bytes.
        length: u64,
        /// What would have fitted.
        max: u64,
    },
    /// A message that arrives does not fit; its packets do not tell how long it is in all.
    LongMessage {
        /// Bytes up to the packet that did not fit.
        arrived: u64,
        /// What would have fitted.
        max: u64,
    },
    /// An atomic needs exactly 8 local bytes.
    AtomicLength {
        /// What the work request has.
        length: u64,
    },
    /// The QP was connected with max_rd_atomic 0.
    NoReadDepth,
    /// A window could not be bound.
    Bind(uroce_memory::BindError),
    /// A key could not be invalidated.
    Invalidate(uroce_memory::InvalidateError),
    /// The peer's response is malformed.
    BadResponse {
        /// PSN of the response.
        psn: Psn,
        /// What is wrong.
        what: &'static str,
    },
    /// The peer's request was refused by our responder, which used up this receive.
    BadRequest {
        /// PSN of the request.
        psn: Psn,
        /// What is wrong.
        what: &'static str,
    },
    /// The peer's request was refused because of its remote key.
    BadRemoteKey {
        /// PSN of the request.
        psn: Psn,
        /// What is wrong.
        error: AccessError,
    },
    /// Flushed: another work request, or a state change, put the QP into the error state.
    Flushed(FlushReason),
}

/// What put a queue pair into the error state, where its work requests are flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FlushReason {
    /// The program moved it there, or its connection ended.
    #[default]
    ByModify,
    /// A send work request failed.
    SendFailed {
        /// The `wr_id` of that work request.
        wr_id: u64,
        /// Status of its completion.
        status: WcStatus,
    },
    /// A receive work request failed.
    RecvFailed {
        /// The `wr_id` of that work request.
        wr_id: u64,
        /// Status of its completion.
        status: WcStatus,
    },
    /// A request of the peer was refused (R63): the peer is at fault, or was told a wrong address or key. With a remote
    /// operational error this side is: it could not execute the request.
    PeerViolation {
        /// PSN of the request.
        psn: Psn,
        /// Code of the NAK that answered the request.
        code: NakCode,
    },
    /// The completion queue overflowed (R66).
    CqOverflow,
}

/// A success needs no cause.
impl From<()> for Cause {
    fn from((): ()) -> Self {
        Cause::None
    }
}

impl Cause {
    /// A stable number per kind of cause, shown as `vendor_err`.
    pub fn code(&self) -> u32 {
        match self {
            Cause::None => 0,
            Cause::NoAnswer { .. } => 1,
            Cause::TooManySequenceNaks { .. } => 2,
            Cause::NeverReady { .. } => 3,
            Cause::Refused { .. } => 4,
            Cause::LocalBuffer { .. } => 5,
            Cause::NotOnThisQp { .. } => 6,
            Cause::TooLong { .. } | Cause::LongMessage { .. } => 7,
            Cause::AtomicLength { .. } => 8,
            Cause::Bind(_) => 9,
            Cause::Invalidate(_) => 10,
            Cause::BadResponse { .. } => 11,
            Cause::BadRequest { .. } => 12,
            Cause::BadRemoteKey { .. } => 13,
            Cause::Flushed(_) => 14,
            Cause::NoReadDepth => 15,
        }
    }
}

struct PeerText(Option<IpAddr>);

impl fmt::Display for PeerText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(ip) => write!(f, "peer {ip}"),
            None => f.write_str("the peer"),
        }
    }
}

struct Ns(u64);

impl fmt::Display for Ns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ns if ns < 10_000_000 => write!(f, "{} us", ns / 1_000),
            ns if ns < 10_000_000_000 => write!(f, "{} ms", ns / 1_000_000),
            ns => write!(f, "{} s", ns / 1_000_000_000),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Cause::None => f.write_str("no error"),
            Cause::NoAnswer { peer, psn, retries, timeout_ns, heard } => {
                write_no_answer(f, peer, psn, retries, timeout_ns, heard)
            }
            Cause::TooManySequenceNaks { peer, psn, retries } => write!(
                f,
                "{} reported PSN {:#x} missing again after {retries} retries: the network loses or \
                 alters most packets of this flow; check the path MTU and the ICRC counters",
                PeerText(peer),
                psn.get()
            ),
            Cause::NeverReady { peer, psn, retries, wait_us } => write!(
                f,
                "{} had no receive posted for PSN {:#x} in {retries} retries ({wait_us} us apart): \
                 post receives there before sending, or raise rnr_retry (7 waits for ever)",
                PeerText(peer),
                psn.get()
            ),
            Cause::Refused { peer, psn, code } => write_refused(f, peer, psn, code),
            Cause::LocalBuffer { index, lkey, error } => write!(
                f,
                "scatter/gather entry {index} (lkey {lkey:#x}) is not usable here: {error}"
            ),
            Cause::NotOnThisQp { qp_type } => {
                write!(f, "this operation does not exist on a {qp_type} queue pair")
            }
            Cause::TooLong { length, max } => {
                write!(f, "a message of {length} bytes, but only {max} fit")
            }
            Cause::LongMessage { arrived, max } => {
                write!(f, "a message of at least {arrived} bytes, but only {max} fit")
            }
            Cause::AtomicLength { length } => {
                write!(f, "the local buffer has {length} bytes, but this operation needs exactly 8")
            }
            Cause::NoReadDepth => f.write_str(
                "this QP was connected with max_rd_atomic 0: READ and atomic requests need 1 or more",
            ),
            Cause::Bind(error) => write!(f, "the window was not bound: {error}"),
            Cause::Invalidate(error) => write!(f, "the key was not invalidated: {error}"),
            Cause::BadResponse { psn, what } => {
                write!(f, "the peer's response with PSN {:#x} is wrong: {what}", psn.get())
            }
            Cause::BadRequest { psn, what } => {
                write!(f, "the peer's request with PSN {:#x} is wrong: {what}", psn.get())
            }
            Cause::BadRemoteKey { psn, error } => {
                write!(f, "the peer's request with PSN {:#x} was refused: {error}", psn.get())
            }
            Cause::Flushed(reason) => write!(f, "flushed: {reason}"),
        }
    }
}

fn write_no_answer(
    f: &mut fmt::Formatter<'_>,
    peer: Option<IpAddr>,
    psn: Psn,
    retries: u8,
    timeout_ns: u64,
    heard: bool,
) -> fmt::Result {
    write!(
        f,
        "{} answered nothing to PSN {:#x} in {retries} retries ({} to {} each): ",
        PeerText(peer),
        psn.get(),
        Ns(timeout_ns),
        Ns(timeout_ns << retries.min(2))
    )?;
    f.write_str(if heard {
        "it answered earlier, so it has died, its QP is in the error state, or the network broke"
    } else {
        "it never answered on this QP; is it running, are its QPN and GID right, is UDP 4791 open there?"
    })
}

fn write_refused(
    f: &mut fmt::Formatter<'_>,
    peer: Option<IpAddr>,
    psn: Psn,
    code: NakCode,
) -> fmt::Result {
    write!(f, "{} refused PSN {:#x}: ", PeerText(peer), psn.get())?;
    f.write_str(match code {
        NakCode::PsnSequence => "sequence error",
        NakCode::InvalidRequest => {
            "invalid request; a message longer than its receive buffer, a path MTU other than that of its \
             QP (both ends need the same), a misaligned atomic, more READs than its max_dest_rd_atomic, \
             or an operation that its QP does not allow"
        }
        NakCode::RemoteAccess => {
            "remote access error; check the rkey, the address range, the access flags of the \
             region and of the QP, and that both belong to one protection domain there"
        }
        NakCode::RemoteOperational => {
            "remote operational error; its own receive buffer or lkey is wrong"
        }
        NakCode::InvalidRdRequest => "invalid RD request",
    })
}

/// The name that IBTA gives the code.
fn nak_name(code: NakCode) -> &'static str {
    match code {
        NakCode::PsnSequence => "PSN sequence error",
        NakCode::InvalidRequest => "invalid request",
        NakCode::RemoteAccess => "remote access error",
        NakCode::RemoteOperational => "remote operational error",
        NakCode::InvalidRdRequest => "invalid RD request",
    }
}

impl fmt::Display for FlushReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FlushReason::ByModify => f.write_str(
                "the QP was moved to the error state, by the program or as its connection ended",
            ),
            FlushReason::SendFailed { wr_id, status } => {
                write!(f, "send work request {wr_id} failed before ({status})")
            }
            FlushReason::RecvFailed { wr_id, status } => {
                write!(f, "receive work request {wr_id} failed before ({status})")
            }
            FlushReason::PeerViolation { psn, code } => write!(
                f,
                "a request of the peer (PSN {:#x}) was refused by a NAK, {}; the peer's completion of that \
                 request says what to look at there; reset this QP and connect it again",
                psn.get(),
                nak_name(code)
            ),
            FlushReason::CqOverflow => {
                f.write_str("its completion queue overflowed; create it larger or poll more often")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_after_a_refused_request_names_the_side_at_fault_and_what_to_do() {
        let reason =
            FlushReason::PeerViolation { psn: Psn::new(0x1a2b), code: NakCode::RemoteAccess };
        let text = Cause::Flushed(reason).to_string();
        assert!(text.contains("a request of the peer (PSN 0x1a2b)"), "{text}");
        assert!(
            text.contains("remote access error") && text.contains("connect it again"),
            "{text}"
        );
    }

    #[test]
    fn v135_what_arrived_of_a_long_message_is_named_as_a_part_of_it() {
        let text = Cause::LongMessage { arrived: 2048, max: 1024 }.to_string();
        assert!(text.contains("at least 2048 bytes") && text.contains("only 1024 fit"), "{text}");
    }
}
