//! Counters under rxe's names, and one per drop reason.

use uroce_wire::DropReason;

use crate::retransmission::Retransmission;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What happened so far. Names as in `rdma statistic show` of rxe, ours after them.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
            drops: [u64; DropReason::COUNT],
            latest_drop: Option<DropReason>,
            latest_retransmission: Option<Retransmission>,
        }

        impl Default for Counters {
            fn default() -> Self {
                Counters {
                    $($name: 0,)*
                    drops: [0; DropReason::COUNT],
                    latest_drop: None,
                    latest_retransmission: None,
                }
            }
        }

        impl Counters {
            /// Every counter with its name; those of the drop reasons are prefixed by `drop_` in
            /// the device's view.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Packets sent.
    sent_pkts,
    /// Packets accepted.
    rcvd_pkts,
    /// Requests that had been executed before (R57).
    duplicate_request,
    /// Requests with a PSN beyond the expected one (R53).
    out_of_seq_request,
    /// RNR NAKs received.
    rcvd_rnr_err,
    /// RNR NAKs sent.
    send_rnr_err,
    /// Sequence-error NAKs received.
    rcvd_seq_err,
    /// Acknowledgements that were coalesced into a later one.
    ack_deferred,
    /// QPs that gave up after too many timeouts (R75).
    retry_exceeded_err,
    /// QPs that gave up after too many RNR NAKs (R76).
    retry_rnr_exceeded_err,
    /// Times the requester started over from an earlier PSN.
    completer_retry_err,
    /// Send work requests that failed locally.
    send_err,
    /// Times the link went down.
    link_downed,
    /// RDMA operations requested (WRITE, READ, atomics).
    rdma_sends,
    /// RDMA operations executed for a peer; a WRITE that it has split is several (ADR 36).
    rdma_recvs,
    /// Bytes sent, from BTH to ICRC.
    sent_bytes,
    /// Bytes accepted, from BTH to ICRC.
    rcvd_bytes,
    /// Local ACK timeouts.
    ack_timeout,
    /// Request packets sent again.
    retransmitted_pkts,
    /// Requests that came behind a gap and were kept until it was closed (ADR 17).
    kept_request,
    /// Acknowledgements that left by themselves, since a requester did not go on with what it was sending again (R44).
    delayed_ack,
    /// NAKs sent, of all kinds but RNR.
    sent_nak,
    /// NAKs received that end a QP (R73).
    rcvd_fatal_nak,
    /// Congestion notifications received.
    rcvd_cnp,
    /// Asynchronous events that did not fit their queue.
    lost_events,
    /// Completions that did not fit their queue.
    lost_completions,
}

impl Counters {
    /// All zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a dropped packet.
    pub fn drop(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
        self.latest_drop = Some(reason);
    }

    /// Counts packets that came earlier and are dropped now.
    pub(crate) fn drop_earlier(&mut self, reason: DropReason, packets: u64) {
        self.drops[reason as usize] += packets;
    }

    /// Counts request packets that are sent again.
    #[inline]
    pub(crate) fn retransmit(&mut self, packets: u32, why: Retransmission) {
        self.retransmitted_pkts += u64::from(packets);
        self.latest_retransmission = Some(why);
    }

    /// The reason that was counted last, once: what became of the packet that has just come in, for a capture.
    pub fn take_latest_drop(&mut self) -> Option<DropReason> {
        self.latest_drop.take()
    }

    /// Why the packet that was polled last is sent again, once, if it is: for a capture.
    #[inline]
    pub fn take_latest_retransmission(&mut self) -> Option<Retransmission> {
        self.latest_retransmission.take()
    }

    /// Packets dropped for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// Every drop reason with its count.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|reason| (*reason, self.dropped(*reason)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rxe_names_come_first() {
        let names: Vec<_> = Counters::new().iter().map(|(name, _)| name).collect();
        assert_eq!(&names[..3], &["sent_pkts", "rcvd_pkts", "duplicate_request"]);
        assert_eq!(names[14], "rdma_recvs");
    }

    #[test]
    fn each_drop_has_its_own_counter() {
        let mut counters = Counters::new();
        for reason in DropReason::ALL {
            counters.drop(reason);
        }
        assert!(counters.drops().all(|(_, count)| count == 1));
    }
}
