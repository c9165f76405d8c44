//! The id of a socket, and the channel on which it hears of its connection.

use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::ptr::null_mut;

use libc::c_int;
use uroce_device::cm::PortSpace;

use crate::errno::{Errno, INVALID, made};
use crate::object::zeroed;
use crate::rdmacm::abi::{rdma_cm_event, rdma_cm_id, rdma_conn_param, rdma_event_channel};
use crate::rdmacm::channel::{channel_of, rdma_create_event_channel, rdma_destroy_event_channel};
use crate::rdmacm::connection::{rdma_accept, rdma_connect, rdma_disconnect, rdma_listen};
use crate::rdmacm::contexts::Used;
use crate::rdmacm::endpoint::done;
use crate::rdmacm::event::{
    CONNECT_ERROR, CONNECT_REQUEST, DISCONNECTED, ESTABLISHED, REJECTED, UNREACHABLE, acknowledge,
};
use crate::rdmacm::id::{self, id_of, rdma_bind_addr, rdma_destroy_id};
use crate::rdmacm::migrate::migrate;
use crate::rdmacm::resolve::{rdma_resolve_addr, rdma_resolve_route};
use crate::rdmacm::sockaddr;

/// Nothing here waits that long.
const TIMEOUT_MS: c_int = 2_000;
/// As often as the transport can: the peer may be slow to look after its receive queue.
const RETRIES: u8 = 7;

/// What an id hears.
#[derive(Debug)]
pub(super) enum Notice {
    /// The connection stands; with what the peer said.
    Established(Vec<u8>),
    /// Somebody calls.
    Call(Call),
    /// There will be no connection.
    Failed(Errno),
    /// The connection is over.
    Disconnected,
    /// Nothing that matters.
    Other,
}

/// An id with a channel of its own.
#[derive(Debug)]
pub(super) struct Identity {
    channel: *mut rdma_event_channel,
    id: *mut rdma_cm_id,
}

// SAFETY: the objects may be used by any thread, and nobody else has them.
unsafe impl Send for Identity {}

impl Identity {
    pub fn new(space: PortSpace) -> Result<Identity, Errno> {
        let channel = made(rdma_create_event_channel())?;
        let id = id::create(channel, null_mut(), space);
        if id.is_err() {
            // SAFETY: just made.
            unsafe { rdma_destroy_event_channel(channel) };
        }
        Ok(Identity { channel, id: id? })
    }

    /// The id, for as long as this lives.
    pub fn id(&self) -> *mut rdma_cm_id {
        self.id
    }

    /// Readable while there is something to hear.
    pub fn fd(&self) -> c_int {
        // SAFETY: the channel lives as long as this.
        unsafe { (*self.channel).fd }
    }

    pub fn bind(&self, to: SocketAddr) -> Result<(), Errno> {
        let mut to = sockaddr::write(to);
        // SAFETY: the id is alive, and the address is ours.
        done(unsafe { rdma_bind_addr(self.id, (&raw mut to).cast()) })
    }

    pub fn listen(&self, backlog: c_int) -> Result<(), Errno> {
        // SAFETY: the id is alive.
        done(unsafe { rdma_listen(self.id, backlog) })
    }

    /// Finds the device and the way to a peer.
    pub fn resolve(&self, peer: SocketAddr) -> Result<(), Errno> {
        let mut peer = sockaddr::write(peer);
        // SAFETY: the id is alive, and the address is ours.
        unsafe {
            let to = (&raw mut peer).cast();
            done(rdma_resolve_addr(self.id, null_mut(), to, TIMEOUT_MS))?;
            done(rdma_resolve_route(self.id, TIMEOUT_MS))
        }
    }

    pub fn connect(&self, hello: &[u8]) -> Result<(), Errno> {
        let mut param = param(hello);
        // SAFETY: the id is alive, and so are its parameters.
        done(unsafe { rdma_connect(self.id, &raw mut param) })
    }

    pub fn accept(&self, hello: &[u8]) -> Result<(), Errno> {
        let mut param = param(hello);
        // SAFETY: the id is alive, and so are its parameters.
        done(unsafe { rdma_accept(self.id, &raw mut param) })
    }

    /// Ends the connection, if there is one.
    pub fn disconnect(&self) {
        // SAFETY: the id is alive.
        let _it_was_over = unsafe { rdma_disconnect(self.id) };
    }

    pub fn local(&self) -> Option<SocketAddr> {
        // SAFETY: the id is alive.
        unsafe { id_of(self.id) }.ok()?.state().local
    }

    pub fn peer(&self) -> Option<SocketAddr> {
        // SAFETY: the id is alive.
        unsafe { id_of(self.id) }.ok()?.state().peer
    }

    /// The device, once there is one.
    pub fn used(&self) -> Result<Used, Errno> {
        // SAFETY: the id is alive.
        unsafe { id_of(self.id)? }.state().used.clone().ok_or(INVALID)
    }

    /// What there is to hear; `None`: nothing now.
    pub fn hear(&self) -> Option<Notice> {
        // SAFETY: the channel is alive.
        let event = unsafe { channel_of(self.channel) }.ok()?.try_next().ok()?;
        // SAFETY: an event that nobody else has.
        let (kind, status) = unsafe { ((*event).event, (*event).status) };
        let notice = match kind {
            CONNECT_REQUEST => return Some(Notice::Call(Call(event))),
            // SAFETY: as above.
            ESTABLISHED => Notice::Established(unsafe { private_data(event) }),
            REJECTED => Notice::Failed(Errno(libc::ECONNREFUSED)),
            UNREACHABLE | CONNECT_ERROR => Notice::Failed(Errno((-status).max(1))),
            DISCONNECTED => Notice::Disconnected,
            _ => Notice::Other,
        };
        // SAFETY: as above, and it is not used any more.
        unsafe { acknowledge(event) };
        Some(notice)
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        // SAFETY: nobody uses them any more; a queue pair was destroyed before.
        unsafe {
            rdma_destroy_id(self.id);
            rdma_destroy_event_channel(self.channel);
        }
    }
}

fn param(hello: &[u8]) -> rdma_conn_param {
    // SAFETY: integers and a pointer.
    let mut param: rdma_conn_param = unsafe { zeroed() };
    param.private_data = hello.as_ptr().cast();
    param.private_data_len = u8::try_from(hello.len()).unwrap_or(u8::MAX);
    (param.flow_control, param.retry_count, param.rnr_retry_count) = (1, RETRIES, RETRIES);
    param
}

/// # Safety
/// An event of a connection that is alive.
unsafe fn private_data(event: *const rdma_cm_event) -> Vec<u8> {
    // SAFETY: the caller's promise; the data lives as long as the event.
    unsafe {
        let conn = (*event).param.conn;
        if conn.private_data.is_null() {
            return Vec::new();
        }
        let length = usize::from(conn.private_data_len);
        std::slice::from_raw_parts(conn.private_data.cast::<u8>(), length).to_vec()
    }
}

/// A call that waits for an answer. Without one it is refused.
#[derive(Debug)]
pub(super) struct Call(*mut rdma_cm_event);

// SAFETY: the event, and the id in it, may be used by any thread, and nobody else has them.
unsafe impl Send for Call {}

impl Call {
    /// What the caller says.
    pub fn hello(&self) -> Vec<u8> {
        // SAFETY: alive as long as this.
        unsafe { private_data(self.0) }
    }

    /// The id of the call, with a channel of its own.
    pub fn take(self) -> Result<Identity, Errno> {
        let channel = made(rdma_create_event_channel())?;
        // A call that is taken is not refused.
        let event = ManuallyDrop::new(self).0;
        // SAFETY: the event is alive until it is acknowledged.
        unsafe {
            let identity = Identity { channel, id: (*event).id };
            let moved = migrate(identity.id, channel);
            acknowledge(event);
            moved.map(|()| identity)
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // SAFETY: nobody uses them any more.
        unsafe {
            let id = (*self.0).id;
            acknowledge(self.0);
            rdma_destroy_id(id);
        }
    }
}
