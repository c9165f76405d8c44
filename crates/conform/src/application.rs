//! What the application beside the NIC under test sees and does.

use std::cell::Cell;
use std::time::Duration;

use crate::agent_link::wrong_reply;
use crate::memory::{REMOTE_RKEY, REMOTE_VA, Region};
use crate::verdict::{check, fail};
use crate::{
    Bench, Completion, Event, Hex, Operation, Piece, Receive, Reply, Request, State, Stop, Work,
    pattern, status,
};

/// Work requests of the send queue have numbers from here on.
const FIRST_WORK: u64 = 1000;

/// The application beside the NIC under test, as the owner of one queue pair: what it posts, what completes, and its
/// memory. The agent plays it; a stock program cannot be asked.
pub struct Application<'b, 'r> {
    bench: &'b Bench<'r>,
    /// The number of the queue pair in the agent.
    pub(crate) id: u32,
    /// What peers may read and write.
    pub(crate) region: Region,
    inbox: Region,
    receive_bytes: u32,
    /// Work requests posted to the send queue.
    posted: Cell<u64>,
    is_program: bool,
}

impl<'b, 'r> Application<'b, 'r> {
    pub(crate) fn new(
        bench: &'b Bench<'r>,
        id: u32,
        region: Region,
        inbox: Region,
        receive_bytes: u32,
    ) -> Self {
        let posted = Cell::new(0);
        Application { bench, id, region, inbox, receive_bytes, posted, is_program: false }
    }

    /// The same as a stock program.
    pub(crate) fn of_program(self) -> Self {
        Application { is_program: true, ..self }
    }

    /// There is no agent that could look at `what`, which the report then says.
    pub(crate) fn unseen(&self, what: &'static str) -> bool {
        if self.is_program {
            self.bench.unseen(what);
        }
        self.is_program
    }

    /// Bytes of its region.
    pub(crate) fn region_bytes(&self) -> usize {
        self.region.length as usize
    }

    pub(crate) fn ask(&self, request: &Request) -> Result<Reply, Stop> {
        self.bench.ask(request)
    }

    /// The state of the queue pair.
    ///
    /// # Errors
    /// The agent cannot say.
    pub fn state(&self) -> Result<State, Stop> {
        match self.ask(&Request::Query { qp: self.id })? {
            Reply::State { state } => Ok(state),
            other => wrong_reply(other),
        }
    }

    /// Moves the queue pair to RESET, ERR or SQD.
    ///
    /// # Errors
    /// The agent cannot.
    pub fn modify(&self, state: State) -> Result<(), Stop> {
        self.ask(&Request::Modify { qp: self.id, state }).map(drop)
    }

    /// `length` bytes of its region from `offset` on.
    ///
    /// # Errors
    /// The agent cannot say.
    pub fn memory(&self, offset: usize, length: usize) -> Result<Vec<u8>, Stop> {
        self.look(self.region.number, offset, length)
    }

    /// `length` bytes of receive `index`.
    ///
    /// # Errors
    /// The agent cannot say.
    pub fn inbox(&self, index: u32, length: usize) -> Result<Vec<u8>, Stop> {
        self.look(self.inbox.number, (index * self.receive_bytes) as usize, length)
    }

    fn look(&self, region: u32, offset: usize, length: usize) -> Result<Vec<u8>, Stop> {
        let (offset, length) = (offset as u32, length as u32);
        match self.ask(&Request::Look { region, offset, length })? {
            Reply::Memory { bytes: Hex(bytes) } if bytes.len() == length as usize => Ok(bytes),
            other => wrong_reply(other),
        }
    }

    /// Writes into its region as the application would.
    ///
    /// # Errors
    /// The agent cannot.
    pub fn fill(&self, offset: usize, bytes: &[u8]) -> Result<(), Stop> {
        let (region, offset) = (self.region.number, offset as u32);
        self.ask(&Request::Fill { region, offset, bytes: Hex(bytes.to_vec()) }).map(drop)
    }

    /// Takes its region away from the NIC.
    ///
    /// # Errors
    /// The agent cannot.
    pub fn deregister(&self) -> Result<(), Stop> {
        self.ask(&Request::Deregister { region: self.region.number }).map(drop)
    }

    /// No byte of its region has changed.
    ///
    /// # Errors
    /// One has.
    pub fn untouched(&self) -> Result<(), Stop> {
        if self.unseen("its memory") {
            return Ok(());
        }
        self.holds(0, &[])
    }

    /// The first bytes of its region are those of `expected`, and no other has changed.
    ///
    /// # Errors
    /// They are not, or one has.
    pub fn written(&self, expected: &[u8]) -> Result<(), Stop> {
        self.holds(0, expected)
    }

    /// The bytes of its region from `offset` on are those of `expected`, and no other has changed.
    ///
    /// # Errors
    /// They are not, or one has.
    pub fn holds(&self, offset: usize, expected: &[u8]) -> Result<(), Stop> {
        let mut wanted = pattern(0, self.region_bytes());
        wanted[offset..offset + expected.len()].copy_from_slice(expected);
        let now = self.memory(0, wanted.len())?;
        match now.iter().zip(&wanted).position(|(now, wanted)| now != wanted) {
            None => Ok(()),
            Some(at) => fail(format!("byte {at} of the region is not what it should be")),
        }
    }

    /// These are the bytes of its region from `offset` on, as it was registered.
    ///
    /// # Errors
    /// They are not.
    pub fn registered(&self, offset: usize, bytes: &[u8]) -> Result<(), Stop> {
        if self.unseen("what its memory held") {
            return Ok(());
        }
        let same = bytes == &pattern(0, offset + bytes.len())[offset..];
        check(same, || format!("the {} bytes read are not those of its region", bytes.len()))
    }

    /// The next completion.
    ///
    /// # Errors
    /// None came.
    pub fn completion(&self) -> Result<Completion, Stop> {
        match self.poll(self.bench.patience.answer)? {
            Some(completion) => Ok(completion),
            None => fail("expected a completion; none came"),
        }
    }

    /// The next completion must have this status and be of this work request.
    ///
    /// # Errors
    /// It is not.
    pub fn completes(&self, wr_id: u64, status: u32) -> Result<Completion, Stop> {
        let completion = self.completion()?;
        let as_expected = completion.wr_id == wr_id && completion.status == status;
        check(as_expected, || {
            let Completion { wr_id: id, status: got, .. } = &completion;
            format!(
                "expected a completion of work request {wr_id} with status {status}, \
                 got one of {id} with status {got}"
            )
        })?;
        Ok(completion)
    }

    /// Receive `index` completes with a message of `length` bytes of the usual pattern.
    ///
    /// # Errors
    /// It does not.
    pub fn received(&self, index: u32, length: usize) -> Result<(), Stop> {
        if self.unseen("its completions") {
            return Ok(());
        }
        self.receives(index, length).map(drop)
    }

    /// The same, for a case that looks at the completion itself.
    ///
    /// # Errors
    /// It does not.
    pub fn receives(&self, index: u32, length: usize) -> Result<Completion, Stop> {
        let completion = self.completes(index.into(), status::SUCCESS)?;
        let got = completion.byte_len;
        check(got == length as u32, || format!("expected {length} bytes received, got {got}"))?;
        let same = self.inbox(index, length)? == pattern(1, length);
        check(same, || format!("the bytes of receive {index} are not those that were sent"))?;
        Ok(completion)
    }

    /// There is no completion.
    ///
    /// # Errors
    /// There is one.
    pub fn no_completion(&self) -> Result<(), Stop> {
        if self.unseen("its completions") {
            return Ok(());
        }
        match self.poll(Duration::ZERO)? {
            None => Ok(()),
            Some(got) => fail(format!("expected no completion, got {got:?}")),
        }
    }

    /// Whether work request `wr_id` has completed by now, with this status.
    ///
    /// # Errors
    /// It has completed otherwise, or another one has.
    pub fn done(&self, wr_id: u64, status: u32) -> Result<bool, Stop> {
        match self.poll(Duration::ZERO)? {
            None => Ok(false),
            Some(got) if got.wr_id == wr_id && got.status == status => Ok(true),
            Some(got) => fail(format!("expected {wr_id} with status {status}, got {got:?}")),
        }
    }

    fn poll(&self, wait: Duration) -> Result<Option<Completion>, Stop> {
        Ok(self.polled(1, wait)?.into_iter().next())
    }

    /// Completions, as soon as there are `count`, and after this time at the latest.
    pub(crate) fn polled(&self, count: u32, wait: Duration) -> Result<Vec<Completion>, Stop> {
        let request = Request::Poll { qp: self.id, count, wait_ms: wait.as_millis() as u32 };
        match self.ask(&request)? {
            Reply::Completions { completions } => Ok(completions),
            other => wrong_reply(other),
        }
    }

    /// Asynchronous events, of which the first may take so long.
    ///
    /// # Errors
    /// The agent cannot say.
    pub fn events(&self, wait: Duration) -> Result<Vec<Event>, Stop> {
        match self.ask(&Request::Events { wait_ms: wait.as_millis() as u32 })? {
            Reply::Events { events } => Ok(events),
            other => wrong_reply(other),
        }
    }

    /// Arms its completion queue.
    ///
    /// # Errors
    /// The agent cannot.
    pub fn arm(&self, solicited: bool) -> Result<(), Stop> {
        self.ask(&Request::Notify { qp: self.id, solicited }).map(drop)
    }

    /// Its completion queue raises an event within this time.
    ///
    /// # Errors
    /// The agent cannot say.
    pub fn woken(&self, wait: Duration) -> Result<bool, Stop> {
        match self.ask(&Request::Woken { qp: self.id, wait_ms: wait.as_millis() as u32 })? {
            Reply::Events { events } => Ok(!events.is_empty()),
            other => wrong_reply(other),
        }
    }

    /// Posts receive `index`, at its place of the inbox.
    ///
    /// # Errors
    /// The agent cannot.
    pub fn post_receive(&self, index: u32) -> Result<(), Stop> {
        self.post_receives([index])
    }

    /// Posts these receives, each at its place of the inbox.
    pub(crate) fn post_receives(&self, indices: impl IntoIterator<Item = u32>) -> Result<(), Stop> {
        let receive = |index: u32| {
            let offset = index * self.receive_bytes;
            let length = self.receive_bytes.min(self.inbox.length.saturating_sub(offset));
            let piece = Piece { region: self.inbox.number, offset, length, lkey: None };
            Receive { wr_id: index.into(), pieces: vec![piece] }
        };
        let receives = indices.into_iter().map(receive).collect();
        self.ask(&Request::Receive { qp: self.id, receives }).map(drop)
    }

    /// The number of the next work request of its send queue.
    pub(crate) fn next_work(&self) -> u64 {
        let number = self.posted.get();
        self.posted.set(number + 1);
        FIRST_WORK + number
    }

    /// Posts a work request on the first `length` bytes of its region and of memory that the tester pretends to have;
    /// returns its number.
    ///
    /// # Errors
    /// The agent cannot.
    pub fn post(&self, operation: Operation, length: usize) -> Result<u64, Stop> {
        self.post_with(operation, length, |_| ())
    }

    /// The same, with changes.
    ///
    /// # Errors
    /// The agent cannot.
    pub fn post_with(
        &self,
        operation: Operation,
        length: usize,
        change: impl FnOnce(&mut Work),
    ) -> Result<u64, Stop> {
        let wr_id = self.next_work();
        let region = self.region.number;
        let mut work = Work {
            wr_id,
            operation,
            pieces: vec![Piece { region, offset: 0, length: length as u32, lkey: None }],
            va: REMOTE_VA,
            rkey: REMOTE_RKEY,
            srqn: 0,
            imm: None,
            compare_add: 0,
            swap: 0,
            fence: false,
            solicited: false,
            signaled: true,
        };
        change(&mut work);
        self.ask(&Request::Send { qp: self.id, work })?;
        Ok(wr_id)
    }
}
