//! What one session of the agent may hold. Beyond a limit a request is refused and nothing changes.

use std::time::Duration;

/// Bytes of one line of the protocol.
pub const LINE: usize = 1 << 20;
/// Regions.
pub const REGIONS: usize = 64;
/// Bytes of one region.
pub const REGION_BYTES: u32 = 16 << 20;
/// Protection domains.
pub const DOMAINS: u8 = 4;
/// Queue pairs.
pub const QUEUE_PAIRS: usize = 64;
/// Listeners and connections of connection management; calls beyond are refused.
pub const CM_IDS: usize = 256;
/// Work requests of one queue, and receives in one request.
pub const WORK_REQUESTS: u32 = 4096;
/// Entries of one scatter list.
pub const PIECES: usize = 4;
/// Bytes of memory in one request or reply.
pub const MEMORY: u32 = 256 << 10;
/// Completions or events in one reply.
pub const COMPLETIONS: u32 = 256;
/// Counters in one reply.
pub const COUNTERS: usize = 512;
/// Bytes of the name of a counter.
pub const COUNTER_NAME: usize = 80;
/// The longest wait of one request.
pub const WAIT: Duration = Duration::from_secs(5);
/// How long a greeting may take.
pub const GREETING: Duration = Duration::from_secs(10);
/// How long the next request of a session may take.
pub const IDLE: Duration = Duration::from_secs(120);
