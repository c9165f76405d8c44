//! `--verify` of SEND: each message is compared with what was sent before its buffer takes another one.

use crate::cmd::perf::session::PerfSession;

/// Where one queue pair stands.
#[derive(Debug, Clone, Copy, Default)]
struct NextMessage {
    /// The place that it comes to.
    place: u64,
    /// The peer's offset that it was sent from.
    offset: u64,
}

/// The messages of one size.
#[derive(Debug)]
pub struct MessageCheck<'a> {
    session: &'a PerfSession,
    size: u64,
    next: Vec<NextMessage>,
    seen: u64,
    wrong: u64,
}

impl<'a> MessageCheck<'a> {
    /// Nothing came yet.
    pub fn new(session: &'a PerfSession, size: u64) -> Self {
        let next = vec![NextMessage::default(); session.qps.len()];
        MessageCheck { session, size, next, seen: 0, wrong: 0 }
    }

    /// The next message on queue pair `qp` is there.
    pub fn inspect(&mut self, qp: usize) {
        let buffers = &self.session.buffers;
        let index = u32::try_from(qp).unwrap_or(u32::MAX);
        let NextMessage { place, offset } = self.next[qp];
        let found = self.find(index, place, offset);
        buffers.clear_place(index, place, self.size);
        self.seen += 1;
        let came_from = found.unwrap_or(offset);
        self.next[qp] = NextMessage {
            place: (place + 1) % buffers.places(self.size),
            offset: self.session.plan.next_offset(came_from, self.size),
        };
        if let Err(bad) = found {
            self.report(qp, bad);
        }
    }

    /// The offset that the message at `place` was sent from. `Err` is the first byte that is not the one that was sent from
    /// `start`.
    fn find(&self, qp: u32, place: u64, start: u64) -> Result<u64, u64> {
        let (session, size) = (self.session, self.size);
        let compare = |offset| session.buffers.compare_place(qp, place, size, offset);
        let Err(bad) = compare(start) else {
            return Ok(start);
        };
        // Where lost messages are lost for good, it may be one of those behind them.
        let reliable = session.plan.is_reliable();
        let mut offset = session.plan.next_offset(start, size);
        while !reliable && offset != start {
            if compare(offset).is_ok() {
                return Ok(offset);
            }
            offset = session.plan.next_offset(offset, size);
        }
        Err(bad)
    }

    /// The first is told at once, the others are counted.
    fn report(&mut self, qp: usize, offset: u64) {
        if self.wrong == 0 {
            tracing::error!(
                "wrong byte at offset {offset} of a message of {} bytes on queue pair {qp}",
                self.size
            );
        }
        self.wrong += 1;
    }

    /// True if all messages came as they were sent.
    pub fn all_right(&self) -> bool {
        if self.wrong > 1 {
            tracing::error!(
                "{} of {} messages of {} bytes came with wrong bytes",
                self.wrong,
                self.seen,
                self.size
            );
        }
        self.wrong == 0
    }
}
