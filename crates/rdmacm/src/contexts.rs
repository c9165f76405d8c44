//! The contexts that ids use: one for each device, open as long as the process, as in librdmacm.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

use libc::c_int;
use uroce_device::Interface;
use uroce_ibverbs::context::ctx_of;
use uroce_ibverbs::device_list::{device_of, list_of};
use uroce_ibverbs::errno::{Errno, INVALID, made};
use uroce_ibverbs::open::ibv_open_device;
use uroce_ibverbs::open_device::OpenDevice;
use uroce_ibverbs::pd::ibv_alloc_pd;
use uroce_ibverbs::return_value::{pointer, value};
use uroce_ibverbs::settings;
use uroce_ibverbs::xrcd::open_xrcd;
use uroce_verbs_abi::{
    IBV_XRCD_INIT_ATTR_FD, IBV_XRCD_INIT_ATTR_OFLAGS, ibv_context, ibv_pd, ibv_xrcd,
    ibv_xrcd_init_attr,
};

/// A device as ids use it.
#[derive(Debug, Clone)]
pub(crate) struct Used {
    pub(crate) verbs: *mut ibv_context,
    /// For queue pairs whose program names no protection domain.
    pub(crate) pd: *mut ibv_pd,
    /// For XRC objects whose program names no domain; null until there is one, see [`xrcd`].
    xrcd: *mut ibv_xrcd,
    pub(crate) open_device: Arc<OpenDevice>,
    pub(crate) address: IpAddr,
}

// SAFETY: contexts and domains may be used by any thread.
unsafe impl Send for Used {}

static OPEN: Mutex<Vec<Used>> = Mutex::new(Vec::new());

/// The device with this address, opened if it is not yet.
pub(crate) fn at(address: IpAddr) -> Result<Used, Errno> {
    if let Some(used) = open_at(address).filter(|_| is_local(address)) {
        return Ok(used);
    }
    let interface = uroce_device::interface_of(address).filter(is_listed);
    on(interface.ok_or_else(|| {
        uroce_ibverbs::log::explain(&format_args!(
            "{address} is not the address of a device that this program may use"
        ));
        Errno(libc::ENODEV)
    })?)
}

/// The device with this address, if ids use it. The system is not asked for all its interfaces, which takes longer than to connect.
fn open_at(address: IpAddr) -> Option<Used> {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_it = |used: &&Used| used.address == address && used.open_device.device.is_here();
    open.iter().find(is_it).cloned()
}

/// This machine still has the address.
fn is_local(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// The device that ids use, where the program shall see one only.
pub(crate) fn the_only() -> Result<Used, Errno> {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = open.iter().find(|used| used.open_device.device.is_here()).cloned();
    drop(open);
    if let Some(used) = known.filter(|used| is_local(used.address)) {
        return Ok(used);
    }
    on(settings::devices().pop().ok_or(Errno(libc::ENODEV))?)
}

/// The address stands for any: it is unspecified, or that of the loopback interface, which a kernel takes for any, too. Where
/// the only device has that address, it is meant.
pub(crate) fn is_any(address: IpAddr) -> bool {
    let home = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    address.is_unspecified() || home.contains(&address) && !is_the_only_device(address)
}

fn is_the_only_device(address: IpAddr) -> bool {
    settings::is_one_device() && settings::devices().iter().all(|device| device.address == address)
}

/// The devices that ids use, unless this thread is just about to open one.
pub(crate) fn open_devices_unless_busy() -> Vec<Arc<OpenDevice>> {
    OPEN.try_lock().map_or_else(
        |_| Vec::new(),
        |open| open.iter().map(|used| Arc::clone(&used.open_device)).collect(),
    )
}

/// UROCE_DEVICE may have left it out.
fn is_listed(interface: &Interface) -> bool {
    let is_it = |listed: &Interface| listed.address == interface.address;
    !settings::is_one_device() || settings::devices().iter().any(is_it)
}

/// The device on this interface, opened if it is not yet.
pub(crate) fn on(interface: Interface) -> Result<Used, Errno> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let address = interface.address;
    open.retain(|used| used.open_device.device.is_here());
    if let Some(used) = open.iter().find(|used| used.address == address) {
        return Ok(used.clone());
    }
    // SAFETY: a device that lives for ever.
    let verbs = unsafe { ibv_open_device(device_of(interface)) };
    // SAFETY: null, or a context.
    let open_device = unsafe { ctx_of(verbs) }?.open_device()?;
    // SAFETY: a context.
    let pd = made(unsafe { ibv_alloc_pd(verbs) })?;
    let used = Used { verbs, pd, xrcd: null_mut(), open_device, address };
    open.push(used.clone());
    Ok(used)
}

/// The XRC domain of a device that is in use; it stays open as the context does.
pub(crate) fn xrcd(verbs: *mut ibv_context) -> Result<*mut ibv_xrcd, Errno> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let used = open.iter_mut().find(|used| used.verbs == verbs).ok_or(INVALID)?;
    if used.xrcd.is_null() {
        let mut attr = ibv_xrcd_init_attr {
            comp_mask: IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
            fd: -1,
            oflags: libc::O_CREAT,
        };
        // SAFETY: a context that stays open, and attributes as the manual page wants them.
        used.xrcd = unsafe { open_xrcd(verbs, &raw mut attr) };
    }
    made(used.xrcd)
}

/// rdma_get_devices(3): the contexts that ids can use.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_get_devices(count: *mut c_int) -> *mut *mut ibv_context {
    pointer(|| {
        let all = settings::devices().into_iter().flat_map(on);
        let contexts: Vec<_> = all.map(|used| used.verbs).collect();
        // SAFETY: null, or an int of the program.
        unsafe { list_of(&contexts, count) }
    })
}

/// rdma_free_devices(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_free_devices(list: *mut *mut ibv_context) {
    // SAFETY: null, or a list that came from calloc.
    value((), || unsafe { libc::free(list.cast()) });
}

/// Those of `devices` on which calls to `to` arrive; `None` when there are no devices at all.
///
/// A server that listens on either family need not care that this host has devices of the other one only: as in a kernel,
/// it then listens on none.
pub(crate) fn fitting(
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
