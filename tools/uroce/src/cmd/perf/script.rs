//! The order of things in a run. Each test of perftest has its own number of barriers, so that one
//! end may be a stock program: `H` in the comments is one exchange of the 108-byte record.

mod missing;

use std::time::{Duration, Instant};

use uroce_exchange::perftest::{DONE, Measured};

use super::args::Verb;
use super::output::Output;
use super::pingpong;
use super::receiver::Receiver;
use super::requester::{self, Requester};
use super::session::{CORRUPT, PerfSession, VERIFIED};
use super::side_by_side;
use super::verify;
use crate::channel::Patience;
use crate::failure::Failure;
use crate::peak::{Bandwidth, Peak, Times};
use crate::stop::{Stop, Watch};

/// How long the peer may take to finish where lost messages are lost for good: a stock server that
/// misses one waits for ever.
const LOSSES: Patience = Patience {
    limit: Duration::from_secs(10),
    help: "it may wait for messages that were lost, which this transport does not repeat: \
           use -c RC, or a smaller -t at the sender",
};

/// How long messages may be under way whose completion does not say that they arrived.
const UNDER_WAY: Duration = Duration::from_millis(50);

/// Runs all sizes and prints them. `Some(true)`: all bytes were verified.
///
/// # Errors
/// [`Stop`]; what was measured until then is in `output`.
pub fn run(session: &PerfSession, output: &mut Output) -> Result<Option<bool>, Stop> {
    let plan = &session.plan;
    match (plan.is_lat(), plan.args.verb, plan.args.bidirectional) {
        (true, Verb::Send, _) => send_latency(session, output),
        (true, ..) => latency(session, output),
        (false, _, true) => both_ways(session, output),
        (false, Verb::Send, false) => send_bandwidth(session, output),
        (false, _, false) => bandwidth(session, output),
    }
}

fn barriers(session: &PerfSession, count: u32) -> Result<(), Failure> {
    (0..count).try_for_each(|_| session.barrier())
}

/// keys, connect, H H (H with several queue pairs).
fn connect_bandwidth(session: &PerfSession) -> Result<(), Failure> {
    session.connect()?;
    let count = 2 + u32::from(session.plan.args.qp > 1);
    barriers(session, count)?;
    verify::warn_if_impossible(session);
    Ok(())
}

/// The last H carries the verdict, then both say `done`.
fn finish(session: &PerfSession, mine: Option<bool>) -> Result<Option<bool>, Stop> {
    if !session.plan.is_reliable() {
        session.channel.set_patience(Some(LOSSES));
    }
    let note = match mine {
        Some(true) => VERIFIED,
        Some(false) => CORRUPT,
        None => 0,
    };
    let theirs = match session.barrier_with(note)? {
        VERIFIED => Some(true),
        CORRUPT => Some(false),
        _ => None,
    };
    // The stock programs close without reading it.
    let _ = session.channel.send(DONE);
    Ok(verify::worse(mine, theirs))
}

/// WRITE, READ, atomics, one way: H H, run, H, report, H, done. No word between sizes, but for WRITE if both ends verify:
/// then H, a look at what came, H.
fn bandwidth(session: &PerfSession, output: &mut Output) -> Result<Option<bool>, Stop> {
    connect_bandwidth(session)?;
    let (last, mut verdict) = match session.is_client() {
        true => request_all(session, output)?,
        false => (Bandwidth::default(), look_between_sizes(session)?),
    };
    session.barrier()?;
    let theirs = session.swap_results(&to_measured(&last))?;
    if !session.is_client() {
        show(session, output, from_measured(&theirs));
        let lanes = session.qps.len() as u64;
        let counts = vec![theirs.iterations / lanes; session.qps.len()];
        verdict = verify::worse(verdict, verify::arrived(session, theirs.size, &counts));
    }
    finish(session, verdict)
}

/// The client's part: all sizes. The row is that of the last one.
fn request_all(
    session: &PerfSession,
    output: &mut Output,
) -> Result<(Bandwidth, Option<bool>), Stop> {
    let (mut last, mut verdict) = (Bandwidth::default(), None);
    for size in session.plan.sizes.iter().copied() {
        output.measuring(session, size);
        let (done, row, counts) = request_size(session, size);
        last = show(session, output, row);
        verdict = verify::worse(verdict, verify::requested(session, size, &counts));
        done?;
        if size != session.plan.largest() {
            if stops_between_sizes(session) {
                barriers(session, 2)?;
            }
            clear(session, size);
        }
    }
    Ok((last, verdict))
}

/// The server's part: what the WRITEs of each size but the last left is looked at before the next ones overwrite it.
fn look_between_sizes(session: &PerfSession) -> Result<Option<bool>, Stop> {
    let plan = &session.plan;
    let mut verdict = None;
    if !stops_between_sizes(session) {
        return Ok(verdict);
    }
    let counts = vec![plan.iters; session.qps.len()];
    for size in plan.sizes.iter().copied().filter(|&size| size != plan.largest()) {
        session.barrier()?;
        if !plan.is_reliable() {
            std::thread::sleep(UNDER_WAY);
        }
        verdict = verify::worse(verdict, verify::arrived(session, size, &counts));
        clear(session, size);
        session.barrier()?;
    }
    Ok(verdict)
}

/// Empties what came, so that the next size is not taken for right where nothing of it comes.
fn clear(session: &PerfSession, size: u64) {
    if session.verifies() {
        session.buffers.clear(&session.plan, size);
    }
}

/// A stock program goes on to the next size at once; two ends that verify are both of ours.
fn stops_between_sizes(session: &PerfSession) -> bool {
    session.plan.args.verb == Verb::Write && session.verifies()
}

fn request_size(session: &PerfSession, size: u64) -> (Result<(), Stop>, Bandwidth, Vec<u64>) {
    if session.engines() > 1 {
        return side_by_side::request_size(session, size);
    }
    let mut times = times(session);
    let mut requester = Requester::new(session, size);
    let done = requester::run(&mut requester, &mut times);
    let counts = (0..session.qps.len()).map(|qp| requester.completed(qp)).collect();
    (done, figures(session, &times, size), counts)
}

/// perftest looks for no peak in timed runs.
fn wants_peak(session: &PerfSession) -> bool {
    !session.plan.args.no_peak && session.plan.duration.is_none()
}

fn times(session: &PerfSession) -> Times {
    if wants_peak(session) { Times::default() } else { Times::brief() }
}

fn figures(session: &PerfSession, times: &Times, size: u64) -> Bandwidth {
    times.bandwidth(size, if wants_peak(session) { Peak::Any } else { Peak::None })
}

/// Prints a row, unless nothing was measured.
fn show(session: &PerfSession, output: &mut Output, row: Bandwidth) -> Bandwidth {
    if row.iterations > 0 {
        output.bandwidth(session, &row);
    }
    row
}

fn to_measured(row: &Bandwidth) -> Measured {
    Measured {
        size: row.size,
        iterations: row.iterations,
        peak: row.peak,
        average: row.average,
        rate: row.rate,
    }
}

fn from_measured(row: &Measured) -> Bandwidth {
    Bandwidth {
        size: row.size,
        iterations: row.iterations,
        peak: row.peak,
        average: row.average,
        rate: row.rate,
    }
}

/// SEND, one way: H H, for each size (receives, H, run), H, done; with -a one H more after each
/// size. No report: the server measures for itself.
fn send_bandwidth(session: &PerfSession, output: &mut Output) -> Result<Option<bool>, Stop> {
    connect_bandwidth(session)?;
    let mut verdict = None;
    for size in session.plan.sizes.iter().copied() {
        output.measuring(session, size);
        if session.is_client() {
            session.barrier()?;
            let (done, row, _) = request_size(session, size);
            show(session, output, row);
            done?;
        } else {
            let (done, row, right) = receive_size(session, size)?;
            show(session, output, row);
            verdict = verify::worse(verdict, right);
            done?;
        }
        if session.plan.args.all {
            session.barrier()?;
        }
    }
    finish(session, verdict)
}

type Received = (Result<(), Stop>, Bandwidth, Option<bool>);

fn receive_size(session: &PerfSession, size: u64) -> Result<Received, Stop> {
    let mut receiver = ready(session, size)?;
    Ok(received(session, &mut receiver, size))
}

/// The client may send now, and the clock runs.
fn ready(session: &PerfSession, size: u64) -> Result<Receiver<'_>, Failure> {
    let mut receiver = Receiver::new(session, size)?;
    receiver.start(session.go()?);
    Ok(receiver)
}

/// As perftest, without a peak: messages wait in the queue for the receiver, so that a part of the run would look as
/// fast as they are taken out.
fn received(session: &PerfSession, receiver: &mut Receiver<'_>, size: u64) -> Received {
    let mut times = Times::brief();
    let done = receive(session, receiver, &mut times);
    (done, times.bandwidth(size, Peak::None), receiver.verdict())
}

fn receive(
    session: &PerfSession,
    receiver: &mut Receiver<'_>,
    times: &mut Times,
) -> Result<(), Stop> {
    let reliable = session.plan.is_reliable();
    let mut watch = Watch::new(&session.channel, &session.interrupt, reliable);
    while !receiver.is_done() {
        if receiver.reap(times)? {
            watch.progressed(Instant::now())?;
            continue;
        }
        watch.nap(session.events.as_ref(), &session.recv_cqs);
        match watch.idle() {
            Err(Stop::PeerDone) => {
                missing::peer_went_on(&session.plan, receiver.total());
                return Ok(());
            }
            other => drop(other?),
        }
    }
    Ok(())
}

/// Both ends send. H H H (H with several queue pairs), run, report, H, done. SEND posts its receives
/// before the last H of those before the run. With -a: SEND does H, run, report, H for each size;
/// the others do run, H, report for each size, and H between two.
fn both_ways(session: &PerfSession, output: &mut Output) -> Result<Option<bool>, Stop> {
    connect_bandwidth(session)?;
    let (all, send) = (session.plan.args.all, session.plan.receives());
    let sizes = session.plan.sizes.clone();
    let mut verdict = None;
    for (nth, size) in sizes.iter().copied().enumerate() {
        let mut receiver = match send {
            true => Some(Receiver::new(session, size)?),
            false => None,
        };
        if nth == 0 || send {
            session.barrier()?;
        }
        output.measuring(session, size);
        let (done, mine, counts) = both_size(session, size, receiver.as_mut());
        if let Err(stop) = done {
            show(session, output, mine);
            return Err(stop);
        }
        if all && !send {
            session.barrier()?;
        }
        let theirs = from_measured(&session.swap_results(&to_measured(&mine))?);
        show(session, output, sum(&mine, &theirs));
        let right = match &receiver {
            Some(receiver) => receiver.verdict(),
            None => verify::both(session, size, &counts),
        };
        verdict = verify::worse(verdict, right);
        clear(session, size);
        if all && (send || nth + 1 < sizes.len()) {
            session.barrier()?;
        }
    }
    finish(session, verdict)
}

fn sum(mine: &Bandwidth, theirs: &Bandwidth) -> Bandwidth {
    Bandwidth {
        peak: mine.peak + theirs.peak,
        average: mine.average + theirs.average,
        rate: mine.rate + theirs.rate,
        ..*mine
    }
}

fn both_size(
    session: &PerfSession,
    size: u64,
    mut receiver: Option<&mut Receiver<'_>>,
) -> (Result<(), Stop>, Bandwidth, Vec<u64>) {
    let (mut sent, mut came) = (times(session), times(session));
    let mut requester = Requester::new(session, size);
    let done = (|| {
        let reliable = session.plan.is_reliable();
        let mut watch = Watch::new(&session.channel, &session.interrupt, reliable);
        loop {
            let received = receiver.as_ref().is_none_or(|r| r.is_done());
            let sent_all = requester.is_done();
            if sent_all && (received || session.plan.duration.is_some()) {
                return Ok(());
            }
            let mut busy = requester.fill(&mut sent)?;
            busy |= requester.reap(&mut sent)?;
            if let Some(receiver) = receiver.as_deref_mut() {
                busy |= receiver.reap(&mut came)?;
            }
            if busy {
                watch.progressed(Instant::now())?;
                continue;
            }
            let idle = watch.idle();
            match receiver.as_deref().filter(|_| sent_all && !reliable) {
                Some(receiver) => {
                    if missing::is_rest_lost(&session.plan, receiver.total(), &watch, idle)? {
                        return Ok(());
                    }
                }
                None => drop(idle?),
            }
        }
    })();
    let counts = (0..session.qps.len()).map(|qp| requester.completed(qp)).collect();
    (done, figures(session, &sent, size), counts)
}

/// WRITE, READ, atomics: H before the connection, H H after it, run. WRITE ends there; the others
/// with H, done.
///
/// WRITEs that both ends verify have one more H between two sizes: behind it the server starts to overwrite what came.
fn latency(session: &PerfSession, output: &mut Output) -> Result<Option<bool>, Stop> {
    session.barrier()?;
    session.connect()?;
    barriers(session, 2)?;
    verify::warn_if_impossible(session);
    let writes = session.plan.args.verb == Verb::Write;
    let mut verdict = None;
    if writes || session.is_client() {
        for size in session.plan.sizes.iter().copied() {
            let (done, right) = latency_of_size(session, output, size);
            verdict = verify::worse(verdict, right);
            done?;
            if size != session.plan.largest() {
                clear(session, size);
                if stops_between_sizes(session) {
                    session.barrier()?;
                }
            }
        }
    }
    if writes { Ok(verdict) } else { finish(session, verdict) }
}

fn latency_of_size(
    session: &PerfSession,
    output: &mut Output,
    size: u64,
) -> (Result<(), Stop>, Option<bool>) {
    output.measuring(session, size);
    let (done, pinged) = pingpong::run(session, size, None);
    if pinged.latencies.count() > 0 {
        output.latency(session, &pinged);
    }
    if session.plan.has_response() {
        return (done, verify::requested(session, size, &[pinged.sent]));
    }
    if session.plan.args.verify {
        session.buffers.restore(size);
    }
    (done, verify::arrived(session, size, &[pinged.received]))
}

/// SEND: connection at once, H H, for each size (receives, H, run), H, done.
fn send_latency(session: &PerfSession, output: &mut Output) -> Result<Option<bool>, Stop> {
    session.connect()?;
    barriers(session, 2)?;
    verify::warn_if_impossible(session);
    let mut verdict = None;
    for size in session.plan.sizes.iter().copied() {
        let mut receiver = ready(session, size)?;
        output.measuring(session, size);
        let (done, pinged) = pingpong::run(session, size, Some(&mut receiver));
        if pinged.latencies.count() > 0 {
            output.latency(session, &pinged);
        }
        verdict = verify::worse(verdict, receiver.verdict());
        done?;
    }
    finish(session, verdict)
}

#[cfg(test)]
mod tests {
    use uroce_verbs::{Context, DatapathChoice, LoopbackFabric};

    use super::super::plan;
    use super::*;
    use crate::channel::Channel;
    use crate::interrupt::Interrupt;

    fn open(fabric: &LoopbackFabric, address: [u8; 4], channel: Channel) -> PerfSession {
        let datapath = DatapathChoice::Loopback(fabric.clone());
        let context = Context::builder().address(address).datapath(datapath).open();
        let plan = plan::testing::plan("send bw -s 1024 -n 100").expect("fine");
        let context = context.expect("a loopback device");
        let interrupt = Interrupt::default();
        let session = PerfSession::open(context, channel, plan, &interrupt).expect("a peer");
        connect_bandwidth(&session).expect("a peer");
        session
    }

    #[test]
    fn a_receiver_that_finds_all_messages_at_once_does_not_report_how_fast_it_takes_them() {
        let fabric = LoopbackFabric::new();
        let (client, server) = Channel::pair(&Interrupt::default()).expect("loopback");
        let (busy, size) = (Duration::from_millis(300), 1024);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let session = open(&fabric, [10, 9, 1, 1], client);
                session.barrier().expect("a peer");
                request_size(&session, size).0.expect("sent");
                session.barrier().expect("a peer");
            });
            let session = open(&fabric, [10, 9, 1, 2], server);
            let mut receiver = ready(&session, size).expect("a peer");
            // The processor does something else meanwhile.
            std::thread::sleep(busy);
            let (done, row, _) = received(&session, &mut receiver, size);
            done.expect("all came");
            let most = 100.0 * 1024.0 / busy.as_secs_f64() / 1_048_576.0;
            assert!(row.average > 0.0 && row.average <= most, "{row:?}");
            assert_eq!((row.iterations, row.peak), (100, 0.0));
            session.barrier().expect("a peer");
        });
    }
}
