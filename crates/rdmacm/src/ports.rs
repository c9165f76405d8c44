//! Ports of ids: which address and port an id of this process is bound to, so that no other gets them.
//!
//! The port is kept for the process as well: no other process on the address of its device can bind or listen to it. One on no
//! device in particular is kept on every device that the process may listen on.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use uroce_device::cm::{PortSpace, ServiceId};
use uroce_ibverbs::errno::Errno;
use uroce_ibverbs::open_device::OpenDevice;
use uroce_verbs_abi::rdma_cm_id;

/// Ports that are given to those who do not care which, as Linux has them.
const EPHEMERAL: std::ops::RangeInclusive<u16> = 32_768..=60_999;
/// Ports looked at for one that is free.
const DRAWS: usize = 64;

/// What an id asks for.
#[derive(Debug)]
pub(crate) struct Wish<'a> {
    pub(crate) space: PortSpace,
    /// Unspecified: every address of the family. Port 0: any that is free.
    pub(crate) address: SocketAddr,
    /// The unspecified IPv6 address does not stand for those of IPv4.
    pub(crate) only_family: bool,
    /// Others that say so too may be bound to the same.
    pub(crate) reuse: bool,
    /// The devices on which calls to the address arrive.
    pub(crate) open_devices: &'a [Arc<OpenDevice>],
}

#[derive(Debug)]
struct Bind {
    id: usize,
    address: IpAddr,
    only_family: bool,
    reuse: bool,
    /// The devices on which the port is kept from other processes.
    open_devices: Vec<Arc<OpenDevice>>,
}

impl Bind {
    fn covers(&self, address: IpAddr) -> bool {
        let same_family = self.address.is_ipv4() == address.is_ipv4();
        match self.address.is_unspecified() {
            true => same_family || self.address.is_ipv6() && !self.only_family,
            false => self.address == address,
        }
    }

    fn excludes(&self, other: &Bind) -> bool {
        let overlap = self.covers(other.address) || other.covers(self.address);
        overlap && !(self.reuse && other.reuse)
    }
}

static PORTS: LazyLock<Mutex<HashMap<ServiceId, Vec<Bind>>>> = LazyLock::new(Mutex::default);

fn lock() -> MutexGuard<'static, HashMap<ServiceId, Vec<Bind>>> {
    PORTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the id the port that it asks for.
pub(crate) fn reserve(id: *mut rdma_cm_id, wish: &Wish<'_>) -> Result<u16, Errno> {
    match wish.address.port() {
        0 => (0..DRAWS)
            .find_map(|_| take(id, wish, random_port()?).ok())
            .ok_or(Errno(libc::EADDRNOTAVAIL)),
        port => take(id, wish, port).inspect_err(|_| {
            uroce_ibverbs::log::explain(&format_args!(
                "port {port} of {} is taken",
                wish.address.ip()
            ));
        }),
    }
}

fn take(id: *mut rdma_cm_id, wish: &Wish<'_>, port: u16) -> Result<u16, Errno> {
    let service = ServiceId::new(wish.space, port);
    let bind = Bind {
        id: id.addr(),
        address: wish.address.ip(),
        only_family: wish.only_family,
        reuse: wish.reuse,
        open_devices: wish.open_devices.to_vec(),
    };
    let mut ports = lock();
    let binds = ports.entry(service).or_default();
    if binds.iter().any(|other| bind.excludes(other)) {
        return Err(Errno(libc::EADDRINUSE));
    }
    for (done, open_device) in bind.open_devices.iter().enumerate() {
        if let Err(error) = open_device.device.cm().bind(service) {
            // It is bound on all of them or on none.
            unbind(&bind.open_devices[..done], binds, service);
            return Err(error.into());
        }
    }
    binds.push(bind);
    Ok(port)
}

fn random_port() -> Option<u16> {
    let span = u32::from(EPHEMERAL.end() - EPHEMERAL.start()) + 1;
    let drawn = random().ok()? % span;
    Some(EPHEMERAL.start() + u16::try_from(drawn).ok()?)
}

/// From now on others may be bound to the same, if they say so too.
pub(crate) fn set_reuse(id: *mut rdma_cm_id, space: PortSpace, port: u16, reuse: bool) {
    let mut ports = lock();
    let binds = ports.get_mut(&ServiceId::new(space, port)).into_iter().flatten();
    binds.filter(|bind| bind.id == id.addr()).for_each(|bind| bind.reuse = reuse);
}

/// The id gives its port back.
pub(crate) fn release(id: *mut rdma_cm_id, space: PortSpace, port: u16) {
    let service = ServiceId::new(space, port);
    let mut ports = lock();
    let Some(binds) = ports.get_mut(&service) else { return };
    let (gone, left) = binds.drain(..).partition::<Vec<_>, _>(|bind| bind.id == id.addr());
    gone.iter().for_each(|bind| unbind(&bind.open_devices, &left, service));
    *binds = left;
    if binds.is_empty() {
        ports.remove(&service);
    }
}

/// Gives a port back on those devices where none of the binds that are `left` keeps it.
fn unbind(open_devices: &[Arc<OpenDevice>], left: &[Bind], service: ServiceId) {
    let is_kept = |open_device: &Arc<OpenDevice>| {
        left.iter().flat_map(|bind| &bind.open_devices).any(|kept| Arc::ptr_eq(kept, open_device))
    };
    for open_device in open_devices.iter().filter(|open_device| !is_kept(open_device)) {
        open_device.device.cm().unbind(service);
    }
}

/// A number that cannot be guessed.
pub(crate) fn random() -> Result<u32, Errno> {
    let mut random = [0u8; 4];
    // SAFETY: 4 bytes of our own.
    let got = unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0) };
    if got != random.len() as isize {
        return Err(Errno::last());
    }
    Ok(u32::from_ne_bytes(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(address: &str, only_family: bool, reuse: bool) -> Bind {
        let address = address.parse().expect("an address");
        Bind { id: 1, address, only_family, reuse, open_devices: Vec::new() }
    }

    #[test]
    fn v60_addresses_that_overlap_exclude_each_other() {
        let both = |a: &Bind, b: &Bind| {
            assert_eq!(a.excludes(b), b.excludes(a), "{a:?} {b:?}");
            a.excludes(b)
        };
        let v4 = bind("0.0.0.0", true, false);
        assert!(both(&v4, &bind("10.0.0.1", true, false)));
        assert!(both(&v4, &bind("::", false, false)));
        assert!(!both(&v4, &bind("::", true, false)));
        assert!(!both(&v4, &bind("2001:db8::1", true, false)));
        assert!(!both(&bind("10.0.0.1", true, false), &bind("10.0.0.2", true, false)));
        assert!(both(&bind("10.0.0.1", true, true), &bind("10.0.0.1", true, false)));
        assert!(!both(&bind("10.0.0.1", true, true), &bind("10.0.0.1", true, true)));
    }
}
