//! Connections that connection management makes and breaks: what the applications of both ends have said and heard.

mod calling;
mod ending;
mod events;
mod links;

use std::collections::VecDeque;

use uroce_device::CmChannel;
use uroce_device::CmEvent;
use uroce_device::Device;
use uroce_device::cm::{CommId, ServiceId};
use uroce_device::wire::Qpn;

use super::Pair;
use crate::cm_plan::CmPlan;
use crate::violation::{Check, Invariant, ensure};

/// Most calls of a pair where faults last.
const MOST_CALLS: usize = 8;

/// Where a connection stands, as the application of one end knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It knows of none.
    Idle,
    /// It has called.
    Calling,
    /// It was called, and decides at this time.
    Deciding { due_ns: u64 },
    /// It has accepted.
    Accepted,
    /// The connection stands.
    Established,
    /// It has ended the connection, and waits to hear that it is over.
    Leaving,
    /// It has heard that the connection is over.
    Ended,
    /// The connection is no more.
    Over,
}

/// What the called end does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reception {
    Accept,
    /// It refuses, with private data.
    Reject,
    /// Nobody listens.
    Absent,
    /// The backlog of the listener is full.
    Full,
    /// The process of the called end is no more. What it has said before may still be on its way: that its backlog
    /// was full.
    Lost {
        was_full: bool,
    },
    /// The listener is announced, and comes at this time.
    Late {
        at_ns: u64,
    },
    /// It accepts, but the caller gives up at this time.
    HangUp {
        at_ns: u64,
    },
}

/// A turn of a pair in which connection management is asked or heard.
pub(super) struct CmTurn<'a> {
    pub(super) pair: &'a mut Pair,
}

/// One end of a connection, as its application sees it.
#[derive(Debug)]
struct CmEnd {
    channel: CmChannel,
    id: Option<CommId>,
    standing: Standing,
    /// When something must have happened at the latest, and what.
    due: Option<(u64, &'static str)>,
    /// Private data for the peer: of the call, or the acceptance.
    greeting: Vec<u8>,
    /// Private data for the peer, of its DREQ; `None` if it has not ended the connection.
    farewell: Option<Vec<u8>>,
    /// It was told that the connection stands.
    was_established: bool,
    /// Its queue pair was destroyed with the connection.
    is_destroyed: bool,
}

impl CmEnd {
    fn new() -> CmEnd {
        CmEnd {
            channel: CmChannel::new().expect("a descriptor"),
            id: None,
            standing: Standing::Idle,
            due: None,
            greeting: vec![],
            farewell: None,
            was_established: false,
            is_destroyed: false,
        }
    }

    /// From now on, nothing of a connection is known.
    fn clear(&mut self) {
        (self.id, self.standing, self.due) = (None, Standing::Idle, None);
        (self.was_established, self.is_destroyed) = (false, false);
        self.greeting.clear();
        self.farewell = None;
    }

    fn enter(&mut self, standing: Standing, due: Option<(u64, &'static str)>) {
        (self.standing, self.due) = (standing, due);
    }

    /// The connection is no more: its name is given back.
    fn finish(&mut self, device: &Device) {
        if let Some(id) = self.id.take() {
            device.cm().release(id);
        }
        self.enter(Standing::Over, None);
    }

    fn is_over(&self) -> bool {
        matches!(self.standing, Standing::Idle | Standing::Over)
    }
}

/// The connection of a pair.
#[derive(Debug)]
pub(super) struct Managed {
    plan: CmPlan,
    /// How many there are, with others.
    pairs: u64,
    service: ServiceId,
    ends: [CmEnd; 2],
    /// Events that were fetched, each with the end that they came to.
    events: VecDeque<(usize, CmEvent)>,
    reception: Reception,
    /// The backlog of the listener; `None` if there is none.
    backlog: Option<usize>,
    /// First PSNs of both ends.
    psns: [u32; 2],
    /// The queue pair of the caller when it called.
    calling_qpn: Qpn,
    /// When this call was made, and whether there were no faults then; `None` before it.
    called: Option<(u64, bool)>,
    /// Calls so far, which tell requests apart.
    calls: u64,
    /// Calls that will come to nothing.
    failures_left: usize,
    /// When an end ended the connection, without faults.
    ended_calmly: bool,
    /// The called end has rejected this call.
    has_rejected: bool,
}

impl Managed {
    /// The connection of the pair with this number, of so many.
    pub(super) fn new(plan: &CmPlan, number: usize, pairs: usize) -> Managed {
        Managed {
            pairs: pairs as u64,
            service: plan.service(number),
            ends: [CmEnd::new(), CmEnd::new()],
            events: VecDeque::new(),
            reception: Reception::Accept,
            backlog: None,
            psns: [0; 2],
            calling_qpn: Qpn::new(0),
            called: None,
            calls: 0,
            failures_left: plan.failures,
            plan: plan.clone(),
            ended_calmly: false,
            has_rejected: false,
        }
    }

    fn caller(&self) -> usize {
        self.plan.caller
    }

    fn callee(&self) -> usize {
        1 - self.plan.caller
    }

    /// True if faults have taken so many calls that no more are made.
    pub(super) fn has_called_enough(&self) -> bool {
        self.calls as usize >= MOST_CALLS
    }

    /// True if the application of this end may post requests.
    pub(super) fn may_send(&self, index: usize) -> bool {
        self.ends[index].standing == Standing::Established
    }

    /// True if the connection stands, as far as this end knows.
    fn stands(&self, index: usize) -> bool {
        matches!(self.ends[index].standing, Standing::Established | Standing::Accepted)
    }

    /// True if late copies of the calls before this one can take all of the listener's backlog.
    fn may_be_full_of_copies(&self) -> bool {
        self.backlog.is_some_and(|backlog| self.calls > backlog as u64)
    }

    /// What both ends call the connection, if it stands.
    pub(super) fn ids(&self) -> Option<[u32; 2]> {
        let [Some(first), Some(second)] = self.ends.each_ref().map(|end| end.id) else {
            return None;
        };
        let stands = self.ends.iter().all(|end| end.standing == Standing::Established);
        stands.then_some([first.0, second.0])
    }

    /// True if neither end has anything of the connection left.
    pub(super) fn is_over(&self) -> bool {
        self.ends.iter().all(CmEnd::is_over)
    }

    /// Fetches the events of the ends that `may_have` some. True if any wait.
    pub(super) fn fetch(&mut self, may_have: [bool; 2]) -> bool {
        for (index, end) in self.ends.iter().enumerate().filter(|(index, _)| may_have[*index]) {
            while let Some(event) = end.channel.try_event() {
                self.events.push_back((index, event));
            }
        }
        !self.events.is_empty()
    }

    /// True if a call was made.
    pub(super) fn has_called(&self) -> bool {
        self.called.is_some()
    }

    /// The process of an end is no more.
    pub(super) fn lose(&mut self, index: usize) {
        let end = &mut self.ends[index];
        end.channel = CmChannel::new().expect("a descriptor");
        end.id = None;
        end.enter(Standing::Over, None);
        self.events.retain(|(to, _)| *to != index);
        if index == self.callee() {
            let was_full =
                matches!(self.reception, Reception::Full | Reception::Lost { was_full: true });
            (self.backlog, self.reception) = (None, Reception::Lost { was_full });
        }
        self.note_faults();
    }

    /// Nothing must succeed of this call any more.
    pub(super) fn note_faults(&mut self) {
        self.ended_calmly = false;
        self.called = self.called.map(|(at_ns, _)| (at_ns, false));
    }

    /// When the applications act next, while there is no connection.
    pub(super) fn next_action(&self) -> Option<u64> {
        if self.called.is_none() { Some(0) } else { self.poll_timeout() }
    }

    /// When something is due of itself.
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        let of_call = match self.reception {
            Reception::Late { at_ns } if self.backlog.is_none() => Some(at_ns),
            Reception::HangUp { at_ns } => Some(at_ns).filter(|_| self.is_calling()),
            _ => None,
        };
        let decision = self.ends.iter().filter_map(|end| match end.standing {
            Standing::Deciding { due_ns } => Some(due_ns),
            _ => None,
        });
        // Late is what has not happened when its time is over.
        let due = self.ends.iter().filter_map(|end| Some(end.due?.0 + 1));
        of_call.into_iter().chain(decision).chain(due).min()
    }

    fn is_calling(&self) -> bool {
        self.ends[self.caller()].standing == Standing::Calling
    }

    /// I14: each wait ends within the bound that its timeouts and retries give.
    fn check_due(&self, now_ns: u64) -> Check {
        let late = self.ends.iter().filter_map(|end| end.due).find(|(at_ns, _)| *at_ns < now_ns);
        ensure(late.is_none(), Invariant::Liveness, || {
            let what = late.map_or("", |(_, what)| what);
            format!("{what}, although all timeouts and retries are over")
        })
    }

    /// What both ends wait for.
    pub(super) fn describe(&self) -> String {
        let [first, second] = self.ends.each_ref().map(|end| end.standing);
        format!("call {}, {:?}: {first:?} and {second:?}", self.calls, self.reception)
    }

    /// The listener goes, and what came for it too late to be looked at.
    pub(super) fn destroy(&mut self, devices: [&Device; 2]) {
        self.fetch([true; 2]);
        for (index, event) in std::mem::take(&mut self.events) {
            devices[index].cm().release(event.id);
        }
        let cm = devices[self.callee()].cm();
        if self.backlog.take().is_some() {
            cm.unlisten(self.service).expect("it listens");
        }
        cm.unbind(self.service);
    }
}
