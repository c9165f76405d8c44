//! Ids: making them, binding them to an address, destroying them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libc::{c_int, c_void, sockaddr as c_sockaddr};
use uroce_device::cm::{CommId, IpCm, Link, PortSpace, ServiceId};
use uroce_device::transport::AddressVector;
use uroce_device::wire::{Gid, Psn};

use super::abi::{rdma_cm_id, rdma_event_channel};
use super::channel::{self, channel_of};
use super::connection::stop_listening;
use super::contexts::{self, Used};
use super::ending;
use super::event::{keep, path_to};
use super::multicast::{self, Joined};
use super::options::Options;
use super::ports::{self, Wish};
use super::registry::{self, Served};
use super::sockaddr;
use crate::abi::ibv_gid;
use crate::card::Card;
use crate::cq_event::Unacknowledged;
use crate::errno::{BUSY, Errno, INVALID};
use crate::object::{Object, warn_of_fork, zeroed};
use crate::outcome::{call, minus_one, value};
use crate::query::not_null;

/// `IBV_QPT_RC` and `IBV_QPT_UD`.
const RC: c_int = 2;
const UD: c_int = 4;

/// What we keep about an id.
#[derive(Debug)]
pub(crate) struct Id {
    pub(crate) space: PortSpace,
    /// It has no channel of the program's: calls wait for their event themselves.
    pub(crate) waits: AtomicBool,
    /// It has the channel that it waits on to itself.
    pub(crate) owns_channel: AtomicBool,
    pub(crate) unacknowledged: Unacknowledged,
    state: Mutex<State>,
}

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
    /// Completion queues that `rdma_create_qp` made, and their channels.
    pub(crate) made_queues: bool,
    /// What the program has set by `rdma_set_option`.
    pub(super) options: Options,
    /// The port of `local` is its own; that of an id that was called is its listener's.
    reserved: bool,
    /// First PSN that our side expects; nobody shall guess it.
    pub(crate) start_psn: Psn,
    /// What a queue pair needs that the program moves itself.
    pub(crate) link: Option<Box<Link>>,
    pub(crate) joined: Vec<Joined>,
}

impl State {
    fn is_of_parent(&self) -> bool {
        let mut all = self.used.iter().chain(self.listens.iter().map(|(used, _)| used));
        all.any(|used| !used.card.device.is_here())
    }
}

type Whole = Object<rdma_cm_id, Id>;

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

/// Our part of an id.
///
/// # Safety
/// By the contract.
pub(crate) unsafe fn id_of<'a>(id: *const rdma_cm_id) -> Result<&'a Id, Errno> {
    // SAFETY: the caller's promise.
    unsafe {
        if is_inherited(id) {
            warn_of_fork();
            return Err(INVALID);
        }
        Whole::of_any_process(id).ok_or(INVALID)
    }
}

/// True for an id on a device of the parent of this process.
///
/// # Safety
/// By the contract.
pub(crate) unsafe fn is_inherited(id: *const rdma_cm_id) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        Whole::is_inherited(id)
            && Whole::of_any_process(id).is_some_and(|inner| inner.state().is_of_parent())
    }
}

fn space_of(number: c_int) -> Result<PortSpace, Errno> {
    [PortSpace::Tcp, PortSpace::Udp]
        .into_iter()
        .find(|space| *space as c_int == number)
        .ok_or(Errno(libc::EPROTONOSUPPORT))
}

/// rdma_create_id(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_create_id(
    channel: *mut rdma_event_channel,
    out: *mut *mut rdma_cm_id,
    context: *mut c_void,
    space: c_int,
) -> c_int {
    minus_one(|| {
        let (out, space) = (not_null(out)?, space_of(space)?);
        // SAFETY: by the contract.
        unsafe { *out = create(channel, context, space)? };
        Ok(())
    })
}

/// A new id; without a channel it waits on one of its own.
pub(crate) fn create(
    channel: *mut rdma_event_channel,
    context: *mut c_void,
    space: PortSpace,
) -> Result<*mut rdma_cm_id, Errno> {
    let waits = channel.is_null();
    let channel = if waits { channel::create()? } else { channel };
    make(channel, context, space, (waits, waits))
}

fn make(
    channel: *mut rdma_event_channel,
    context: *mut c_void,
    space: PortSpace,
    (waits, owns_channel): (bool, bool),
) -> Result<*mut rdma_cm_id, Errno> {
    // SAFETY: integers, bytes and null pointers.
    let mut c: rdma_cm_id = unsafe { zeroed() };
    (c.channel, c.context, c.ps) = (channel, context, space as c_int);
    c.qp_type = if space == PortSpace::Udp { UD } else { RC };
    let unacknowledged = Unacknowledged::default();
    let (waits, owns_channel) = (AtomicBool::new(waits), AtomicBool::new(owns_channel));
    let state = Mutex::new(State { start_psn: random_psn()?, ..State::default() });
    Ok(Whole::create(c, Id { space, waits, owns_channel, unacknowledged, state }))
}

fn random_psn() -> Result<Psn, Errno> {
    Ok(Psn::new(ports::random()? & 0xff_ffff))
}

/// The id of a request that came to `listener`.
pub(crate) fn called(
    listener: &Served,
    connection: CommId,
    ip: &Option<IpCm>,
    remote: IpAddr,
) -> Option<*mut rdma_cm_id> {
    // SAFETY: a registered id is alive.
    let (inner, c) = unsafe { (id_of(listener.id).ok()?, &*listener.id) };
    let used = inner
        .state()
        .listens
        .iter()
        .find_map(|(used, _)| Arc::ptr_eq(&used.card, &listener.card).then(|| used.clone()))?;
    let id = make(c.channel, c.context, inner.space, (inner.waits.load(Ordering::Relaxed), false))
        .ok()?;
    // SAFETY: just made.
    let child = unsafe { id_of(id) }.ok()?;
    let port = inner.state().local.map_or(0, |local| local.port());
    let peer = SocketAddr::new(remote, ip.as_ref().map_or(0, |ip| ip.source_port));
    let mut state = child.state();
    state.connection = Some(connection);
    state.peer = Some(peer);
    // SAFETY: just made.
    unsafe { settle(id, &mut state, used, port) };
    drop(state);
    // From now on other threads may get events of it, and destroy it.
    registry::add_name(id, &listener.card, connection);
    Some(id)
}

/// The id has its device: what programs see of it is filled in.
///
/// # Safety
/// By the contract.
pub(crate) unsafe fn settle(id: *mut rdma_cm_id, state: &mut State, used: Used, port: u16) {
    let local = SocketAddr::new(used.address, port);
    // SAFETY: by the contract.
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

/// rdma_bind_addr(3). An address that stands for any binds to no device yet.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_bind_addr(
    id: *mut rdma_cm_id,
    address: *mut c_sockaddr,
) -> c_int {
    call("rdma_bind_addr", || {
        // SAFETY: by the contract.
        let (inner, address) = unsafe { (id_of(id)?, sockaddr::read(address)?) };
        let mut state = inner.state();
        if state.local.is_some() {
            return Err(INVALID);
        }
        // SAFETY: by the contract.
        unsafe { bind(id, inner, &mut state, address) }
    })
}

/// The id gets its address and port, and its device if the address is that of one.
///
/// # Safety
/// By the contract.
pub(super) unsafe fn bind(
    id: *mut rdma_cm_id,
    inner: &Id,
    state: &mut State,
    address: SocketAddr,
) -> Result<(), Errno> {
    let used = match contexts::is_any(address.ip()) {
        true => None,
        false => Some(contexts::at(address.ip())?),
    };
    let port = reserve(id, inner, state, address, used.as_ref().map(|used| &used.card))?;
    let local = SocketAddr::new(address.ip(), port);
    crate::log::tell(&format_args!("bound to {local}"));
    // SAFETY: by the contract.
    unsafe {
        match used {
            Some(used) => settle(id, state, used, port),
            None => {
                state.local = Some(local);
                (*id).route.addr.src = sockaddr::write(local);
            }
        }
    }
    Ok(())
}

/// The port of this address, or one that is free if it is 0, is the id's; with a device, no other process gets it
/// there.
pub(super) fn reserve(
    id: *mut rdma_cm_id,
    inner: &Id,
    state: &mut State,
    address: SocketAddr,
    card: Option<&Arc<Card>>,
) -> Result<u16, Errno> {
    let any = if address.is_ipv4() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    };
    let stands_for = if contexts::is_any(address.ip()) { any } else { address.ip() };
    let wish = Wish {
        space: inner.space,
        address: SocketAddr::new(stands_for, address.port()),
        only_family: state.options.only_family(address.ip()),
        reuse: state.options.reuse,
        card,
    };
    let port = ports::reserve(id, &wish)?;
    state.reserved = true;
    Ok(port)
}

/// rdma_destroy_id(3). Waits until its events are acknowledged.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int {
    minus_one(|| {
        // SAFETY: by the contract.
        if unsafe { is_inherited(id) } {
            return Ok(());
        }
        // SAFETY: by the contract.
        let inner = unsafe { id_of(id)? };
        // SAFETY: by the contract.
        if unsafe { !(*id).qp.is_null() && inner.state().made_queues } {
            return Err(BUSY);
        }
        // SAFETY: by the contract.
        unsafe { multicast::leave_all(id, inner) };
        release(id, inner);
        // SAFETY: by the contract; nobody uses it any more.
        unsafe {
            let channel = (*id).channel;
            drop_events(id, channel);
            inner.unacknowledged.wait();
            let owns_channel = inner.owns_channel.load(Ordering::Relaxed);
            Whole::destroy(id);
            if owns_channel {
                channel::rdma_destroy_event_channel(channel);
            }
        }
        Ok(())
    })
}

/// Ends what the id stands for.
fn release(id: *mut rdma_cm_id, inner: &Id) {
    let mut state = inner.state();
    if let (Some(connection), Some(used)) = (state.connection.take(), &state.used) {
        used.card.device.cm_release(connection);
    }
    stop_listening(&mut state);
    if let Some(local) = state.local.filter(|_| state.reserved) {
        ports::release(id, inner.space, local.port());
    }
    drop(state);
    registry::forget(id);
    ending::id_is_gone();
}

/// # Safety
/// By the contract.
unsafe fn drop_events(id: *mut rdma_cm_id, channel: *mut rdma_event_channel) {
    // SAFETY: by the contract.
    unsafe {
        keep(id, null_mut());
        if let Ok(channel) = channel_of(channel) {
            channel.unpark(|event| event.id == id || event.listen_id == id);
        }
    }
}

/// rdma_get_src_port(3), in network byte order.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_get_src_port(id: *mut rdma_cm_id) -> u16 {
    // SAFETY: by the contract.
    value(0, || unsafe { id_of(id) }.map_or(0, |id| port_of(id.state().local)))
}

/// rdma_get_dst_port(3), in network byte order.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_get_dst_port(id: *mut rdma_cm_id) -> u16 {
    // SAFETY: by the contract.
    value(0, || unsafe { id_of(id) }.map_or(0, |id| port_of(id.state().peer)))
}

fn port_of(address: Option<SocketAddr>) -> u16 {
    let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    address.unwrap_or(nowhere).port().to_be()
}
