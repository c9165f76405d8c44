//! An open device.

use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use uroce_device::datapath::{Caps, FaultCounters};
use uroce_device::transport::AsyncEvent;
use uroce_device::wire::{DropReason, Gid};
use uroce_device::{CreateError, Device, DeviceAttr, OpenError, PortAttr};
use uroce_memory::PdError;

use crate::cm::EventChannel;
use crate::comp_channel::CompChannel;
use crate::completion_queue::CompletionQueue;
use crate::context_builder::ContextBuilder;
use crate::device_list::DeviceInfo;
use crate::protection_domain::ProtectionDomain;
use crate::xrc_domain::XrcDomain;

/// An open device (`ibv_context`). A clone is the same device.
///
/// The device closes when the last clone and the last object made from it are gone.
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
    /// Opens a device of [`device_list`](crate::device_list) as [`Context::builder`] would with its
    /// address and nothing else.
    ///
    /// # Errors
    /// [`OpenError`], which names the remedy.
    pub fn open(device: &DeviceInfo) -> Result<Context, OpenError> {
        Context::builder().name(&device.name).address(device.address).open()
    }

    /// Opens a device with options.
    pub fn builder() -> ContextBuilder {
        ContextBuilder::default()
    }

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

    /// EUI-64 identity (`node_guid`).
    pub fn guid(&self) -> u64 {
        self.device().guid()
    }

    /// `ibv_query_device`.
    pub fn query_device(&self) -> DeviceAttr {
        self.device().attr()
    }

    /// `ibv_query_port` of port 1, the only one.
    pub fn query_port(&self) -> PortAttr {
        self.device().port_attr()
    }

    /// `ibv_query_gid`: entries 0 and 1 are the device's address, RoCE v2; `None` beyond.
    pub fn query_gid(&self, index: u32) -> Option<Gid> {
        self.device().gid(index)
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

    /// A protection domain (`ibv_alloc_pd`): regions, windows and queue pairs of one domain work
    /// together.
    ///
    /// # Errors
    /// [`PdError::TooMany`] at the device's limit.
    pub fn alloc_pd(&self) -> Result<ProtectionDomain, PdError> {
        ProtectionDomain::new(self)
    }

    /// A completion channel (`ibv_create_comp_channel`), to sleep until completions come.
    ///
    /// # Errors
    /// [`CreateError::Descriptor`] when the process has no free descriptor.
    pub fn create_comp_channel(&self) -> Result<CompChannel, CreateError> {
        CompChannel::new(self)
    }

    /// A completion queue for `cqe` completions (`ibv_create_cq`) that is polled.
    /// [`CompChannel::create_cq`] makes one that raises events.
    ///
    /// # Errors
    /// [`CreateError`]: `cqe` is 0 or too large, or the device has its limit.
    pub fn create_cq(&self, cqe: u32) -> Result<CompletionQueue, CreateError> {
        self.create_cq_on(0, cqe)
    }

    /// The same for a completion vector (`comp_vector` of `ibv_create_cq`), the number of one of the device's
    /// [engines](ContextBuilder::engines). The queue pairs of the CQ are in that engine: give both their CQs,
    /// and their shared receive queue, one vector.
    ///
    /// # Errors
    /// [`CreateError`]: as above, or there are fewer engines.
    pub fn create_cq_on(&self, vector: u32, cqe: u32) -> Result<CompletionQueue, CreateError> {
        CompletionQueue::new(self, vector, cqe, None, 0)
    }

    /// An XRC domain (`ibv_open_xrcd`) that nobody else can open; clones of it are the same domain.
    ///
    /// # Errors
    /// [`CreateError`]: the device has its limit of protection domains or completion queues.
    pub fn open_xrcd(&self) -> Result<XrcDomain, CreateError> {
        XrcDomain::new(self)
    }

    /// A channel (`rdma_event_channel`) for connections by address and port.
    ///
    /// # Errors
    /// [`CreateError::Descriptor`] when the process has no free descriptor.
    pub fn create_event_channel(&self) -> Result<EventChannel, CreateError> {
        EventChannel::new(self)
    }

    /// The next asynchronous event (`ibv_get_async_event`); `None` as `timeout` waits for ever.
    /// `Ok(None)`: the time is over.
    ///
    /// # Errors
    /// What poll(2) says.
    pub fn next_async_event(&self, timeout: Option<Duration>) -> io::Result<Option<AsyncEvent>> {
        crate::comp_channel::wait(self.device(), timeout, |timeout| {
            self.device().get_async_event(timeout)
        })
    }

    /// The next asynchronous event if one waits.
    pub fn try_async_event(&self) -> Option<AsyncEvent> {
        self.device().try_async_event()
    }

    /// Readable while asynchronous events wait. For poll(2) and epoll, not for reading.
    pub fn async_fd(&self) -> BorrowedFd<'_> {
        self.device().async_fd()
    }

    /// Every counter with its name: rxe's, then `icrc_...` and `datapath_...`, then `drop_...` for
    /// each reason a packet can be dropped for.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        self.device().counters()
    }

    /// The counter called `name`.
    pub fn counter(&self, name: &str) -> Option<u64> {
        self.counters().into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// What the rules of the device's faults have done so far, if it has any ([`ContextBuilder::fault`]). Lives on when
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

    /// One turn of the NIC: receive, timers, send. True if there was something to do. Only programs
    /// without a progress thread need it, where they neither post nor poll.
    pub fn drive(&self) -> bool {
        self.device().drive()
    }
}
