//! Finding out who is where in the group of sockets, when packets go astray.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use uroce_wire::Slot;

use super::claim::Door;
use super::place::Place;
use super::probe::{Answer, Probe};
use super::steer::{Places, steer};

/// How long to wait for answers: each process answers when it looks at its packets next.
const PATIENCE: Duration = Duration::from_millis(100);

/// Between two surveys, at first; twice as long after each that has found nothing new.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A survey under way.
#[derive(Debug)]
struct Survey {
    nonce: u64,
    end: Instant,
    /// Processes that can answer.
    expected: usize,
    places: Places,
    /// Where packets go astray that must stay in order.
    ordered: Places,
    /// Nobody joins meanwhile.
    _door: Door,
}

/// Whoever makes surveys for one process.
#[derive(Debug)]
pub(crate) struct Surveyor {
    own: Slot,
    local: SocketAddr,
    place: Place,
    /// The socket in the group.
    socket: OwnedFd,
    survey: Option<Survey>,
    found: Places,
    pause: Duration,
    /// No survey before.
    next: Instant,
    nonce: u64,
}

impl Surveyor {
    pub(crate) fn new(own: Slot, local: SocketAddr, place: Place, socket: OwnedFd) -> Self {
        let (survey, found, now) = (None, Places::new(), Instant::now());
        Self { own, local, place, socket, survey, found, pause: PAUSE, next: now, nonce: 0 }
    }

    /// Packets go astray: begins a survey unless one was made shortly before.
    pub(crate) fn begin(&mut self) {
        let now = Instant::now();
        if self.survey.is_some() || now < self.next {
            return;
        }
        self.next = now + self.pause;
        match self.probe(now) {
            Ok(survey) => self.survey = survey,
            Err(error) => tracing::debug!(%error, "no survey of the processes on the address"),
        }
    }

    /// `None`: somebody else does it.
    fn probe(&mut self, now: Instant) -> io::Result<Option<Survey>> {
        let Some(door) = Door::try_enter(self.place)? else { return Ok(None) };
        let expected = self.place.slots_taken()?.len();
        let from = UdpSocket::bind((self.local.ip(), 0))?;
        from.set_nonblocking(true)?;
        self.nonce = self.nonce.wrapping_add(1);
        for place in 0..expected {
            let place = u8::try_from(place).unwrap_or(u8::MAX);
            let probe = Probe { place, asker: self.own, nonce: self.nonce };
            from.send_to(&probe.write(), self.local)?;
        }
        let (nonce, end) = (self.nonce, now + PATIENCE);
        let (places, ordered) = (Places::new(), Places::new());
        Ok(Some(Survey { nonce, end, expected, places, ordered, _door: door }))
    }

    /// Takes note of an answer.
    pub(crate) fn handle_answer(&mut self, answer: &Answer) {
        let Some(survey) = self.survey.as_mut().filter(|survey| survey.nonce == answer.nonce)
        else {
            return;
        };
        survey.places.insert(answer.slot, answer.place);
        survey.ordered.extend(answer.ordered.iter().map(|slot| (slot, answer.place)));
        if survey.places.len() >= survey.expected {
            self.finish();
        }
    }

    /// How long until [`handle_timeout`](Self::handle_timeout) is due.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        let survey = self.survey.as_ref()?;
        Some(survey.end.saturating_duration_since(Instant::now()))
    }

    pub(crate) fn handle_timeout(&mut self) {
        if self.timeout().is_some_and(|left| left.is_zero()) {
            self.finish();
        }
    }

    /// Tells the kernel what was found.
    fn finish(&mut self) {
        let Some(mut survey) = self.survey.take() else { return };
        survey.places.append(&mut survey.ordered);
        let same = survey.places == self.found;
        self.pause = if same { (2 * self.pause).min(LONGEST_PAUSE) } else { PAUSE };
        self.next = Instant::now() + self.pause;
        tracing::debug!(places = ?survey.places, "surveyed");
        if let Err(error) = steer(&self.socket, &survey.places) {
            tracing::debug!(%error, "the packets cannot be steered");
        }
        self.found = survey.places;
    }
}
