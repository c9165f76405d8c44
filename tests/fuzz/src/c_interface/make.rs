//! Creating objects.

use std::ptr::null_mut;

use libc::{c_int, c_uint, c_void};
use uroce_ibverbs::object::zeroed;
use uroce_verbs_abi::*;

use super::functions::*;
use super::memory;
use super::objects::Kind;
use super::program::{HOSTS, Program};
use crate::input::Input;

/// A size: mostly small, sometimes far beyond what there can be.
fn size(input: &mut Input<'_>) -> u32 {
    let byte = input.u8();
    if byte < 250 { byte.into() } else { u32::MAX - u32::from(255 - byte) * 0x1555_5555 }
}

fn caps(input: &mut Input<'_>) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: size(input) % 0x8000_0040,
        max_recv_wr: size(input) % 0x8000_0040,
        max_send_sge: input.below(40).into(),
        max_recv_sge: input.below(40).into(),
        max_inline_data: size(input),
    }
}

/// The address of one of the devices, of a host that there is not, or of no host.
pub(super) fn path(input: &mut Input<'_>) -> ibv_ah_attr {
    // SAFETY: integers.
    let mut attr: ibv_ah_attr = unsafe { zeroed() };
    let kind = input.u8();
    (attr.is_global, attr.port_num) = (u8::from(kind & 0x70 != 0x10), 1 + u8::from(kind >= 0xf0));
    (attr.sl, attr.grh.hop_limit, attr.grh.sgid_index) = (kind & 15, 64, kind >> 7);
    attr.grh.dgid = match kind & 15 {
        0 => ibv_gid { raw: [kind; 16], align: [] },
        _ => gid(HOSTS[usize::from(kind & 1)]),
    };
    attr
}

/// An IPv4 address as a GID.
pub(super) fn gid([a, b, c, d]: [u8; 4]) -> ibv_gid {
    ibv_gid { raw: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d], align: [] }
}

impl Program {
    pub(super) fn make(&mut self, input: &mut Input<'_>) {
        match input.below(16) {
            0 => {
                let context = self.context(input);
                let pd = call!(ibv_alloc_pd(context));
                self.objects.made(Kind::Pd, self.device_of(context), pd, &[]);
            }
            1 | 2 => self.make_cq(input),
            3 | 4 => self.register(input),
            5 => self.make_window(input),
            6 => self.make_srq(input),
            7 => self.make_xrc(input),
            8 => self.make_domain(input),
            9 => self.make_small(input),
            10 => {
                let pd: *mut ibv_pd = self.objects.any(Kind::Pd, input);
                let ah = call!(ibv_create_ah(pd, &mut path(input)));
                let device = self.objects.device_of(pd);
                self.objects.made(Kind::Ah, device, ah, &[(Kind::Pd, pd.cast())]);
            }
            11 => self.make_channel(input),
            _ => self.make_qp(input),
        }
    }

    fn make_channel(&mut self, input: &mut Input<'_>) {
        let context = self.context(input);
        let channel = call!(ibv_create_comp_channel(context));
        if !channel.is_null() {
            super::events::do_not_wait(call!((*channel).fd));
        }
        self.objects.made(Kind::Channel, self.device_of(context), channel, &[]);
    }

    fn make_cq(&mut self, input: &mut Input<'_>) {
        let context = self.context(input);
        let channel: *mut ibv_comp_channel = self.objects.any(Kind::Channel, input);
        let parent_domain: *mut ibv_pd = self.objects.any(Kind::Pd, input);
        let cqe = size(input);
        let is_extended = input.bool();
        let comp_mask = u32::from(input.below(8) & if is_extended { 3 } else { 0 });
        let cq = if is_extended {
            let mut attr = ibv_cq_init_attr_ex {
                cqe,
                cq_context: null_mut(),
                channel,
                comp_vector: u32::from(input.below(16) == 15),
                wc_flags: u64::from(input.u16() & 0x7ff),
                comp_mask,
                flags: 0,
                parent_domain,
            };
            let create = call!((*self.slots()).create_cq_ex.expect("a function"));
            call!(create(context, &raw mut attr)).cast()
        } else {
            call!(ibv_create_cq(context, cqe as c_int, null_mut(), channel, 0))
        };
        let mut of = vec![(Kind::Channel, channel.cast())];
        if comp_mask & IBV_CQ_INIT_ATTR_MASK_PD != 0 {
            of.push((Kind::Pd, parent_domain.cast()));
        }
        self.objects.made(Kind::Cq, self.device_of(context), cq, &of);
    }

    /// Memory of the program, or none; what is registered on demand must be there.
    fn register(&mut self, input: &mut Input<'_>) {
        let pd: *mut ibv_pd = self.objects.any(Kind::Pd, input);
        let (mut addr, mut length) = memory::piece(input);
        let mut access = c_uint::from(input.u16() & 0x3ff) | u32::from(input.bool());
        match input.below(16) {
            0 => (addr, length) = (null_mut(), 4096),
            1 => (addr, length) = (addr, usize::MAX),
            2 => (addr, length) = (std::ptr::without_provenance_mut(4096), 4096),
            3 => access |= 1 << 21,
            _ => {}
        }
        if !(1..=8192).contains(&length) || addr.addr() <= 4096 {
            access &= !(IBV_ACCESS_ON_DEMAND as u32);
        }
        let iova = if input.bool() { addr.addr() as u64 } else { input.u64() };
        let mr = call!(ibv_reg_mr_iova2(pd, addr, length, iova, access));
        let device = self.objects.device_of(pd);
        self.objects.made(Kind::Mr, device, mr, &[(Kind::Pd, pd.cast())]);
    }

    fn make_window(&mut self, input: &mut Input<'_>) {
        let pd: *mut ibv_pd = self.objects.any(Kind::Pd, input);
        let alloc = call!((*self.contexts[0]).ops.alloc_mw);
        let mw = call!(alloc(pd, input.below(4).into()));
        let device = self.objects.device_of(pd);
        self.objects.made(Kind::Mw, device, mw, &[(Kind::Pd, pd.cast())]);
    }

    fn make_srq(&mut self, input: &mut Input<'_>) {
        let pd: *mut ibv_pd = self.objects.any(Kind::Pd, input);
        let attr = ibv_srq_attr {
            max_wr: size(input),
            max_sge: input.below(40).into(),
            srq_limit: size(input),
        };
        let device = self.objects.device_of(pd);
        if input.bool() {
            let mut init = ibv_srq_init_attr { srq_context: null_mut(), attr };
            let srq = call!(ibv_create_srq(pd, &raw mut init));
            self.objects.made(Kind::Srq, device, srq, &[(Kind::Pd, pd.cast())]);
            return;
        }
        let (context, xrcd, cq): (_, *mut ibv_xrcd, *mut ibv_cq) = (
            self.context(input),
            self.objects.any(Kind::Xrcd, input),
            self.objects.any(Kind::Cq, input),
        );
        let mut init = ibv_srq_init_attr_ex {
            srq_context: null_mut(),
            attr,
            comp_mask: 15 ^ u32::from(input.below(20) == 19),
            srq_type: c_int::from(input.below(8) != 7),
            pd,
            xrcd,
            cq,
            tm_cap: [0; 2],
        };
        let create = call!((*self.slots()).create_srq_ex.expect("a function"));
        let srq = call!(create(context, &raw mut init));
        let of = [(Kind::Pd, pd.cast()), (Kind::Xrcd, xrcd.cast()), (Kind::Cq, cq.cast())];
        self.objects.made(Kind::Srq, device, srq, &of);
    }

    /// A domain of XRC, or a target in one.
    fn make_xrc(&mut self, input: &mut Input<'_>) {
        let context = self.context(input);
        if input.bool() {
            let open = call!((*self.slots()).open_xrcd.expect("a function"));
            let (comp_mask, oflags) = (3 ^ u32::from(input.below(8) == 7), libc::O_CREAT);
            let mut attr = ibv_xrcd_init_attr { comp_mask, fd: -1, oflags };
            let xrcd = call!(open(context, &raw mut attr));
            self.objects.made(Kind::Xrcd, self.device_of(context), xrcd, &[]);
            return;
        }
        let (xrcd, target): (*mut ibv_xrcd, *mut ibv_qp) =
            (self.objects.any(Kind::Xrcd, input), self.objects.live(Kind::Qp, input));
        let qp = if input.bool() || target.is_null() {
            // SAFETY: null pointers and integers.
            let mut init: ibv_qp_init_attr_ex = unsafe { zeroed() };
            (init.xrcd, init.qp_type) = (xrcd, IBV_QPT_XRC_RECV);
            init.comp_mask = IBV_QP_INIT_ATTR_XRCD | u32::from(input.below(8) == 7);
            let create = call!((*self.slots()).create_qp_ex.expect("a function"));
            call!(create(context, &raw mut init))
        } else {
            let mut attr = ibv_qp_open_attr {
                comp_mask: 15 ^ u32::from(input.below(8) == 7),
                qp_num: call!((*target).qp_num),
                xrcd,
                qp_context: null_mut(),
                qp_type: IBV_QPT_XRC_RECV,
            };
            let open = call!((*self.slots()).open_qp.expect("a function"));
            call!(open(context, &raw mut attr))
        };
        let device = self.objects.device_of(xrcd);
        self.objects.made(Kind::Qp, device, qp, &[(Kind::Xrcd, xrcd.cast())]);
    }

    /// A thread domain, or a parent domain.
    fn make_domain(&mut self, input: &mut Input<'_>) {
        let context = self.context(input);
        let device = self.device_of(context);
        let comp_mask = u32::from(input.below(16) == 15);
        if input.bool() {
            let alloc = call!((*self.slots()).alloc_td.expect("a function"));
            let td = call!(alloc(context, &mut ibv_td_init_attr { comp_mask }));
            self.objects.made(Kind::Td, device, td, &[]);
            return;
        }
        let (pd, td): (*mut ibv_pd, *mut ibv_td) =
            (self.objects.any(Kind::Pd, input), self.objects.any(Kind::Td, input));
        let (alloc, free, pd_context) = (None, None, null_mut());
        let comp_mask = comp_mask << 5;
        let mut attr = ibv_parent_domain_init_attr { pd, td, comp_mask, alloc, free, pd_context };
        let create = call!((*self.slots()).alloc_parent_domain.expect("a function"));
        let parent = call!(create(context, &raw mut attr));
        let of = [(Kind::Pd, pd.cast()), (Kind::Td, td.cast())];
        self.objects.made(Kind::Pd, device, parent, &of);
    }

    /// Memory of the device and a region of it, or a counter.
    fn make_small(&mut self, input: &mut Input<'_>) {
        let context = self.context(input);
        match input.below(3) {
            0 => {
                let alloc = call!((*self.slots()).alloc_dm.expect("a function"));
                let (length, log_align_req) = (size(input) as usize, input.below(16).into());
                let mut attr = ibv_alloc_dm_attr { length, log_align_req, comp_mask: 0 };
                let dm = call!(alloc(context, &raw mut attr));
                self.objects.made(Kind::Dm, self.device_of(context), dm, &[]);
            }
            1 => {
                let (pd, dm): (*mut ibv_pd, *mut ibv_dm) =
                    (self.objects.any(Kind::Pd, input), self.objects.any(Kind::Dm, input));
                let reg = call!((*self.slots()).reg_dm_mr.expect("a function"));
                let (offset, length) = (input.u8().into(), input.u8().into());
                let mr = call!(reg(pd, dm, offset, length, (input.u16() & 0x3ff).into()));
                let device = self.objects.device_of(pd);
                self.objects.made(Kind::Mr, device, mr, &[(Kind::Pd, pd.cast())]);
            }
            _ => {
                let (comp_mask, flags) = (u32::from(input.below(16) == 15), 0);
                let mut attr =
                    ibv_comp_cntr_init_attr { comp_mask, r#type: input.below(3).into(), flags };
                let counter = call!(ibv_create_comp_cntr(context, &raw mut attr));
                self.objects.made(Kind::Counter, self.device_of(context), counter, &[]);
            }
        }
    }

    fn make_qp(&mut self, input: &mut Input<'_>) {
        const TYPES: [c_int; 7] = [
            IBV_QPT_RC,
            IBV_QPT_RC,
            IBV_QPT_UC,
            IBV_QPT_UD,
            IBV_QPT_XRC_SEND,
            IBV_QPT_RAW_PACKET,
            IBV_QPT_XRC_RECV,
        ];
        let pd: *mut ibv_pd = self.objects.any(Kind::Pd, input);
        let cqs: [*mut ibv_cq; 2] = std::array::from_fn(|_| self.objects.any(Kind::Cq, input));
        let srq = if input.bool() { self.objects.any(Kind::Srq, input) } else { null_mut() };
        let qp_type = TYPES[usize::from(input.below(7))];
        // SAFETY: null pointers and integers.
        let mut init: ibv_qp_init_attr_ex = unsafe { zeroed() };
        (init.send_cq, init.recv_cq, init.srq) = (cqs[0], cqs[1], srq);
        (init.cap, init.qp_type, init.sq_sig_all) = (caps(input), qp_type, input.below(2).into());
        let qp = if input.bool() {
            call!(ibv_create_qp(pd, (&raw mut init).cast()))
        } else {
            init.pd = pd;
            init.comp_mask = IBV_QP_INIT_ATTR_PD | u32::from(input.below(4)) << 5;
            init.send_ops_flags = u64::from(input.u16() & 0x1bff);
            let create = call!((*self.slots()).create_qp_ex.expect("a function"));
            call!(create(self.context(input), &raw mut init))
        };
        let device = self.objects.device_of(pd);
        let mut of: Vec<(Kind, *mut c_void)> =
            vec![(Kind::Pd, pd.cast()), (Kind::Cq, cqs[0].cast())];
        if qp_type != IBV_QPT_XRC_SEND {
            of.extend([(Kind::Cq, cqs[1].cast()), (Kind::Srq, srq.cast())]);
        }
        self.objects.made(Kind::Qp, device, qp, &of);
    }
}
