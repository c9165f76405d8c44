//! Objects of libibverbs, each destroyed once, users before what they use.

use std::io;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::Arc;

use uroce_conform::Access;
use uroce_verbs_abi::{
    ibv_async_event, ibv_comp_channel, ibv_cq, ibv_mr, ibv_pd, ibv_srq, ibv_srq_attr,
    ibv_srq_init_attr, ibv_wc,
};

use crate::device::{Device, set_nonblocking};
use crate::memory::Memory;
use crate::xrc::XrcDomain;

/// What failed, and how.
pub(crate) type Tried<T> = Result<T, String>;

pub(crate) fn failed<T>(call: &str) -> Tried<T> {
    Err(format!("{call}: {}", io::Error::last_os_error()))
}

/// The result of a function that returns 0 or an error number.
pub(crate) fn done(call: &str, status: i32) -> Tried<()> {
    match status {
        0 => Ok(()),
        -1 => failed(call),
        number => Err(format!("{call}: {}", io::Error::from_raw_os_error(number))),
    }
}

/// `ibv_access_flags`.
pub(crate) fn access_flags(access: Access) -> i32 {
    let local = i32::from(access.write || access.atomic);
    local
        | i32::from(access.write) << 1
        | i32::from(access.read) << 2
        | i32::from(access.atomic) << 3
        | i32::from(access.bind) << 4
        | i32::from(access.flush) << 8
        | i32::from(access.persist) << 9
}

pub(crate) struct Domain {
    device: Rc<Device>,
    pub(crate) pd: *mut ibv_pd,
}

impl Domain {
    pub(crate) fn new(device: &Rc<Device>) -> Tried<Rc<Domain>> {
        // SAFETY: an open device.
        let pd = unsafe { (device.library.ibv_alloc_pd)(device.context) };
        if pd.is_null() {
            return failed("ibv_alloc_pd");
        }
        Ok(Rc::new(Domain { device: device.clone(), pd }))
    }

    pub(crate) fn device(&self) -> &Rc<Device> {
        &self.device
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: once; what is in the domain holds it, and is gone.
        unsafe { (self.device.library.ibv_dealloc_pd)(self.pd) };
    }
}

pub(crate) struct Region {
    domain: Rc<Domain>,
    mr: *mut ibv_mr,
    pub(crate) memory: Arc<Memory>,
    pub(crate) lkey: u32,
    pub(crate) rkey: u32,
}

impl Region {
    pub(crate) fn new(domain: &Rc<Domain>, length: u32, access: Access) -> Tried<Region> {
        let memory = Arc::new(Memory::new(length).ok_or("no memory")?);
        memory.write(0, &uroce_conform::pattern(0, length as usize));
        let (start, flags) = (memory.start().cast(), access_flags(access));
        let register = domain.device.library.ibv_reg_mr;
        // SAFETY: memory of our own that lives longer than the registration.
        let mr = unsafe { register(domain.pd, start, length as usize, flags) };
        if mr.is_null() {
            return failed("ibv_reg_mr");
        }
        // SAFETY: it was just made.
        let (lkey, rkey) = unsafe { ((*mr).lkey, (*mr).rkey) };
        Ok(Region { domain: domain.clone(), mr, memory, lkey, rkey })
    }

    /// The registration, which has not ended.
    pub(crate) fn mr(&self) -> Tried<*mut ibv_mr> {
        if self.mr.is_null() { Err("the region was deregistered".to_owned()) } else { Ok(self.mr) }
    }

    /// Ends the registration; the memory and the keys' numbers stay.
    pub(crate) fn deregister(&mut self) -> Tried<()> {
        if self.mr.is_null() {
            return Ok(());
        }
        // SAFETY: a registration that has not ended.
        done("ibv_dereg_mr", unsafe { (self.domain.device.library.ibv_dereg_mr)(self.mr) })?;
        self.mr = null_mut();
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.deregister().is_err() {
            // The NIC may still write there.
            std::mem::forget(self.memory.clone());
        }
    }
}

pub(crate) struct CompletionQueue {
    device: Rc<Device>,
    channel: *mut ibv_comp_channel,
    pub(crate) cq: *mut ibv_cq,
}

impl CompletionQueue {
    pub(crate) fn new(device: &Rc<Device>, entries: u32) -> Tried<CompletionQueue> {
        let library = &device.library;
        // SAFETY: an open device.
        let channel = unsafe { (library.ibv_create_comp_channel)(device.context) };
        if channel.is_null() {
            return failed("ibv_create_comp_channel");
        }
        // SAFETY: it was just made.
        set_nonblocking(unsafe { (*channel).fd });
        let entries = i32::try_from(entries).unwrap_or(i32::MAX);
        // SAFETY: an open device and a channel of it.
        let cq =
            unsafe { (library.ibv_create_cq)(device.context, entries, null_mut(), channel, 0) };
        let queue = CompletionQueue { device: device.clone(), channel, cq };
        if cq.is_null() { failed("ibv_create_cq") } else { Ok(queue) }
    }

    /// The next completion.
    pub(crate) fn poll(&self) -> Tried<Option<ibv_wc>> {
        let mut wc = ibv_wc::default();
        // SAFETY: a queue that lives, and room for one completion.
        let count = unsafe { ((*self.device.context).ops.poll_cq)(self.cq, 1, &raw mut wc) };
        match count {
            0 => Ok(None),
            1 => Ok(Some(wc)),
            error => Err(format!("ibv_poll_cq: {error}")),
        }
    }

    pub(crate) fn arm(&self, solicited: bool) -> Tried<()> {
        // SAFETY: a queue that lives.
        let status =
            unsafe { ((*self.device.context).ops.req_notify_cq)(self.cq, i32::from(solicited)) };
        done("ibv_req_notify_cq", status)
    }

    /// True if an event was there; it is acknowledged.
    pub(crate) fn event(&self) -> bool {
        let (mut cq, mut context) = (null_mut(), null_mut());
        let library = &self.device.library;
        // SAFETY: a channel that lives, and room for the answer. Its descriptor does not block.
        let got =
            unsafe { (library.ibv_get_cq_event)(self.channel, &raw mut cq, &raw mut context) } == 0;
        if got {
            // SAFETY: the queue of the event.
            unsafe { (library.ibv_ack_cq_events)(cq, 1) };
        }
        got
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: each once, the user of the channel first; the queue pairs are gone.
        unsafe {
            if !self.cq.is_null() {
                (self.device.library.ibv_destroy_cq)(self.cq);
            }
            (self.device.library.ibv_destroy_comp_channel)(self.channel);
        }
    }
}

pub(crate) struct SharedQueue {
    domain: Rc<Domain>,
    pub(crate) srq: *mut ibv_srq,
    /// What an XRC shared receive queue uses beside.
    _xrc: Option<(Rc<XrcDomain>, Rc<CompletionQueue>)>,
}

impl SharedQueue {
    pub(crate) fn new(domain: &Rc<Domain>, receives: u32) -> Tried<Rc<SharedQueue>> {
        let attr = ibv_srq_attr { max_wr: receives, max_sge: 1, srq_limit: 0 };
        let mut init = ibv_srq_init_attr { srq_context: null_mut(), attr };
        // SAFETY: a domain that lives.
        let srq = unsafe { (domain.device.library.ibv_create_srq)(domain.pd, &raw mut init) };
        if srq.is_null() {
            return failed("ibv_create_srq");
        }
        Ok(Rc::new(SharedQueue { domain: domain.clone(), srq, _xrc: None }))
    }

    /// An XRC shared receive queue, and its number.
    pub(crate) fn of_xrc(
        domain: &Rc<Domain>,
        xrc: &Rc<XrcDomain>,
        completions: &Rc<CompletionQueue>,
        receives: u32,
    ) -> Tried<(Rc<SharedQueue>, u32)> {
        let (srq, number) = xrc.shared_queue(domain, completions, receives)?;
        let used = Some((xrc.clone(), completions.clone()));
        Ok((Rc::new(SharedQueue { domain: domain.clone(), srq, _xrc: used }), number))
    }
}

impl Drop for SharedQueue {
    fn drop(&mut self) {
        // SAFETY: once; its queue pairs hold it, and are gone.
        unsafe { (self.domain.device.library.ibv_destroy_srq)(self.srq) };
    }
}

/// The next asynchronous event: its kind, and the object that it is about. It is acknowledged.
pub(crate) fn async_event(device: &Device) -> Option<(u32, *mut std::ffi::c_void)> {
    // SAFETY: a null pointer and an integer.
    let mut event: ibv_async_event = unsafe { zeroed() };
    // SAFETY: an open device, and room for the answer. Its descriptor does not block.
    let got = unsafe { (device.library.ibv_get_async_event)(device.context, &raw mut event) } == 0;
    got.then(|| {
        let said = (event.event_type as u32, event.element);
        // SAFETY: the event, once.
        unsafe { (device.library.ibv_ack_async_event)(&raw mut event) };
        said
    })
}
