//! What a case works with: the wire, the agent, and notes.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use crate::player::Player;
use crate::{
    AgentError, AgentLink, Card, Entry, Figures, Offer, Packet, Reply, Request, Stop, Takes,
    Wanted, Wire,
};

/// How long a case waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For an answer that must come.
    pub answer: Duration,
    /// Before it believes that none comes.
    pub silence: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience { answer: Duration::from_secs(3), silence: Duration::from_millis(30) }
    }
}

/// What a case works with.
pub struct Bench<'r> {
    pub(crate) player: RefCell<Player<'r>>,
    agent: RefCell<&'r mut dyn AgentLink>,
    card: &'r Card,
    pub(crate) patience: Patience,
    /// Queue pairs that were set up.
    count: Cell<u32>,
    tolerated: RefCell<Option<String>>,
    recorded: RefCell<Vec<String>>,
    figures: RefCell<Option<Figures>>,
    /// Packets that are sent when the case is over.
    pub(crate) at_the_end: RefCell<Vec<Packet>>,
    /// The number of this run: what connection management must not use twice follows from it.
    pub(crate) run: u32,
    /// What the stock program of each queue pair must take so that the case can be run, in the order in which the case
    /// opens them; it becomes known while the case runs.
    needed: RefCell<Vec<Takes>>,
    /// Queue pairs of stock programs that the case has opened.
    opened: Cell<usize>,
    /// What was not looked at, because there is no agent.
    unseen: RefCell<Vec<&'static str>>,
    /// Queue pair number of the tester for the newest queue pair of a stock program.
    pub(crate) newest: Cell<u32>,
}

/// What a case leaves behind.
pub(crate) struct Finished {
    pub(crate) transcript: Vec<Entry>,
    pub(crate) tolerated: Option<String>,
    pub(crate) recorded: Vec<String>,
    pub(crate) figures: Option<Figures>,
    pub(crate) needed: Vec<Takes>,
}

impl<'r> Bench<'r> {
    /// A bench for one case.
    pub fn new(
        wire: &'r mut dyn Wire,
        agent: &'r mut dyn AgentLink,
        card: &'r Card,
        patience: Patience,
        seed: u32,
    ) -> Self {
        Bench {
            player: RefCell::new(Player::new(wire, card.address)),
            agent: RefCell::new(agent),
            card,
            patience,
            count: Cell::new(seed),
            tolerated: RefCell::default(),
            recorded: RefCell::default(),
            figures: RefCell::default(),
            at_the_end: RefCell::default(),
            run: 0,
            needed: RefCell::default(),
            opened: Cell::default(),
            unseen: RefCell::default(),
            newest: Cell::default(),
        }
    }

    /// The same, for a case of which it is known what stock programs must take.
    pub(crate) fn needing(self, needed: Vec<Takes>) -> Self {
        *self.needed.borrow_mut() = needed;
        self
    }

    /// What is under test.
    pub fn card(&self) -> &Card {
        self.card
    }

    /// How long to wait.
    pub fn patience(&self) -> Patience {
        self.patience
    }

    /// The answer is one of several that a good implementation may give.
    pub fn tolerate(&self, what: impl Into<String>) {
        *self.tolerated.borrow_mut() = Some(what.into());
    }

    /// Something worth to be in the report.
    pub fn record(&self, what: impl Into<String>) {
        self.recorded.borrow_mut().push(what.into());
    }

    /// What was measured.
    pub(crate) fn measured(&self, figures: Figures) {
        *self.figures.borrow_mut() = Some(figures);
    }

    /// Asks the agent; packets that come while it works are written down with the time at which they came.
    ///
    /// # Errors
    /// It refuses, or is gone. Or too many packets came.
    pub fn ask(&self, request: &Request) -> Result<Reply, Stop> {
        let mut came = Ok(());
        let mut waiting = || {
            if came.is_ok() {
                came = self.player.borrow_mut().drain(Duration::ZERO);
            }
        };
        let reply = self.agent.borrow_mut().call(request, &mut waiting);
        let reply = reply.map_err(AgentError::into_stop)?;
        came?;
        match reply {
            Reply::Refused { why } => Err(Stop::Broken(format!("the agent refused: {why}"))),
            reply => {
                let long = matches!(
                    request,
                    Request::Look { .. } | Request::Fill { .. } | Request::Counters
                );
                let mut player = self.player.borrow_mut();
                if !long && !player.only_counts() {
                    player.note(format!("{request:?} -> {reply:?}"));
                }
                Ok(reply)
            }
        }
    }

    /// True if the card says what the device has.
    pub(crate) fn knows_device(&self) -> bool {
        self.agent.borrow().knows_device()
    }

    /// A queue pair of a stock program, if that is how queue pairs come about.
    pub(crate) fn offer(&self, mut wanted: Wanted) -> Result<Option<Offer>, Stop> {
        wanted.takes = self.needed.borrow().get(self.opened.get()).copied().unwrap_or_default();
        let offer = self.agent.borrow_mut().offer(&wanted).map_err(AgentError::into_stop)?;
        if let Some(offer) = &offer {
            self.opened.set(self.opened.get() + 1);
            self.newest.set(wanted.link.qpn);
            self.player.borrow_mut().note(format!("{:?} -> {offer:?}", wanted.link));
        }
        Ok(offer)
    }

    /// The stock program of the newest queue pair must take this as well; returns all that it must take.
    pub(crate) fn need(&self, more: Takes) -> Takes {
        let mut needed = self.needed.borrow_mut();
        let opened = self.opened.get().max(1);
        if needed.len() < opened {
            needed.resize(opened, Takes::default());
        }
        needed[opened - 1] = needed[opened - 1].with(more);
        needed[opened - 1]
    }

    /// This was not looked at.
    pub(crate) fn unseen(&self, what: &'static str) {
        let mut unseen = self.unseen.borrow_mut();
        if !unseen.contains(&what) {
            unseen.push(what);
        }
    }

    /// A number that no other queue pair of the run has had lately.
    pub(crate) fn number(&self) -> u32 {
        self.count.set(self.count.get().wrapping_add(1));
        self.count.get()
    }

    /// What passed, what is tolerated, what was recorded, and what was not looked at.
    pub(crate) fn finish(self) -> Finished {
        let mut recorded = self.recorded.into_inner();
        let unseen = self.unseen.into_inner();
        if !unseen.is_empty() {
            recorded.push(format!("nobody looked at {}: no agent", unseen.join(", ")));
        }
        let mut player = self.player.into_inner();
        // The case is judged: what cannot be sent changes nothing.
        self.at_the_end.take().iter().for_each(|packet| drop(player.send(packet)));
        Finished {
            transcript: player.finish(),
            tolerated: self.tolerated.into_inner(),
            recorded,
            figures: self.figures.into_inner(),
            needed: self.needed.into_inner(),
        }
    }
}

#[cfg(test)]
mod tests {
    use uroce_wire::Opcode;

    use super::*;
    use crate::fake::{FakeAgent, FakeWire, card, incoming};

    /// What is written down of one question, of which the agent takes its time, and how it ended.
    fn asked(wire: &mut FakeWire) -> (Vec<Entry>, Result<Reply, Stop>) {
        let mut agent = FakeAgent { waits: 3, ..FakeAgent::default() };
        let card = card();
        let bench = Bench::new(wire, &mut agent, &card, Patience::default(), 0);
        let reply = bench.ask(&Request::Query { qp: 1 });
        (bench.finish().transcript, reply)
    }

    #[test]
    fn what_comes_while_the_agent_works_is_written_down_before_its_reply() {
        let coming = [incoming(Opcode::RC_WRITE_FIRST, 1), incoming(Opcode::RC_WRITE_LAST, 1)];
        let (transcript, reply) =
            asked(&mut FakeWire { coming: coming.into(), ..FakeWire::default() });
        assert!(matches!(reply, Ok(Reply::State { .. })));
        let [Entry::Packet { at: first, .. }, Entry::Packet { .. }, Entry::Note { .. }] =
            &transcript[..]
        else {
            panic!("{transcript:?}");
        };
        assert_eq!(*first, Duration::from_millis(1));
    }

    #[test]
    fn a_flood_while_the_agent_works_ends() {
        let flood = Some(incoming(Opcode::RC_WRITE_ONLY, 1));
        let (_, reply) = asked(&mut FakeWire { flood, ..FakeWire::default() });
        assert!(matches!(reply, Err(Stop::Fail(why)) if why.contains("more than")));
    }
}
