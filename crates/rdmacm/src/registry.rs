//! Which id of the program an event of the device is about.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use uroce_device::cm::CommId;
use uroce_ibverbs::open_device::OpenDevice;
use uroce_ibverbs::unacknowledged::Unacknowledged;
use uroce_verbs_abi::rdma_cm_id;

/// An id, and the device on which it is served; none for an event of the program's own.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    pub(crate) id: *mut rdma_cm_id,
    pub(crate) open_device: Option<Arc<OpenDevice>>,
    /// Counts the events of the id that the program has not acknowledged.
    unacknowledged: Arc<Unacknowledged>,
}

impl Served {
    fn new(
        id: *mut rdma_cm_id,
        events: &Arc<Unacknowledged>,
        open_device: Option<&Arc<OpenDevice>>,
    ) -> Served {
        Served { id, open_device: open_device.cloned(), unacknowledged: Arc::clone(events) }
    }
}

/// An id that is not destroyed meanwhile: it has one more event that is not acknowledged.
#[derive(Debug)]
pub(crate) struct Counted {
    served: Served,
    is_given: bool,
}

impl Counted {
    /// Called with the registry locked: `rdma_destroy_id` takes the id out first, and waits then.
    fn new(served: &Served) -> Counted {
        served.unacknowledged.add();
        Counted { served: served.clone(), is_given: false }
    }

    /// The id stays until the event is acknowledged that the program gets; the result counts it.
    pub(crate) fn give(mut self) -> Arc<Unacknowledged> {
        self.is_given = true;
        Arc::clone(&self.served.unacknowledged)
    }
}

impl Deref for Counted {
    type Target = Served;

    fn deref(&self) -> &Served {
        &self.served
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.is_given {
            return;
        }
        self.served.unacknowledged.acknowledge(1);
    }
}

// SAFETY: the pointer is only handed back to the program, or used while its id exists: an id takes
// its entries out before it goes.
unsafe impl Send for Served {}

#[derive(Debug, Default)]
struct Registry {
    /// By the cookie that the device was given.
    by_cookie: HashMap<u64, Served>,
    /// By the address of an id: the cookie for each device on which it is served.
    cookies: HashMap<usize, Vec<(usize, u64)>>,
    /// Requests bear the cookie of their listener, so what follows is found by device and name.
    by_name: HashMap<(usize, CommId), Served>,
    /// Devices by their place in this list, which cookies tell; one that never was stands for none.
    devices: Vec<Weak<OpenDevice>>,
    last: u64,
}

/// Bits of a cookie that count; those above are the place of the device. So events of a connection are known by its name after
/// the listener that it came to, whose cookie they bear, has gone.
const COUNT_BITS: u32 = 48;

impl Registry {
    /// A cookie that was not given yet, for events of this device.
    fn next_cookie(&mut self, device: Weak<OpenDevice>) -> u64 {
        let known = self.devices.iter().position(|known| known.ptr_eq(&device));
        let place = known.unwrap_or_else(|| {
            self.devices.push(device);
            self.devices.len() - 1
        });
        self.last += 1;
        (place as u64) << COUNT_BITS | self.last
    }

    fn device_of(&self, cookie: u64) -> Option<&Weak<OpenDevice>> {
        self.devices.get(usize::try_from(cookie >> COUNT_BITS).ok()?)
    }
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

fn lock() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name(open_device: &Arc<OpenDevice>, name: CommId) -> (usize, CommId) {
    (Arc::as_ptr(open_device).addr(), name)
}

/// The cookie for events of `id`, on this device if they come from one: always the same, however many there are.
pub(crate) fn add(
    id: *mut rdma_cm_id,
    events: &Arc<Unacknowledged>,
    open_device: Option<&Arc<OpenDevice>>,
) -> u64 {
    let mut registry = lock();
    let device = open_device.map_or(0, |device| Arc::as_ptr(device).addr());
    let known = registry.cookies.get(&id.addr());
    let known = known.and_then(|of_id| of_id.iter().find(|(of, _)| *of == device));
    if let Some((_, cookie)) = known {
        return *cookie;
    }
    let cookie = registry.next_cookie(open_device.map(Arc::downgrade).unwrap_or_default());
    registry.cookies.entry(id.addr()).or_default().push((device, cookie));
    registry.by_cookie.insert(cookie, Served::new(id, events, open_device));
    cookie
}

/// From now on this connection is that of `id`.
pub(crate) fn add_name(
    id: *mut rdma_cm_id,
    events: &Arc<Unacknowledged>,
    open_device: &Arc<OpenDevice>,
    connection: CommId,
) {
    lock()
        .by_name
        .insert(name(open_device, connection), Served::new(id, events, Some(open_device)));
}

/// Whose cookie this is.
pub(crate) fn by_cookie(cookie: u64) -> Option<Counted> {
    lock().by_cookie.get(&cookie).map(Counted::new)
}

/// The device of this cookie, also when the id has gone that the cookie was made for. `None` in a child process, which has
/// only a copy of its parent's device.
pub(crate) fn device_of(cookie: u64) -> Option<Arc<OpenDevice>> {
    let open_device = lock().device_of(cookie)?.upgrade();
    open_device.filter(|open_device| open_device.device.is_here())
}

/// Whose connection this is, on the device of this cookie.
pub(crate) fn by_name(cookie: u64, connection: CommId) -> Option<Counted> {
    let registry = lock();
    let device = registry.device_of(cookie)?.as_ptr().addr();
    registry.by_name.get(&(device, connection)).map(Counted::new)
}

/// Whether there are ids on devices that only the parent of this process has.
pub(crate) fn is_of_parent() -> bool {
    let is_gone = |device: &Arc<OpenDevice>| !device.device.is_here();
    lock().by_cookie.values().any(|served| served.open_device.as_ref().is_some_and(is_gone))
}

/// No id has a connection, a listener or a request on a device.
pub(crate) fn is_empty() -> bool {
    let registry = lock();
    registry.by_cookie.is_empty() && registry.by_name.is_empty()
}

/// The id goes.
pub(crate) fn forget(id: *mut rdma_cm_id) {
    let mut registry = lock();
    for (_, cookie) in registry.cookies.remove(&id.addr()).unwrap_or_default() {
        registry.by_cookie.remove(&cookie);
    }
    registry.by_name.retain(|_, served| served.id != id);
}

#[cfg(test)]
mod tests {
    use std::ptr::{null_mut, with_exposed_provenance_mut};
    use std::time::Duration;

    use uroce_verbs_abi::RDMA_CM_EVENT_USER;

    use super::*;
    use crate::bind::rdma_bind_addr;
    use crate::channel::{
        rdma_ack_cm_event, rdma_create_event_channel, rdma_destroy_event_channel,
        rdma_get_cm_event, rdma_write_cm_event,
    };
    use crate::create::rdma_create_id;
    use crate::destroy::rdma_destroy_id;
    use crate::id::id_of;
    use crate::sockaddr;

    const TCP: libc::c_int = 0x106;

    #[test]
    fn v2_an_id_stays_until_what_was_fetched_of_it_is_acknowledged() {
        let (channel, mut id) = (rdma_create_event_channel(), null_mut());
        let mut at = sockaddr::write("127.47.94.40:0".parse().expect("an address"));
        // SAFETY: as the manual pages want it.
        let (open_device, events) = unsafe {
            assert_eq!(rdma_create_id(channel, &raw mut id, null_mut(), TCP), 0);
            assert_eq!(rdma_bind_addr(id, (&raw mut at).cast()), 0);
            let inner = id_of(id).expect("alive");
            let open_device = inner.state().used.clone().expect("it is bound").open_device;
            (open_device, Arc::clone(&inner.unacknowledged))
        };
        let cookie = add(id, &events, Some(&open_device));
        let fetched = by_cookie(cookie).expect("the id is there");
        let id = id.expose_provenance();
        // SAFETY: it is not used any more, but for the event.
        let destroy = move || unsafe { rdma_destroy_id(with_exposed_provenance_mut(id)) };
        let destroyer = std::thread::spawn(destroy);
        while by_cookie(cookie).is_some() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(50));
        assert!(!destroyer.is_finished(), "the id went before its event");
        drop(fetched);
        assert_eq!(destroyer.join().expect("no panic"), 0);
        // SAFETY: it has no id any more.
        unsafe { rdma_destroy_event_channel(channel) };
    }

    #[test]
    fn an_id_has_one_cookie_for_each_device_however_many_events_it_is_told() {
        let (channel, mut id) = (rdma_create_event_channel(), null_mut());
        let mut at = sockaddr::write("127.47.94.41:0".parse().expect("an address"));
        // SAFETY: as the manual pages want it.
        unsafe {
            assert_eq!(rdma_create_id(channel, &raw mut id, null_mut(), TCP), 0);
            let told = || {
                for _ in 0..10 {
                    let mut event = null_mut();
                    assert_eq!(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, 0, 0), 0);
                    assert_eq!(rdma_get_cm_event(channel, &raw mut event), 0);
                    assert_eq!(rdma_ack_cm_event(event), 0);
                }
                let registry = lock();
                registry.by_cookie.values().filter(|served| served.id == id).count()
            };
            assert_eq!(told(), 1, "it has no device");
            assert_eq!(rdma_bind_addr(id, (&raw mut at).cast()), 0);
            assert_eq!(told(), 2, "one without, and one with its device");
            // Another test may have an id at that address soon.
            let cookies = lock().cookies[&id.addr()].clone();
            assert_eq!(rdma_destroy_id(id), 0);
            let left = |(_, cookie): &(usize, u64)| lock().by_cookie.contains_key(cookie);
            assert!(cookies.len() == 2 && !cookies.iter().any(left), "nothing of it is left");
            rdma_destroy_event_channel(channel);
        }
    }
}
