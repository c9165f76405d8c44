//! Why a measuring loop ends early, and who notices.

use crate::exchange::channel::{Channel, PeerState};
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use std::time::{Duration, Instant};
use uroce_verbs::{CompChannel, CompletionQueue, Notify, WcStatus, WorkCompletion};

/// Why a loop ends before its time.
#[derive(Debug)]
pub enum Stop {
    /// Ctrl-C.
    Interrupted,
    /// The peer ended its part (another `-n`, or its `-D` was over).
    PeerDone,
    /// It cannot go on.
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failed(failure)
    }
}

/// How long a loop without progress keeps its processor to itself.
const SPIN: Duration = Duration::from_micros(50);
/// The clock is read once in so many rounds without progress.
const ROUNDS: u32 = 16;
/// How long `-e` sleeps before it looks at the peer and the user.
const NAP: Duration = Duration::from_millis(50);
/// A stretch without progress after which the connection is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long a peer that spoke or closed may still have data under way.
const GRACE: Duration = Duration::from_millis(400);
/// How long a silent peer is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same where a lost packet is lost for good.
const UNRELIABLE_PATIENCE: Duration = Duration::from_secs(5);

/// Watches a loop for progress, and the peer and the user while there is none.
#[derive(Debug)]
pub struct Watch<'a> {
    channel: &'a Channel,
    interrupt: &'a Interrupt,
    reliable: bool,
    progress: Instant,
    /// Rounds since the clock was read.
    rounds: u32,
    look: Instant,
    grace: Duration,
    ended: Option<(PeerState, Instant)>,
}

impl<'a> Watch<'a> {
    /// Starts now. `reliable`: lost packets are repeated.
    pub fn new(channel: &'a Channel, interrupt: &'a Interrupt, reliable: bool) -> Self {
        let now = Instant::now();
        Watch {
            channel,
            interrupt,
            reliable,
            progress: now,
            rounds: 0,
            look: now + LOOK,
            grace: GRACE,
            ended: None,
        }
    }

    /// Waits so long for more after the peer closed the connection.
    pub fn with_grace(self, grace: Duration) -> Self {
        Watch { grace, ..self }
    }

    /// Something came. Cheap.
    pub fn progressed(&mut self, now: Instant) -> Result<(), Stop> {
        self.progress = now;
        self.look = now + LOOK;
        self.ended = None;
        self.check_user()
    }

    /// With `-e`: sleeps a little, or until a completion comes to one of `cqs`, whose channel that is.
    pub fn nap(&mut self, channel: Option<&CompChannel>, cqs: &[CompletionQueue]) {
        let Some(channel) = channel else {
            return;
        };
        cqs.iter().for_each(|cq| cq.req_notify(Notify::Next));
        // What came between the poll and the arming raises no event: do not sleep long.
        if let Err(error) = channel.next_event(Some(NAP)) {
            tracing::warn!(%error, "cannot wait for events");
        }
        // The next look at the clock is due.
        self.rounds = ROUNDS;
    }

    /// Nothing came. True if the clock was looked at, which is dear: then look at yours, too.
    ///
    /// # Errors
    /// [`Stop`] on Ctrl-C, when the peer is done or gone, or silent for too long.
    pub fn idle(&mut self) -> Result<bool, Stop> {
        self.rounds += 1;
        if self.rounds < ROUNDS {
            // No pause: a poll takes longer than one, and what comes during a pause waits for its end.
            return Ok(false);
        }
        self.rounds = 0;
        let now = Instant::now();
        if now.duration_since(self.progress) >= SPIN {
            // The peer may need this very processor.
            std::thread::yield_now();
        }
        if now >= self.look {
            self.look(now)?;
        }
        Ok(true)
    }

    fn look(&mut self, now: Instant) -> Result<(), Stop> {
        self.look = now + LOOK;
        self.check_user()?;
        self.check_peer(now)?;
        self.check_patience(now)
    }

    fn check_user(&self) -> Result<(), Stop> {
        if self.interrupt.is_set() { Err(Stop::Interrupted) } else { Ok(()) }
    }

    fn check_peer(&mut self, now: Instant) -> Result<(), Stop> {
        let state = self.channel.peer_state();
        if state == PeerState::Silent {
            self.ended = None;
            return Ok(());
        }
        let (_, since) = *self.ended.get_or_insert((state, now));
        if now.duration_since(since) < self.grace {
            return Ok(());
        }
        Err(match state {
            PeerState::Talking => Stop::PeerDone,
            _ => Stop::Failed(self.gone()),
        })
    }

    fn gone(&self) -> Failure {
        let peer = self.channel.peer();
        Failure::peer(format!("the peer {peer} went away in the middle of the run"))
            .help("look for its error message at the other end, and run both ends again")
    }

    fn check_patience(&self, now: Instant) -> Result<(), Stop> {
        let patience = if self.reliable { PATIENCE } else { UNRELIABLE_PATIENCE };
        if now.duration_since(self.progress) < patience {
            return Ok(());
        }
        let (peer, seconds) = (self.channel.peer(), patience.as_secs());
        Err(Stop::Failed(if self.reliable {
            Failure::peer(format!("the peer {peer} has been silent for {seconds} s"))
                .help("give both ends the same test, -n and -s; is it stopped, or does a firewall drop RoCE's UDP port?")
        } else {
            Failure::test(format!("nothing came from {peer} for {seconds} s")).help(
                "this transport does not repeat lost packets: one was lost, try again or use -c RC",
            )
        }))
    }
}

/// The failure that an unsuccessful completion stands for.
pub fn failed(completion: &WorkCompletion) -> Failure {
    let exit = match completion.status {
        WcStatus::RetryExcErr | WcStatus::RnrRetryExcErr => Exit::Peer,
        _ => Exit::Failed,
    };
    Failure::new(exit, completion)
}
