//! Every limit of connection management in one place (A21).

use std::time::Duration;

/// Most MADs that wait to be sent; what comes beyond is lost, as on the wire.
pub const TRANSMIT_QUEUE: usize = 4_096;
/// Most timers served in one call; the rest stay due.
pub const TIMERS_PER_CALL: usize = 256;
/// Draws before the search for a free communication id gives up.
pub const ID_DRAWS: usize = 1_000;
/// Code of the time that an MRA asks for: 65.5 s, as the kernel's.
pub const MRA_SERVICE_TIMEOUT: u8 = 24;
/// The longest that a peer can make us wait for its message by MRAs.
pub const MRA_TOTAL_TIMEOUT: Duration = Duration::from_secs(120);
/// The longest that we wait for an RTU or a DREP, repetitions included, whatever the time code of the peer.
/// With Linux' own code and number of repetitions it would be 65 s.
pub const LONGEST_ANSWER: Duration = Duration::from_secs(60);
/// The same for a DREP of a caller that has not shown that it hears us: its address may be forged, and meanwhile it takes up a
/// place in the table.
pub const LONGEST_UNCONFIRMED_ANSWER: Duration = Duration::from_secs(4);
/// Copies of a message that go out within the longest time that is waited for its answer, if the REQ allows so many.
pub const FEWEST_COPIES: u32 = 4;
/// How long a call of a proven source is unconfirmed before it makes room for another one of that source.
pub const UNCONFIRMED: Duration = Duration::from_secs(1);
/// Answers to SIDR_REQs that are kept for repetitions of them, at most; the oldest goes first.
pub const MAX_ANSWERED: usize = 4_096;
/// Ids of exchanges that are over and that the application has not released, which no other exchange gets, at most; of those
/// beyond the lowest is free again.
pub const MAX_HELD: usize = 65_536;
/// The shortest time between two copies of a message: a peer that asks for less would turn us
/// into an amplifier.
pub const SHORTEST_RESEND: Duration = Duration::from_millis(100);
/// The longest TIMEWAIT that a peer can cause.
pub const LONGEST_TIMEWAIT: Duration = Duration::from_secs(30);
/// The same of a caller that has not shown that it hears us: its address may be forged, and a second of such calls
/// (`requests_per_second`) must leave most of the table free.
pub const LONGEST_UNCONFIRMED_TIMEWAIT: Duration = Duration::from_secs(1);
/// How long a peer may be silent, while its queue pair is asked, before its connection counts as
/// forgotten (R112).
pub const LIVENESS_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two such questions: five small packets for one REQ are shorter than the REQ (A26).
pub const LIVENESS_PROBE_INTERVAL: Duration = Duration::from_secs(2);
/// How long an answer to a SIDR_REQ is kept for repetitions of it.
pub const SIDR_MEMORY: Duration = Duration::from_secs(10);
/// How long a request waits for a service whose listener has just gone, or whose port has just been
/// bound. The server of perftest 24 and later listens again after a little more than a second.
pub const REOPENING: Duration = Duration::from_secs(2);
/// Most bound ports whose listeners are waited for at a time.
pub const MAX_EXPECTED: usize = 64;
/// Most requests that wait like that.
pub const MAX_EARLY: usize = 64;
/// Buckets into which sources are hashed when their rate is limited.
pub const SOURCE_BUCKETS: usize = 256;
/// Sources remembered for having completed an exchange.
pub const PROVEN_SOURCES: usize = 1_024;

/// How much a device's connection manager takes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CmLimits {
    /// Connections in any state, and service id resolutions that were not answered. Where there are so many, the TIMEWAIT that
    /// would end first ends.
    pub max_connections: usize,
    /// Requests that were not answered, whether or not the application has fetched them, or whose answer was not confirmed,
    /// of all sources. A quarter is kept free for sources that have completed an exchange before; of the others the
    /// one that has been unconfirmed for longest makes room.
    pub max_half_open: usize,
    /// The same of one source.
    pub max_half_open_per_source: usize,
    /// How long an application may think about a request.
    pub decision_time: Duration,
    /// New requests per second, of all sources that are not known.
    pub requests_per_second: u32,
    /// New requests per second of one source.
    pub requests_per_source: u32,
    /// Answers per second to messages that belong to nothing.
    pub strays_per_second: u32,
    /// The same to one source.
    pub strays_per_source: u32,
    /// Answers per second that are sent again, because they are not confirmed, to sources that have not
    /// completed an exchange before: their address may be forged.
    pub repetitions_per_second: u32,
    /// The same to one source.
    pub repetitions_per_source: u32,
    /// Peers per second whose queue pair is asked whether it is alive, because a message contradicts
    /// their connection.
    pub checks_per_second: u32,
    /// The same for messages of one source.
    pub checks_per_source: u32,
}

impl Default for CmLimits {
    fn default() -> Self {
        CmLimits {
            max_connections: 65_536,
            max_half_open: 1_024,
            max_half_open_per_source: 256,
            decision_time: Duration::from_secs(60),
            requests_per_second: 20_000,
            requests_per_source: 2_000,
            strays_per_second: 10_000,
            strays_per_source: 1_000,
            repetitions_per_second: 10,
            repetitions_per_source: 2,
            checks_per_second: 1_000,
            checks_per_source: 100,
        }
    }
}
