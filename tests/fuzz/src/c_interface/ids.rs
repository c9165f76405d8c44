//! Connections by ids: between the two devices, in any order, with ids and channels that exist, were destroyed, or never did.

use std::net::SocketAddr;
use std::ptr::{null, null_mut};

use libc::{c_int, c_void, sockaddr_storage};
use uroce_ibverbs::object::zeroed;
use uroce_rdmacm::sockaddr;
use uroce_verbs_abi::*;

use super::events::do_not_wait;
use super::functions::call;
use super::program::{HOSTS, Program};
use crate::input::Input;

unsafe extern "C" {
    fn rdma_create_event_channel() -> *mut rdma_event_channel;
    fn rdma_destroy_event_channel(channel: *mut rdma_event_channel);
    fn rdma_create_id(
        channel: *mut rdma_event_channel,
        id: *mut *mut rdma_cm_id,
        context: *mut c_void,
        space: c_int,
    ) -> c_int;
    fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int;
    fn rdma_bind_addr(id: *mut rdma_cm_id, at: *mut sockaddr_storage) -> c_int;
    fn rdma_listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int;
    fn rdma_resolve_addr(
        id: *mut rdma_cm_id,
        from: *mut sockaddr_storage,
        to: *mut sockaddr_storage,
        timeout_ms: c_int,
    ) -> c_int;
    fn rdma_resolve_route(id: *mut rdma_cm_id, timeout_ms: c_int) -> c_int;
    fn rdma_connect(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int;
    fn rdma_accept(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int;
    fn rdma_reject(id: *mut rdma_cm_id, data: *const c_void, length: u8) -> c_int;
    fn rdma_disconnect(id: *mut rdma_cm_id) -> c_int;
    fn rdma_establish(id: *mut rdma_cm_id) -> c_int;
    fn rdma_notify(id: *mut rdma_cm_id, event: c_int) -> c_int;
    fn rdma_migrate_id(id: *mut rdma_cm_id, channel: *mut rdma_event_channel) -> c_int;
    fn rdma_create_qp(id: *mut rdma_cm_id, pd: *mut ibv_pd, init: *mut ibv_qp_init_attr) -> c_int;
    fn rdma_destroy_qp(id: *mut rdma_cm_id);
    fn rdma_create_srq(id: *mut rdma_cm_id, pd: *mut ibv_pd, init: *mut ibv_srq_init_attr)
    -> c_int;
    fn rdma_destroy_srq(id: *mut rdma_cm_id);
    fn rdma_init_qp_attr(id: *mut rdma_cm_id, attr: *mut ibv_qp_attr, mask: *mut c_int) -> c_int;
    fn rdma_join_multicast(
        id: *mut rdma_cm_id,
        at: *mut sockaddr_storage,
        to: *mut c_void,
    ) -> c_int;
    fn rdma_leave_multicast(id: *mut rdma_cm_id, at: *mut sockaddr_storage) -> c_int;
    fn rdma_get_cm_event(channel: *mut rdma_event_channel, event: *mut *mut rdma_cm_event)
    -> c_int;
    fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int;
    fn rdma_get_src_port(id: *mut rdma_cm_id) -> u16;
}

/// The ids that there are, those that there were, and the channels.
#[derive(Default)]
pub(super) struct Ids {
    live: Vec<*mut rdma_cm_id>,
    gone: Vec<*mut rdma_cm_id>,
    channels: Vec<*mut rdma_event_channel>,
}

impl Ids {
    fn any(&self, input: &mut Input<'_>) -> *mut rdma_cm_id {
        let choice = input.u8();
        let list = if choice >> 4 == 1 { &self.gone } else { &self.live };
        let is_none = choice == 0 || list.is_empty();
        if is_none { null_mut() } else { list[usize::from(choice) % list.len()] }
    }

    fn is_live(&self, id: *mut rdma_cm_id) -> bool {
        self.live.contains(&id)
    }

    fn channel(&self, input: &mut Input<'_>) -> *mut rdma_event_channel {
        let choice = usize::from(input.u8());
        if self.channels.is_empty() {
            null_mut()
        } else {
            self.channels[choice % self.channels.len()]
        }
    }
}

/// An address of one of the devices, a group, or none of ours.
fn address(ids: &Ids, input: &mut Input<'_>) -> sockaddr_storage {
    let choice = input.u8();
    // A port that somebody listens on, perhaps.
    let listener = ids.any(input);
    let port = u16::from_be(call!(rdma_get_src_port(listener)));
    let host = match choice >> 5 {
        0 => [239, 47, 120, choice & 3],
        1 => [10, 255, 0, choice],
        _ => HOSTS[usize::from(choice & 1)],
    };
    sockaddr::write(SocketAddr::from((host, if choice & 2 == 0 { 0 } else { port })))
}

impl Program {
    pub(super) fn ids(&mut self, input: &mut Input<'_>) {
        match input.below(16) {
            0 | 1 => self.make_id(input),
            2 => self.end_id(input),
            3..=5 => self.settle_id(input),
            6..=9 => self.connect_id(input),
            10 | 11 => self.equip_id(input),
            _ => {}
        }
        self.fetch_id_events();
        for id in &self.ids.live {
            let id = call!(&**id);
            self.objects.is_of_id(id.pd);
            self.objects.is_of_id(id.qp);
            self.objects.is_of_id(id.srq);
            self.objects.is_of_id(id.send_cq);
            self.objects.is_of_id(id.recv_cq);
            self.objects.is_of_id(id.send_cq_channel);
            self.objects.is_of_id(id.recv_cq_channel);
        }
    }

    fn make_id(&mut self, input: &mut Input<'_>) {
        if self.ids.channels.len() < 2 {
            let channel = call!(rdma_create_event_channel());
            assert!(!channel.is_null(), "a channel");
            do_not_wait(call!((*channel).fd));
            self.ids.channels.push(channel);
        }
        let (mut id, channel) = (null_mut(), self.ids.channel(input));
        let space = [RDMA_PS_TCP, RDMA_PS_TCP, RDMA_PS_UDP, 7][usize::from(input.below(4))];
        if call!(rdma_create_id(channel, &raw mut id, null_mut(), space)) == 0 {
            self.has_id(id);
        }
    }

    fn has_id(&mut self, id: *mut rdma_cm_id) {
        assert!(!self.ids.is_live(id), "an id at the place of another");
        self.ids.gone.retain(|gone| *gone != id);
        self.ids.live.push(id);
    }

    fn end_id(&mut self, input: &mut Input<'_>) {
        let id = self.ids.any(input);
        self.fetch_id_events();
        if call!(rdma_destroy_id(id)) == 0 {
            assert!(self.ids.is_live(id), "an id ended that was not there");
            self.ids.live.retain(|live| *live != id);
            self.ids.gone.push(id);
        }
    }

    /// Addresses and options.
    fn settle_id(&mut self, input: &mut Input<'_>) {
        let id = self.ids.any(input);
        let (mut at, mut to) = (address(&self.ids, input), address(&self.ids, input));
        let answer = call!(match input.below(8) {
            0 | 1 => rdma_bind_addr(id, &raw mut at),
            2 => rdma_listen(id, input.below(4).into()),
            3 => rdma_resolve_addr(id, null_mut(), &raw mut to, 100),
            4 => rdma_resolve_addr(id, &raw mut at, &raw mut to, 100),
            5 => rdma_resolve_route(id, 100),
            6 => rdma_join_multicast(id, &raw mut at, null_mut()),
            _ => rdma_leave_multicast(id, &raw mut at),
        });
        assert!(answer != 0 || self.ids.is_live(id), "done for an id that is not there");
    }

    fn connect_id(&mut self, input: &mut Input<'_>) {
        let id = self.ids.any(input);
        // SAFETY: integers and null pointers.
        let mut param: rdma_conn_param = unsafe { zeroed() };
        let data = input.take(16);
        param.private_data = data.as_ptr().cast();
        param.private_data_len = data.len() as u8;
        (param.responder_resources, param.initiator_depth) = (input.below(4), input.below(4));
        (param.retry_count, param.rnr_retry_count) = (input.below(9), input.below(9));
        param.qp_num = input.u32();
        let channel = self.ids.channel(input);
        let answer = call!(match input.below(10) {
            0 | 1 => rdma_connect(id, &raw mut param),
            2 | 3 => rdma_accept(id, &raw mut param),
            4 => rdma_accept(id, null_mut()),
            5 => rdma_reject(id, data.as_ptr().cast(), data.len() as u8),
            6 => rdma_disconnect(id),
            7 => rdma_establish(id),
            8 => rdma_notify(id, IBV_EVENT_COMM_EST),
            _ if channel.is_null() => -1,
            _ => rdma_migrate_id(id, channel),
        });
        assert!(answer != 0 || self.ids.is_live(id), "done for an id that is not there");
    }

    /// Queue pairs and shared receive queues.
    fn equip_id(&mut self, input: &mut Input<'_>) {
        let id = self.ids.any(input);
        // SAFETY: integers and null pointers.
        let (mut init, mut attr, mut srq): (ibv_qp_init_attr, ibv_qp_attr, ibv_srq_init_attr) =
            unsafe { (zeroed(), zeroed(), zeroed()) };
        init.qp_type = [IBV_QPT_RC, IBV_QPT_UD, IBV_QPT_UC, 77][usize::from(input.below(4))];
        (init.cap.max_send_wr, init.cap.max_recv_wr) = (input.u8().into(), input.u8().into());
        (init.cap.max_send_sge, init.cap.max_recv_sge) = (1, 1);
        (srq.attr.max_wr, srq.attr.max_sge) = (input.u8().into(), 1);
        attr.qp_state = input.below(8).into();
        let mut mask = 0;
        let answer = call!(match input.below(6) {
            0..=2 => rdma_create_qp(id, null_mut(), &raw mut init),
            3 => rdma_create_srq(id, null_mut(), &raw mut srq),
            4 => rdma_init_qp_attr(id, &raw mut attr, &raw mut mask),
            _ => {
                rdma_destroy_qp(id);
                rdma_destroy_srq(id);
                -1
            }
        });
        assert!(answer != 0 || self.ids.is_live(id), "done for an id that is not there");
    }

    /// Fetches and acknowledges every event; a call for a listener is an id of ours from then on.
    pub(super) fn fetch_id_events(&mut self) {
        for channel in self.ids.channels.clone() {
            let mut event = null_mut();
            while call!(rdma_get_cm_event(channel, &raw mut event)) == 0 {
                let (kind, id) = call!(((*event).event, (*event).id));
                if kind == RDMA_CM_EVENT_CONNECT_REQUEST {
                    self.has_id(id);
                }
                assert!(self.ids.is_live(id), "an event of an id that is not there");
                assert_eq!(call!(rdma_ack_cm_event(event)), 0);
                assert_ne!(call!(rdma_ack_cm_event(event)), 0, "acknowledged twice");
            }
        }
        let mut event = null_mut();
        assert_ne!(call!(rdma_get_cm_event(null::<c_void>().cast_mut().cast(), &raw mut event)), 0);
    }

    /// Every id and channel goes.
    pub(super) fn end_ids(&mut self) {
        while !self.ids.live.is_empty() {
            self.fetch_id_events();
            let Some(id) = self.ids.live.pop() else { break };
            call!(rdma_destroy_qp(id));
            call!(rdma_destroy_srq(id));
            // An event may have come meanwhile: it is fetched, or the id would wait for it.
            self.ids.live.push(id);
            self.fetch_id_events();
            assert_eq!(call!(rdma_destroy_id(id)), 0, "an id stays");
            self.ids.live.retain(|live| *live != id);
        }
        for channel in std::mem::take(&mut self.ids.channels) {
            call!(rdma_destroy_event_channel(channel));
        }
    }
}
