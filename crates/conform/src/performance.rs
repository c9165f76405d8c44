//! Message rates and latencies, and what the peer counted meanwhile.
//!
//! The tester is a requester in userspace that sends each packet with a system call of its own. What is measured is the
//! two ends and the way between them, and mostly the tester: it tells a peer that is ill from a sound one, not a fast one
//! from a faster one.

mod counters;
mod figures;
mod stream;

use std::time::Duration;

use counters::Counters;
pub use figures::{Change, Counted, Figures};
pub(crate) use stream::Stream;

use crate::verdict::{check, fail};
use crate::{Bench, Outcome, Qp, State, Stop, status};

/// Operations one at a time: so many at most.
const SINGLES: usize = 1000;
/// How long operations one at a time may take.
const SINGLES_TIME: Duration = Duration::from_millis(300);
/// How long operations in a window are sent.
const WINDOW_TIME: Duration = Duration::from_millis(700);
/// Operations between two looks at the completions of the peer; there are so many receives.
pub(crate) const ROUND: u32 = 1024;
/// Completions that the agent is asked for at a time.
const POLLED: u32 = 256;

/// An operation, and how it is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) operation: &'static str,
    pub(crate) bytes: u32,
    /// Messages on the way at a time.
    pub(crate) window: u32,
    /// Each message takes a receive, of which [`ROUND`] are posted.
    pub(crate) takes_receives: bool,
}

/// Measures an operation on a fresh queue pair, and judges what can be judged: answers, completions, the state of the
/// queue pair and the peer's counters.
pub(crate) fn measure(b: &Bench<'_>, load: Load, mut stream: Stream<'_, '_, '_>) -> Outcome {
    let q = stream.qp();
    let before = Counters::ask(b)?;
    b.player.borrow_mut().only_count(true);
    let measured = singles(load, &mut stream)
        .and_then(|singles| Ok((singles, windowed(load, &mut stream)?)))
        .and_then(|measured| stream.settle().map(|()| measured));
    let mut player = b.player.borrow_mut();
    player.only_count(false);
    let (sent, received, again) = (stream.sent(), stream.received(), stream.again());
    player.note(format!(
        "the tester sent {sent} packets with {} of {} bytes, {again} of them again; {received} came back",
        load.operation, load.bytes
    ));
    drop(player);
    let (singles, (messages, time)) = measured?;
    let after = Counters::ask(b)?;
    b.measured(Figures {
        operation: load.operation,
        bytes: load.bytes,
        window: load.window,
        messages,
        time,
        median: quantile(&singles, 50),
        p99: quantile(&singles, 99),
        sent,
        received,
        again,
        counters: before.changes(&after),
    });
    q.app.no_completion()?;
    let state = q.app.state()?;
    check(state == State::Rts, || format!("expected state RTS, it is in {state:?}"))?;
    let mut remarks: Vec<String> = before.judge(&after, (sent, again))?.into_iter().collect();
    if again > 0 {
        remarks.push(format!(
            "{again} packets were sent again: some were lost on the way, or it did not take them in time"
        ));
    }
    if !remarks.is_empty() {
        b.tolerate(remarks.join("; "));
    }
    Ok(())
}

/// Latencies of operations one at a time, the shortest first; those of which a packet was sent again are left out.
fn singles(load: Load, stream: &mut Stream<'_, '_, '_>) -> Result<Vec<Duration>, Stop> {
    let end = stream.now() + SINGLES_TIME;
    let mut times = Vec::with_capacity(SINGLES);
    for _ in 0..SINGLES {
        let (start, again) = (stream.now(), stream.again());
        if start >= end {
            break;
        }
        stream.pass(1, 1, Duration::MAX)?;
        if stream.again() == again {
            times.push(stream.now() - start);
        }
    }
    refill(load, stream)?;
    times.sort_unstable();
    Ok(times)
}

/// Messages that were answered, and how long they took.
fn windowed(load: Load, stream: &mut Stream<'_, '_, '_>) -> Result<(u64, Duration), Stop> {
    let mut time = Duration::ZERO;
    let before = stream.messages();
    while time < WINDOW_TIME && !stream.is_long() {
        let start = stream.now();
        stream.pass(load.window, ROUND, start + (WINDOW_TIME - time))?;
        time += stream.now() - start;
        refill(load, stream)?;
    }
    Ok((u64::from(stream.messages() - before), time))
}

/// The messages since the last time have completed their receives, which are posted again.
fn refill(load: Load, stream: &mut Stream<'_, '_, '_>) -> Outcome {
    let (q, fresh) = (stream.qp(), stream.uncollected());
    if !load.takes_receives {
        return Ok(());
    }
    let mut next = fresh.start;
    while next < fresh.end {
        next = collected(q, load, next, POLLED.min(fresh.end - next))?;
    }
    q.app.post_receives(fresh.map(|message| message % ROUND))
}

/// Takes up to `count` completions, the first of them that of message `next`; the message behind them.
fn collected(q: &Qp<'_, '_>, load: Load, next: u32, count: u32) -> Result<u32, Stop> {
    let completions = q.app.polled(count, q.bench.patience.answer)?;
    if completions.is_empty() {
        return fail(format!("message {next} was acknowledged, and its receive did not complete"));
    }
    let mut message = next;
    for completion in completions {
        let wanted = (u64::from(message % ROUND), status::SUCCESS, load.bytes);
        let got = (completion.wr_id, completion.status, completion.byte_len);
        check(got == wanted, || {
            format!(
                "expected receive {} to complete with {} bytes, got one of {} with status {} and {} bytes",
                wanted.0, wanted.2, got.0, got.1, got.2
            )
        })?;
        message += 1;
    }
    Ok(message)
}

/// The smallest value that is not exceeded by so many of a hundred; zero of none.
fn quantile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
