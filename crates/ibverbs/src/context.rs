//! What the objects of an open device share.

use std::fs::File;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

use uroce_device::{DeviceAttr, DeviceLimits, EventChannel, Interface};

use crate::abi::{ibv_context, verbs_context};
use crate::descriptor::make_blocking;
use crate::errno::{Errno, INVALID};
use crate::object::Object;
use crate::open_device::OpenDevice;
use crate::settings;

/// What the objects of a context share.
#[derive(Debug)]
pub struct Ctx {
    pub(crate) interface: Arc<Interface>,
    pub(crate) limits: DeviceLimits,
    /// Asynchronous events of this context's objects.
    pub(crate) events: EventChannel,
    /// A file of which there is no other, so that a duplicate of it names the device (`ibv_import_device`).
    command: File,
    /// Opened when the first object is made: a look at a device needs no UDP port.
    open_device: Mutex<Option<Arc<OpenDevice>>>,
}

impl Ctx {
    pub(crate) fn new(interface: Arc<Interface>, command: File) -> Result<Ctx, Errno> {
        let events = EventChannel::new()?;
        make_blocking(events.as_fd())?;
        Ok(Ctx {
            interface,
            limits: DeviceLimits::default(),
            events,
            command,
            open_device: Mutex::new(None),
        })
    }

    /// What a program sees as `cmd_fd` and `async_fd`.
    pub fn descriptors(&self) -> (RawFd, RawFd) {
        (self.command.as_raw_fd(), self.events.as_fd().as_raw_fd())
    }

    pub(crate) fn device_attr(&self) -> DeviceAttr {
        self.interface.device_attr(self.limits, settings::engines())
    }

    /// The device if an object has opened it.
    pub fn opened(&self) -> Option<Arc<OpenDevice>> {
        self.open_device
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
            .filter(|open_device| open_device.device.is_here())
    }

    /// The open device. In a child process the one that the parent opened is none; the child opens its own.
    pub fn open_device(&self) -> Result<Arc<OpenDevice>, Errno> {
        let mut open_device = self.open_device.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open_device) = &*open_device
            && open_device.device.is_here()
        {
            return Ok(Arc::clone(open_device));
        }
        let opened = OpenDevice::on(&self.interface)?;
        opened.device.async_events().subscribe_to_port(&self.events);
        Ok(Arc::clone(open_device.insert(opened)))
    }
}

/// The C struct of a context, with what we keep about it.
pub type ContextObject = Object<verbs_context, Arc<Ctx>>;

/// Our part of a context.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub unsafe fn ctx_of<'a>(context: *const ibv_context) -> Result<&'a Arc<Ctx>, Errno> {
    if context.is_null() {
        return Err(INVALID);
    }
    // SAFETY: a context of ours lies at this offset in a `ContextObject`.
    unsafe { ContextObject::live_any_process(verbs_context_of(context)) }
}

/// The block that begins before the context a program has.
pub fn verbs_context_of(context: *const ibv_context) -> *mut verbs_context {
    context.cast_mut().wrapping_byte_sub(offset_of!(verbs_context, context)).cast()
}
