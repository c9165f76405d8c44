//! Posting.

use std::ptr::null_mut;

use uroce_conform::{Completion, Kind, Operation, Work};
use uroce_verbs_abi::{
    atomic_wr, ibv_qp, ibv_recv_wr, ibv_send_wr, ibv_sge, ibv_srq, ibv_wc, rdma_wr, wr_union,
};

use crate::device::Device;
use crate::outcome::{Tried, done};

/// `IBV_WC_WITH_IMM`.
const WITH_IMM: u32 = 1 << 1;
/// `IBV_WC_WITH_INV`.
const WITH_INV: u32 = 1 << 3;

/// Where receives go.
pub(crate) enum Receiver {
    QueuePair(*mut ibv_qp),
    Shared(*mut ibv_srq),
}

/// Posts one receive.
pub(crate) fn post_receive(
    device: &Device,
    receiver: &Receiver,
    wr_id: u64,
    mut sges: Vec<ibv_sge>,
) -> Tried<()> {
    let mut wr = ibv_recv_wr {
        wr_id,
        next: null_mut(),
        sg_list: sges.as_mut_ptr(),
        num_sge: sges.len() as i32,
    };
    let mut bad = null_mut();
    // SAFETY: a queue that lives, a chain of one, and a list of the length that it names.
    let status = unsafe {
        let ops = &(*device.context).ops;
        match receiver {
            Receiver::QueuePair(qp) => (ops.post_recv)(*qp, &raw mut wr, &raw mut bad),
            Receiver::Shared(srq) => (ops.post_srq_recv)(*srq, &raw mut wr, &raw mut bad),
        }
    };
    done("posting a receive", status)
}

/// Datagrams need an address handle, a pointer, where other work requests have the address that the tester names.
pub(crate) fn can_send(kind: Kind) -> Tried<()> {
    match kind {
        Kind::Rc | Kind::Uc | Kind::XrcSend => Ok(()),
        Kind::XrcReceive => Err("this end of an XRC connection only answers".to_owned()),
        Kind::Ud => Err("datagrams are only received".to_owned()),
    }
}

/// Posts one work request to a queue pair that [`can_send`].
pub(crate) fn post_send(
    device: &Device,
    qp: *mut ibv_qp,
    work: &Work,
    mut sges: Vec<ibv_sge>,
) -> Tried<()> {
    let flags =
        u32::from(work.fence) | u32::from(work.signaled) << 1 | u32::from(work.solicited) << 2;
    // SAFETY: integers and null pointers.
    let mut wr: ibv_send_wr = unsafe { std::mem::zeroed() };
    wr.wr_id = work.wr_id;
    wr.sg_list = sges.as_mut_ptr();
    wr.num_sge = sges.len() as i32;
    wr.opcode = opcode(work);
    wr.send_flags = flags;
    wr.imm_data = match work.operation {
        Operation::SendInvalidate | Operation::LocalInvalidate => work.rkey,
        _ => work.imm.unwrap_or(0).to_be(),
    };
    wr.remote_srqn = work.srqn;
    wr.wr = match work.operation {
        Operation::CompareSwap | Operation::FetchAdd => wr_union {
            atomic: atomic_wr {
                remote_addr: work.va,
                compare_add: work.compare_add,
                swap: work.swap,
                rkey: work.rkey,
            },
        },
        _ => wr_union { rdma: rdma_wr { remote_addr: work.va, rkey: work.rkey } },
    };
    let mut bad = null_mut();
    // SAFETY: a queue pair that lives, a chain of one, and a list of the length that it names. It is no datagram queue
    // pair, so nothing in the union is a pointer.
    let status = unsafe { ((*device.context).ops.post_send)(qp, &raw mut wr, &raw mut bad) };
    done("posting a work request", status)
}

/// `ibv_wr_opcode`.
fn opcode(work: &Work) -> i32 {
    match (work.operation, work.imm) {
        (Operation::Write, None) => 0,
        (Operation::Write, Some(_)) => 1,
        (Operation::Send, None) => 2,
        (Operation::Send, Some(_)) => 3,
        (Operation::Read, _) => 4,
        (Operation::CompareSwap, _) => 5,
        (Operation::FetchAdd, _) => 6,
        (Operation::LocalInvalidate, _) => 7,
        (Operation::SendInvalidate, _) => 9,
    }
}

/// A completion as the protocol has it.
pub(crate) fn completion(wc: &ibv_wc) -> Completion {
    Completion {
        wr_id: wc.wr_id,
        status: wc.status as u32,
        opcode: wc.opcode as u32,
        byte_len: wc.byte_len,
        imm: (wc.wc_flags & WITH_IMM != 0).then(|| u32::from_be(wc.imm_data)),
        invalidated: (wc.wc_flags & WITH_INV != 0).then_some(wc.imm_data),
        src_qp: wc.src_qp,
        flags: wc.wc_flags,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_of_the_tester_becomes_an_address_handle() {
        assert!(can_send(Kind::Rc).is_ok() && can_send(Kind::Uc).is_ok());
        assert!(can_send(Kind::Ud).is_err());
    }
}
