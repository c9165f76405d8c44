//! Binding ids to addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::slice::from_ref;
use std::sync::Arc;

use libc::{c_int, sockaddr as c_sockaddr};
use uroce_device::cm::ServiceId;
use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_ibverbs::open_device::OpenDevice;
use uroce_ibverbs::return_value::call;
use uroce_ibverbs::settings;
use uroce_verbs_abi::rdma_cm_id;

use crate::id::{Id, State, id_of, settle};
use crate::ports::{self, Wish};
use crate::{contexts, sockaddr};

/// rdma_bind_addr(3). An address that stands for any makes the port the id's on every device, and the id none of them.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_bind_addr(
    id: *mut rdma_cm_id,
    address: *mut c_sockaddr,
) -> c_int {
    call("rdma_bind_addr", || {
        // SAFETY: null, or an address of the program that is as long as its family says.
        let (inner, address) = unsafe { (id_of(id)?, sockaddr::read(address)?) };
        let mut state = inner.state();
        if state.local.is_some() {
            return Err(INVALID);
        }
        // SAFETY: an id that was found, and that the manual pages forbid to destroy during a call.
        let open_devices = unsafe { bind(id, inner, &mut state, address)? };
        // A server may tell its port to clients before it listens.
        let port = state.local.map_or(0, |local| local.port());
        let service = ServiceId::new(inner.space, port);
        open_devices.iter().for_each(|one| one.device.cm().expect_listener(service));
        Ok(())
    })
}

/// The id gets its address and port, and its device if the address is that of one. Returns the devices on which the port is
/// kept.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn bind(
    id: *mut rdma_cm_id,
    inner: &Id,
    state: &mut State,
    address: SocketAddr,
) -> Result<Vec<Arc<OpenDevice>>, Errno> {
    let used = match contexts::is_any(address.ip()) {
        true => None,
        false => Some(contexts::at(address.ip())?),
    };
    let open_devices = match &used {
        Some(used) => vec![Arc::clone(&used.open_device)],
        None => {
            let is_only_family = state.options.only_family(address.ip());
            let fitting = contexts::fitting(settings::devices(), address.ip(), is_only_family);
            let devices = fitting.into_iter().flatten().flat_map(contexts::on);
            devices.map(|used| used.open_device).collect()
        }
    };
    let port = reserve(id, inner, state, address, &open_devices)?;
    let local = SocketAddr::new(address.ip(), port);
    uroce_ibverbs::log::tell(&format_args!("bound to {local}"));
    // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
    unsafe {
        match used {
            Some(used) => settle(id, state, used, port),
            None => {
                state.local = Some(local);
                (*id).route.addr.src = sockaddr::write(local);
            }
        }
    }
    Ok(open_devices)
}

/// The id gets the device with this address, and any port. 127.0.0.1 means the device with that
/// address here, not all addresses.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn bind_to_device(id: *mut rdma_cm_id, address: IpAddr) -> Result<(), Errno> {
    // SAFETY: the object was found, and the manual pages forbid to destroy it during a call.
    let inner = unsafe { id_of(id)? };
    let mut state = inner.state();
    if state.local.is_some() {
        return Err(INVALID);
    }
    let used = contexts::at(address)?;
    let port =
        reserve(id, inner, &mut state, SocketAddr::new(address, 0), from_ref(&used.open_device))?;
    // SAFETY: an id that was found, and that the manual pages forbid to destroy during a call.
    unsafe { settle(id, &mut state, used, port) };
    Ok(())
}

/// The port of this address, or one that is free if it is 0, is the id's; no other process gets it on these
/// devices.
pub(crate) fn reserve(
    id: *mut rdma_cm_id,
    inner: &Id,
    state: &mut State,
    address: SocketAddr,
    open_devices: &[Arc<OpenDevice>],
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
        open_devices,
    };
    let port = ports::reserve(id, &wish)?;
    state.reserved = true;
    Ok(port)
}
