//! The handle of an open device: every verb is a method of [`Device`], or of what it lends.

mod cm;
mod completion;
mod memory;
mod multicast;
mod open;
mod queue_pair;
mod shared_receive;
mod xrc;

use std::net::IpAddr;
use std::sync::Arc;

pub use cm::ConnectionManager;
pub use completion::CqAttr;
pub use memory::DeviceMemory;
pub use open::datapath_for_service;
use uroce_cm::PortCounters;
use uroce_datapath::{Caps, FaultCounters};
use uroce_host::fork;
use uroce_wire::{DropReason, Mtu};
pub use xrc::XrcDomains;

use crate::async_events::AsyncEvents;
use crate::counters;
use crate::driver::Driver;
use crate::engine::Engine;
use crate::engines::{Engines, Shared};
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
    engines: Engines,
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
        for shared in self.engines.all() {
            let endpoint = shared.lock().local.endpoint().cloned();
            endpoint.iter().for_each(unregister);
        }
    }
}

impl Inner {
    /// In a child process after fork(2): its copies must not be dropped as usual, because that
    /// would affect the parent (a capture is written twice, rings are shared), and locks may be
    /// held for ever.
    fn leave_to_parent(&self) {
        self.engines.all().iter().for_each(|shared| std::mem::forget(Arc::clone(shared)));
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

    /// True while the progress threads sleep until a packet, a wake-up or a timer comes; false
    /// without such threads.
    pub fn is_asleep(&self) -> bool {
        let sleeps = |shared: &Arc<Shared>| shared.lock().thread_sleeps_until != 0;
        self.has_progress_thread() && self.0.engines.all().iter().all(sleeps)
    }

    /// `ibv_query_device`.
    pub fn attr(&self) -> DeviceAttr {
        device_attr(self.0.guid, self.0.limits, self.engine_count() as u32)
    }

    /// `ibv_query_port` for port 1. The state is that of the netdev at this moment.
    pub fn port_attr(&self) -> PortAttr {
        port_attr(&self.0.interface, self.0.active_mtu)
    }

    /// The largest path MTU of the device, as it was when the device was opened. Unlike [`port_attr`](Device::port_attr) it does not ask the
    /// system.
    pub fn active_mtu(&self) -> Mtu {
        self.0.active_mtu
    }

    /// Every counter with its name, over all engines: rxe's names first, then ours, then one `drop_...` for each
    /// reason a packet can be dropped for.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut parts = self.0.engines.all().iter().map(|shared| shared.lock().counters());
        let mut all = parts.next().expect("a device has an engine");
        parts.for_each(|more| counters::add(&mut all, &more));
        all
    }

    /// What network management is told of the port, over all engines.
    pub fn port_counters(&self) -> PortCounters {
        let parts = self.0.engines.all().iter().map(|shared| shared.lock().port_counters());
        parts.reduce(counters::port_sum).unwrap_or_default()
    }

    /// All objects of the device: itself and its counters, then queue pairs, completion queues, ... as
    /// other processes see them with [`device_reports`](crate::device_reports).
    pub fn resources(&self) -> Vec<Resource> {
        inventory::list(self.0.engines.all(), &self.0.about, self.0.faults.as_deref())
    }

    /// What the [`timestamp`](uroce_transport::Wc::timestamp) of a completion is on the system's clock
    /// (CLOCK_MONOTONIC, nanoseconds). It is the time at which the packet that completed the work request was
    /// taken from the datapath, where it may have waited.
    pub fn monotonic_ns(&self, timestamp: u64) -> u64 {
        self.0.engines.first().clock.monotonic_ns(timestamp)
    }

    /// True if other processes can ask what the device has.
    pub fn is_reported(&self) -> bool {
        self.0.reporter.is_some()
    }

    /// Packets dropped so far, by reason.
    pub fn drops(&self) -> Vec<(DropReason, u64)> {
        let mut all: Vec<_> = self.0.engines.first().lock().nic.tables.counters.drops().collect();
        for shared in &self.0.engines.all()[1..] {
            let engine = shared.lock();
            let more = engine.nic.tables.counters.drops();
            all.iter_mut().zip(more).for_each(|((_, count), (_, more))| *count += more);
        }
        all
    }

    /// The last thing that went wrong on the way out (an MTU too small, no route), in words.
    pub fn datapath_problem(&self) -> Option<String> {
        self.0.engines.all().iter().find_map(|shared| shared.lock().datapath.last_problem())
    }

    /// When [`drive`](Self::drive) is to be called although no packet arrives, in nanoseconds of the device's
    /// clock; it may have passed. `None`: only a packet or a call gives the device something to do.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.0.engines.all().iter().filter_map(|shared| shared.look(Engine::next_deadline)).min()
    }

    /// One poll iteration of each engine: receive, timers, send. For tests and for applications
    /// that have no progress thread. True if there was something to do.
    pub fn drive(&self) -> bool {
        self.0.engines.all().iter().fold(false, |busy, shared| shared.lock().poll_once() | busy)
    }

    /// For exit handlers, which may have interrupted any other call: sends what all queue pairs would answer, and receives
    /// meanwhile, in the engines that no other call holds.
    pub fn drive_at_exit(&self) {
        for shared in self.0.engines.all() {
            let Some(mut engine) = shared.try_lock() else { continue };
            engine.send_last_answers();
            engine.leave_cross_engine_ops();
            engine.wake_peers();
        }
    }

    /// How many engines the device has: the number of its completion vectors.
    pub fn engine_count(&self) -> usize {
        self.0.engines.all().len()
    }

    /// Its asynchronous events.
    pub fn async_events(&self) -> &AsyncEvents {
        &self.0.engines.first().events
    }

    /// Protection domains, memory regions and memory windows.
    pub fn memory(&self) -> DeviceMemory<'_> {
        DeviceMemory::new(&self.0.engines)
    }

    /// Connections by address and port.
    pub fn cm(&self) -> ConnectionManager<'_> {
        ConnectionManager::new(&self.0.engines)
    }

    /// Extended reliable connections.
    pub fn xrc(&self) -> XrcDomains<'_> {
        XrcDomains::new(&self.0.engines, &self.0.limits)
    }
}

#[cfg(test)]
mod tests;
