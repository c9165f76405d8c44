//! Ids that Rust code owns, each with an event channel of its own.

use std::mem::ManuallyDrop;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libc::c_int;
use uroce_device::cm::{PortSpace, State};
use uroce_device::memory::PdId;
use uroce_ibverbs::errno::{Errno, INVALID, made};
use uroce_ibverbs::object::zeroed;
use uroce_ibverbs::open_device::OpenDevice;
use uroce_ibverbs::owned_mr::OwnedMr;
use uroce_ibverbs::pd::pd_of;
use uroce_verbs_abi::{
    RDMA_CM_EVENT_CONNECT_ERROR, RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_DISCONNECTED,
    RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_UNREACHABLE, rdma_cm_event,
    rdma_cm_id, rdma_conn_param, rdma_event_channel,
};

use crate::bind::{bind_to_device, rdma_bind_addr};
use crate::channel::{owned_channel, rdma_create_event_channel, rdma_destroy_event_channel};
use crate::connection::{rdma_accept, rdma_connect, rdma_disconnect};
use crate::contexts::Used;
use crate::create;
use crate::destroy::rdma_destroy_id;
use crate::event::acknowledge;
use crate::id::id_of;
use crate::listen::rdma_listen;
use crate::migrate::migrate;
use crate::resolve::{rdma_resolve_addr, rdma_resolve_route};
use crate::set_option::set_only_family;
use crate::sockaddr;
use crate::wait::done;

/// Nothing here waits that long.
const TIMEOUT_MS: c_int = 2_000;
/// As often as the transport can: the peer may be slow to look after its receive queue.
const RETRIES: u8 = 7;

/// What happens to an id.
#[derive(Debug)]
pub enum ConnectionEvent {
    /// The connection stands; with the private data of the peer.
    Established(Vec<u8>),
    /// A peer wants to connect.
    Request(Request),
    /// There will be no connection.
    Failed(Errno),
    /// The connection is over.
    Disconnected,
    /// Another one, which says nothing about the connection.
    Other,
}

/// An id with a channel of its own (`rdma_cm_id`, `rdma_event_channel`). Both go when it is dropped.
#[derive(Debug)]
pub struct OwnedId {
    channel: *mut rdma_event_channel,
    id: *mut rdma_cm_id,
    /// Held by a call that writes to the C struct.
    calls: Mutex<()>,
}

// SAFETY: ids and channels may be used by any thread, and this one has no other owner.
unsafe impl Send for OwnedId {}
// SAFETY: what writes to the C struct holds `calls`; the functions of this library lock the rest.
unsafe impl Sync for OwnedId {}

impl OwnedId {
    /// `rdma_create_id` with a new channel.
    ///
    /// # Errors
    /// The process has no free descriptor.
    pub fn new(space: PortSpace) -> Result<OwnedId, Errno> {
        let channel = made(rdma_create_event_channel())?;
        let id = create::create(channel, null_mut(), space);
        if id.is_err() {
            // SAFETY: made above, and no id has it.
            unsafe { rdma_destroy_event_channel(channel) };
        }
        Ok(OwnedId { channel, id: id?, calls: Mutex::default() })
    }

    /// The id, which lives as long as this.
    pub(crate) fn as_ptr(&self) -> *mut rdma_cm_id {
        self.id
    }

    /// One call at a time writes to the C struct.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Readable while an event waits.
    pub fn fd(&self) -> RawFd {
        // SAFETY: the channel lives as long as this.
        unsafe { (*self.channel).fd }
    }

    /// `rdma_bind_addr`.
    ///
    /// # Errors
    /// Those of rdma_bind_addr(3).
    pub fn bind(&self, to: SocketAddr) -> Result<(), Errno> {
        let _one_call = self.lock();
        let mut to = sockaddr::write(to);
        // SAFETY: the id lives as long as this, and the address is a local variable.
        done(unsafe { rdma_bind_addr(self.id, (&raw mut to).cast()) })
    }

    /// The device with this address, and any port. Unlike in [`bind`](Self::bind), 127.0.0.1 means the
    /// device with that address here, not all addresses.
    ///
    /// # Errors
    /// EINVAL: it is bound; ENODEV: there is no such device.
    pub fn bind_to_device(&self, address: IpAddr) -> Result<(), Errno> {
        let _one_call = self.lock();
        // SAFETY: the id lives as long as this.
        unsafe { bind_to_device(self.id, address) }
    }

    /// RDMA_OPTION_ID_AFONLY: bound to any address of IPv6, it does not stand for those of IPv4.
    ///
    /// # Errors
    /// EINVAL: it listens, or has a peer.
    pub fn set_only_family(&self, only: bool) -> Result<(), Errno> {
        let _one_call = self.lock();
        // SAFETY: the id lives as long as this.
        set_only_family(unsafe { id_of(self.id)? }, only)
    }

    /// `rdma_listen`.
    ///
    /// # Errors
    /// Those of rdma_listen(3).
    pub fn listen(&self, backlog: c_int) -> Result<(), Errno> {
        let _one_call = self.lock();
        // SAFETY: the id lives as long as this.
        done(unsafe { rdma_listen(self.id, backlog) })
    }

    /// Finds the device and the way to a peer: `rdma_resolve_addr`, `rdma_resolve_route`.
    ///
    /// # Errors
    /// Those of the two.
    pub fn resolve(&self, peer: SocketAddr) -> Result<(), Errno> {
        let _one_call = self.lock();
        let mut peer = sockaddr::write(peer);
        // SAFETY: the id lives as long as this, and the address is a local variable.
        unsafe {
            let to = (&raw mut peer).cast();
            done(rdma_resolve_addr(self.id, null_mut(), to, TIMEOUT_MS))?;
            done(rdma_resolve_route(self.id, TIMEOUT_MS))
        }
    }

    /// `rdma_connect` with this private data.
    ///
    /// # Errors
    /// Those of rdma_connect(3).
    pub fn connect(&self, private_data: &[u8]) -> Result<(), Errno> {
        let _one_call = self.lock();
        let mut param = param(private_data);
        // SAFETY: the id lives as long as this, the parameters and their data until the call returns.
        done(unsafe { rdma_connect(self.id, &raw mut param) })
    }

    /// `rdma_accept` with this private data.
    ///
    /// # Errors
    /// Those of rdma_accept(3).
    pub fn accept(&self, private_data: &[u8]) -> Result<(), Errno> {
        let _one_call = self.lock();
        let mut param = param(private_data);
        // SAFETY: the id lives as long as this, the parameters and their data until the call returns.
        done(unsafe { rdma_accept(self.id, &raw mut param) })
    }

    /// Ends the connection, if there is one.
    pub fn disconnect(&self) {
        let _one_call = self.lock();
        // SAFETY: the id lives as long as this.
        let _it_was_over = unsafe { rdma_disconnect(self.id) };
    }

    /// Its own address.
    pub fn local(&self) -> Option<SocketAddr> {
        // SAFETY: the id lives as long as this.
        unsafe { id_of(self.id) }.ok()?.state().local
    }

    /// The address of its peer.
    pub fn peer(&self) -> Option<SocketAddr> {
        // SAFETY: the id lives as long as this.
        unsafe { id_of(self.id) }.ok()?.state().peer
    }

    /// The device.
    ///
    /// # Errors
    /// EINVAL: it has none yet.
    pub fn open_device(&self) -> Result<Arc<OpenDevice>, Errno> {
        Ok(self.used()?.open_device)
    }

    /// The address of the device.
    ///
    /// # Errors
    /// EINVAL: it has none yet.
    pub fn device_address(&self) -> Result<IpAddr, Errno> {
        Ok(self.used()?.address)
    }

    /// The protection domain of its queue pairs.
    ///
    /// # Errors
    /// EINVAL: it has no device yet.
    pub fn pd(&self) -> Result<PdId, Errno> {
        // SAFETY: the domain of a device that ids use lives as long as the process.
        Ok(unsafe { pd_of(self.used()?.pd)? }.id)
    }

    /// Registers memory of the program in the protection domain.
    ///
    /// # Safety
    /// The memory stays mapped until the result is dropped.
    ///
    /// # Errors
    /// Those of ibv_reg_mr(3).
    pub unsafe fn register(
        &self,
        addr: *mut libc::c_void,
        length: usize,
        access: c_int,
    ) -> Result<OwnedMr, Errno> {
        // SAFETY: the domain lives as long as the process; the memory by the caller's promise.
        unsafe { OwnedMr::register(self.used()?.pd, addr, length, access) }
    }

    fn used(&self) -> Result<Used, Errno> {
        // SAFETY: the id lives as long as this.
        unsafe { id_of(self.id)? }.state().used.clone().ok_or(INVALID)
    }

    /// The next event; `None`: none waits.
    pub fn poll_event(&self) -> Option<ConnectionEvent> {
        // The event of an established connection changes the queue pair's struct.
        let _one_call = self.lock();
        // SAFETY: the channel lives as long as this.
        let event = unsafe { owned_channel(self.channel) }?.try_next().ok()?;
        // SAFETY: an event that was fetched here, and is not acknowledged yet.
        let (kind, status, about) = unsafe { ((*event).event, (*event).status, (*event).id) };
        let found = match kind {
            RDMA_CM_EVENT_CONNECT_REQUEST => return Some(ConnectionEvent::Request(Request(event))),
            // Of a request that waits to be taken; of the id itself it says nothing.
            _ if about != self.id => ConnectionEvent::Other,
            RDMA_CM_EVENT_ESTABLISHED => {
                // SAFETY: not acknowledged yet, and about a connection.
                ConnectionEvent::Established(unsafe { private_data(event) })
            }
            RDMA_CM_EVENT_REJECTED => ConnectionEvent::Failed(Errno(libc::ECONNREFUSED)),
            RDMA_CM_EVENT_UNREACHABLE | RDMA_CM_EVENT_CONNECT_ERROR => {
                ConnectionEvent::Failed(Errno((-status).max(1)))
            }
            RDMA_CM_EVENT_DISCONNECTED => ConnectionEvent::Disconnected,
            _ => ConnectionEvent::Other,
        };
        // SAFETY: fetched above, and not used below.
        unsafe { acknowledge(event) };
        Some(found)
    }
}

impl Drop for OwnedId {
    fn drop(&mut self) {
        // SAFETY: it has no other owner; a queue pair of it holds this, so it has gone before.
        unsafe {
            rdma_destroy_id(self.id);
            rdma_destroy_event_channel(self.channel);
        }
    }
}

fn param(private_data: &[u8]) -> rdma_conn_param {
    // SAFETY: integers and a pointer.
    let mut param: rdma_conn_param = unsafe { zeroed() };
    param.private_data = private_data.as_ptr().cast();
    param.private_data_len = u8::try_from(private_data.len()).unwrap_or(u8::MAX);
    (param.flow_control, param.retry_count, param.rnr_retry_count) = (1, RETRIES, RETRIES);
    param
}

/// # Safety
/// An event of a connection that is not acknowledged yet.
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

/// A request of a peer that waits for an answer. Dropped without one, it is refused.
#[derive(Debug)]
pub struct Request(*mut rdma_cm_event);

// SAFETY: the event, and the id in it, may be used by any thread, and have no other owner.
unsafe impl Send for Request {}

impl Request {
    /// The private data of the peer.
    pub fn private_data(&self) -> Vec<u8> {
        // SAFETY: it is acknowledged when this is dropped.
        unsafe { private_data(self.0) }
    }

    /// It can still be answered: its caller has not taken it back, and it has not waited for too long.
    pub fn waits(&self) -> bool {
        // SAFETY: the event is acknowledged, and its id destroyed, when this is dropped.
        let Ok(inner) = (unsafe { id_of((*self.0).id) }) else { return false };
        let state = inner.state();
        let (Some(used), Some(connection)) = (&state.used, state.connection) else { return false };
        used.open_device.device.cm().state(connection) == Some(State::ReqReceived)
    }

    /// The id of the request, with a channel of its own.
    ///
    /// # Errors
    /// The process has no free descriptor.
    pub fn take(self) -> Result<OwnedId, Errno> {
        let channel = made(rdma_create_event_channel())?;
        // A request that is taken is not refused.
        let event = ManuallyDrop::new(self).0;
        // SAFETY: the event is not acknowledged before the last line that uses it.
        unsafe {
            let owned = OwnedId { channel, id: (*event).id, calls: Mutex::default() };
            let moved = migrate(owned.id, channel);
            acknowledge(event);
            moved.map(|()| owned)
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // SAFETY: neither the event nor its id has another owner.
        unsafe {
            let id = (*self.0).id;
            acknowledge(self.0);
            rdma_destroy_id(id);
        }
    }
}
