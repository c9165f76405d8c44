//! Finding the device and the way to a peer.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use libc::{c_int, sockaddr as c_sockaddr};
use uroce_device::CmEventKind;
use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_ibverbs::object_of;
use uroce_ibverbs::return_value::call;
use uroce_ibverbs::settings;
use uroce_verbs_abi::rdma_cm_id;

use crate::bind::{bind, reserve};
use crate::channel::post;
use crate::contexts::{self, Used};
use crate::id::{find_route, id_of, settle};
use crate::sockaddr;
use crate::wait::complete;

/// rdma_resolve_addr(3). The device is found at once; the time-out has no use. An id has one peer: a second call is
/// refused, as by a kernel.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_resolve_addr(
    id: *mut rdma_cm_id,
    source: *mut c_sockaddr,
    peer: *mut c_sockaddr,
    _timeout_ms: c_int,
) -> c_int {
    call("rdma_resolve_addr", || {
        // SAFETY: null, or an address of the program that is as long as its family says.
        let (inner, peer) = unsafe { (id_of(id)?, sockaddr::read(peer)?) };
        let source = if source.is_null() {
            None
        } else {
            // SAFETY: not null: an address of the program that is as long as its family says.
            Some(unsafe { sockaddr::read(source)? })
        };
        let mut state = inner.state();
        if !state.listens.is_empty() || state.connection.is_some() || state.peer.is_some() {
            return Err(INVALID);
        }
        if let (None, Some(source)) = (state.local, source) {
            // SAFETY: an id that was found, and that the manual pages forbid to destroy during a call.
            unsafe { bind(id, inner, &mut state, source)? };
        }
        let used = match &state.used {
            Some(used) => used.clone(),
            None => towards(peer.ip(), state.local.map(|local| local.ip()))?,
        };
        let port = match state.local {
            Some(local) => local.port(),
            None => {
                let any = SocketAddr::new(used.address, 0);
                reserve(id, inner, &mut state, any, &[])?
            }
        };
        // What stands for any is this machine itself.
        let to = if contexts::is_any(peer.ip()) { used.address } else { peer.ip() };
        state.peer = Some(SocketAddr::new(to, peer.port()));
        // SAFETY: an id that was found, and that the manual pages forbid to destroy during a call.
        unsafe { settle(id, &mut state, used.clone(), port) };
        drop(state);
        // SAFETY: an id that was found, and that the manual pages forbid to destroy during a call.
        unsafe {
            post(id, Some(&used), CmEventKind::AddrResolved)?;
            complete(id)
        }
    })
}

/// The address of the device from which to reach a peer; `source`, if it is that of a device.
///
/// # Errors
/// ENODEV, or why there is no way to the peer.
pub fn device_towards(peer: IpAddr, source: Option<IpAddr>) -> Result<IpAddr, Errno> {
    Ok(towards(peer, source)?.address)
}

/// The device from which to reach a peer.
fn towards(peer: IpAddr, source: Option<IpAddr>) -> Result<Used, Errno> {
    if let Some(source) = source.filter(|source| !contexts::is_any(*source)) {
        return contexts::at(source);
    }
    if settings::is_one_device() {
        return contexts::the_only();
    }
    contexts::at(route(peer)?)
}

/// The address from which the system would send. Connecting a UDP socket sends nothing.
fn route(peer: IpAddr) -> Result<IpAddr, Errno> {
    let any: SocketAddr =
        if peer.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect((peer, 9)).inspect_err(|error| {
        uroce_ibverbs::log::explain(&format_args!("there is no way to {peer}: {error}"));
    })?;
    Ok(socket.local_addr()?.ip())
}

/// rdma_resolve_route(3). The kernel's routes decide when packets are sent, so there is one. An id looks for it once, as with
/// a kernel.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_resolve_route(
    id: *mut rdma_cm_id,
    _timeout_ms: c_int,
) -> c_int {
    call("rdma_resolve_route", || {
        let inner = object_of!(id_of(id))?;
        // SAFETY: an id that was found, and that the manual pages forbid to destroy during a call.
        unsafe {
            let used = find_route(id, inner)?;
            post(id, Some(&used), CmEventKind::RouteResolved)?;
            complete(id)
        }
    })
}
