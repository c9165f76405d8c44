//! Why a measuring loop ends early, and who notices.

use std::time::{Duration, Instant};

use uroce_verbs::{CompChannel, CompletionQueue, Notify, WcStatus, WorkCompletion};

use crate::channel::{Channel, PeerState};
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;

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
const SILENCE_TIMEOUT: Duration = Duration::from_secs(20);
/// The same where a lost packet is lost for good.
const UNRELIABLE_TIMEOUT: Duration = Duration::from_secs(5);

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
    /// Looks since there was progress. Patience is counted in looks and not by the clock: of the time during which
    /// this process was stopped, or got no processor, the peer is not to blame.
    quiet: u32,
    grace: Duration,
    /// The peer spoke or closed, and how many looks ago.
    ended: Option<u32>,
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
            quiet: 0,
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
        self.quiet = 0;
        self.ended = None;
        self.check_user()
    }

    /// How long nothing has come, as far as that is the peer's doing.
    pub fn quiet(&self) -> Duration {
        LOOK * self.quiet
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
        self.quiet += 1;
        self.check_user()?;
        self.check_peer()?;
        self.check_patience()
    }

    fn check_user(&self) -> Result<(), Stop> {
        if self.interrupt.is_set() { Err(Stop::Interrupted) } else { Ok(()) }
    }

    fn check_peer(&mut self) -> Result<(), Stop> {
        let state = self.channel.peer_state();
        if state == PeerState::Silent {
            self.ended = None;
            return Ok(());
        }
        let ago = self.ended.map_or(0, |looks| looks + 1);
        self.ended = Some(ago);
        if ago < looks(self.grace) {
            return Ok(());
        }
        Err(match state {
            PeerState::Talking => Stop::PeerDone,
            _ => Stop::Failed(self.gone()),
        })
    }

    fn gone(&self) -> Failure {
        let peer = self.channel.peer();
        Failure::peer(format!("the peer {peer} went away in the middle of the run")).help(
            "give both ends the same test, -n and -s; if they have them, its error message at the other end says why",
        )
    }

    fn check_patience(&self) -> Result<(), Stop> {
        let patience = if self.reliable { SILENCE_TIMEOUT } else { UNRELIABLE_TIMEOUT };
        if self.quiet < looks(patience) {
            return Ok(());
        }
        let (peer, seconds) = (self.channel.peer(), patience.as_secs());
        let gone = self.channel.peer_state() == PeerState::Gone;
        Err(Stop::Failed(if gone && !self.reliable {
            // A stock program closes it as soon as it may.
            Failure::peer(format!("nothing came from {peer} for {seconds} s, and its TCP connection is closed")).help(
                "its program has ended, and an error message at the other end says why; or it is one of ibv_*_pingpong, \
                 which close it at once, and a packet was lost: this transport does not repeat them",
            )
        } else if self.reliable {
            Failure::peer(format!("the peer {peer} has been silent for {seconds} s"))
                .help("give both ends the same test, -n and -s; is it stopped, or does a firewall drop RoCE's UDP port?")
        } else {
            Failure::test(format!("nothing came from {peer} for {seconds} s")).help(
                "this transport does not repeat lost packets, and one was lost, or the other end runs another kind of \
                 test: run the same at both ends, or use a reliable connection (`pingpong rc`, `perf -c RC`)",
            )
        }))
    }
}

/// So many looks take at least this long.
fn looks(time: Duration) -> u32 {
    u32::try_from(time.as_millis() / LOOK.as_millis()).unwrap_or(u32::MAX)
}

/// The failure that an unsuccessful completion stands for.
pub fn failed(completion: &WorkCompletion) -> Failure {
    let exit = match completion.status {
        WcStatus::RetryExcErr | WcStatus::RnrRetryExcErr => Exit::Peer,
        _ => Exit::Failed,
    };
    let failure = Failure::new(exit, completion);
    match completion.status {
        WcStatus::RemAccessErr | WcStatus::RemInvReqErr => {
            failure.help("give both ends the same test, -s, -a and -q: the peer's memory ends where its own test does")
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v124_time_during_which_the_process_stood_still_is_not_the_peers_fault() {
        let interrupt = Interrupt::default();
        let (client, server) = Channel::pair(&interrupt).expect("loopback");
        let mut watch = Watch::new(&client, &interrupt, true);
        drop(server);
        std::thread::sleep(Duration::from_millis(20));
        // The process stood still for a minute between two looks.
        let later = Instant::now() + Duration::from_secs(60);
        assert!(watch.look(later).is_ok() && watch.look(later + 2 * SILENCE_TIMEOUT).is_ok());
        let ended = (0..100).find_map(|_| watch.look(later).err());
        assert!(matches!(ended, Some(Stop::Failed(failure)) if failure.exit == Exit::Peer));
    }

    #[test]
    fn a_peer_that_died_is_no_lost_packet() {
        let interrupt = Interrupt::default();
        let failure = |server: Option<Channel>, client: &Channel| {
            drop(server);
            std::thread::sleep(Duration::from_millis(20));
            let grace = 2 * UNRELIABLE_TIMEOUT;
            let mut watch = Watch::new(client, &interrupt, false).with_grace(grace);
            let now = Instant::now();
            match (0..=looks(UNRELIABLE_TIMEOUT)).find_map(|_| watch.look(now).err()) {
                Some(Stop::Failed(failure)) => failure,
                other => panic!("{other:?}"),
            }
        };
        let (client, server) = Channel::pair(&interrupt).expect("loopback");
        let lost = failure(None, &client);
        assert!(lost.exit == Exit::Failed && lost.help.is_some_and(|help| help.contains("lost")));
        let died = failure(Some(server), &client);
        assert_eq!(died.exit, Exit::Peer, "{died}");
        assert!(died.what.contains("TCP connection is closed"), "{died}");
    }
}
