//! The handle of an open device: every verb is a method of [`Device`].

mod cm;
mod cm_move;
mod cm_only;
mod completion;
mod memory;
mod multicast;
mod open;
mod queue_pair;
mod routing;
mod shared_receive;
mod xrc;

use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

pub use queue_pair::QpRequest;
use uroce_cm::PortCounters;
use uroce_datapath::{Caps, FaultCounters};
use uroce_host::fork;
use uroce_transport::AsyncEvent;
use uroce_wire::{DropReason, Gid, Mtu};

use crate::counters;
use crate::driver::Driver;
use crate::engines::Engines;
use crate::engines::shared::Shared;
use crate::event_channel::{EventChannel, EventOwner};
use crate::gid::gid_at;
use crate::interface::Interface;
use crate::inventory;
use crate::limits::DeviceLimits;
use crate::local::unregister;
use crate::port::{DeviceAttr, PortAttr, device_attr, port_attr};
use crate::report::Reporter;
use crate::resource::Resource;

/// An open device: a software NIC in this process. A clone is the same device; with the last clone
/// the progress threads end and the sockets close.
///
/// All methods take `&self` and may be called from any thread; the lock of an engine orders those that
/// concern it. Objects are
/// plain numbers here, without lifetimes: `uroce-verbs` puts types around them, and a C interface
/// can use them as handles.
#[derive(Debug, Clone)]
pub struct Device(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Dropped first, and then the drivers: the threads must end before the engine goes.
    reporter: Option<Reporter>,
    drivers: Vec<Driver>,
    /// The first engine, and in most devices the only one.
    shared: Arc<Shared>,
    /// All of them, where there are several.
    several: Option<Arc<Engines>>,
    about: Resource,
    /// What the rules of its faults have done.
    faults: Option<Arc<FaultCounters>>,
    interface: Interface,
    active_mtu: Mtu,
    guid: u64,
    caps: Caps,
    datapath_choice_note: String,
    limits: DeviceLimits,
    /// The process that opened it ([`fork::generation`]).
    generation: u32,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.reporter = None;
        self.drivers.clear();
        if self.generation != fork::generation() {
            return self.leave_to_parent();
        }
        // No other thread polls these engines any more, so the address is free when the device is
        // gone.
        let engines = self.several.as_ref().map_or(slice::from_ref(&self.shared), |all| all.all());
        engines.iter().for_each(|shared| unregister(shared));
    }
}

impl Inner {
    /// In a child process after fork(2): its copies must not be dropped as usual, because that
    /// would affect the parent (a capture is written twice, rings are shared), and locks may be
    /// held for ever.
    fn leave_to_parent(&self) {
        let engines = self.several.as_ref().map_or(slice::from_ref(&self.shared), |all| all.all());
        engines.iter().for_each(|shared| std::mem::forget(Arc::clone(shared)));
    }
}

impl Device {
    /// Name of the device: `uroce0`, ...
    pub fn name(&self) -> &str {
        &self.0.interface.name
    }

    /// What the rules of its faults have done so far, if it has any. Lives on when the device is closed.
    pub fn fault_counters(&self) -> Option<Arc<FaultCounters>> {
        self.0.faults.clone()
    }

    /// The network interface that has the device's address.
    pub fn netdev(&self) -> &str {
        &self.0.interface.netdev
    }

    /// The interface as it was when the device was opened.
    pub fn interface(&self) -> &Interface {
        &self.0.interface
    }

    /// The device's address.
    pub fn address(&self) -> IpAddr {
        self.0.interface.address
    }

    /// EUI-64 identity (`node_guid`).
    pub fn guid(&self) -> u64 {
        self.0.guid
    }

    /// What the datapath can do.
    pub fn datapath_caps(&self) -> &Caps {
        &self.0.caps
    }

    /// Why the device uses its datapath: one sentence. [`DatapathChoice::Auto`](crate::DatapathChoice::Auto) is UDP, and the
    /// sentence says why not another one.
    pub fn datapath_choice_note(&self) -> &str {
        &self.0.datapath_choice_note
    }

    /// False in a process that was forked after the device was opened. There it must not be used: its threads and
    /// sockets are the parent's, and its locks may never be released. The last handle may be dropped.
    pub fn is_here(&self) -> bool {
        self.0.generation == fork::generation()
    }

    /// True if a progress thread answers peers between calls.
    pub fn has_progress_thread(&self) -> bool {
        !self.0.drivers.is_empty()
    }

    /// `ibv_query_device`.
    pub fn attr(&self) -> DeviceAttr {
        device_attr(self.0.guid, self.0.limits, self.engines().len() as u32)
    }

    /// `ibv_query_port` for port 1. The state is that of the netdev at this moment.
    pub fn port_attr(&self) -> PortAttr {
        port_attr(&self.0.interface, self.0.active_mtu)
    }

    /// `ibv_query_gid`: entries 0 and 1 are the device's address, RoCE v2; there are no others.
    pub fn gid(&self, index: u32) -> Option<Gid> {
        gid_at(self.address(), index)
    }

    /// Every counter with its name, over all engines: rxe's names first, then ours, then one `drop_...` for each
    /// reason a packet can be dropped for.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut parts = self.engines().iter().map(|shared| counters::snapshot(&shared.lock()));
        let mut all = parts.next().expect("a device has an engine");
        parts.for_each(|more| counters::add(&mut all, &more));
        all
    }

    /// What network management is told of the port, over all engines.
    pub fn port_counters(&self) -> PortCounters {
        let parts = self.engines().iter().map(|shared| counters::port_counters(&shared.lock()));
        parts.reduce(counters::port_sum).unwrap_or_default()
    }

    /// All objects of the device: itself and its counters, then queue pairs, completion queues, ... as
    /// other processes see them with [`device_reports`](crate::device_reports).
    pub fn resources(&self) -> Vec<Resource> {
        inventory::list(self.engines(), &self.0.about, self.0.faults.as_deref())
    }

    /// What the [`timestamp`](uroce_transport::Wc::timestamp) of a completion is on the system's clock
    /// (CLOCK_MONOTONIC, nanoseconds). It is the time at which the packet that completed the work request was
    /// taken from the datapath, where it may have waited.
    pub fn monotonic_ns(&self, timestamp: u64) -> u64 {
        self.0.shared.clock.monotonic_ns(timestamp)
    }

    /// True if other processes can ask what the device has.
    pub fn is_reported(&self) -> bool {
        self.0.reporter.is_some()
    }

    /// Packets dropped so far, by reason.
    pub fn drops(&self) -> Vec<(DropReason, u64)> {
        let mut all: Vec<_> = self.0.shared.lock().nic.tables.counters.drops().collect();
        for shared in &self.engines()[1..] {
            let engine = shared.lock();
            let more = engine.nic.tables.counters.drops();
            all.iter_mut().zip(more).for_each(|((_, count), (_, more))| *count += more);
        }
        all
    }

    /// The last thing that went wrong on the way out (an MTU too small, no route), in words.
    pub fn datapath_problem(&self) -> Option<String> {
        self.engines().iter().find_map(|shared| shared.lock().datapath.last_problem())
    }

    /// One poll iteration of each engine: receive, timers, send. For tests and for applications
    /// that have no progress thread. True if there was something to do.
    pub fn drive(&self) -> bool {
        self.engines().iter().fold(false, |busy, shared| shared.lock().poll_once() | busy)
    }

    /// From now on the events of `owner` go to `channel`, with `cookie`, and no longer to
    /// [`get_async_event`](Self::get_async_event). It ends when the object is destroyed. For users that
    /// share a device and must not see each other's events.
    pub fn own_events(&self, owner: EventOwner, channel: &EventChannel, cookie: u64) {
        self.0.shared.events.owners.insert(owner, channel, cookie);
    }

    /// From now on `channel` hears of the port, too (`PortErr`, `PortActive`, `GidChange`), as
    /// [`get_async_event`](Self::get_async_event) does; it ends with the channel.
    pub fn send_port_events(&self, channel: &EventChannel) {
        self.0.shared.events.subscribers.insert(channel);
    }

    /// [`drive`](Self::drive), unless another call is in progress, perhaps one that this call has
    /// interrupted: for exit handlers.
    pub fn drive_unless_busy(&self) -> bool {
        let poll = |shared: &Arc<Shared>| {
            let Some(mut engine) = shared.try_lock() else { return false };
            let busy = engine.poll_once();
            // These operations would wait for the lock of another engine, which may never be
            // released.
            engine.nic.cross_engine_ops.clear();
            engine.wake_peers();
            busy
        };
        self.engines().iter().fold(false, |busy, shared| poll(shared) | busy)
    }

    /// The next asynchronous event (`ibv_get_async_event`); `None` as `timeout` waits for ever.
    ///
    /// # Errors
    /// What poll(2) says.
    pub fn get_async_event(&self, timeout: Option<Duration>) -> io::Result<Option<AsyncEvent>> {
        self.0.shared.events.unowned.wait(timeout)
    }

    /// The next asynchronous event if one waits.
    pub fn try_async_event(&self) -> Option<AsyncEvent> {
        self.0.shared.events.unowned.pop()
    }

    /// Readable while asynchronous events wait. For poll(2) only, not for reading.
    pub fn async_fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.0.shared.events.unowned.as_fd()
    }
}

#[cfg(test)]
mod tests;
