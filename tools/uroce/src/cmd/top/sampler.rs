//! A thread that asks all devices again and again: one that does not answer must not stop the screen.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use super::sample::{Rates, Sample};
use crate::cmd::survey::Survey;
use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt::Interrupt;

/// How soon an interrupt is noticed.
const LOOK: Duration = Duration::from_millis(100);

type Answer = Result<Rates, Failure>;

/// Rates, as they come.
#[derive(Debug)]
pub struct Sampler {
    rates: Receiver<Answer>,
}

impl Sampler {
    /// Begins to ask, once each `interval`.
    ///
    /// # Errors
    /// Exit 3 if the system does not tell who is there, or has no thread.
    pub fn start(global: &Global, pid: Option<u32>, interval: Duration) -> Result<Self, Failure> {
        let (sender, rates) = sync_channel(1);
        let first = sample(global, pid)?;
        let global = global.clone();
        let ask = move || ask_on(first, &global, pid, interval, &sender);
        std::thread::Builder::new()
            .name("uroce-top".to_owned())
            .spawn(ask)
            .map_err(|error| Failure::environment(format!("no thread can be started: {error}")))?;
        Ok(Sampler { rates })
    }

    /// The next rates; `None` when the user interrupts.
    ///
    /// # Errors
    /// Exit 3 if the system does not tell who is there any more.
    pub fn next(&self, interrupt: &Interrupt) -> Result<Option<Rates>, Failure> {
        while !interrupt.is_set() {
            match self.rates.recv_timeout(LOOK) {
                Ok(rates) => return rates.map(Some),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
        Ok(None)
    }

    /// New rates, if there are any.
    ///
    /// # Errors
    /// As there.
    pub fn try_next(&self) -> Result<Option<Rates>, Failure> {
        match self.rates.try_recv() {
            Ok(rates) => rates.map(Some),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => Ok(None),
        }
    }
}

/// Asks until the receiver is gone, or nothing can be asked.
fn ask_on(
    mut before: Sample,
    global: &Global,
    pid: Option<u32>,
    interval: Duration,
    sender: &SyncSender<Answer>,
) {
    loop {
        std::thread::sleep(interval);
        let answer = sample(global, pid).map(|sample| {
            let rates = sample.rates_since(&before);
            before = sample;
            rates
        });
        let failed = answer.is_err();
        if sender.send(answer).is_err() || failed {
            return;
        }
    }
}

fn sample(global: &Global, pid: Option<u32>) -> Result<Sample, Failure> {
    let survey = Survey::take(global, pid)?;
    let silent = survey.silent().map(str::to_owned).collect();
    Ok(Sample::new(Instant::now(), survey.reports, silent))
}
