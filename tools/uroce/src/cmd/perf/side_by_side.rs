//! A device with several engines: a thread for each, which posts on its queue pairs and polls for them. One
//! thread for all would be the only one to drive the engines.

use super::requester::{self, Requester};
use super::session::PerfSession;
use crate::failure::Failure;
use crate::peak::{Bandwidth, Peak, Times};
use crate::stop::Stop;

/// What one thread did: how it ended, when, and the messages that each queue pair of the session completed.
type EndResult = (Result<(), Stop>, Times, Vec<u64>);

/// Requests of one size on all queue pairs. No peak is looked for: the threads do not know of each other's
/// messages.
pub fn request_size(session: &PerfSession, size: u64) -> (Result<(), Stop>, Bandwidth, Vec<u64>) {
    let (done, times, counts) = std::thread::scope(|scope| {
        let start = |engine| scope.spawn(move || request_on(session, size, engine));
        let threads: Vec<_> = (0..session.engines()).map(start).collect();
        let died = || (Err(dead()), Times::brief(), vec![0; session.qps.len()]);
        let parts = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| died()));
        parts.reduce(together).unwrap_or_else(died)
    });
    (done, times.bandwidth(size, Peak::None), counts)
}

fn request_on(session: &PerfSession, size: u64, engine: usize) -> EndResult {
    let mut times = Times::brief();
    let mut requester = Requester::of_engines(session, size, engine..engine + 1);
    let done = requester::run(&mut requester, &mut times);
    let counts = (0..session.qps.len()).map(|qp| requester.completed(qp)).collect();
    (done, times, counts)
}

/// The first that ended early tells why.
fn together((done, mut times, mut counts): EndResult, other: EndResult) -> EndResult {
    times.add(&other.1);
    counts.iter_mut().zip(&other.2).for_each(|(count, more)| *count += more);
    (done.and(other.0), times, counts)
}

fn dead() -> Stop {
    Stop::Failed(Failure::test("a thread that posted messages died"))
}
