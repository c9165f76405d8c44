//! Listening for calls.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use libc::c_int;
use uroce_device::Interface;
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

/// Calls that wait for an answer, if the program does not care.
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
    let fitting = fitting(settings::devices(), to, state.options.only_family(to));
    let may_be_none = fitting.as_ref().is_some_and(Vec::is_empty);
    let devices: Vec<Used> = fitting.into_iter().flatten().flat_map(contexts::on).collect();
    if devices.is_empty() {
        uroce_ibverbs::log::explain(&format_args!(
            "there is no device to listen on for calls to {to}"
        ));
    }
    if devices.is_empty() && !may_be_none { Err(Errno(libc::ENODEV)) } else { Ok(devices) }
}

/// Those of `devices` on which calls to `to` arrive; `None` when there are no devices at all.
///
/// A server that listens on either family need not care that this host has devices of the other one only: as in a kernel,
/// it then listens on none.
fn fitting(
    mut devices: Vec<Interface>,
    to: IpAddr,
    is_only_family: bool,
) -> Option<Vec<Interface>> {
    if devices.is_empty() {
        return None;
    }
    devices.retain(|device| !is_only_family || device.address.is_ipv4() == to.is_ipv4());
    Some(devices)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn v62_a_family_without_devices_is_listened_on_all_the_same() {
        let device = Interface {
            name: "uroce0".to_owned(),
            netdev: "eth0".to_owned(),
            address: Ipv4Addr::LOCALHOST.into(),
            mac: [0; 6],
            mtu: 1500,
            up: true,
            running: true,
            loopback: false,
            bits_per_second: None,
        };
        let (v4, v6) = (Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into());
        let fits =
            |to, is_only| fitting(vec![device.clone()], to, is_only).map(|found| found.len());
        assert_eq!((fits(v4, true), fits(v6, true), fits(v6, false)), (Some(1), Some(0), Some(1)));
        assert!(fitting(Vec::new(), v4, true).is_none(), "without any device nobody can call");
    }
}
