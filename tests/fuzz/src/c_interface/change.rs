//! Changing objects, and asking about them.

use libc::c_int;
use uroce_ibverbs::object::zeroed;
use uroce_verbs_abi::*;

use super::functions::*;
use super::make::{gid, path};
use super::memory;
use super::objects::Kind;
use super::program::{HOSTS, Program};
use crate::input::Input;

impl Program {
    /// Any attributes, any mask.
    pub(super) fn modify_qp(&mut self, input: &mut Input<'_>) {
        let qp: *mut ibv_qp = self.objects.any(Kind::Qp, input);
        // SAFETY: integers.
        let mut attr: ibv_qp_attr = unsafe { zeroed() };
        attr.qp_state = c_int::from(input.below(9)) - 1;
        attr.cur_qp_state = c_int::from(input.below(9)) - 1;
        attr.path_mtu = input.below(7).into();
        attr.path_mig_state = input.below(4).into();
        (attr.qkey, attr.rq_psn, attr.sq_psn) = (input.u32(), input.u32(), input.u32());
        (attr.dest_qp_num, attr.qp_access_flags) = (input.u32(), input.u16().into());
        attr.ah_attr = path(input);
        (attr.pkey_index, attr.port_num) = (input.below(2).into(), input.below(3));
        (attr.max_rd_atomic, attr.max_dest_rd_atomic) = (input.u8(), input.u8());
        (attr.min_rnr_timer, attr.timeout) = (input.u8(), input.u8());
        (attr.retry_cnt, attr.rnr_retry) = (input.u8(), input.u8());
        let mask = input.u32().cast_signed();
        let _ = call!(ibv_modify_qp(qp, &raw mut attr, mask));
    }

    /// One step from where the queue pair is towards RTS, to a queue pair of either device.
    pub(super) fn connect(&mut self, input: &mut Input<'_>) {
        let (qp, peer): (*mut ibv_qp, *mut ibv_qp) =
            (self.objects.live(Kind::Qp, input), self.objects.live(Kind::Qp, input));
        if qp.is_null() {
            return;
        }
        let host = self.objects.device_of(peer).unwrap_or(0);
        // SAFETY: integers.
        let mut attr: ibv_qp_attr = unsafe { zeroed() };
        attr.qp_state = call!((*qp).state) + 1;
        (attr.path_mtu, attr.dest_qp_num, attr.port_num) = (3, call!((*peer).qp_num), 1);
        (attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer) = (8, 2, 2, 1);
        (attr.max_rd_atomic, attr.max_dest_rd_atomic, attr.qkey) = (2, 2, 7);
        attr.qp_access_flags = input.u8().into();
        (attr.ah_attr.port_num, attr.ah_attr.is_global) = (1, 1);
        attr.ah_attr.grh.dgid = gid(HOSTS[host]);
        let mask = step_mask(attr.qp_state, call!((*qp).qp_type));
        let _ = call!(ibv_modify_qp(qp, &raw mut attr, mask));
    }

    pub(super) fn change(&mut self, input: &mut Input<'_>) {
        match input.below(10) {
            0 | 1 => self.rereg(input),
            2 => {
                let cq = self.objects.any(Kind::Cq, input);
                let _ = call!(ibv_resize_cq(cq, c_int::from(input.u16()) - 16));
            }
            3 => {
                let cq = self.objects.any(Kind::Cq, input);
                let (attr_mask, cq_count) = (input.below(4).into(), input.u8().into());
                let mut attr = ibv_modify_cq_attr { attr_mask, cq_count, cq_period: 1 };
                let modify = call!((*self.slots()).modify_cq.expect("a function"));
                let _ = call!(modify(cq, &raw mut attr));
            }
            4 => {
                let srq = self.objects.any(Kind::Srq, input);
                let (max_wr, srq_limit) = (input.u8().into(), input.u8().into());
                let mut attr = ibv_srq_attr { max_wr, max_sge: 0, srq_limit };
                let _ = call!(ibv_modify_srq(srq, &raw mut attr, input.below(8).into()));
            }
            5 | 6 => self.join(input),
            7 => self.count(input),
            8 => self.copy(input),
            _ => self.bind(input),
        }
    }

    fn rereg(&mut self, input: &mut Input<'_>) {
        let mr: *mut ibv_mr = self.objects.any(Kind::Mr, input);
        let pd: *mut ibv_pd = self.objects.any(Kind::Pd, input);
        let (addr, length) = memory::piece(input);
        let (flags, access) = (input.below(16).into(), c_int::from(input.u8() & 0x3f));
        let done = call!(ibv_rereg_mr(mr, flags, pd, addr, length, access));
        if done == 0 && flags & IBV_REREG_MR_CHANGE_PD != 0 {
            let (of, to) = (self.objects.device_of(mr), self.objects.device_of(pd));
            assert_eq!(of, to, "a region went to a domain of another device");
        }
    }

    fn join(&mut self, input: &mut Input<'_>) {
        let qp = self.objects.any(Kind::Qp, input);
        let group = input.u8();
        let group = match group & 3 {
            0 => gid([10, 0, 0, group]),
            _ => gid([239, 47, 120, group & 3]),
        };
        if input.bool() {
            if call!(ibv_attach_mcast(qp, &raw const group, 0)) == 0 {
                self.groups.push((qp, group));
            }
        } else {
            let _ = call!(ibv_detach_mcast(qp, &raw const group, 0));
        }
    }

    fn count(&mut self, input: &mut Input<'_>) {
        let (qp, counter): (*mut ibv_qp, *mut ibv_comp_cntr) =
            (self.objects.any(Kind::Qp, input), self.objects.any(Kind::Counter, input));
        let (comp_mask, op_mask) = (u32::from(input.below(16) == 15), input.u8().into());
        let mut attr = ibv_qp_attach_comp_cntr_attr { comp_mask, op_mask };
        if call!(ibv_qp_attach_comp_cntr(qp, counter, &raw mut attr)) == 0 {
            let (of, to) = (self.objects.device_of(qp), self.objects.device_of(counter));
            assert_eq!(of, to, "a counter of another device");
        }
        let mut value = 0;
        let _ = call!(ibv_read_comp_cntr(counter, &raw mut value));
    }

    /// To memory of the device, and from it; its functions are in the object.
    fn copy(&mut self, input: &mut Input<'_>) {
        let dm: *mut ibv_dm = self.objects.live(Kind::Dm, input);
        if dm.is_null() {
            return;
        }
        let mut bytes = [0x11u8; 256];
        let (offset, length) = (u64::from(input.u8()), usize::from(input.u8()));
        let _ = call!(((*dm).memcpy_to_dm)(dm, offset, bytes.as_ptr().cast(), length));
        let _ = call!(((*dm).memcpy_from_dm)(bytes.as_mut_ptr().cast(), dm, offset, length));
    }

    fn bind(&mut self, input: &mut Input<'_>) {
        let (qp, mw): (*mut ibv_qp, *mut ibv_mw) =
            (self.objects.live(Kind::Qp, input), self.objects.any(Kind::Mw, input));
        let wr_id = self.next_wr();
        let bind_info = self.bind_info(input);
        let mut bind = ibv_mw_bind { wr_id, send_flags: input.below(4).into(), bind_info };
        let function = call!((*self.contexts[0]).ops.bind_mw);
        if call!(function(qp, mw, &raw mut bind)) == 0 {
            self.open.insert(wr_id);
            let (of, to) = (self.objects.device_of(mw), self.objects.device_of(qp));
            assert_eq!(of, to, "a window of another device");
        }
    }

    pub(super) fn query(&mut self, input: &mut Input<'_>) {
        let context = self.context(input);
        // SAFETY: integers and null pointers.
        let (mut device, mut attr, mut init) =
            unsafe { (zeroed(), zeroed::<ibv_qp_attr>(), zeroed::<ibv_qp_init_attr>()) };
        let known = self.device_of(context).is_some();
        assert_eq!(call!(ibv_query_device(context, &raw mut device)) == 0, known);
        let mut gid = gid([0; 4]);
        let _ = call!(ibv_query_gid(
            context,
            input.below(3),
            c_int::from(input.below(5)) - 2,
            &raw mut gid
        ));
        let qp: *mut ibv_qp = self.objects.any(Kind::Qp, input);
        let answer = call!(ibv_query_qp(qp, &raw mut attr, -1, &raw mut init));
        if self.objects.all_live(Kind::Qp).contains(&qp.cast()) {
            assert_eq!(answer, 0, "it is there");
        } else {
            assert!([libc::EINVAL, libc::ENOENT].contains(&answer), "{answer}");
        }
        let srq: *mut ibv_srq = self.objects.any(Kind::Srq, input);
        let (mut srq_attr, mut number) = (ibv_srq_attr { max_wr: 0, max_sge: 0, srq_limit: 0 }, 0);
        let _ = call!(ibv_query_srq(srq, &raw mut srq_attr));
        let get = call!((*self.slots()).get_srq_num.expect("a function"));
        let _ = call!(get(srq, &raw mut number));
        self.advise(input);
    }

    fn advise(&mut self, input: &mut Input<'_>) {
        let pd: *mut ibv_pd = self.objects.any(Kind::Pd, input);
        let mut sges = [self.sge(input)];
        let advise = call!((*self.slots()).advise_mr.expect("a function"));
        let (advice, flags) = (input.below(4).into(), input.below(4).into());
        let _ = call!(advise(pd, advice, flags, sges.as_mut_ptr(), input.below(2).into()));
    }
}

/// What the step to this state must name, as the type has it.
fn step_mask(state: c_int, qp_type: c_int) -> c_int {
    const INIT: c_int = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    const RTR: c_int = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    const RTS: c_int = IBV_QP_STATE | IBV_QP_SQ_PSN;
    let is_datagram = qp_type == IBV_QPT_UD;
    match state {
        IBV_QPS_INIT if is_datagram => INIT | IBV_QP_QKEY,
        IBV_QPS_INIT => INIT | IBV_QP_ACCESS_FLAGS,
        IBV_QPS_RTR if is_datagram => IBV_QP_STATE,
        IBV_QPS_RTR if qp_type == IBV_QPT_UC => RTR,
        IBV_QPS_RTR => RTR | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
        IBV_QPS_RTS if is_datagram || qp_type == IBV_QPT_UC => RTS,
        IBV_QPS_RTS => {
            RTS | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
        }
        _ => IBV_QP_STATE,
    }
}
