//! A switch inside the process: packets pass between threads without the kernel.

mod endpoint;
mod inbox;
#[cfg(all(test, loom))]
mod loom_models;
mod ring;
mod sender;
mod unwoken;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use self::endpoint::LoopbackDatapath;
use self::inbox::Inbox;
pub use self::unwoken::LoopbackEndpoint;

/// Link MTU of a fabric unless told otherwise, as that of Linux's `lo`.
const DEFAULT_MTU: usize = 65_536;

/// Why an address could not be attached to a fabric.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The fabric has an endpoint with that address.
    #[error(
        "{0} is already attached to this in-process fabric: push each device an address of its own"
    )]
    AddressInUse(SocketAddr),
    /// The wake-up descriptor could not be made.
    #[error("no descriptor for the in-process fabric: {0} (raise the limit with `ulimit -n`)")]
    Descriptor(#[from] io::Error),
}

/// Endpoints and multicast groups by address.
#[derive(Debug, Default)]
struct Directory {
    endpoints: HashMap<SocketAddr, LoopbackEndpoint>,
    groups: HashMap<IpAddr, Vec<SocketAddr>>,
}

/// An in-process switch. Clones are the same switch.
#[derive(Debug, Clone)]
pub struct LoopbackFabric {
    directory: Arc<RwLock<Directory>>,
    mtu: usize,
    sealed: bool,
}

impl Default for LoopbackFabric {
    fn default() -> Self {
        Self::new()
    }
}

impl LoopbackFabric {
    /// A switch without endpoints, with an MTU of 65,536 bytes.
    #[must_use]
    pub fn new() -> Self {
        Self::with_mtu(DEFAULT_MTU)
    }

    /// A switch whose links have an MTU of `mtu` bytes, IP header included.
    #[must_use]
    pub fn with_mtu(mtu: usize) -> Self {
        Self { directory: Arc::default(), mtu, sealed: true }
    }

    /// A switch whose packets carry no ICRC: nothing can damage them on the way, and without it they
    /// are faster. A capture of them shows four zero bytes in its place.
    #[must_use]
    pub fn without_icrc() -> Self {
        Self { sealed: false, ..Self::new() }
    }

    /// Adds an endpoint.
    ///
    /// # Errors
    ///
    /// [`AttachError`] when the address is taken or the process has no free descriptor.
    pub fn attach(&self, addr: SocketAddr) -> Result<LoopbackDatapath, AttachError> {
        let endpoint = LoopbackEndpoint(Arc::new(Inbox::new()?));
        let mut directory = self.write();
        if directory.endpoints.contains_key(&addr) {
            return Err(AttachError::AddressInUse(addr));
        }
        directory.endpoints.insert(addr, endpoint.clone());
        drop(directory);
        Ok(LoopbackDatapath::new(self.clone(), addr, endpoint))
    }

    fn find(&self, addr: &SocketAddr) -> Option<LoopbackEndpoint> {
        self.read().endpoints.get(addr).cloned()
    }

    fn read(&self) -> RwLockReadGuard<'_, Directory> {
        self.directory.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Directory> {
        self.directory.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
