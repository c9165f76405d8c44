//! Listening for calls.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use libc::c_int;
use uroce_device::cm::ServiceId;
use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_ibverbs::object_of;
use uroce_ibverbs::return_value::call;
use uroce_ibverbs::settings;
use uroce_verbs_abi::rdma_cm_id;

use crate::bind::bind;
use crate::channel::channel_of;
use crate::contexts::{self, Used};
use crate::id::{State, id_of};
use crate::registry;

/// Calls that wait for the program to fetch them, if it does not care how many.
const BACKLOG: usize = 1024;

/// rdma_listen(3). An id that is bound to no device listens on all of its family.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int {
    call("rdma_listen", || {
        let inner = object_of!(id_of(id))?;
        let backlog = usize::try_from(backlog).ok().filter(|&n| n > 0).unwrap_or(BACKLOG);
        let mut state = inner.state();
        if !state.listens.is_empty() || state.connection.is_some() || state.peer.is_some() {
            return Err(INVALID);
        }
        if state.local.is_none() {
            let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
            // SAFETY: an id that was found, and that the manual pages forbid to destroy during a call.
            unsafe { bind(id, inner, &mut state, any)? };
        }
        let service = ServiceId::new(inner.space, state.local.map_or(0, |local| local.port()));
        // SAFETY: the object was found, and the manual pages forbid to destroy it during a call.
        let channel = unsafe { channel_of((*id).channel)? };
        for used in devices_of(&state)? {
            let cookie = registry::add(id, &inner.unacknowledged, Some(&used.open_device));
            if let Err(error) =
                used.open_device.device.cm().listen(service, backlog, &channel.events, cookie)
            {
                // It listens on all of them or on none.
                stop_listening(&mut state);
                return Err(error.into());
            }
            let (port, address) = (service.port(), used.address);
            uroce_ibverbs::log::tell(&format_args!(
                "listening for calls to port {port} of {address}"
            ));
            state.listens.push((used, service));
        }
        Ok(())
    })
}

/// Takes no more calls.
pub(crate) fn stop_listening(state: &mut State) {
    for (used, service) in state.listens.drain(..) {
        // It listened until now, so this cannot fail.
        let _ = used.open_device.device.cm().unlisten(service);
    }
}

/// The devices on which an id listens.
fn devices_of(state: &State) -> Result<Vec<Used>, Errno> {
    if let Some(used) = state.used.clone() {
        return Ok(vec![used]);
    }
    let to = state.local.ok_or(INVALID)?.ip();
    let fitting = contexts::fitting(settings::devices(), to, state.options.only_family(to));
    let may_be_none = fitting.as_ref().is_some_and(Vec::is_empty);
    let devices: Vec<Used> = fitting.into_iter().flatten().flat_map(contexts::on).collect();
    if devices.is_empty() {
        uroce_ibverbs::log::explain(&format_args!(
            "there is no device to listen on for calls to {to}"
        ));
    }
    if devices.is_empty() && !may_be_none { Err(Errno(libc::ENODEV)) } else { Ok(devices) }
}
