//! One end of a connection of rping.

use std::time::{Duration, Instant};

use uroce_verbs::{
    Access, CmEventKind, CmId, CompletionQueue, ConnParam, MemoryRegion, ProtectionDomain, QpType,
    QueuePair, RecvWr, RejReason, RemoteSlice, Rkey, SendWr, WcOpcode, WorkCompletion,
};

use super::advert;
use super::events::{Events, LOOK};
use crate::failure::{Exit, Failure};
use crate::stop::{Stop, failed};

/// How long a connection that failed may take to say why.
const GRACE: Duration = Duration::from_secs(2);
/// When a peer that does not answer is worth a word.
const SOON: Duration = Duration::from_secs(2);
/// Send and receive requests, as in rping.
const DEPTH: u32 = 16;
/// Work request id of a keepalive; all others are 0.
const KEEPALIVE: u64 = 1;

/// The queue pair of one connection, with its messages and memory.
#[derive(Debug)]
pub struct RpingEnd<'a> {
    /// The queue pair.
    ///
    /// First of all fields, so that they end before the memory does: else a message that is just
    /// coming would be refused, and the peer told of an error, instead of getting no answer.
    pub qp: QueuePair,
    /// The data that goes to and fro.
    pub data: MemoryRegion,
    pd: ProtectionDomain,
    cq: CompletionQueue,
    incoming: MemoryRegion,
    outgoing: MemoryRegion,
    events: &'a Events<'a>,
    /// The connection stands as long as its id.
    id: CmId,
}

/// What both ends ask of a connection: one READ at a time is enough.
fn parameters() -> ConnParam {
    ConnParam { responder_resources: 1, initiator_depth: 1, ..ConnParam::default() }
}

impl<'a> RpingEnd<'a> {
    /// Makes the objects for the connection of `id` and posts the receive for the first message.
    ///
    /// # Errors
    /// Exit 3 for what the device refuses.
    pub fn new(events: &'a Events<'a>, id: CmId, size: usize) -> Result<RpingEnd<'a>, Failure> {
        let context = events.channel.context();
        let pd = context.alloc_pd().map_err(Failure::environment)?;
        let cq = context.create_cq(4 * DEPTH).map_err(Failure::environment)?;
        let qp = pd.qp_builder(QpType::Rc, &cq, &cq).max_send_wr(DEPTH).max_recv_wr(DEPTH);
        let qp = qp.build().map_err(Failure::environment)?;
        qp.init().map_err(Failure::environment)?;
        let memory = |len, access| {
            pd.alloc_mr(len, Access::LOCAL_WRITE | access).map_err(Failure::environment)
        };
        let (incoming, outgoing) =
            (memory(advert::LEN, Access::empty())?, memory(advert::LEN, Access::empty())?);
        let data = memory(size, Access::REMOTE)?;
        let end = RpingEnd { data, qp, pd, cq, incoming, outgoing, events, id };
        end.post_receive()?;
        Ok(end)
    }

    /// Calls the peer that the id has resolved.
    ///
    /// # Errors
    /// Exit 1 if the device refuses.
    pub fn connect(&self) -> Result<(), Failure> {
        self.id.connect(&self.qp, &parameters()).map_err(Failure::test)
    }

    /// Accepts the caller that the id is of.
    ///
    /// # Errors
    /// Exit 1 if the device refuses, as where the caller has given up.
    pub fn accept(&self) -> Result<(), Failure> {
        self.id.accept(&self.qp, &parameters()).map_err(Failure::test)
    }

    /// Memory that the peer may read.
    ///
    /// # Errors
    /// Exit 3 for what the device refuses.
    pub fn source(&self) -> Result<MemoryRegion, Failure> {
        let access = Access::LOCAL_WRITE | Access::REMOTE_READ;
        self.pd.alloc_mr(self.data.len(), access).map_err(Failure::environment)
    }

    fn post_receive(&self) -> Result<(), Failure> {
        let sges = [self.incoming.sge(..)];
        let posted = self.qp.post_recv(&[RecvWr::new(0, &sges)]);
        posted.map_err(|error| Failure::test(format!("cannot post a receive: {error}")))
    }

    fn post_send(&self, wr: SendWr<'_>) -> Result<(), Failure> {
        let posted = self.qp.post_send(&[wr]);
        posted.map_err(|error| Failure::test(format!("cannot post a request: {error}")))
    }

    /// Tells the peer where `region` is.
    ///
    /// # Errors
    /// Exit 1 if the device refuses.
    pub fn advertise(&self, region: &MemoryRegion) -> Result<(), Failure> {
        self.outgoing.write(0, &advert::encode(region)).map_err(Failure::test)?;
        // Without a completion: the peer's answer shows that it arrived.
        self.post_send(SendWr::send(0, &[self.outgoing.sge(..)]))
    }

    /// Waits for the message of the peer, and posts the receive for the next one.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn hear(&self) -> Result<RemoteSlice, Stop> {
        let done = self.completion(WcOpcode::Recv)?;
        if done.byte_len as usize != advert::LEN {
            let what = format!("the peer sent {} bytes instead of 16", done.byte_len);
            return Err(Failure::peer(what).help("is the peer rping?").into());
        }
        let mut bytes = [0; advert::LEN];
        self.incoming.read(0, &mut bytes).map_err(Failure::test)?;
        self.post_receive()?;
        Ok(advert::decode(&bytes))
    }

    /// Reads the first bytes of the peer's memory into our data.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn fetch(&self, from: RemoteSlice) -> Result<usize, Stop> {
        let length = usize::try_from(from.len).unwrap_or(usize::MAX);
        if length > self.data.len() {
            let (got, room) = (from.len, self.data.len());
            let what = format!("the client offers {got} bytes, but there is room for {room}");
            return Err(Failure::peer(what).into());
        }
        self.post_send(SendWr::read(0, &[self.data.sge(..length)], from).signaled())?;
        self.completion(WcOpcode::RdmaRead)?;
        Ok(length)
    }

    /// Writes the first `length` bytes of our data into the peer's memory.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn give(&self, to: RemoteSlice, length: usize) -> Result<(), Stop> {
        self.post_send(SendWr::write(0, &[self.data.sge(..length)], to).signaled())?;
        self.completion(WcOpcode::RdmaWrite).map(drop)
    }

    fn completion(&self, wanted: WcOpcode) -> Result<WorkCompletion, Stop> {
        let (mut start, mut asked) = (Instant::now(), false);
        loop {
            // Also where completions never stop.
            if self.events.interrupt.is_set() {
                return Err(Stop::Interrupted);
            }
            let mut found = [WorkCompletion::default()];
            if self.cq.wait(&mut found, LOOK) == 0 {
                self.look_around()?;
                if !asked && start.elapsed() >= SOON {
                    self.post_keepalive()?;
                    asked = true;
                }
                continue;
            }
            let [done] = found;
            if !done.is_ok() {
                return Err(self.why(&done));
            }
            if done.wr_id == KEEPALIVE {
                (start, asked) = (Instant::now(), false);
                continue;
            }
            if done.opcode != wanted {
                let what = format!("{:?} came where {wanted:?} was due", done.opcode);
                return Err(Failure::peer(what).help("is the peer rping?").into());
            }
            return Ok(done);
        }
    }

    /// Asks the peer's queue pair whether it is alive: a WRITE of no bytes needs neither a key nor a
    /// receive (C9-88), and fails with its retries when no acknowledgement comes.
    ///
    /// Without it the end that waits for a message has nothing outstanding, and would never learn
    /// that the process of its peer was killed.
    fn post_keepalive(&self) -> Result<(), Failure> {
        let nothing = RemoteSlice { addr: 0, rkey: Rkey(0), len: 0 };
        self.post_send(SendWr::write(KEEPALIVE, &[], nothing).signaled())
    }

    /// Whether the peer has ended the connection; asked where no completion comes.
    fn look_around(&self) -> Result<(), Stop> {
        while let Some(kind) = self.events.of(&self.id, Duration::ZERO)? {
            if is_end(&kind) {
                return Err(Stop::PeerDone);
            }
        }
        Ok(())
    }

    /// A request failed: because the peer ended the connection, or for a reason of its own.
    fn why(&self, done: &WorkCompletion) -> Stop {
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            match self.events.of(&self.id, LOOK) {
                Ok(Some(kind)) if is_end(&kind) => return Stop::PeerDone,
                Ok(_) => {}
                Err(failure) => return failure.into(),
            }
        }
        failed(done).into()
    }

    /// Waits until the connection stands, and says so if that takes long.
    ///
    /// # Errors
    /// Exit 4 for a peer that refuses or does not answer.
    pub fn established(&self, peer: &str) -> Result<(), Failure> {
        let start = Instant::now();
        let mut told = false;
        loop {
            if self.events.interrupt.is_set() {
                return Err(Failure::interrupted());
            }
            match self.events.of(&self.id, LOOK)? {
                Some(CmEventKind::Established { .. }) => return Ok(()),
                Some(CmEventKind::AddrResolved | CmEventKind::RouteResolved) => {}
                Some(other) => return Err(refused(peer, &other)),
                None if !told && start.elapsed() >= SOON => {
                    eprintln!(
                        "no answer from {peer} yet; it is asked again for half a minute (Ctrl-C stops)"
                    );
                    told = true;
                }
                None => {}
            }
        }
    }

    /// Ends the connection and waits until the peer agrees.
    ///
    /// # Errors
    /// Exit 3 if the system does not let us wait.
    pub fn finish(&self) -> Result<(), Failure> {
        if self.id.disconnect().is_err() {
            // The peer was faster.
            return Ok(());
        }
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            if self.events.of(&self.id, LOOK)?.is_some_and(|kind| is_end(&kind)) {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn is_end(kind: &CmEventKind) -> bool {
    matches!(kind, CmEventKind::Disconnected { .. } | CmEventKind::TimewaitExit)
}

/// What to do about a refusal; `None`: only the peer knows.
fn remedy(reason: RejReason) -> Option<&'static str> {
    match reason {
        RejReason::INVALID_SERVICE_ID => {
            Some("start the server first: `uroce rping -s`, or `rping -s`, with the same -p")
        }
        RejReason::INVALID_MTU => Some(
            "the network interface of the peer has a smaller MTU than ours, and it does not say which: \
             give both the same with `ip link set DEV mtu`, or call from an address on a link with less",
        ),
        RejReason::STALE_CONNECTION => Some(
            "the peer has a connection of an earlier run that is not over: try again in some seconds",
        ),
        RejReason::NO_RESOURCES => Some("more callers wait there than the server takes: try again"),
        _ => None,
    }
}

/// What an event means that is no "established".
fn refused(peer: &str, kind: &CmEventKind) -> Failure {
    match kind {
        CmEventKind::Rejected { reason, ari, .. } => {
            let why = ari.with(*reason);
            let refused = Failure::peer(format!("{peer} refused the connection: {why}"));
            remedy(*reason).into_iter().fold(refused, Failure::help)
        }
        CmEventKind::Unreachable => Failure::peer(format!("{peer} does not answer")).help(
            "is there a RoCE device on that address, and does no firewall drop UDP port 4791?",
        ),
        CmEventKind::ConnectError(error) => Failure::new(Exit::Failed, error),
        _ => Failure::peer(format!("{peer} ended the connection before it stood")),
    }
}
