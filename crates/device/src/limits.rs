//! Every limit of the device in one place, in the spirit of rxe's `rxe_param.h`.

use uroce_transport::limits as transport;

/// Most packets received in one poll iteration of an engine. Bounds how long an iteration can hold
/// the lock.
pub const RX_BUDGET: usize = 64;
/// Most packets sent in one poll iteration of an engine, over all queue pairs.
pub const TX_BUDGET: usize = 256;
/// Most packets that one queue pair may send before the next ready one is served.
pub const TX_QP_BUDGET: usize = 64;
/// Most answers, in packets, that wait in an engine although their queue pairs have ended: as many as sixteen READs of 256 KiB
/// have with path MTU 1024.
pub const LAST_ANSWERS: usize = 4_096;
/// Most poll iterations in which they leave when the process ends: twice as many as they need where the datapath takes all of them.
pub const LAST_POLLS: usize = 2 * LAST_ANSWERS / TX_BUDGET;
/// Unacknowledged bytes to one destination, over all queue pairs. Four windows: enough to keep a link
/// busy, and little enough for the socket buffer of its receiver.
pub const IN_FLIGHT_BYTES: u64 = 1024 * 1024;
/// Doorbell coalescing: posted requests that are held back to leave as one GSO batch while earlier
/// ones are unacknowledged and the application polls. A packet on its own costs ten times as much
/// as one in a batch.
pub const DOORBELL_BATCH: usize = 32;
/// [`DOORBELL_BATCH`] for posts of several requests: as many as packets in a GSO batch.
pub const DOORBELL_BATCH_OF_LISTS: usize = TX_QP_BUDGET;
/// Most timers served in one poll iteration; the rest stay due and are served in the next.
pub const TIMER_BUDGET: usize = 256;
/// How many of the last destroyed QPNs are not given out again (A8).
pub const QPN_QUARANTINE: usize = 65_536;
/// [`QPN_QUARANTINE`] where several processes share an address: a quarter of the QPNs of a slot.
pub const QPN_QUARANTINE_IN_SLOT: usize = 16_384;
/// Queue pairs of a device that shares its address: half of the QPNs of a slot, so that a number is found
/// quickly and a random probe misses as often as not.
pub const MAX_QP_IN_SLOT: usize = 32_768;
/// Draws before QPN allocation gives up. With the default `max_qp` the chance of coming near is nil.
pub const QPN_DRAWS: usize = 1_000;
/// Most engines of a device.
pub const MAX_ENGINES: u8 = 64;
/// CQs of one engine, SRQs and XRC domains likewise: what their numbers have room for.
pub const MAX_OBJECTS_IN_ENGINE: usize = 1 << 24;
/// Most undelivered asynchronous events. Equal events that were not fetched yet are merged first.
pub const ASYNC_EVENTS: usize = 4_096;
/// GID table length. Entries 0 and 1 are the device's address, the rest are empty.
pub const GID_TABLE_LEN: u32 = 2;

/// An application that polled a CQ less than this long ago drives the engine itself (ns).
pub const APPLICATION_POLLING_NS: u64 = 1_000_000;
/// Packets of a poll iteration after which the clock is read again: on a slow processor they take
/// longer than [`APPLICATION_POLLING_NS`].
pub const LONG_POLL_PACKETS: usize = 16;
/// How long the progress thread spins after the last packet before it sleeps (ns): a wake-up costs 30 to
/// 65 us, and often brings the thread to the processor of the one that sends.
pub const SPIN_NS: u64 = 200_000;
/// Longest gap between two poll iterations with work that belong to one stream (ns).
pub const STREAM_GAP_NS: u64 = 50_000;
/// Spin time without packets that the progress thread gets for work in a stream, as a multiple of
/// the time of that work.
pub const EXTRA_SPIN_PER_WORK: u64 = 4;
/// Longest such spin time beyond [`SPIN_NS`] (ns): what another program takes from the peer.
pub const MAX_EXTRA_SPIN_NS: u64 = 5_000_000;
/// An application that has not polled for this long has stopped, and was not just preempted (ns).
pub const APPLICATION_IDLE_NS: u64 = 100_000_000;
/// Most poll iterations in other engines of the process by a thread that has released its own
/// engine. The rest is left to their own threads.
pub const MAX_ASSISTS: usize = 8;
/// Pause before a transmit that the kernel refused (EAGAIN) is tried again (ns).
pub const TX_RETRY_NS: u64 = 200_000;

/// How many objects, and how large, one device allows. Programs size their queues by what they are told, so the
/// defaults are what can be made, as many and as large, on any datapath.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Queue pairs. Kept far below 2^24 so that a random probe for a live QPN stays expensive (A8), and within
    /// what one process has where several share an address.
    pub max_qp: usize,
    /// Work requests in one send or receive queue.
    pub max_qp_wr: u32,
    /// Scatter/gather entries of one work request.
    pub max_sge: u32,
    /// Inline bytes of one work request.
    pub max_inline: u32,
    /// Completion queues.
    pub max_cq: usize,
    /// Entries of one completion queue.
    pub max_cqe: u32,
    /// Shared receive queues.
    pub max_srq: usize,
    /// Work requests in one shared receive queue.
    pub max_srq_wr: u32,
    /// Scatter/gather entries of one SRQ work request.
    pub max_srq_sge: u32,
    /// Protection domains.
    pub max_pd: usize,
    /// Memory regions.
    pub max_mr: usize,
    /// Memory windows.
    pub max_mw: usize,
    /// Outstanding RDMA READ and atomic requests of one queue pair, each way.
    pub max_qp_rd_atom: u8,
    /// Multicast groups.
    pub max_mcast_grp: usize,
    /// Queue pairs attached to one multicast group.
    pub max_mcast_qp_attach: usize,
}

impl Default for DeviceLimits {
    fn default() -> Self {
        DeviceLimits {
            max_qp: MAX_QP_IN_SLOT,
            max_qp_wr: transport::MAX_QP_WR,
            max_sge: transport::MAX_SGE,
            max_inline: transport::MAX_INLINE,
            max_cq: 65_536,
            max_cqe: transport::MAX_CQE,
            max_srq: transport::MAX_SRQ as usize,
            max_srq_wr: transport::MAX_SRQ_WR,
            max_srq_sge: transport::MAX_SGE,
            max_pd: 65_536,
            max_mr: 1 << 19,
            max_mw: 1 << 19,
            max_qp_rd_atom: transport::MAX_RD_ATOMIC,
            max_mcast_grp: 8_192,
            max_mcast_qp_attach: 1_024,
        }
    }
}
