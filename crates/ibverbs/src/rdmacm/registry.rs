//! Which id of the program an event of the device is about.

use super::abi::rdma_cm_id;
use crate::card::Card;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use uroce_device::cm::CommId;

/// An id, and the device on which it is served.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    pub(crate) id: *mut rdma_cm_id,
    pub(crate) card: Arc<Card>,
}

// SAFETY: the pointer is only handed back to the program, or used while its id exists: an id takes
// its entries out before it goes.
unsafe impl Send for Served {}

#[derive(Debug, Default)]
struct Registry {
    /// By the cookie that the device was given.
    by_cookie: HashMap<u64, Served>,
    /// Requests bear the cookie of their listener, so what follows is found by device and name.
    by_name: HashMap<(usize, CommId), Served>,
    last: u64,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

fn lock() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name(card: &Arc<Card>, name: CommId) -> (usize, CommId) {
    (Arc::as_ptr(card).addr(), name)
}

/// A cookie for events of `id` on this device.
pub(crate) fn add(id: *mut rdma_cm_id, card: &Arc<Card>) -> u64 {
    let mut registry = lock();
    registry.last += 1;
    let cookie = registry.last;
    registry.by_cookie.insert(cookie, Served { id, card: Arc::clone(card) });
    cookie
}

/// From now on this connection is that of `id`.
pub(crate) fn add_name(id: *mut rdma_cm_id, card: &Arc<Card>, connection: CommId) {
    lock().by_name.insert(name(card, connection), Served { id, card: Arc::clone(card) });
}

/// Whose cookie this is.
pub(crate) fn by_cookie(cookie: u64) -> Option<Served> {
    lock().by_cookie.get(&cookie).cloned()
}

/// Whose connection this is.
pub(crate) fn by_name(card: &Arc<Card>, connection: CommId) -> Option<Served> {
    lock().by_name.get(&name(card, connection)).cloned()
}

/// The id goes.
pub(crate) fn forget(id: *mut rdma_cm_id) {
    let mut registry = lock();
    registry.by_cookie.retain(|_, served| served.id != id);
    registry.by_name.retain(|_, served| served.id != id);
}
