//! The objects of one session, and what is done with them.

use std::rc::Rc;

use uroce_conform::{
    Access, CmRequest, Event, Hex, Kind, Piece, Receive, Reply, Request, Work, limits,
};
use uroce_verbs_abi::ibv_sge;

use crate::adding::Adding;
use crate::cm::Cm;
use crate::counters;
use crate::device::Device;
use crate::domain::Domain;
use crate::extended::{Flush, post_atomic_write, post_flush};
use crate::outcome::Tried;
use crate::queue_pair::{Held, QueuePair};
use crate::region::Region;
use crate::shared_queue::SharedQueue;
use crate::timed::wait;
use crate::window::{Part, Window};
use crate::work::{Receiver, can_send, completion, post_receive, post_send};
use crate::xrc::XrcDomain;

/// The objects of one session. They are dropped in this order: users before what they use.
pub(crate) struct Session {
    /// Made when it is first needed.
    cm: Option<Cm>,
    adding: Option<Adding>,
    windows: Vec<Window>,
    queue_pairs: Vec<QueuePair>,
    shared: Vec<Rc<SharedQueue>>,
    xrc: Option<Rc<XrcDomain>>,
    regions: Vec<Region>,
    domains: Vec<Option<Rc<Domain>>>,
    device: Rc<Device>,
}

impl Session {
    pub(crate) fn new(device: &Rc<Device>) -> Session {
        Session {
            cm: None,
            adding: None,
            windows: Vec::new(),
            queue_pairs: Vec::new(),
            shared: Vec::new(),
            xrc: None,
            regions: Vec::new(),
            domains: vec![None; limits::DOMAINS.into()],
            device: device.clone(),
        }
    }

    /// Does what is asked; a refusal changes nothing.
    pub(crate) fn handle(&mut self, request: Request) -> Reply {
        self.handled(request).unwrap_or_else(|why| Reply::Refused { why })
    }

    fn handled(&mut self, request: Request) -> Tried<Reply> {
        match request {
            Request::Hello { .. } => Err("the session is open already".to_owned()),
            Request::Clear => Ok(self.clear()),
            Request::Region { domain, length, access } => self.register(domain, length, access),
            Request::Deregister { region } => self.deregister(region),
            Request::Fill { region, offset, bytes } => self.fill(region, offset, &bytes),
            Request::Look { region, offset, length } => self.look(region, offset, length),
            Request::QueuePair { kind, domain, send_wr, recv_wr, shared, extended } => {
                let wanted = Wanted { kind, domain, extended };
                self.queue_pair_made(&wanted, (send_wr, recv_wr), shared)
            }
            Request::Connect { qp, link, until } => {
                self.queue_pair(qp)?.connect(&link, until).map(|()| Reply::Done)
            }
            Request::Modify { qp, state } => {
                self.queue_pair(qp)?.move_to(state).map(|()| Reply::Done)
            }
            Request::Query { qp } => {
                self.queue_pair(qp)?.state().map(|state| Reply::State { state })
            }
            Request::Receive { qp, receives } => {
                let receiver = Receiver::QueuePair(self.queue_pair(qp)?.qp);
                self.receive(&receiver, &receives)
            }
            Request::SharedQueue { domain, recv_wr } => self.shared_made(domain, recv_wr),
            Request::ReceiveShared { shared, receives } => {
                let queue = self.shared.get(shared as usize).ok_or(NO_SHARED)?;
                self.receive(&Receiver::Shared(queue.srq), &receives)
            }
            Request::Send { qp, work } => self.send(qp, &work),
            Request::Flush { qp, wr_id, va, rkey, length, placement, selectivity } => {
                self.flush(qp, wr_id, &Flush { va, rkey, length, placement, selectivity })
            }
            Request::AtomicWrite { qp, wr_id, va, rkey, value } => {
                self.atomic_write(qp, wr_id, (va, rkey), value)
            }
            Request::Window { domain } => self.window_made(domain),
            Request::Bind { qp, wr_id, window, region, offset, length, key, access } => {
                let part = Part { offset, length, access };
                self.bind(qp, (wr_id, key), (window, region), &part)
            }
            Request::XrcQueue { qp, domain, recv_wr } => self.xrc_queue_made(qp, domain, recv_wr),
            Request::StartAdding { region, offset } => self.start_adding(region, offset),
            Request::StopAdding => self.stop_adding(),
            Request::Poll { qp, count, wait_ms } => self.poll(qp, count, wait_ms),
            Request::Notify { qp, solicited } => {
                self.queue_pair(qp)?.completions.arm(solicited).map(|()| Reply::Done)
            }
            Request::Woken { qp, wait_ms } => self.woken(qp, wait_ms),
            Request::Events { wait_ms } => Ok(self.events(wait_ms)),
            Request::Counters => Ok(counters::of_port(&self.device.card.device)),
            Request::Cm { what } => self.connection_management(what),
        }
    }

    fn clear(&mut self) -> Reply {
        *self = Session::new(&self.device);
        while self.device.async_event().is_some() {}
        Reply::Done
    }

    fn connection_management(&mut self, what: CmRequest) -> Tried<Reply> {
        let cm = match &mut self.cm {
            Some(cm) => cm,
            none => none.insert(Cm::new(&self.device)?),
        };
        let queue_pair = |number: u32| self.queue_pairs.get(number as usize).ok_or(NO_QUEUE_PAIR);
        match what {
            CmRequest::Listen { space } => return cm.listen(space),
            CmRequest::Connect { address, port, qp, private } => {
                return cm.connect((address, port), queue_pair(qp)?, &private);
            }
            CmRequest::Accept { id, qp, private } => cm.accept(id, queue_pair(qp)?, &private)?,
            CmRequest::Establish { id, qp } => cm.establish(id, queue_pair(qp)?)?,
            CmRequest::Reject { id, private } => cm.reject(id, &private)?,
            CmRequest::Disconnect { id } => cm.disconnect(id)?,
            CmRequest::Events { wait_ms } => return Ok(cm.events(wait_ms)),
        }
        Ok(Reply::Done)
    }

    fn domain(&mut self, number: u8) -> Tried<Rc<Domain>> {
        let place = self.domains.get_mut(usize::from(number));
        let place = place.ok_or_else(|| format!("domains end at {}", limits::DOMAINS))?;
        match place {
            Some(domain) => Ok(domain.clone()),
            None => Ok(place.insert(Domain::new(&self.device)?).clone()),
        }
    }

    fn region(&self, number: u32) -> Tried<&Region> {
        Ok(self.regions.get(number as usize).ok_or(NO_REGION)?)
    }

    fn queue_pair(&self, number: u32) -> Tried<&QueuePair> {
        Ok(self.queue_pairs.get(number as usize).ok_or(NO_QUEUE_PAIR)?)
    }

    fn register(&mut self, domain: u8, length: u32, access: Access) -> Tried<Reply> {
        if self.regions.len() >= limits::REGIONS || length > limits::REGION_BYTES {
            return Err("too many regions, or too long a one".to_owned());
        }
        let region = Region::new(&self.domain(domain)?, length, access)?;
        let (lkey, rkey) = (region.lkey, region.rkey);
        let va = region.memory.start().addr() as u64;
        self.regions.push(region);
        Ok(Reply::Region { region: self.regions.len() as u32 - 1, va, lkey, rkey })
    }

    fn deregister(&mut self, region: u32) -> Tried<Reply> {
        let region = self.regions.get_mut(region as usize).ok_or(NO_REGION)?;
        region.deregister().map(|()| Reply::Done)
    }

    fn fill(&self, region: u32, offset: u32, Hex(bytes): &Hex) -> Tried<Reply> {
        let inside = self.region(region)?.memory.write(offset, bytes);
        if inside { Ok(Reply::Done) } else { Err(OUTSIDE.to_owned()) }
    }

    fn start_adding(&mut self, region: u32, offset: u32) -> Tried<Reply> {
        self.adding = Some(Adding::start(&self.region(region)?.memory, offset)?);
        Ok(Reply::Done)
    }

    fn stop_adding(&mut self) -> Tried<Reply> {
        let mut adding = self.adding.take().ok_or("nothing is added")?;
        Ok(Reply::Added { count: adding.stop() })
    }

    fn look(&self, region: u32, offset: u32, length: u32) -> Tried<Reply> {
        if length > limits::MEMORY {
            return Err("too many bytes at once".to_owned());
        }
        let bytes = self.region(region)?.memory.read(offset, length).ok_or(OUTSIDE)?;
        Ok(Reply::Memory { bytes: Hex(bytes) })
    }

    fn queue_pair_made(
        &mut self,
        wanted: &Wanted,
        (send_wr, recv_wr): (u32, u32),
        shared: Option<u32>,
    ) -> Tried<Reply> {
        let too_long = send_wr.max(recv_wr) > limits::WORK_REQUESTS;
        if self.queue_pairs.len() >= limits::QUEUE_PAIRS || too_long {
            return Err("too many queue pairs, or too long a queue".to_owned());
        }
        let shared = match shared {
            Some(number) => Some(self.shared.get(number as usize).ok_or(NO_SHARED)?.clone()),
            None => None,
        };
        let xrc = match wanted.kind {
            Kind::XrcReceive => Some(self.xrc()?),
            _ => None,
        };
        let (domain, held) = (self.domain(wanted.domain)?, Held { shared, xrc });
        let room = (send_wr, recv_wr);
        let made = QueuePair::new(&domain, wanted.kind, room, held, wanted.extended)?;
        let qpn = made.qpn();
        self.queue_pairs.push(made);
        Ok(Reply::QueuePair { qp: self.queue_pairs.len() as u32 - 1, qpn })
    }

    fn shared_made(&mut self, domain: u8, recv_wr: u32) -> Tried<Reply> {
        if self.shared.len() >= limits::QUEUE_PAIRS || recv_wr > limits::WORK_REQUESTS {
            return Err("too many shared receive queues, or too long a one".to_owned());
        }
        let made = SharedQueue::new(&self.domain(domain)?, recv_wr)?;
        self.shared.push(made);
        Ok(Reply::Shared { shared: self.shared.len() as u32 - 1 })
    }

    /// The XRC domain of the session.
    fn xrc(&mut self) -> Tried<Rc<XrcDomain>> {
        match &self.xrc {
            Some(domain) => Ok(domain.clone()),
            None => Ok(self.xrc.insert(XrcDomain::new(&self.device)?).clone()),
        }
    }

    fn xrc_queue_made(&mut self, qp: u32, domain: u8, recv_wr: u32) -> Tried<Reply> {
        if self.shared.len() >= limits::QUEUE_PAIRS || recv_wr > limits::WORK_REQUESTS {
            return Err("too many shared receive queues, or too long a one".to_owned());
        }
        let completions = self.queue_pair(qp)?.completions.clone();
        let (domain, xrc) = (self.domain(domain)?, self.xrc()?);
        let (made, number) = SharedQueue::of_xrc(&domain, &xrc, &completions, recv_wr)?;
        self.shared.push(made);
        Ok(Reply::XrcQueue { shared: self.shared.len() as u32 - 1, number })
    }

    fn window_made(&mut self, domain: u8) -> Tried<Reply> {
        if self.windows.len() >= limits::REGIONS {
            return Err("too many windows".to_owned());
        }
        let made = Window::new(&self.domain(domain)?)?;
        let rkey = made.rkey;
        self.windows.push(made);
        Ok(Reply::Window { window: self.windows.len() as u32 - 1, rkey })
    }

    fn bind(
        &mut self,
        qp: u32,
        wr: (u64, u8),
        (window, region): (u32, u32),
        part: &Part,
    ) -> Tried<Reply> {
        let qp = self.queue_pair(qp)?.qp;
        let region = self.regions.get(region as usize).ok_or(NO_REGION)?;
        let bound = self.windows.get_mut(window as usize).ok_or("there is no such window")?;
        bound.bind(qp, wr, region, part)?;
        Ok(Reply::Window { window, rkey: bound.rkey })
    }

    fn receive(&self, receiver: &Receiver, receives: &[Receive]) -> Tried<Reply> {
        if receives.len() > limits::WORK_REQUESTS as usize {
            return Err("too many receives at once".to_owned());
        }
        for receive in receives {
            let sges = self.sges(&receive.pieces)?;
            post_receive(&self.device, receiver, receive.wr_id, sges)?;
        }
        Ok(Reply::Done)
    }

    fn send(&self, qp: u32, work: &Work) -> Tried<Reply> {
        let queue_pair = self.queue_pair(qp)?;
        can_send(queue_pair.kind)?;
        let sges = self.sges(&work.pieces)?;
        post_send(&self.device, queue_pair.qp, work, sges).map(|()| Reply::Done)
    }

    fn flush(&self, qp: u32, wr_id: u64, flush: &Flush) -> Tried<Reply> {
        post_flush(&self.device, self.queue_pair(qp)?.qp, wr_id, flush).map(|()| Reply::Done)
    }

    fn atomic_write(&self, qp: u32, wr_id: u64, to: (u64, u32), value: u64) -> Tried<Reply> {
        let qp = self.queue_pair(qp)?.qp;
        post_atomic_write(&self.device, qp, wr_id, to, value.to_ne_bytes()).map(|()| Reply::Done)
    }

    fn sges(&self, pieces: &[Piece]) -> Tried<Vec<ibv_sge>> {
        if pieces.len() > limits::PIECES {
            return Err("too many pieces".to_owned());
        }
        let sge = |piece: &Piece| {
            let region = self.region(piece.region)?;
            region.memory.read(piece.offset, 0).ok_or(OUTSIDE)?;
            let addr = (region.memory.start().addr() + piece.offset as usize) as u64;
            let lkey = piece.lkey.unwrap_or(region.lkey);
            Ok(ibv_sge { addr, length: piece.length, lkey })
        };
        // An entry of length 0 would stand for 2 GiB with some NICs.
        pieces.iter().filter(|piece| piece.length > 0).map(sge).collect()
    }

    fn poll(&self, qp: u32, count: u32, wait_ms: u32) -> Tried<Reply> {
        let queue = &self.queue_pair(qp)?.completions;
        let count = count.clamp(1, limits::COMPLETIONS) as usize;
        let mut completions = Vec::new();
        let mut failure = None;
        wait(wait_ms, || {
            while completions.len() < count {
                match queue.poll() {
                    Ok(Some(wc)) => completions.push(completion(&wc)),
                    Ok(None) => return false,
                    Err(why) => {
                        failure = Some(why);
                        break;
                    }
                }
            }
            true
        });
        failure.map_or(Ok(Reply::Completions { completions }), Err)
    }

    fn woken(&self, qp: u32, wait_ms: u32) -> Tried<Reply> {
        let queue = &self.queue_pair(qp)?.completions;
        let woken = wait(wait_ms, || queue.event());
        let event = Event { kind: 0, qp: Some(qp) };
        Ok(Reply::Events { events: if woken { vec![event] } else { vec![] } })
    }

    fn events(&self, wait_ms: u32) -> Reply {
        let mut events = Vec::new();
        wait(wait_ms, || {
            while events.len() < limits::COMPLETIONS as usize
                && let Some((kind, element)) = self.device.async_event()
            {
                let qp = self.queue_pairs.iter().position(|qp| qp.qp.cast() == element);
                events.push(Event { kind, qp: qp.map(|at| at as u32) });
            }
            !events.is_empty()
        });
        Reply::Events { events }
    }
}

/// What queue pair to make.
struct Wanted {
    kind: Kind,
    domain: u8,
    extended: bool,
}

const NO_QUEUE_PAIR: &str = "there is no such queue pair";
const NO_REGION: &str = "there is no such region";
const NO_SHARED: &str = "there is no such shared receive queue";
const OUTSIDE: &str = "these bytes are not all in the region";
