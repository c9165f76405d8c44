//! Ids and where they stand.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libc::{c_int, c_void};
use uroce_device::cm::{CommId, Ece, Link, PortSpace, ServiceId};
use uroce_device::transport::AddressVector;
use uroce_device::wire::{Gid, Psn};
use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_ibverbs::object::{Object, warn_of_fork, zeroed};
use uroce_ibverbs::object_of;
use uroce_ibverbs::return_value::value;
use uroce_ibverbs::unacknowledged::Unacknowledged;
use uroce_verbs_abi::{IBV_QPT_RC, IBV_QPT_UD, ibv_gid, rdma_cm_id, rdma_event_channel};

use crate::contexts::Used;
use crate::options::Options;
use crate::path_record::PathRecord;
use crate::ports;
use crate::sockaddr;

/// What we keep about an id.
#[derive(Debug)]
pub(crate) struct Id {
    pub(crate) space: PortSpace,
    /// It has no channel of the program's: calls wait for their event themselves.
    pub(crate) waits: AtomicBool,
    /// It has the channel that it waits on to itself.
    pub(crate) owns_channel: AtomicBool,
    /// Events of the id that the program has fetched and not yet acknowledged.
    pub(crate) unacknowledged: Arc<Unacknowledged>,
    state: Mutex<State>,
}

/// A group that an id has joined.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) group: IpAddr,
    /// The program's, for the event.
    pub(crate) context: *mut c_void,
    /// It receives.
    pub(crate) attached: bool,
}

// SAFETY: the pointer is handed back to the program as it is.
unsafe impl Send for Joined {}

/// Where an id stands.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The device, once it is known.
    pub(crate) used: Option<Used>,
    /// Its own address; the port is 0 until one is chosen.
    pub(crate) local: Option<SocketAddr>,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) connection: Option<CommId>,
    /// What it listens on, on which devices.
    pub(crate) listens: Vec<(Used, ServiceId)>,
    /// The way to the peer, as the program reads it. It was looked up or given, and only then a call goes out.
    pub(crate) path_record: Option<PathRecord>,
    /// Completion queues that `rdma_create_qp` made, and their channels.
    pub(crate) made_queues: bool,
    /// What the program has set by `rdma_set_option`.
    pub(crate) options: Options,
    /// The port of `local` is its own; that of an id that was called is its listener's.
    pub(crate) reserved: bool,
    /// First PSN that our side expects; it must not be guessed.
    pub(crate) start_psn: Psn,
    /// What a queue pair needs that the program moves itself.
    pub(crate) link: Option<Box<Link>>,
    /// Options of a vendor: what the program set, and what the peer told.
    pub(crate) local_ece: Ece,
    pub(crate) remote_ece: Ece,
    pub(crate) joined: Vec<Joined>,
    /// What `rdma_resolve_addrinfo` has found.
    pub(crate) addrinfo: Option<crate::resolved_names::ResolvedNames>,
    /// What its requests get, if `rdma_create_ep` made it for them.
    pub(crate) wanted: Option<crate::wanted::Wanted>,
}

impl State {
    fn is_of_parent(&self) -> bool {
        let mut all = self.used.iter().chain(self.listens.iter().map(|(used, _)| used));
        all.any(|used| !used.open_device.device.is_here())
    }

    /// The device of an id whose way to its peer may be looked up or given.
    ///
    /// # Errors
    /// EINVAL: there is no peer or no device, or a connection already.
    pub(crate) fn before_connecting(&self) -> Result<Used, Errno> {
        let may = self.peer.is_some() && self.connection.is_none();
        self.used.clone().filter(|_| may).ok_or(INVALID)
    }
}

/// The C struct of an id, with what we keep about it.
pub(crate) type IdObject = Object<rdma_cm_id, Id>;

impl Id {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path to the peer.
    pub(crate) fn path(&self) -> Option<AddressVector> {
        let state = self.state();
        let path = path_to(state.peer?.ip(), state.used.as_ref()?.address);
        Some(AddressVector { traffic_class: state.options.traffic_class(), ..path })
    }
}

/// A new id with this channel; `waits`, `owns_channel` as for [`Id`].
pub(crate) fn make(
    channel: *mut rdma_event_channel,
    context: *mut c_void,
    space: PortSpace,
    (waits, owns_channel): (bool, bool),
) -> Result<*mut rdma_cm_id, Errno> {
    // SAFETY: integers, bytes and null pointers.
    let mut c: rdma_cm_id = unsafe { zeroed() };
    (c.channel, c.context, c.ps) = (channel, context, space as c_int);
    c.qp_type = if space == PortSpace::Udp { IBV_QPT_UD } else { IBV_QPT_RC };
    let unacknowledged = Arc::default();
    let (waits, owns_channel) = (AtomicBool::new(waits), AtomicBool::new(owns_channel));
    let state = Mutex::new(State { start_psn: random_psn()?, ..State::default() });
    Ok(IdObject::create(c, Id { space, waits, owns_channel, unacknowledged, state }))
}

fn random_psn() -> Result<Psn, Errno> {
    Ok(Psn::new(ports::random()? & 0xff_ffff))
}

/// Our part of an id; ENOENT if there is none at that address.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn id_of<'a>(id: *const rdma_cm_id) -> Result<&'a Id, Errno> {
    // SAFETY: the caller's promise.
    unsafe {
        if is_inherited(id) {
            warn_of_fork();
            return Err(INVALID);
        }
        IdObject::live_any_process(id)
    }
}

/// True for an id on a device of the parent of this process.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn is_inherited(id: *const rdma_cm_id) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        IdObject::is_inherited(id)
            && IdObject::live_any_process(id).is_ok_and(|inner| inner.state().is_of_parent())
    }
}

/// The id has its device: what programs see of it is filled in.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn settle(id: *mut rdma_cm_id, state: &mut State, used: Used, port: u16) {
    let local = SocketAddr::new(used.address, port);
    // SAFETY: the object was found, and the manual pages forbid to destroy it during a call.
    unsafe {
        (*id).verbs = used.verbs;
        (*id).port_num = 1;
        if (*id).pd.is_null() {
            (*id).pd = used.pd;
        }
        let addr = &mut (*id).route.addr;
        addr.src = sockaddr::write(local);
        addr.sgid = ibv_gid::from_gid(Gid::from_ip(local.ip()));
        addr.pkey = 0xffff;
        if let Some(peer) = state.peer {
            addr.dst = sockaddr::write(peer);
            addr.dgid = ibv_gid::from_gid(Gid::from_ip(peer.ip()));
        }
    }
    state.local = Some(local);
    state.used = Some(used);
}

/// The way to the peer is looked up, once.
///
/// # Errors
/// EINVAL: as for [`State::before_connecting`], or the way is known.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn find_route(id: *mut rdma_cm_id, inner: &Id) -> Result<Used, Errno> {
    let mut state = inner.state();
    let used = state.before_connecting()?;
    if state.path_record.is_some() {
        return Err(INVALID);
    }
    // SAFETY: the caller's promise.
    unsafe { set_path_record(id, &mut state, &used) };
    Ok(used)
}

/// The way to the peer is known: the id has its one path record.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn set_path_record(id: *mut rdma_cm_id, state: &mut State, used: &Used) {
    // SAFETY: the object was found, and the manual pages forbid to destroy it during a call.
    let route = unsafe { &mut (*id).route };
    let record = PathRecord::new(&route.addr, used, &state.options);
    (route.path_rec, route.num_paths) = (record.as_ptr(), 1);
    state.path_record = Some(record);
}

/// The path to a peer, for address handles.
pub(crate) fn path_to(remote: IpAddr, local: IpAddr) -> AddressVector {
    AddressVector::new(local, remote)
}

/// rdma_get_src_port(3), in network byte order.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_get_src_port(id: *mut rdma_cm_id) -> u16 {
    value(0, || object_of!(id_of(id)).map_or(0, |id| port_of(id.state().local)))
}

/// rdma_get_dst_port(3), in network byte order.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_get_dst_port(id: *mut rdma_cm_id) -> u16 {
    value(0, || object_of!(id_of(id)).map_or(0, |id| port_of(id.state().peer)))
}

fn port_of(address: Option<SocketAddr>) -> u16 {
    let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    address.unwrap_or(nowhere).port().to_be()
}
