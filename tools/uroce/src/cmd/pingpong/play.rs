//! To and fro, until each end sent and received all of its messages.

use std::time::{Duration, Instant};

use uroce_verbs::{Qpn, SendWr, WorkCompletion};

use super::args::PingpongKind;
use super::end::{PingpongEnd, QKEY};
use crate::channel::{Channel, PeerState};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::latency::Latencies;
use crate::stop::{Stop, Watch, failed};

/// Marks completions of sends; receives have 0.
const SEND: u64 = 2;
/// How long a peer that closed its TCP connection may still play. A stock program closes it as soon
/// as it may, so this says nothing; 16 messages of 1 MiB to a slow peer take seconds to complete.
const GRACE: Duration = Duration::from_secs(10);
const POLL: usize = 16;

/// What happened.
#[derive(Debug)]
pub struct Played {
    /// Messages whose sending completed.
    pub sent: u64,
    /// Messages that came.
    pub received: u64,
    /// From the start to the last completion.
    pub elapsed: Duration,
    /// Times between posts of one queue pair.
    pub times: Latencies,
}

impl Played {
    /// Sends and receives together.
    pub fn completions(&self) -> u64 {
        self.sent + self.received
    }
}

/// What a queue pair waits for.
#[derive(Debug, Clone, Copy)]
struct QpWait {
    send: bool,
    receive: bool,
    posted: Option<Instant>,
}

struct Game<'a> {
    end: &'a PingpongEnd,
    client: bool,
    played: Played,
    lanes: Vec<QpWait>,
    /// Receives posted and not completed.
    waiting: u32,
}

/// Plays; on an early end the first part says why.
pub fn run(
    end: &PingpongEnd,
    channel: &Channel,
    interrupt: &Interrupt,
) -> (Result<(), Stop>, Played) {
    let lane = QpWait { send: false, receive: true, posted: None };
    let mut game = Game {
        end,
        client: channel.is_client(),
        played: Played {
            sent: 0,
            received: 0,
            elapsed: Duration::ZERO,
            times: Latencies::new(false, false),
        },
        lanes: vec![lane; end.qps.len()],
        waiting: end.args.rx_depth,
    };
    let reliable = matches!(end.args.kind, PingpongKind::Rc | PingpongKind::Srq);
    let watch = Watch::new(channel, interrupt, reliable).with_grace(GRACE);
    let start = Instant::now();
    let mut last = start;
    let done = game.play(watch, &mut last);
    // What was waited for in vain at the end took no part in what was measured.
    game.played.elapsed = last - start;
    // A peer that has all of our messages may be gone before its last acknowledgement is here.
    let complete = game.played.received >= end.args.iters;
    let done = match done {
        Err(Stop::Failed(_)) if complete && channel.peer_state() == PeerState::Gone => Ok(()),
        done => done,
    };
    (done, game.played)
}

impl Game<'_> {
    /// `last`: when the last completion came.
    fn play(&mut self, mut watch: Watch<'_>, last: &mut Instant) -> Result<(), Stop> {
        if self.client {
            (0..self.lanes.len()).try_for_each(|lane| self.serve(lane))?;
        }
        let wanted = self.end.args.iters;
        let mut out = [WorkCompletion::default(); POLL];
        while self.played.sent < wanted || self.played.received < wanted {
            let count = self.end.cq.poll(&mut out);
            if count == 0 {
                watch.nap(self.end.events.as_ref(), std::slice::from_ref(&self.end.cq));
                watch.idle()?;
                continue;
            }
            *last = Instant::now();
            watch.progressed(*last)?;
            out[..count].iter().try_for_each(|completion| self.take(completion))?;
        }
        Ok(())
    }

    fn take(&mut self, completion: &WorkCompletion) -> Result<(), Stop> {
        if !completion.is_ok() {
            return Err(failed(completion).into());
        }
        let Some(lane) = self.lane_of(completion.qpn) else {
            return Ok(());
        };
        if completion.wr_id == SEND {
            self.played.sent += 1;
            self.lanes[lane].send = false;
        } else {
            self.received(lane, completion)?;
        }
        let both = !self.lanes[lane].send && !self.lanes[lane].receive;
        if both {
            self.check()?;
        }
        if both && self.played.sent < self.end.args.iters {
            self.serve(lane)?;
        }
        Ok(())
    }

    fn lane_of(&self, qpn: u32) -> Option<usize> {
        self.end.qps.iter().position(|qp| qp.qpn().get() == qpn)
    }

    fn received(&mut self, lane: usize, completion: &WorkCompletion) -> Result<(), Stop> {
        let length = self.end.args.message() + self.end.args.prefix();
        if completion.byte_len as usize != length {
            return Err(Stop::Failed(
                Failure::test(format!(
                    "{} bytes came where {length} were expected",
                    completion.byte_len
                ))
                .help("give both ends the same -s"),
            ));
        }
        self.played.received += 1;
        self.lanes[lane].receive = false;
        self.waiting -= 1;
        if self.waiting <= 1 {
            self.end.post_receives(self.end.args.rx_depth - self.waiting)?;
            self.waiting = self.end.args.rx_depth;
        }
        Ok(())
    }

    /// With several queue pairs in one buffer it is not known which of them its message is from.
    fn number(&self) -> u64 {
        if self.lanes.len() > 1 { 0 } else { self.played.sent }
    }

    fn check(&self) -> Result<(), Stop> {
        if !self.end.args.chk {
            return Ok(());
        }
        // Both ends count alike: the message that came back is the one before this count.
        let number = if self.lanes.len() > 1 { 0 } else { self.played.sent.saturating_sub(1) };
        match self.end.wrong_byte(number, self.client) {
            None => Ok(()),
            Some(at) => Err(Stop::Failed(
                Failure::test(format!(
                    "invalid data in page {}: byte {at} of message {} is wrong",
                    at / 4096,
                    self.played.received
                ))
                .help("give -c at both ends; if it was, record the traffic with --pcap"),
            )),
        }
    }

    fn serve(&mut self, lane: usize) -> Result<(), Stop> {
        if self.end.args.chk && self.client {
            self.end.fill(self.number());
        }
        let now = Instant::now();
        if let Some(before) = self.lanes[lane].posted.replace(now) {
            self.played.times.add(now - before);
        }
        let sges = [self.end.send_sge()];
        let mut wr = SendWr::send(SEND, &sges).signaled();
        if let (Some(handle), Some(to)) = (&self.end.handle, self.end.remote.first()) {
            wr = wr.to(handle, Qpn::new(to.qpn), QKEY);
        }
        let posted = self.end.qps[lane].post_send(&[wr]);
        posted.map_err(|error| Failure::test(format!("cannot post: {error}")))?;
        self.lanes[lane].send = true;
        self.lanes[lane].receive = true;
        Ok(())
    }
}
