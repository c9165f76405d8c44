//! Completion queues, each with a channel for its events.

use std::ptr::null_mut;
use std::rc::Rc;

use uroce_verbs_abi::{ibv_comp_channel, ibv_cq, ibv_wc};

use crate::device::{Device, set_nonblocking};
use crate::outcome::{Tried, done, failed};

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
