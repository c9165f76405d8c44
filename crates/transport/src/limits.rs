//! Every limit of the transport in one place, as rxe has them in `rxe_param.h`.

/// Largest message, in bytes (C9-94): 2^31.
pub const MAX_MESSAGE: u64 = 1 << 31;
/// Largest number of scatter/gather entries of one work request (rxe: 32).
pub const MAX_SGE: u32 = 32;
/// Largest number of work requests of one queue (rxe: 2^20).
pub const MAX_QP_WR: u32 = 1 << 20;
/// Largest inline payload in bytes (rxe: 512).
pub const MAX_INLINE: u32 = 1024;
/// Largest number of completions of one CQ.
pub const MAX_CQE: u32 = 1 << 22;
/// Largest number of work requests of one SRQ (rxe: 2^20).
pub const MAX_SRQ_WR: u32 = 1 << 20;
/// Largest number of SRQs of one device: their places are 16 of the 24 bits of an SRQ number (X2).
pub const MAX_SRQ: u32 = 1 << 16;
/// Most READ and atomic requests in flight, either way (rxe: 128).
pub const MAX_RD_ATOMIC: u8 = 128;
/// Most request PSNs in flight of one QP before the requester waits for an acknowledgement, unless the path was shown to
/// hold more (ADR 32).
pub const SHORT_PATH_WINDOW: u32 = 256;
/// The request window of a QP that has not lost anything yet, in packets.
pub const INITIAL_WINDOW: u32 = 64;
/// The window never shrinks below this: so little overruns no receiver, and less would starve the link
/// between two losses.
pub const MIN_WINDOW: u32 = 32;
/// The loss of a single packet, when the peer has the ones behind it in a reorder buffer, takes this share of the window.
pub const SINGLE_LOSS_SHARE: u32 = 64;
/// After a loss the window grows by one packet for so many that are acknowledged.
pub const WINDOW_GROWTH: u32 = 8;
/// After so many trains in a row of which nothing was heard a QP sends packets singly, to see whether it is
/// trains that get lost.
pub const TRAINS_IN_VAIN: u32 = 3;
/// A WRITE longer than this does not leave as one WRITE ONLY for each packet, in bytes: the second send that its RETH costs is a
/// small part of it (ADR 36).
pub const SPLIT_WRITE_BYTES: u64 = 64 * 1024;
/// A suspicion that trains get lost is forgotten after this time (ns).
pub const SUSPICION_NS: u64 = 10_000_000_000;
/// So often the same READ responses are asked for before they are sent singly, for the same reason,
pub const READS_IN_VAIN: u32 = 3;
/// and for so long (ns).
pub const READS_IN_VAIN_NS: u64 = 50_000_000;
/// Tail probes before the requester waits for its timeout.
pub const TAIL_PROBES: u32 = 3;
/// A tail probe waits this long (ns) beyond four round trips, for a peer that is busy.
pub const TAIL_PROBE_NS: u64 = 200_000;
/// The first tail probe of a QP whose round trip is not known waits for this share of its timeout.
pub const FIRST_PROBE_SHARE: u64 = 16;
/// So often that wait doubles at most, after probes that something came back of: to half of the timeout.
pub const FIRST_PROBE_DOUBLINGS: u32 = FIRST_PROBE_SHARE.trailing_zeros() - 1;
/// Messages without a completion ask for no ACK while the last one that did left less than this ago (ns).
pub const ACK_REQUEST_INTERVAL_NS: u64 = 100_000;
/// Most request payload in flight of one QP on a short path, in bytes; a receiver's socket buffer holds about this.
pub const SHORT_PATH_WINDOW_BYTES: u64 = 256 * 1024;
/// Most request payload in flight of one QP on any path, in bytes: 10 Gb/s for 13 ms.
pub const MAX_WINDOW_BYTES: u64 = 16 * 1024 * 1024;
/// Most request PSNs in flight of one QP on any path.
pub const MAX_WINDOW: u32 = 16 * 1024;
/// A path with a round trip below this (ns) is short: the window of a short path fills 8 Gb/s in that time.
pub const LONG_PATH_NS: u64 = 250_000;
/// The shortest round trip of a path is that of the last one or two periods of this length (ns).
pub const ROUND_TRIP_PERIOD_NS: u64 = 10_000_000_000;
/// The window of a QP may grow to so many times what was delivered in a round trip: the rest waits in queues.
pub const WINDOW_PER_PATH: u32 = 2;
/// While lost packets are sent again to a peer with a reorder buffer, the window of a QP is larger by this share (as a divisor) of that of a short
/// path, and by more once the peer has told that it keeps more: what is in that buffer is not on its way any more.
pub const KEPT_SHARE: u32 = 2;
/// Room for the headers, pad and ICRC of a request in a reorder buffer.
pub const REORDER_HEADERS: usize = 64;
/// Bytes of a block of a reorder buffer: requests of the window of a short path, at any path MTU.
pub const REORDER_BLOCK_BYTES: usize = SHORT_PATH_WINDOW as usize * (1024 + REORDER_HEADERS);
/// Most blocks of one reorder buffer: the largest window, and one more, because the first block may begin before that.
pub const REORDER_BLOCKS_PER_QP: usize = (MAX_WINDOW / SHORT_PATH_WINDOW) as usize + 1;
/// Blocks of all reorder buffers of a device. A QP that finds none drops what comes behind its gap.
pub const REORDER_BLOCKS: usize = 80;
/// So many of them are kept for QPs that have no block yet.
pub const REORDER_BLOCKS_RESERVED: usize = REORDER_BLOCKS - REORDER_BLOCKS_PER_QP;
/// Tail probes to a peer with a reorder buffer: single packets, which are sent sooner than to other peers.
pub const SELECTIVE_REPEAT_PROBES: u32 = 6;
/// A tail probe to a peer with a reorder buffer waits this long (ns) beyond two round trips.
pub const SELECTIVE_REPEAT_PROBE_NS: u64 = 20_000;
/// Packets that are sent again at a time when a gap turns out to be longer than one packet; if these are too few as
/// well, everything is sent again.
pub const SELECTIVE_REPEAT_BURST: u32 = 8;
/// A requester that takes gap lists is told again when it asks for an ACK so many PSNs behind all that was known when it was told last.
pub const PSNS_UNTIL_TOLD_AGAIN: u32 = 64;
/// Packets that may leave without room in the window until there is progress, since they ask what was lost again.
pub const ASKS_BEYOND_WINDOW: u32 = 16;
/// Most packets that one gap list tells of.
pub const PACKETS_PER_GAP_LIST: u32 = 512;
/// A peer that dropped what was behind a gap so often in a row is taken for one without a reorder buffer,
pub const SELECTIVE_REPEAT_MISSES: u32 = 8;
/// and for so long (ns): all its reorder buffers may have been in use.
pub const PEER_DISCARDS_NS: u64 = 10_000_000_000;
/// A READ work request is sent as READ REQUESTs of at most this many bytes, because nothing but the
/// request size limits the burst that a responder sends back.
pub const READ_SPLIT_BYTES: u64 = SHORT_PATH_WINDOW_BYTES / 2;
/// READ REQUESTs may ask for more than the window of a short path while that is full: for this share of it (as a divisor).
pub const READ_AHEAD_SHARE: u32 = 2;
/// On a long path a READ REQUEST asks for at most so many times that much, where few are allowed at a time.
pub const READ_SPLITS_AT_ONCE: u32 = 16;
/// An ACK is asked for at least once per this fraction of the window (R82), that of a short path if it is larger. As much
/// leaves at a time when the ACK comes, so it is whole trains where it is more than one. An ACK costs its sender about as
/// much as the half of a 64 KiB train, so there are few.
pub const ACKS_PER_WINDOW: u32 = 2;
/// An ACK that is left to the end of what a requester sends again leaves after so long (ns) without a further packet of it: longer than
/// an emulated or a busy host rests in the middle of a message, and half of the 67 ms of timeout code 14, so that the requester hears
/// of it before it sends everything again.
pub const DELAYED_ACK_NS: u64 = 32_000_000;
/// The same where all of it has come again already, before what was missing: what comes yet, if anything, is on its way.
pub const DELAYED_ACK_SENT_AGAIN_NS: u64 = 1_000_000;
/// So long (ns) at most further packets of it put the ACK off.
pub const DELAYED_ACK_MOST_NS: u64 = 2 * DELAYED_ACK_NS;
/// A packet that comes again within this time (ns) is taken for a copy that the network has made.
pub const DELAYED_ACK_COPY_NS: u64 = 4_000_000;
/// Answers to duplicates and errors that a QP may send in one budget period (A9, A26).
pub const REPLY_BUDGET: u32 = 1024;
/// Least time between two CNPs of one QP in nanoseconds (R103).
pub const CNP_INTERVAL_NS: u64 = 50_000;
/// DSCP of CNPs: that of network cards, for which switches are set up.
pub const CNP_DSCP: u8 = 48;
/// Length of one reply budget period in nanoseconds.
pub const REPLY_BUDGET_PERIOD_NS: u64 = 1_000_000;
/// Largest number of responses that wait to be sent by one responder.
pub const RESPONSE_QUEUE: usize = 2 * MAX_RD_ATOMIC as usize + 8;
/// Bytes that the caller of `poll_transmit` must offer: the largest headers, path MTU, pad and ICRC.
pub const MAX_PACKET: usize = 4096 + 100;
/// Largest number of affiliated asynchronous events that wait to be read.
pub const MAX_EVENTS: usize = 4096;
