//! Completions and events.

use std::ptr::{null, null_mut};

use libc::c_int;
use uroce_verbs_abi::*;

use super::functions::*;
use super::objects::Kind;
use super::program::Program;
use crate::input::Input;

/// A call for events returns at once.
pub(super) fn do_not_wait(fd: c_int) {
    call!(libc::fcntl(fd, libc::F_SETFL, libc::fcntl(fd, libc::F_GETFL) | libc::O_NONBLOCK));
}

impl Program {
    fn completed(&mut self, wr_id: u64) {
        assert!(self.open.remove(&wr_id), "work request {wr_id} completed before, or never was");
    }

    /// All that has completed.
    pub(super) fn poll_all(&mut self) {
        for cq in self.objects.all_live(Kind::Cq) {
            self.poll_queue(cq.cast(), 16);
        }
    }

    fn poll_queue(&mut self, cq: *mut ibv_cq, most: usize) -> c_int {
        let mut found = [ibv_wc::default(); 16];
        let poll = call!((*self.contexts[0]).ops.poll_cq);
        let count = call!(poll(cq, most as c_int, found.as_mut_ptr()));
        assert!(count <= most as c_int, "{count} completions");
        found.iter().take(count.max(0) as usize).for_each(|wc| self.completed(wc.wr_id));
        count
    }

    /// By either interface, and a queue that is none.
    pub(super) fn poll(&mut self, input: &mut Input<'_>) {
        let cq: *mut ibv_cq = self.objects.live(Kind::Cq, input);
        if cq.is_null() {
            assert!(self.poll_queue(cq, 1) < 0);
            return;
        }
        let (most, ex) = (usize::from(input.below(17)), cq.cast::<ibv_cq_ex>());
        if input.bool() {
            self.poll_queue(cq, most);
            return;
        }
        let mut answer = call!(((*ex).start_poll)(ex, null()));
        while answer == 0 {
            self.completed(call!((*ex).wr_id));
            let _ = call!((
                ((*ex).read_opcode)(ex),
                ((*ex).read_byte_len)(ex),
                ((*ex).read_imm_data)(ex),
                ((*ex).read_completion_wallclock_ns)(ex),
            ));
            answer = call!(((*ex).next_poll)(ex));
        }
        call!(((*ex).end_poll)(ex));
    }

    pub(super) fn events(&mut self, input: &mut Input<'_>) {
        let cq = self.objects.live(Kind::Cq, input);
        let request = call!((*self.contexts[0]).ops.req_notify_cq);
        let answer = call!(request(cq, input.below(2).into()));
        assert_eq!(answer != 0, cq.is_null());
        self.fetch_events();
    }

    /// Fetches and acknowledges every event: an object waits in its end for those that were only fetched.
    pub(super) fn fetch_events(&mut self) {
        for channel in self.objects.all_live(Kind::Channel) {
            let (mut cq, mut cookie) = (null_mut(), null_mut());
            while call!(ibv_get_cq_event(channel.cast(), &raw mut cq, &raw mut cookie)) == 0 {
                assert!(
                    self.objects.all_live(Kind::Cq).contains(&cq.cast()),
                    "an event of no queue"
                );
                call!(ibv_ack_cq_events(cq, 1));
            }
        }
        for context in self.contexts {
            let mut event = ibv_async_event { element: null_mut(), event_type: 0 };
            while call!(ibv_get_async_event(context, &raw mut event)) == 0 {
                call!(ibv_ack_async_event(&raw mut event));
            }
        }
    }
}
