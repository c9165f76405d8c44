//! Latency: one message at a time.

use std::time::{Duration, Instant};

use super::args::Verb;
use super::plan::Plan;
use super::receiver::Receiver;
use super::requester::post_one;
use super::session::PerfSession;
use crate::channel::PeerState;
use crate::latency::Latencies;
use crate::peak::Times;
use crate::stop::{Stop, Watch, failed};

/// How long after its time is over a timed run waits for one more answer.
const LAST_WORD: Duration = Duration::from_millis(300);

/// What a latency run measured.
#[derive(Debug)]
pub struct Pinged {
    /// Message size.
    pub size: u64,
    /// Messages that this end sent.
    pub sent: u64,
    /// Messages that came from the peer.
    pub received: u64,
    /// Those of `sent` that are counted: not the ones in the margins of a timed run.
    pub counted: u64,
    /// Times between counted posts: one less than there are posts.
    pub latencies: Latencies,
    /// From the first counted post to the last one.
    pub elapsed: Duration,
}

impl Pinged {
    /// Messages, or round trips, in a second.
    pub fn per_second(&self) -> f64 {
        self.latencies.count() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// The clock of a latency run.
struct Clock {
    /// What is posted before is not counted.
    counted_from: Instant,
    /// End of a timed run.
    deadline: Option<Instant>,
    counted: u64,
    /// The first and the latest post that is counted.
    first: Option<Instant>,
    previous: Option<Instant>,
}

impl Clock {
    fn new(plan: &Plan, start: Instant) -> Self {
        let margin = plan.margin();
        Clock {
            counted_from: start + margin,
            deadline: plan.duration.map(|duration| start + duration - margin),
            counted: 0,
            first: None,
            previous: None,
        }
    }

    /// A post happens now.
    fn tick(&mut self, latencies: &mut Latencies) -> Instant {
        let now = Instant::now();
        self.posted(now, latencies);
        now
    }

    /// The time since the counted post before is a sample.
    fn posted(&mut self, now: Instant, latencies: &mut Latencies) {
        if now < self.counted_from || self.deadline.is_some_and(|end| now > end) {
            return;
        }
        if let Some(previous) = self.previous {
            latencies.add(now - previous);
        }
        self.first.get_or_insert(now);
        self.previous = Some(now);
        self.counted += 1;
    }

    fn elapsed(&self) -> Duration {
        match (self.first, self.previous) {
            (Some(first), Some(last)) => last - first,
            _ => Duration::ZERO,
        }
    }

    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|end| Instant::now() >= end)
    }

    fn is_long_over(&self) -> bool {
        self.deadline.is_some_and(|end| Instant::now() >= end + LAST_WORD)
    }
}

/// Runs one size. On an early end the first field says why, the second what was measured.
pub fn run(
    session: &PerfSession,
    size: u64,
    receiver: Option<&mut Receiver<'_>>,
) -> (Result<(), Stop>, Pinged) {
    let keep = session.plan.args.report_unsorted || session.plan.args.report_histogram;
    let mut pinged = Pinged {
        size,
        sent: 0,
        received: 0,
        counted: 0,
        latencies: Latencies::new(!session.plan.has_response(), keep),
        elapsed: Duration::ZERO,
    };
    let mut clock = Clock::new(&session.plan, Instant::now());
    let done = match (session.plan.args.verb, receiver) {
        (Verb::Write, _) => writes(session, &mut clock, &mut pinged),
        (Verb::Send, Some(receiver)) => sends(session, receiver, &mut clock, &mut pinged),
        _ => round_trips(session, &mut clock, &mut pinged),
    };
    (pinged.counted, pinged.elapsed) = (clock.counted, clock.elapsed());
    let over = clock.is_over();
    // A peer that has all of our messages, and whose we have, may close before its last acknowledgement is here.
    let exchanged = pinged.sent >= iterations(session)
        && pinged.received >= iterations(session)
        && session.channel.peer_state() != PeerState::Silent;
    let done = match done {
        // In a timed run the two clocks do not end together.
        Err(Stop::PeerDone | Stop::Failed(_)) if over || exchanged => Ok(()),
        done => done,
    };
    (done, pinged)
}

fn iterations(session: &PerfSession) -> u64 {
    if session.plan.duration.is_some() { u64::MAX } else { session.plan.iters }
}

/// READ and atomics: the client posts and waits.
fn round_trips(session: &PerfSession, clock: &mut Clock, pinged: &mut Pinged) -> Result<(), Stop> {
    let mut watch = Watch::new(&session.channel, &session.interrupt, true);
    let count = iterations(session);
    while pinged.sent < count && !clock.is_over() {
        let now = clock.tick(&mut pinged.latencies);
        post_one(session, 0, 0, pinged.size, true)?;
        pinged.sent += 1;
        await_send(session, &mut watch)?;
        watch.progressed(now)?;
    }
    Ok(())
}

/// Posts the next message of a WRITE or SEND. True if its completion will be seen: with `-Q` that of one of
/// many, and the last one.
fn post_next(session: &PerfSession, pinged: &mut Pinged) -> Result<bool, Stop> {
    pinged.sent += 1;
    let signaled = pinged.sent.is_multiple_of(session.plan.cq_mod(pinged.size).into())
        || pinged.sent == iterations(session);
    post_one(session, 0, 0, pinged.size, signaled)?;
    Ok(signaled)
}

/// Polls until the send completes.
fn await_send(session: &PerfSession, watch: &mut Watch<'_>) -> Result<(), Stop> {
    loop {
        match session.send_cqs[0].poll_one() {
            Some(completion) if completion.is_ok() => return Ok(()),
            Some(completion) => return Err(failed(&completion).into()),
            None => drop(watch.idle()?),
        }
    }
}

/// WRITE: each end waits for the last byte of its half to become the number of the message; the
/// server sends first.
fn writes(session: &PerfSession, clock: &mut Clock, pinged: &mut Pinged) -> Result<(), Stop> {
    let reliable = session.plan.is_reliable();
    let mut watch = Watch::new(&session.channel, &session.interrupt, reliable);
    let count = iterations(session);
    // As with the stock program the server starts: a client that ran ahead of it would overwrite
    // the byte that the server still waits for.
    let starts = !session.is_client();
    let mut open = 0;
    while pinged.sent < count || pinged.received < count {
        let answers = pinged.received < count && (pinged.sent > 0 || !starts);
        if answers {
            await_byte(session, clock, pinged, &mut open, &mut watch)?;
        }
        if clock.is_over() && starts {
            break;
        }
        if pinged.sent < count {
            let now = clock.tick(&mut pinged.latencies);
            session.buffers.mark(pinged.size, (pinged.sent + 1) as u8);
            open += u64::from(post_next(session, pinged)?);
            while open > 0 {
                await_send(session, &mut watch)?;
                open -= 1;
            }
            watch.progressed(now)?;
        }
    }
    Ok(())
}

fn await_byte(
    session: &PerfSession,
    clock: &Clock,
    pinged: &mut Pinged,
    open: &mut u64,
    watch: &mut Watch<'_>,
) -> Result<(), Stop> {
    let wanted = (pinged.received + 1) as u8;
    while session.buffers.mark_received(pinged.size) != wanted {
        // Polling drives the device: without it nothing would arrive.
        match session.send_cqs[0].poll_one() {
            Some(completion) if completion.is_ok() => *open = open.saturating_sub(1),
            Some(completion) => return Err(failed(&completion).into()),
            None if watch.idle()? && clock.is_long_over() => return Err(Stop::PeerDone),
            None => {}
        }
    }
    pinged.received += 1;
    Ok(())
}

/// SEND: each end waits for a message, then sends one.
fn sends(
    session: &PerfSession,
    receiver: &mut Receiver<'_>,
    clock: &mut Clock,
    pinged: &mut Pinged,
) -> Result<(), Stop> {
    let reliable = session.plan.is_reliable();
    let mut watch = Watch::new(&session.channel, &session.interrupt, reliable);
    let mut unused = Times::brief();
    let count = iterations(session);
    while pinged.sent < count || pinged.received < count {
        let answers = pinged.received < count && (pinged.sent > 0 || !session.is_client());
        if answers {
            while !receiver.reap(&mut unused)? {
                watch.nap(session.events.as_ref(), &session.recv_cqs);
                if watch.idle()? && clock.is_long_over() {
                    return Err(Stop::PeerDone);
                }
            }
            pinged.received += 1;
        }
        if clock.is_over() && session.is_client() {
            break;
        }
        if pinged.sent < count {
            let now = clock.tick(&mut pinged.latencies);
            if post_next(session, pinged)? {
                await_send(session, &mut watch)?;
            }
            watch.progressed(now)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::plan::testing::plan;
    use super::*;

    /// What a run measures that posts a message each so many milliseconds of this time.
    fn measured(flags: &str, each: u64, time: u64) -> Pinged {
        let (plan, start) = (plan(flags).expect("fine"), Instant::now());
        let mut clock = Clock::new(&plan, start);
        let mut latencies = Latencies::new(!plan.has_response(), false);
        for ms in (0..time).step_by(each as usize) {
            clock.posted(start + Duration::from_millis(ms), &mut latencies);
        }
        let (counted, elapsed) = (clock.counted, clock.elapsed());
        Pinged { size: 2, sent: time / each, received: 0, counted, latencies, elapsed }
    }

    #[test]
    fn messages_in_the_margins_of_a_timed_run_are_not_counted() {
        let pinged = measured("write lat -D 4 -f 1", 10, 4000);
        // From the post at 1 s to that at 3 s.
        assert_eq!((pinged.counted, pinged.elapsed), (201, Duration::from_secs(2)));
        assert!((pinged.per_second() - 100.0).abs() < 1e-6, "{pinged:?}");
        assert!((pinged.latencies.average() - 5000.0).abs() < 1e-6, "{pinged:?}");
    }

    #[test]
    fn five_messages_have_four_times_between_them() {
        let pinged = measured("read lat -n 5", 10, 50);
        assert_eq!((pinged.counted, pinged.latencies.count()), (5, 4));
        assert!((pinged.per_second() - 100.0).abs() < 1e-6, "{pinged:?}");
    }
}
