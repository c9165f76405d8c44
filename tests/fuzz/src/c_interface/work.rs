//! Posting: work requests in lists, and one by one by the extended interface.

use std::ptr::{null, null_mut};

use libc::c_int;
use uroce_ibverbs::object::zeroed;
use uroce_verbs_abi::*;

use super::functions::*;
use super::memory;
use super::objects::Kind;
use super::program::Program;
use crate::input::Input;

/// Work requests of a list, and entries of a request.
const MOST: usize = 4;

impl Program {
    pub(super) fn next_wr(&mut self) -> u64 {
        self.next_wr += 1;
        self.next_wr
    }

    pub(super) fn sge(&self, input: &mut Input<'_>) -> ibv_sge {
        let mr: *mut ibv_mr = self.objects.live(Kind::Mr, input);
        let lkey = if mr.is_null() { input.u32() } else { call!((*mr).lkey) };
        ibv_sge { addr: memory::address(input), length: input.u16().into(), lkey }
    }

    /// Bytes that are there, as inline data must be.
    fn inline_sge(input: &mut Input<'_>) -> ibv_sge {
        let (addr, length) = memory::piece(input);
        ibv_sge { addr: addr.addr() as u64, length: (length % 300) as u32, lkey: 0 }
    }

    fn rkey(&self, input: &mut Input<'_>) -> u32 {
        let (mr, mw): (*mut ibv_mr, *mut ibv_mw) =
            (self.objects.live(Kind::Mr, input), self.objects.live(Kind::Mw, input));
        match input.below(4) {
            0 => input.u32(),
            1 if !mw.is_null() => call!((*mw).rkey),
            _ if !mr.is_null() => call!((*mr).rkey),
            _ => 0,
        }
    }

    pub(super) fn bind_info(&self, input: &mut Input<'_>) -> ibv_mw_bind_info {
        let mr = self.objects.any(Kind::Mr, input);
        let (addr, length) = (memory::address(input), input.u16().into());
        ibv_mw_bind_info { mr, addr, length, mw_access_flags: input.u8().into() }
    }

    /// The union is written last: what it holds depends on the type of the queue pair, which the opcode does not know.
    fn send_wr(
        &mut self,
        qp: *mut ibv_qp,
        sges: &mut [ibv_sge],
        input: &mut Input<'_>,
    ) -> ibv_send_wr {
        // SAFETY: integers and null pointers.
        let mut wr: ibv_send_wr = unsafe { zeroed() };
        (wr.wr_id, wr.opcode) = (self.next_wr(), c_int::from(input.below(18)) - 1);
        (wr.send_flags, wr.imm_data) = (u32::from(input.below(32)), self.rkey(input));
        let is_inline = wr.send_flags & IBV_SEND_INLINE != 0;
        for sge in &mut *sges {
            *sge = if is_inline { Self::inline_sge(input) } else { self.sge(input) };
        }
        wr.num_sge = c_int::from(input.below(MOST as u8 + 1));
        wr.sg_list = if wr.num_sge > 0 && input.u8() == 0 { null_mut() } else { sges.as_mut_ptr() };
        let (remote_addr, rkey) = (memory::address(input), self.rkey(input));
        wr.wr.atomic = atomic_wr { remote_addr, compare_add: input.u8().into(), swap: 1, rkey };
        if ![IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD].contains(&wr.opcode) {
            wr.wr.rdma = rdma_wr { remote_addr, rkey };
        }
        if !qp.is_null() && call!((*qp).qp_type) == IBV_QPT_UD {
            let (ah, peer): (*mut ibv_ah, *mut ibv_qp) =
                (self.objects.live(Kind::Ah, input), self.objects.live(Kind::Qp, input));
            let remote_qpn = if peer.is_null() { 0 } else { call!((*peer).qp_num) };
            wr.wr.ud = ud_wr { ah, remote_qpn, remote_qkey: 7 };
        }
        wr.remote_srqn = input.u8().into();
        let mw = self.objects.live(Kind::Mw, input);
        wr.bind_mw = bind_mw_wr { mw, rkey: input.u32(), bind_info: self.bind_info(input) };
        wr
    }

    pub(super) fn post_send(&mut self, input: &mut Input<'_>) {
        let qp: *mut ibv_qp = self.objects.live(Kind::Qp, input);
        let mut sges = [[ibv_sge { addr: 0, length: 0, lkey: 0 }; MOST]; MOST];
        let count = 1 + usize::from(input.below(MOST as u8));
        let mut wrs: Vec<ibv_send_wr> =
            sges.iter_mut().take(count).map(|sges| self.send_wr(qp, sges, input)).collect();
        let list = wrs.as_mut_ptr();
        for at in 1..count {
            wrs[at - 1].next = list.wrapping_add(at);
        }
        let mut bad = null_mut();
        let post = call!((*self.contexts[0]).ops.post_send);
        let answer = call!(post(qp, list, &raw mut bad));
        let wr_ids: Vec<u64> = wrs.iter().map(|wr| wr.wr_id).collect();
        let refused = (0..count).find(|at| list.wrapping_add(*at) == bad);
        self.taken(answer, refused, qp.is_null(), &wr_ids);
    }

    pub(super) fn post_recv(&mut self, input: &mut Input<'_>) {
        let mut sges = [[ibv_sge { addr: 0, length: 0, lkey: 0 }; MOST]; MOST];
        let count = 1 + usize::from(input.below(MOST as u8));
        let mut wrs = vec![];
        for sges in sges.iter_mut().take(count) {
            sges.fill_with(|| self.sge(input));
            let num_sge = c_int::from(input.below(MOST as u8 + 2)) - 1;
            let (wr_id, sg_list) = (self.next_wr(), sges.as_mut_ptr());
            wrs.push(ibv_recv_wr { wr_id, next: null_mut(), sg_list, num_sge });
        }
        let list: *mut ibv_recv_wr = wrs.as_mut_ptr();
        for at in 1..count {
            wrs[at - 1].next = list.wrapping_add(at);
        }
        let (mut bad, ops) = (null_mut(), call!((*self.contexts[0]).ops));
        let (answer, is_null) = if input.bool() {
            let qp: *mut ibv_qp = self.objects.live(Kind::Qp, input);
            (call!((ops.post_recv)(qp, list, &raw mut bad)), qp.is_null())
        } else {
            let srq: *mut ibv_srq = self.objects.live(Kind::Srq, input);
            (call!((ops.post_srq_recv)(srq, list, &raw mut bad)), srq.is_null())
        };
        let wr_ids: Vec<u64> = wrs.iter().map(|wr| wr.wr_id).collect();
        let refused = (0..count).find(|at| list.wrapping_add(*at) == bad);
        self.taken(answer, refused, is_null, &wr_ids);
    }

    /// Those before the one that was refused may complete, and no other.
    fn taken(&mut self, answer: c_int, refused: Option<usize>, is_null: bool, wr_ids: &[u64]) {
        assert!(answer != 0 || !is_null, "work for no queue");
        let count = if answer == 0 {
            wr_ids.len()
        } else {
            refused.expect("the request that was refused is named")
        };
        self.open.extend(&wr_ids[..count]);
    }

    /// Requests by the extended interface, between start and complete or abort.
    pub(super) fn build(&mut self, input: &mut Input<'_>) {
        let qp: *mut ibv_qp = self.objects.live(Kind::Qp, input);
        if qp.is_null() {
            return;
        }
        let (qp, ops) = (qp.cast::<ibv_qp_ex>(), call!((*qp.cast::<ibv_qp_ex>()).ops));
        let mut wr_ids = vec![];
        call!((ops.wr_start)(qp));
        for _ in 0..input.below(6) {
            if input.below(4) > 0 {
                let wr_id = self.next_wr();
                wr_ids.push(wr_id);
                call!(((*qp).wr_id, (*qp).wr_flags) = (wr_id, input.below(32).into()));
                self.build_request(qp, &ops, input);
            }
            self.build_data(qp, &ops, input);
        }
        if input.below(8) == 7 {
            call!((ops.wr_abort)(qp));
        } else if call!((ops.wr_complete)(qp)) == 0 {
            self.open.extend(wr_ids);
        }
    }

    fn build_request(&self, qp: *mut ibv_qp_ex, ops: &ibv_qp_ex_ops, input: &mut Input<'_>) {
        let (va, rkey) = (memory::address(input), self.rkey(input));
        let word = [0x22u8; 8];
        call!(match input.below(13) {
            0 => (ops.wr_atomic_cmp_swp)(qp, rkey, va, 1, 2),
            1 => (ops.wr_atomic_fetch_add)(qp, rkey, va, 3),
            2 => {
                let (mw, info) = (self.objects.live(Kind::Mw, input), self.bind_info(input));
                (ops.wr_bind_mw)(qp, mw, input.u32(), &raw const info);
            }
            3 => (ops.wr_local_inv)(qp, rkey),
            4 => (ops.wr_rdma_read)(qp, rkey, va),
            5 => (ops.wr_rdma_write)(qp, rkey, va),
            6 => (ops.wr_rdma_write_imm)(qp, rkey, va, 4),
            7 => (ops.wr_send)(qp),
            8 => (ops.wr_send_imm)(qp, 5),
            9 => (ops.wr_send_inv)(qp, rkey),
            10 => (ops.wr_send_tso)(qp, null_mut(), 0, 0),
            11 => (ops.wr_atomic_write)(qp, rkey, va, word.as_ptr().cast()),
            _ => {
                let length = usize::from(input.u16()) << input.below(40);
                (ops.wr_flush)(qp, rkey, va, length, input.below(5), input.below(3));
            }
        });
    }

    /// Data and destination of the request before, if there is one.
    fn build_data(&self, qp: *mut ibv_qp_ex, ops: &ibv_qp_ex_ops, input: &mut Input<'_>) {
        let sges: [ibv_sge; MOST] = std::array::from_fn(|_| self.sge(input));
        let (addr, length) = memory::piece(input);
        let piece = ibv_data_buf { addr, length };
        call!(match input.below(7) {
            0 => (ops.wr_set_sge)(qp, sges[0].lkey, sges[0].addr, sges[0].length),
            1 => (ops.wr_set_sge_list)(qp, input.below(5).into(), sges.as_ptr()),
            2 => (ops.wr_set_sge_list)(qp, 2, null()),
            3 => (ops.wr_set_inline_data)(qp, addr, length),
            4 => (ops.wr_set_inline_data_list)(qp, input.below(3).into(), [piece; 2].as_ptr()),
            5 => (ops.wr_set_xrc_srqn)(qp, input.u8().into()),
            _ => {
                let ah = self.objects.live(Kind::Ah, input);
                (ops.wr_set_ud_addr)(qp, ah, (*qp).qp_base.qp_num, 7);
            }
        });
    }
}
