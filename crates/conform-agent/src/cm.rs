//! Connection management by librdmacm. Queue pairs are not made by it: the session has them, and moves them with the
//! attributes that librdmacm names.

use std::collections::VecDeque;
use std::mem::zeroed;
use std::net::IpAddr;
use std::ptr::{null, null_mut};
use std::rc::Rc;

use uroce_conform::{CmEvent, CmSpace, Hex, Reply, limits};
use uroce_verbs_abi::{
    ibv_qp_attr, rdma_cm_event, rdma_cm_id, rdma_conn_param, rdma_event_channel,
};

use crate::device::{Device, set_nonblocking};
use crate::library::CmLibrary;
use crate::outcome::{Tried, done, failed};
use crate::queue_pair::QueuePair;
use crate::sockaddr::socket_address;
use crate::timed::wait;

/// Calls that may wait to be accepted.
const BACKLOG: i32 = 64;
/// Milliseconds that address and route resolution may take each.
const RESOLUTION_MS: i32 = 2000;
/// As many READs and atomics as both sides can (`RDMA_MAX_RESP_RES`, `RDMA_MAX_INIT_DEPTH`).
const MOST_READS: u8 = 0xff;
/// `RDMA_PS_TCP` and `RDMA_PS_UDP`.
const SPACES: [i32; 2] = [0x0106, 0x0111];
/// `RDMA_CM_EVENT_ADDR_RESOLVED` and `RDMA_CM_EVENT_ROUTE_RESOLVED`.
const RESOLVED: [u32; 2] = [0, 2];

/// The listeners and connections of a session.
pub(crate) struct Cm {
    device: Rc<Device>,
    channel: *mut rdma_event_channel,
    /// By their numbers.
    ids: Vec<*mut rdma_cm_id>,
    /// Events that came while another one was waited for; at most [`limits::COMPLETIONS`].
    waiting: VecDeque<CmEvent>,
}

impl Cm {
    pub(crate) fn new(device: &Rc<Device>) -> Tried<Cm> {
        let library = device.cm.as_ref().map_err(Clone::clone)?;
        // SAFETY: a function without arguments.
        let channel = unsafe { (library.rdma_create_event_channel)() };
        if channel.is_null() {
            return failed("rdma_create_event_channel");
        }
        // SAFETY: it was just made.
        set_nonblocking(unsafe { (*channel).fd });
        Ok(Cm { device: device.clone(), channel, ids: Vec::new(), waiting: VecDeque::new() })
    }

    fn library(&self) -> Tried<&CmLibrary> {
        self.device.cm.as_ref().map_err(Clone::clone)
    }

    fn id(&self, number: u32) -> Tried<*mut rdma_cm_id> {
        Ok(*self.ids.get(number as usize).ok_or("there is no such connection")?)
    }

    /// A new id, and its number.
    fn make(&mut self, space: CmSpace) -> Tried<(*mut rdma_cm_id, u32)> {
        if self.ids.len() >= limits::CM_IDS {
            return Err("too many listeners and connections".to_owned());
        }
        let space = match space {
            CmSpace::Tcp => SPACES[0],
            CmSpace::Udp => SPACES[1],
        };
        let mut id = null_mut();
        let create = self.library()?.rdma_create_id;
        // SAFETY: a channel that lives, and room for the answer.
        done("rdma_create_id", unsafe { create(self.channel, &raw mut id, null_mut(), space) })?;
        self.ids.push(id);
        Ok((id, self.ids.len() as u32 - 1))
    }

    /// Listens on a free port of the address under test.
    pub(crate) fn listen(&mut self, space: CmSpace) -> Tried<Reply> {
        let (id, number) = self.make(space)?;
        let mut address = socket_address(self.device.card.address, 0);
        let library = self.library()?;
        // SAFETY: an id that lives, and an address of the length that its family has.
        done("rdma_bind_addr", unsafe { (library.rdma_bind_addr)(id, (&raw mut address).cast()) })?;
        // SAFETY: an id that lives.
        done("rdma_listen", unsafe { (library.rdma_listen)(id, BACKLOG) })?;
        // SAFETY: an id that lives.
        let port = u16::from_be(unsafe { (library.rdma_get_src_port)(id) });
        Ok(Reply::CmId { id: number, port })
    }

    /// Calls `to`; the queue pair goes to INIT.
    pub(crate) fn connect(
        &mut self,
        to: (IpAddr, u16),
        queue_pair: &QueuePair,
        private: &Hex,
    ) -> Tried<Reply> {
        let (id, number) = self.make(CmSpace::Tcp)?;
        let mut from = socket_address(self.device.card.address, 0);
        let mut to = socket_address(to.0, to.1);
        let resolve = self.library()?.rdma_resolve_addr;
        // SAFETY: an id that lives, and addresses of the length that their family has.
        let status =
            unsafe { resolve(id, (&raw mut from).cast(), (&raw mut to).cast(), RESOLUTION_MS) };
        done("rdma_resolve_addr", status)?;
        self.resolved(number, RESOLVED[0])?;
        let resolve = self.library()?.rdma_resolve_route;
        // SAFETY: an id that lives.
        done("rdma_resolve_route", unsafe { resolve(id, RESOLUTION_MS) })?;
        self.resolved(number, RESOLVED[1])?;
        self.step(id, queue_pair, INIT)?;
        let mut param = parameters(queue_pair, private)?;
        let library = self.library()?;
        // SAFETY: an id that lives, and parameters whose private data lives until the call ends.
        done("rdma_connect", unsafe { (library.rdma_connect)(id, &raw mut param) })?;
        // SAFETY: an id that lives.
        let port = u16::from_be(unsafe { (library.rdma_get_src_port)(id) });
        Ok(Reply::CmId { id: number, port })
    }

    /// Waits for an event of resolution; what else comes stays for later.
    fn resolved(&mut self, number: u32, kind: u32) -> Tried<()> {
        let mut found = None;
        wait(limits::WAIT.as_millis() as u32, || {
            self.take();
            let at = self.waiting.iter().position(|event| event.id == number);
            found = at.and_then(|at| self.waiting.remove(at));
            found.is_some()
        });
        match found {
            Some(event) if event.kind == kind => Ok(()),
            Some(CmEvent { kind, status, .. }) => {
                Err(format!("the address or route was not resolved: event {kind}, status {status}"))
            }
            None => Err("the address or route was not resolved in time".to_owned()),
        }
    }

    /// Accepts a call.
    pub(crate) fn accept(&self, number: u32, queue_pair: &QueuePair, private: &Hex) -> Tried<()> {
        let id = self.id(number)?;
        // SAFETY: an id that lives.
        if unsafe { (*id).ps } == SPACES[0] {
            [INIT, RTR, RTS].into_iter().try_for_each(|state| self.step(id, queue_pair, state))?;
        }
        let mut param = parameters(queue_pair, private)?;
        // SAFETY: an id that lives, and parameters whose private data lives until the call ends.
        done("rdma_accept", unsafe { (self.library()?.rdma_accept)(id, &raw mut param) })
    }

    /// Confirms a connection that the other side accepted.
    pub(crate) fn establish(&self, number: u32, queue_pair: &QueuePair) -> Tried<()> {
        let id = self.id(number)?;
        // INIT once more: before there was a connection, its attributes allowed the peer nothing.
        [INIT, RTR, RTS].into_iter().try_for_each(|state| self.step(id, queue_pair, state))?;
        // SAFETY: an id that lives.
        done("rdma_establish", unsafe { (self.library()?.rdma_establish)(id) })
    }

    /// Moves a queue pair to a state with the attributes of its connection.
    fn step(&self, id: *mut rdma_cm_id, queue_pair: &QueuePair, state: i32) -> Tried<()> {
        // SAFETY: integers.
        let mut attr: ibv_qp_attr = unsafe { zeroed() };
        let mut mask = 0;
        attr.qp_state = state;
        let init = self.library()?.rdma_init_qp_attr;
        // SAFETY: an id that lives, and room for the answer.
        done("rdma_init_qp_attr", unsafe { init(id, &raw mut attr, &raw mut mask) })?;
        queue_pair.modify(attr, mask)
    }

    /// Refuses a call.
    pub(crate) fn reject(&self, number: u32, Hex(private): &Hex) -> Tried<()> {
        let length = private_length(private)?;
        let reject = self.library()?.rdma_reject;
        // SAFETY: an id that lives, and so many bytes.
        done("rdma_reject", unsafe { reject(self.id(number)?, private.as_ptr().cast(), length) })
    }

    /// Ends a connection.
    pub(crate) fn disconnect(&self, number: u32) -> Tried<()> {
        // SAFETY: an id that lives.
        done("rdma_disconnect", unsafe { (self.library()?.rdma_disconnect)(self.id(number)?) })
    }

    /// Events, of which the first may take so long.
    pub(crate) fn events(&mut self, wait_ms: u32) -> Reply {
        wait(wait_ms, || {
            self.take();
            !self.waiting.is_empty()
        });
        Reply::CmEvents { events: self.waiting.drain(..).collect() }
    }

    /// Takes the events that there are, up to the limit.
    fn take(&mut self) {
        let Ok(library) = self.device.cm.as_ref() else { return };
        while self.waiting.len() < limits::COMPLETIONS as usize {
            let mut event = null_mut();
            // SAFETY: a channel that lives, and room for the answer. Its descriptor does not block.
            if unsafe { (library.rdma_get_cm_event)(self.channel, &raw mut event) } != 0 {
                return;
            }
            // SAFETY: an event that was just given.
            let (id, said) = unsafe { ((*event).id, said(&*event)) };
            // SAFETY: the event, once; nothing of it is used any more.
            unsafe { (library.rdma_ack_cm_event)(event) };
            let known = self.ids.iter().position(|known| *known == id);
            let number = match known {
                Some(number) => number,
                None if self.ids.len() < limits::CM_IDS => {
                    self.ids.push(id);
                    self.ids.len() - 1
                }
                None => {
                    // SAFETY: an id of a call, which nothing else refers to; its only event is acknowledged.
                    unsafe { (library.rdma_destroy_id)(id) };
                    continue;
                }
            };
            self.waiting.push_back(CmEvent { id: number as u32, ..said });
        }
    }
}

impl Drop for Cm {
    fn drop(&mut self) {
        let Ok(library) = self.device.cm.as_ref() else { return };
        // SAFETY: each once, the channel last; all events were acknowledged when they were taken.
        unsafe {
            for id in self.ids.drain(..) {
                (library.rdma_destroy_id)(id);
            }
            (library.rdma_destroy_event_channel)(self.channel);
        }
    }
}

/// `ibv_qp_state`.
const INIT: i32 = 1;
const RTR: i32 = 2;
const RTS: i32 = 3;

fn private_length(private: &[u8]) -> Tried<u8> {
    u8::try_from(private.len()).map_err(|_| "too many bytes of private data".to_owned())
}

/// What is said with a call and its acceptance. It holds a pointer to `private`.
fn parameters(queue_pair: &QueuePair, Hex(private): &Hex) -> Tried<rdma_conn_param> {
    Ok(rdma_conn_param {
        private_data: if private.is_empty() { null() } else { private.as_ptr().cast() },
        private_data_len: private_length(private)?,
        responder_resources: MOST_READS,
        initiator_depth: MOST_READS,
        flow_control: 0,
        retry_count: 7,
        rnr_retry_count: 7,
        srq: 0,
        qp_num: queue_pair.qpn(),
    })
}

/// What an event says; the number of its id is filled in later.
///
/// # Safety
/// The event was not acknowledged yet.
unsafe fn said(event: &rdma_cm_event) -> CmEvent {
    // SAFETY: the private data stands at the same place for connections and for datagrams; the id lives.
    let (conn, space) = unsafe { (&event.param.conn, (*event.id).ps) };
    let private = if conn.private_data.is_null() {
        Vec::new()
    } else {
        let (start, length) = (conn.private_data.cast::<u8>(), conn.private_data_len.into());
        // SAFETY: so many bytes, until the event is acknowledged.
        unsafe { std::slice::from_raw_parts(start, length) }.to_vec()
    };
    let reads = match space == SPACES[0] {
        true => (conn.responder_resources, conn.initiator_depth),
        false => (0, 0),
    };
    CmEvent {
        kind: event.event as u32,
        id: 0,
        status: event.status,
        private: Hex(private),
        responder_resources: reads.0,
        initiator_depth: reads.1,
    }
}
