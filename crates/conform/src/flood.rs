//! Many packets at once.

use std::time::Duration;

use crate::verdict::check;
use crate::{Frame, Packet, Qp, Stop};

impl Qp<'_, '_> {
    /// Packets of the NIC under test so far, to whichever queue pair of the tester. Waits until none comes: packets of an
    /// earlier case may be on their way.
    ///
    /// # Errors
    /// They do not end.
    pub fn heard(&self) -> Result<usize, Stop> {
        let mut player = self.bench.player.borrow_mut();
        player.drain(self.bench.patience.silence)?;
        Ok(player.heard())
    }

    /// Since it had sent `before` packets it has sent none, to no queue pair, and sends none now.
    ///
    /// # Errors
    /// It has.
    pub fn unheard(&self, before: usize) -> Result<(), Stop> {
        self.silence()?;
        let now = self.bench.player.borrow().heard();
        check(now == before, || format!("expected silence, {} packets came", now - before))
    }

    /// Sends packets as fast as they go and returns how many came back, to whichever queue pair, until silence. The
    /// report has the numbers and not the packets.
    ///
    /// # Errors
    /// One cannot be sent, or more come back than any peer may send.
    pub fn flood(&self, what: &str, packets: impl Iterator<Item = Packet>) -> Result<usize, Stop> {
        self.storm(what, packets, |packet| self.tx(&packet))
    }

    /// The same with frames.
    ///
    /// # Errors
    /// As [`flood`](Self::flood).
    pub fn flood_frames(
        &self,
        what: &str,
        frames: impl Iterator<Item = Frame>,
    ) -> Result<usize, Stop> {
        self.storm(what, frames, |frame| self.tx_frame(&frame))
    }

    fn storm<T>(
        &self,
        what: &str,
        all: impl Iterator<Item = T>,
        send: impl Fn(T) -> Result<(), Stop>,
    ) -> Result<usize, Stop> {
        let before = self.heard()?;
        self.bench.player.borrow_mut().only_count(true);
        let mut sent = 0;
        let outcome = all.into_iter().try_for_each(|one| {
            sent += 1;
            send(one)?;
            // So that answers do not wait in a socket until it overflows.
            self.bench.player.borrow_mut().drain(Duration::ZERO)
        });
        let silence = self.bench.patience.silence;
        let outcome = outcome.and_then(|()| self.bench.player.borrow_mut().drain(silence));
        let mut player = self.bench.player.borrow_mut();
        player.only_count(false);
        let came = player.heard() - before;
        player.note(format!("the tester sent {sent} packets, {what}; {came} came back"));
        outcome.map(|()| came)
    }
}
