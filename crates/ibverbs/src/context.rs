//! Opening and closing a device.

use std::fs::File;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::sync::{Arc, Mutex, PoisonError};

use libc::c_int;
use uroce_device::{DeviceAttr, DeviceLimits, EventChannel, Interface};

use crate::abi::{ibv_context, ibv_context_ops, ibv_device, verbs_context, verbs_slots};
use crate::card::Card;
use crate::channel::make_blocking;
use crate::device_list::{Node, device_of};
use crate::errno::{Errno, INVALID};
use crate::object::{Object, zeroed};
use crate::outcome::{minus_one, pointer};
use crate::settings;
use crate::unsupported::unsupported;
use crate::{
    clock, cq, cq_ex, dm, domain, import, mr, mw, post_recv, post_send, qp, query, srq, xrc_target,
    xrcd,
};

/// Marks a context that has the extended functions before it.
const EXTENDED: usize = usize::MAX;

/// What the objects of a context share.
#[derive(Debug)]
pub(crate) struct Ctx {
    pub(crate) interface: Arc<Interface>,
    pub(crate) limits: DeviceLimits,
    /// Asynchronous events of this context's objects.
    pub(crate) events: EventChannel,
    /// A file of which there is no other, so that a duplicate of it names the device (`ibv_import_device`).
    command: File,
    /// Opened when the first object is made: a look at a device needs no UDP port.
    card: Mutex<Option<Arc<Card>>>,
}

impl Ctx {
    fn new(interface: Arc<Interface>, command: File) -> Result<Ctx, Errno> {
        let events = EventChannel::new()?;
        make_blocking(events.as_fd())?;
        Ok(Ctx {
            interface,
            limits: DeviceLimits::default(),
            events,
            command,
            card: Mutex::new(None),
        })
    }

    pub(crate) fn device_attr(&self) -> DeviceAttr {
        self.interface.device_attr(self.limits, settings::engines())
    }

    /// The device if an object has opened it.
    pub(crate) fn opened(&self) -> Option<Arc<Card>> {
        self.card
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
            .filter(|card| card.device.is_here())
    }

    /// The open device. In a child process the one that the parent opened is none; the child opens its own.
    pub(crate) fn card(&self) -> Result<Arc<Card>, Errno> {
        let mut card = self.card.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(card) = &*card
            && card.device.is_here()
        {
            return Ok(Arc::clone(card));
        }
        let opened = Card::on(&self.interface)?;
        opened.device.send_port_events(&self.events);
        Ok(Arc::clone(card.insert(opened)))
    }
}

type Whole = Object<verbs_context, Arc<Ctx>>;

/// Our part of a context.
///
/// # Safety
/// By the contract.
pub(crate) unsafe fn ctx_of<'a>(context: *const ibv_context) -> Result<&'a Arc<Ctx>, Errno> {
    if context.is_null() {
        return Err(INVALID);
    }
    // SAFETY: a context of ours lies at this offset in a `Whole`.
    unsafe { Whole::live_any_process(whole_of(context)) }
}

fn whole_of(context: *const ibv_context) -> *mut verbs_context {
    context.cast_mut().wrapping_byte_sub(offset_of!(verbs_context, context)).cast()
}

/// ibv_open_device(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    pointer(|| {
        // SAFETY: by the contract.
        let interface = Arc::new(unsafe { Node::of_any_process(device) }.ok_or(INVALID)?.clone());
        let command = import::new_file(&interface)?;
        Ok(object(device, Ctx::new(interface, command)?))
    })
}

/// What the program gets for an open device.
fn object(device: *mut ibv_device, ctx: Ctx) -> *mut ibv_context {
    let descriptors = (ctx.command.as_raw_fd(), ctx.events.as_fd().as_raw_fd());
    let whole = Whole::create(described(device, descriptors), Arc::new(ctx));
    // SAFETY: just made; this only computes the address of a field.
    unsafe { std::ptr::addr_of_mut!((*whole).context) }
}

/// ibv_import_device(3): a context of the device that another context has open, in this process; objects
/// of either can be imported into the other. The descriptor belongs to the new context from now on.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_import_device(cmd_fd: c_int) -> *mut ibv_context {
    pointer(|| {
        let interface = import::interface_of(cmd_fd)?;
        // SAFETY: by the contract the program has no other use for it.
        let command = unsafe { File::from_raw_fd(cmd_fd) };
        let device = device_of(Interface::clone(&interface));
        Ok(object(device, Ctx::new(interface, command)?))
    })
}

/// ibv_close_device(3). Objects that the program left behind keep the device open.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    minus_one(|| {
        // SAFETY: by the contract, also that nobody uses it any more.
        unsafe {
            ctx_of(context)?;
            Whole::destroy(whole_of(context));
        }
        Ok(())
    })
}

/// The context as a program gets it, with its functions in it.
fn described(device: *mut ibv_device, (cmd_fd, async_fd): (c_int, c_int)) -> verbs_context {
    // SAFETY: null pointers, integers and a mutex.
    let mutex = unsafe { zeroed() };
    let context = ibv_context {
        device,
        ops: OPS,
        cmd_fd,
        async_fd,
        num_comp_vectors: settings::engines().get().into(),
        mutex,
        abi_compat: std::ptr::without_provenance_mut(EXTENDED),
    };
    // SAFETY: empty slots, a null pointer and integers.
    let mut slots: verbs_slots = unsafe { zeroed() };
    slots.sz = size_of::<verbs_context>();
    slots.advise_mr = Some(mr::advise_mr);
    slots.query_port = Some(query::query_port);
    slots.query_device_ex = Some(query::query_device_ex);
    slots.alloc_td = Some(domain::alloc_td);
    slots.dealloc_td = Some(domain::dealloc_td);
    slots.alloc_parent_domain = Some(domain::alloc_parent_domain);
    slots.alloc_dm = Some(dm::alloc_dm);
    slots.free_dm = Some(dm::free_dm);
    slots.reg_dm_mr = Some(dm::reg_dm_mr);
    slots.query_rt_values = Some(clock::query_rt_values);
    slots.modify_cq = Some(cq::modify_cq);
    slots.create_cq_ex = Some(cq_ex::create_cq_ex);
    slots.create_qp_ex = Some(qp::create_qp_ex);
    slots.create_srq_ex = Some(srq::create_srq_ex);
    slots.get_srq_num = Some(srq::get_srq_num);
    slots.open_qp = Some(xrc_target::open_qp);
    slots.open_xrcd = Some(xrcd::open_xrcd);
    slots.close_xrcd = Some(xrcd::close_xrcd);
    verbs_context { slots, context }
}

const OPS: ibv_context_ops = ibv_context_ops {
    compat_before: [Some(unsupported); 7],
    alloc_mw: mw::alloc_mw,
    bind_mw: mw::bind_mw,
    dealloc_mw: mw::dealloc_mw,
    compat_create_cq: Some(unsupported),
    poll_cq: cq::poll_cq,
    req_notify_cq: cq::req_notify_cq,
    compat_cq: [Some(unsupported); 7],
    post_srq_recv: post_recv::post_srq_recv,
    compat_qp: [Some(unsupported); 4],
    post_send: post_send::post_send,
    post_recv: post_recv::post_recv,
    compat_after: [Some(unsupported); 5],
};
