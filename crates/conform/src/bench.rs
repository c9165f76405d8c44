//! What a case works with: the wire, the agent, and notes.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use crate::player::Player;
use crate::{AgentLink, Card, Entry, Kind, Packet, Reply, Request, Setup, Stop, Wire};

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
    /// Packets that are sent when the case is over.
    pub(crate) at_the_end: RefCell<Vec<Packet>>,
    /// The number of this run: what connection management must not use twice follows from it.
    pub(crate) run: u32,
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
            at_the_end: RefCell::default(),
            run: 0,
        }
    }

    /// What is under test.
    pub fn card(&self) -> &Card {
        self.card
    }

    /// How long to wait.
    pub fn patience(&self) -> Patience {
        self.patience
    }

    /// Sets up a reliable connection.
    pub fn rc(&self) -> Setup<'_, 'r> {
        Setup::new(self, Kind::Rc)
    }

    /// Sets up an unreliable connection.
    pub fn uc(&self) -> Setup<'_, 'r> {
        Setup::new(self, Kind::Uc)
    }

    /// Sets up a datagram queue pair.
    pub fn ud(&self) -> Setup<'_, 'r> {
        Setup::new(self, Kind::Ud)
    }

    /// Sets up the end of an XRC connection that answers.
    pub fn xrc(&self) -> Setup<'_, 'r> {
        Setup::new(self, Kind::XrcReceive)
    }

    /// Sets up the end of an XRC connection that sends.
    pub fn xrc_sender(&self) -> Setup<'_, 'r> {
        Setup::new(self, Kind::XrcSend).receives(0)
    }

    /// The answer is one of several that a good implementation may give.
    pub fn tolerate(&self, what: impl Into<String>) {
        *self.tolerated.borrow_mut() = Some(what.into());
    }

    /// Something worth to be in the report.
    pub fn record(&self, what: impl Into<String>) {
        self.recorded.borrow_mut().push(what.into());
    }

    /// Asks the agent.
    ///
    /// # Errors
    /// It refuses, or is gone.
    pub fn ask(&self, request: &Request) -> Result<Reply, Stop> {
        let reply = self.agent.borrow_mut().call(request);
        match reply.map_err(|error| Stop::Lost(error.to_string()))? {
            Reply::Refused { why } => Err(Stop::Broken(format!("the agent refused: {why}"))),
            reply => {
                if !matches!(request, Request::Look { .. } | Request::Fill { .. }) {
                    self.player.borrow_mut().note(format!("{request:?} -> {reply:?}"));
                }
                Ok(reply)
            }
        }
    }

    /// A number that no other queue pair of the run has had lately.
    pub(crate) fn number(&self) -> u32 {
        self.count.set(self.count.get().wrapping_add(1));
        self.count.get()
    }

    /// What passed, what is tolerated, and what was recorded.
    pub(crate) fn finish(self) -> (Vec<Entry>, Option<String>, Vec<String>) {
        let mut player = self.player.into_inner();
        // The case is judged: what cannot be sent changes nothing.
        self.at_the_end.take().iter().for_each(|packet| drop(player.send(packet)));
        (player.finish(), self.tolerated.into_inner(), self.recorded.into_inner())
    }
}

/// The reply was of another kind than the request: the agent is no agent.
pub(crate) fn nonsense<T>(reply: Reply) -> Result<T, Stop> {
    Err(Stop::Lost(format!("the agent answered something else than it was asked: {reply:?}")))
}
