//! A stream of requests of one operation, with go-back-N.

use std::ops::Range;
use std::time::Duration;

use uroce_wire::{Bth, Header, NakCode, Opcode, SyndromeKind};

use crate::player::Seen;
use crate::verdict::{check, unexpected};
use crate::{Came, Incoming, Outcome, Packet, Qp};

/// Packets in both directions after which no more is asked.
const LONG: u64 = 400_000;
/// Packets in both directions that are too many, whatever was asked.
const TOO_MANY: u64 = 2 * LONG;
/// After so much silence what is not answered is sent again.
const RETRY: Duration = Duration::from_millis(100);
/// A retry waits so many times what counts as silence, if that is longer.
const SILENCES: u32 = 4;

/// How an operation is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// By an ACK, which may be one for several.
    Ack,
    /// By a response for each PSN.
    Response,
}

/// Messages of one kind on one queue pair. PSNs count from its first.
pub(crate) struct Stream<'q, 'b, 'r> {
    qp: &'q Qp<'b, 'r>,
    /// The request packets of one message.
    packets: Vec<Packet>,
    /// PSNs of one message.
    span: u32,
    answer: Answer,
    /// PSNs that were asked for: whole messages.
    asked: u32,
    /// PSNs that were answered.
    answered: u32,
    /// What the last look at completions has seen, in messages.
    collected: u32,
    /// From this PSN on packets were sent again because one was missing, and it was not answered since.
    gap: Option<u32>,
    sent: u64,
    received: u64,
    again: u64,
    /// Packets of any sender.
    came: u64,
}

impl<'q, 'b, 'r> Stream<'q, 'b, 'r> {
    /// Messages that an ACK answers.
    pub(crate) fn of_messages(qp: &'q Qp<'b, 'r>, packets: Vec<Packet>) -> Self {
        let span = packets.len() as u32;
        Stream::new(qp, packets, span, Answer::Ack)
    }

    /// Requests of one packet, each of which draws so many responses.
    pub(crate) fn of_requests(qp: &'q Qp<'b, 'r>, request: Packet, responses: u32) -> Self {
        Stream::new(qp, vec![request], responses, Answer::Response)
    }

    fn new(qp: &'q Qp<'b, 'r>, packets: Vec<Packet>, span: u32, answer: Answer) -> Self {
        Stream {
            qp,
            packets,
            span: span.max(1),
            answer,
            asked: 0,
            answered: 0,
            collected: 0,
            gap: None,
            sent: 0,
            received: 0,
            again: 0,
            came: 0,
        }
    }

    pub(crate) fn qp(&self) -> &'q Qp<'b, 'r> {
        self.qp
    }

    pub(crate) fn now(&self) -> Duration {
        self.qp.now()
    }

    /// Packets that were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Packets that came for the tester's queue pair.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Packets that were sent more than once, each time but the first.
    pub(crate) fn again(&self) -> u64 {
        self.again
    }

    /// Messages that were answered.
    pub(crate) fn messages(&self) -> u32 {
        self.answered / self.span
    }

    /// Messages since the last call, all of them answered.
    pub(crate) fn uncollected(&mut self) -> Range<u32> {
        let fresh = self.collected..self.messages();
        self.collected = fresh.end;
        fresh
    }

    /// It has passed as many packets as it should.
    pub(crate) fn is_long(&self) -> bool {
        self.sent + self.came >= LONG
    }

    /// Sends messages, at most `window` of them on the way and `count` in all, until `end`, and waits for all answers.
    ///
    /// # Errors
    /// An answer does not come, or is none that may come.
    pub(crate) fn pass(&mut self, window: u32, count: u32, end: Duration) -> Outcome {
        let last = self.asked + count * self.span;
        let mut progress = self.now();
        loop {
            while self.asked < last
                && self.asked - self.answered < window * self.span
                && !self.is_long()
                && self.now() < end
            {
                self.message(self.asked, false)?;
                self.asked += self.span;
            }
            if self.answered == self.asked {
                return Ok(());
            }
            let before = self.answered;
            let came = self.qp.bench.player.borrow_mut().take(self.retry())?;
            match came {
                Some(packet) => self.handle(packet)?,
                None => self.repeat(self.answered)?,
            }
            if self.answered > before {
                progress = self.now();
                self.gap = None;
            }
            self.is_patient(self.now() - progress)?;
        }
    }

    /// How long silence lasts before a retry.
    fn retry(&self) -> Duration {
        RETRY.max(self.qp.bench.patience.silence * SILENCES)
    }

    /// Neither time nor packets without an end.
    fn is_patient(&self, without_progress: Duration) -> Outcome {
        let patience = self.qp.bench.patience.answer.max(SILENCES * self.retry());
        check(self.sent + self.came < TOO_MANY, || {
            format!("{} packets were sent and {} came: that does not end", self.sent, self.came)
        })?;
        check(without_progress < patience, || {
            format!("PSN {:+} was not answered in {without_progress:.1?}", self.answered)
        })
    }

    /// Takes what is still on its way.
    ///
    /// # Errors
    /// It is none that may come.
    pub(crate) fn settle(&mut self) -> Outcome {
        loop {
            let silence = self.qp.bench.patience.silence;
            let came = self.qp.bench.player.borrow_mut().take(silence)?;
            match came {
                Some(packet) => self.handle(packet)?,
                None => return Ok(()),
            }
            self.is_patient(Duration::ZERO)?;
        }
    }

    /// Sends the message that begins at this PSN, or what of it is not answered.
    fn message(&mut self, start: u32, again: bool) -> Outcome {
        let mut player = self.qp.bench.player.borrow_mut();
        for (index, packet) in self.packets.iter_mut().enumerate() {
            let psn = start + index as u32;
            if self.answer == Answer::Ack && psn < self.answered {
                continue;
            }
            packet.bth.psn = packet.first.add(psn);
            player.send(packet)?;
            self.sent += 1;
            self.again += u64::from(again);
        }
        Ok(())
    }

    /// Sends again what was asked from this PSN on.
    fn repeat(&mut self, psn: u32) -> Outcome {
        let first = psn - psn % self.span;
        (first..self.asked)
            .step_by(self.span as usize)
            .try_for_each(|start| self.message(start, true))
    }

    /// A packet is missing, from this PSN on.
    fn missing(&mut self, psn: u32) -> Outcome {
        if self.gap == Some(psn) {
            return Ok(());
        }
        self.gap = Some(psn);
        self.repeat(psn)
    }

    fn handle(&mut self, packet: Incoming) -> Outcome {
        self.came += 1;
        let is_ours = Bth::read(&packet.bytes)
            .is_some_and(|bth| bth.dest_qpn.get() == self.qp.own_qpn && bth.opcode != Opcode::CNP);
        if packet.from != self.qp.bench.card().address || !is_ours {
            return Ok(());
        }
        self.received += 1;
        let came = self.qp.came(Seen { at: self.now(), packet })?;
        // Packets of a queue pair with this number that is gone lie far behind.
        let Ok(psn) = u32::try_from(came.psn) else { return Ok(()) };
        if psn >= self.asked {
            return unexpected("an answer to what was asked", &came);
        }
        match came.aeth().map(|aeth| aeth.syndrome.kind()) {
            Some(SyndromeKind::Nak(NakCode::PsnSequence)) => self.nak(psn),
            Some(SyndromeKind::Ack { .. }) | None => self.positive(psn, &came),
            Some(_) => unexpected("an ACK or a response", &came),
        }
    }

    /// All before `psn` has come to the peer, and `psn` has not.
    fn nak(&mut self, psn: u32) -> Outcome {
        if self.answer == Answer::Ack {
            if psn < self.answered {
                return Ok(());
            }
            self.answered = psn;
        }
        self.missing(self.answered)
    }

    fn positive(&mut self, psn: u32, came: &Came) -> Outcome {
        let is_ack = came.opcode() == Opcode::RC_ACKNOWLEDGE;
        match self.answer {
            Answer::Ack if is_ack => self.answered = self.answered.max(psn + 1),
            Answer::Ack => return unexpected("an ACK", came),
            // It says that the requests have come, not what they ask for.
            Answer::Response if is_ack => {}
            Answer::Response if psn > self.answered => return self.missing(self.answered),
            Answer::Response if psn == self.answered => self.answered += 1,
            Answer::Response => {}
        }
        Ok(())
    }
}
