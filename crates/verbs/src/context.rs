//! An open device.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use uroce_device::datapath::{Caps, FaultCounters};
use uroce_device::transport::AsyncEvent;
use uroce_device::wire::{DropReason, Gid};
use uroce_device::{Device, DeviceAttr, PortAttr};

use crate::wait::wait;

/// An open device (`ibv_context`). A clone is the same device.
///
/// The device closes when the last clone and the last object made from it are gone.
///
/// ```
/// use uroce_verbs::Context;
///
/// let context = Context::builder().address([127, 0, 0, 9]).open()?;
/// println!("{} on {}: MTU {}", context.name(), context.netdev(), context.query_port().active_mtu);
/// for (reason, packets) in context.drops().into_iter().filter(|(_, packets)| *packets > 0) {
///     println!("{packets} packets dropped: {}", reason.explain());
/// }
/// # Ok::<(), uroce_verbs::OpenError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

/// Its address tells two contexts apart.
#[derive(Debug)]
struct Inner {
    device: Device,
}

impl Context {
    pub(crate) fn new(device: Device) -> Context {
        Context { inner: Arc::new(Inner { device }) }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.inner.device
    }

    /// True if both are the same open device.
    pub(crate) fn is(&self, other: &Context) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Name of the device: `uroce0`, ...
    pub fn name(&self) -> &str {
        self.device().name()
    }

    /// The network interface that has the device's address; `fabric` on an in-process switch.
    pub fn netdev(&self) -> &str {
        self.device().netdev()
    }

    /// The device's address, which is also its GID.
    pub fn address(&self) -> IpAddr {
        self.device().address()
    }

    /// The EUI-64 by which the device is known (`node_guid`), in host order.
    pub fn guid(&self) -> u64 {
        self.device().guid()
    }

    /// Attributes and limits of the device (`ibv_query_device`).
    pub fn query_device(&self) -> DeviceAttr {
        self.device().attr()
    }

    /// State and MTU of port 1, the only one (`ibv_query_port`).
    pub fn query_port(&self) -> PortAttr {
        self.device().port_attr()
    }

    /// An entry of the GID table (`ibv_query_gid`): 0 and 1 are the device's address, RoCE v2; `None` beyond.
    pub fn query_gid(&self, index: u32) -> Option<Gid> {
        self.device().interface().gid(index)
    }

    /// What the packets travel through, and what that can do.
    pub fn datapath_caps(&self) -> &Caps {
        self.device().datapath_caps()
    }

    /// Why the device uses its datapath: one sentence. [`DatapathChoice::Auto`](crate::DatapathChoice::Auto) is UDP, and the
    /// sentence says why not another one.
    pub fn datapath_choice_note(&self) -> &str {
        self.device().datapath_choice_note()
    }

    /// Sleeps until an asynchronous event comes (`ibv_get_async_event`); `None` as `timeout` waits for ever, zero only
    /// looks. `Ok(None)`: the time is over. Events need no acknowledgement.
    ///
    /// # Errors
    /// What poll(2) says; there is no known reason other than lack of kernel memory.
    pub fn next_async_event(&self, timeout: Option<Duration>) -> io::Result<Option<AsyncEvent>> {
        wait(self.device(), timeout, |timeout| self.device().async_events().next_event(timeout))
    }

    /// The next asynchronous event if one waits. Never sleeps.
    pub fn try_async_event(&self) -> Option<AsyncEvent> {
        self.device().async_events().try_event()
    }

    /// A descriptor that is readable while asynchronous events wait: for poll(2) and epoll, not for reading.
    pub fn async_fd(&self) -> BorrowedFd<'_> {
        self.device().async_events().as_fd()
    }

    /// Every counter with its name: rxe's, then `icrc_...` and `datapath_...`, then `drop_...` for
    /// each reason a packet can be dropped for.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        self.device().counters()
    }

    /// The counter called `name` (docs/counters.md has all names); `None` if there is no such counter.
    pub fn counter(&self, name: &str) -> Option<u64> {
        self.counters().into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// What the rules of the device's faults have done so far, if it has any ([`ContextBuilder::fault`](crate::ContextBuilder::fault)). Lives on when
    /// the device is closed.
    pub fn fault_counters(&self) -> Option<Arc<FaultCounters>> {
        self.device().fault_counters()
    }

    /// Packets dropped so far, by reason. [`DropReason::explain`] says what a reason means.
    pub fn drops(&self) -> Vec<(DropReason, u64)> {
        self.device().drops()
    }

    /// The last thing that went wrong when packets were sent (no route, MTU too small), in words.
    pub fn datapath_problem(&self) -> Option<String> {
        self.device().datapath_problem()
    }

    /// True if a progress thread answers peers between calls.
    pub fn has_progress_thread(&self) -> bool {
        self.device().has_progress_thread()
    }

    /// Does what the NIC has to do now: receive, timers, send. True if there was something to do. Never sleeps. Only
    /// programs without a progress thread need this call, where they neither post nor poll.
    pub fn drive(&self) -> bool {
        self.device().drive()
    }
}
