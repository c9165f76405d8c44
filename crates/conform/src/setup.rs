//! Setting a queue pair up, at both ends.

use uroce_wire::Mtu;

use crate::agent_link::wrong_reply;
use crate::memory::Region;
use crate::qp::QKEY;
use crate::{
    Access, Bench, Card, Kind, Link, Offer, Piece, Qp, Receive, Reply, Request, State, Stop, Takes,
    Wanted,
};

/// Bytes of the region that a queue pair may be asked for.
const REGION_BYTES: u32 = 64 << 10;
/// Bytes of each receive, unless the case says otherwise.
const RECEIVE_BYTES: u32 = 4096;
/// Receives, unless the case says otherwise.
const RECEIVES: u32 = 8;
/// Receives that a stock program is believed to have; those of perftest have 512.
const PROGRAM_RECEIVES: u32 = 128;
/// RNR timer code, unless the case says otherwise; also that of perftest and the pingpongs.
const RNR_TIMER: u8 = 12;

impl<'r> Bench<'r> {
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
}

/// A queue pair that is to be set up: a connection in RTS with 8 receives, one region with all rights, path MTU 1024,
/// and no ACK timeout. Each method changes one thing.
#[derive(Clone)]
pub struct Setup<'b, 'r> {
    bench: &'b Bench<'r>,
    kind: Kind,
    link: Link,
    until: State,
    receives: u32,
    receive_bytes: u32,
    receive_lkey: Option<u32>,
    region_access: Access,
    region_bytes: u32,
    region_domain: u8,
    shared: bool,
    extended: bool,
}

impl<'b, 'r> Setup<'b, 'r> {
    pub(crate) fn new(bench: &'b Bench<'r>, kind: Kind) -> Self {
        Setup {
            bench,
            kind,
            link: link(bench),
            // The receiving end of XRC has nothing to send.
            until: if kind == Kind::XrcReceive { State::Rtr } else { State::Rts },
            receives: RECEIVES,
            receive_bytes: RECEIVE_BYTES,
            receive_lkey: None,
            region_access: Access::ALL,
            region_bytes: REGION_BYTES,
            region_domain: 0,
            shared: false,
            extended: false,
        }
    }

    /// So many receives are posted.
    #[must_use]
    pub fn receives(mut self, count: u32) -> Self {
        self.receives = count;
        self
    }

    /// Each receive takes so many bytes.
    #[must_use]
    pub fn receive_bytes(mut self, bytes: u32) -> Self {
        self.receive_bytes = bytes;
        self
    }

    /// The receives name this local key, which does not exist.
    #[must_use]
    pub fn receive_lkey(mut self, lkey: u32) -> Self {
        self.receive_lkey = Some(lkey);
        self
    }

    /// The receives are in a shared receive queue.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.shared = true;
        self
    }

    /// FLUSH and ATOMIC WRITE can be posted.
    #[must_use]
    pub fn extended(mut self) -> Self {
        self.extended = true;
        self
    }

    /// The first PSN of both directions.
    #[must_use]
    pub fn first_psn(mut self, psn: u32) -> Self {
        (self.link.rq_psn, self.link.sq_psn) = (psn, psn);
        self
    }

    /// The path MTU.
    #[must_use]
    pub fn mtu(mut self, mtu: Mtu) -> Self {
        self.link.mtu = mtu.code();
        self
    }

    /// What the queue pair allows.
    #[must_use]
    pub fn qp_access(mut self, access: Access) -> Self {
        self.link.access = access;
        self
    }

    /// What the region allows.
    #[must_use]
    pub fn region_access(mut self, access: Access) -> Self {
        self.region_access = access;
        self
    }

    /// Bytes of the region.
    #[must_use]
    pub fn region_bytes(mut self, bytes: u32) -> Self {
        self.region_bytes = bytes;
        self
    }

    /// The region belongs to another protection domain than the queue pair.
    #[must_use]
    pub fn foreign_region(mut self) -> Self {
        self.region_domain = 1;
        self
    }

    /// The RNR timer code.
    #[must_use]
    pub fn rnr_timer(mut self, code: u8) -> Self {
        self.link.min_rnr_timer = code;
        self
    }

    /// The ACK timeout code, and how often it repeats.
    #[must_use]
    pub fn timeout(mut self, code: u8, retry_cnt: u8) -> Self {
        (self.link.timeout, self.link.retry_cnt) = (code, retry_cnt);
        self
    }

    /// How often it repeats after RNR NAKs.
    #[must_use]
    pub fn rnr_retry(mut self, count: u8) -> Self {
        self.link.rnr_retry = count;
        self
    }

    /// READs and atomics that may be open, in both directions.
    #[must_use]
    pub fn depth(mut self, depth: u8) -> Self {
        (self.link.max_rd_atomic, self.link.max_dest_rd_atomic) = (depth, depth);
        self
    }

    /// Stops in this state.
    #[must_use]
    pub fn until(mut self, state: State) -> Self {
        self.until = state;
        self
    }

    /// Sets it up.
    ///
    /// # Errors
    /// The agent cannot.
    pub fn open(self) -> Result<Qp<'b, 'r>, Stop> {
        let bench = self.bench;
        if let Some(offer) = bench.offer(self.wanted())? {
            return Ok(self.adopt(&offer));
        }
        let region = region(bench, self.region_domain, self.region_bytes, self.region_access)?;
        let room = (self.receives * self.receive_bytes).max(RECEIVE_BYTES);
        let inbox = self::region(bench, 0, room, Access::WRITE)?;
        let shared = if self.shared { Some(shared_queue(bench, self.receives)?) } else { None };
        let (id, qpn) = self.queue_pair(shared)?;
        bench.ask(&Request::Connect { qp: id, link: self.link.clone(), until: self.until })?;
        bench.player.borrow_mut().connected(self.link.qpn, qpn);
        let xrc = match self.kind {
            Kind::XrcReceive => Some(xrc_queue(bench, id, self.receives)?),
            _ => None,
        };
        self.post_receives(id, xrc.map(|(shared, _)| shared).or(shared), &inbox)?;
        let (numbers, bytes) = ((id, qpn), self.receive_bytes);
        let mut qp = Qp::new(bench, self.kind, numbers, &self.link, region, inbox, bytes);
        qp.srqn = xrc.map_or(0, |(_, number)| number);
        Ok(qp)
    }

    fn wanted(&self) -> Wanted {
        let receives = self.receives > 0;
        let (link, only_by_agent) = (self.link.clone(), self.only_by_agent());
        Wanted { link, takes: Takes::default(), receives, only_by_agent }
    }

    /// Takes the queue pair of a stock program.
    fn adopt(mut self, offer: &Offer) -> Qp<'b, 'r> {
        (self.link.sq_psn, self.link.mtu) = (offer.psn, offer.mtu);
        let (region, inbox) = (offer.region(), offer.region());
        let (bench, numbers) = (self.bench, (0, offer.qpn));
        // A case without receives wants to see what a SEND draws there.
        let takes = Takes { send: offer.takes.send || self.receives == 0, ..offer.takes };
        let qp = Qp::new(bench, self.kind, numbers, &self.link, region, inbox, self.receive_bytes);
        qp.of_program(takes)
    }

    /// What of it no stock program has.
    fn only_by_agent(&self) -> Option<&'static str> {
        let depths = (self.link.max_rd_atomic, self.link.max_dest_rd_atomic);
        let receives = self.receives == 0 || (RECEIVES..=PROGRAM_RECEIVES).contains(&self.receives);
        let right = |access| access == Access::ALL;
        [
            (self.kind == Kind::Rc, "a queue pair of its service"),
            (self.until == State::Rts, "a queue pair in another state"),
            (receives, "a number of receives"),
            (self.receive_bytes == RECEIVE_BYTES, "the length of receives"),
            (self.receive_lkey.is_none(), "receives with a wrong key"),
            (!self.shared, "a shared receive queue"),
            (right(self.region_access) && right(self.link.access), "missing rights"),
            (self.region_domain == 0, "another protection domain"),
            (self.region_bytes == REGION_BYTES, "the length of its memory"),
            (self.link.min_rnr_timer == RNR_TIMER, "its RNR timer"),
            (depths == usual_depths(self.bench.card()), "the number of READs at a time"),
        ]
        .into_iter()
        .find_map(|(usual, what)| (!usual).then_some(what))
    }

    fn queue_pair(&self, shared: Option<u32>) -> Result<(u32, u32), Stop> {
        let request = Request::QueuePair {
            kind: self.kind,
            domain: 0,
            send_wr: 64,
            recv_wr: self.receives.max(64),
            shared,
            extended: self.extended,
        };
        let reply = self.bench.ask(&request).map_err(|stop| match stop {
            // Its NIC may have the operations, but its libibverbs no function for them.
            Stop::Broken(why) if self.extended => Stop::NotApplicable(why),
            stop => stop,
        })?;
        match reply {
            Reply::QueuePair { qp, qpn } => Ok((qp, qpn)),
            other => wrong_reply(other),
        }
    }

    fn post_receives(&self, qp: u32, shared: Option<u32>, inbox: &Region) -> Result<(), Stop> {
        let receive = |index: u32| Receive {
            wr_id: index.into(),
            pieces: vec![Piece {
                region: inbox.number,
                offset: index * self.receive_bytes,
                length: self.receive_bytes,
                lkey: self.receive_lkey,
            }],
        };
        let receives: Vec<Receive> = (0..self.receives).map(receive).collect();
        let request = match shared {
            _ if receives.is_empty() || self.until == State::Reset => return Ok(()),
            Some(shared) => Request::ReceiveShared { shared, receives },
            None => Request::Receive { qp, receives },
        };
        self.bench.ask(&request).map(drop)
    }
}

/// READs and atomics that may be open, of the queue pair under test and of the tester.
fn usual_depths(card: &Card) -> (u8, u8) {
    (4.min(card.max_rd_atomic), 4.min(card.max_dest_rd_atomic))
}

/// The connection as cases have it unless they say otherwise.
fn link(bench: &Bench<'_>) -> Link {
    let number = bench.number();
    let card = bench.card();
    let (max_rd_atomic, max_dest_rd_atomic) = usual_depths(card);
    let psn = |salt: u32| number.wrapping_add(salt).wrapping_mul(0x9e37_79b1) >> 8;
    Link {
        address: bench.player.borrow().address(),
        qpn: 0x10_0000 | number & 0x0f_ffff,
        mtu: Mtu::M1024.code().min(card.mtu),
        rq_psn: psn(0),
        sq_psn: psn(1 << 20),
        access: Access::ALL,
        min_rnr_timer: RNR_TIMER,
        timeout: 0,
        retry_cnt: 7,
        rnr_retry: 7,
        max_rd_atomic,
        max_dest_rd_atomic,
        qkey: QKEY,
    }
}

fn shared_queue(bench: &Bench<'_>, receives: u32) -> Result<u32, Stop> {
    if !bench.card().shared_queues {
        return Err(Stop::NotApplicable("it has no shared receive queues".to_owned()));
    }
    match bench.ask(&Request::SharedQueue { domain: 0, recv_wr: receives.max(1) })? {
        Reply::Shared { shared } => Ok(shared),
        other => wrong_reply(other),
    }
}

/// Its numbers: as a shared receive queue of the session, and for the peers that send to it.
fn xrc_queue(bench: &Bench<'_>, qp: u32, receives: u32) -> Result<(u32, u32), Stop> {
    match bench.ask(&Request::XrcQueue { qp, domain: 0, recv_wr: receives.max(1) })? {
        Reply::XrcQueue { shared, number } => Ok((shared, number)),
        other => wrong_reply(other),
    }
}

fn region(bench: &Bench<'_>, domain: u8, length: u32, access: Access) -> Result<Region, Stop> {
    match bench.ask(&Request::Region { domain, length, access })? {
        Reply::Region { region, va, lkey: _, rkey } => {
            Ok(Region { number: region, va, rkey, length })
        }
        other => wrong_reply(other),
    }
}
