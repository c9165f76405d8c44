//! What was measured.

use std::time::Duration;

/// What was measured of one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figures {
    /// Its name: SEND, WRITE, READ, FETCH_ADD.
    pub operation: &'static str,
    /// Bytes of one message.
    pub bytes: u32,
    /// Messages on the way at a time while `messages` were counted.
    pub window: u32,
    /// Messages that were answered, of those in a window.
    pub messages: u64,
    /// How long these took.
    pub time: Duration,
    /// Latency of one operation at a time, in the middle of all.
    pub median: Duration,
    /// Latency that one operation of a hundred exceeds.
    pub p99: Duration,
    /// Packets that the tester sent.
    pub sent: u64,
    /// Packets that came for its queue pair.
    pub received: u64,
    /// Packets sent that had been sent before.
    pub again: u64,
    /// Counters of the peer.
    pub counters: Counted,
}

impl Figures {
    /// Messages in a second.
    pub fn rate(&self) -> f64 {
        match self.time.is_zero() {
            true => 0.0,
            false => self.messages as f64 / self.time.as_secs_f64(),
        }
    }

    /// Bits of messages in a second, without headers.
    pub fn goodput(&self) -> f64 {
        self.rate() * f64::from(self.bytes) * 8.0
    }
}

/// A counter that has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its folder and its name, as sysfs has them.
    pub name: String,
    /// Its value before.
    pub before: u64,
    /// Its value afterwards.
    pub after: u64,
}

/// What the peer counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counted {
    /// The counters that have changed, by name.
    Changed(Vec<Change>),
    /// It has no counters: why.
    Missing(String),
}
