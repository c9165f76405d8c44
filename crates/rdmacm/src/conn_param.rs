//! What a program says when it calls or accepts.

use libc::c_void;
use uroce_device::cm::Acceptance;
use uroce_device::wire::Qpn;
use uroce_verbs_abi::{rdma_cm_id, rdma_conn_param};

use crate::id::State;

/// READs and atomics in flight, each way, if the program wants as many as there can be.
const MOST_READS: u8 = 128;

/// What a program says when it calls or accepts, in our words.
pub(crate) struct Param {
    pub(crate) qpn: Qpn,
    pub(crate) responder_resources: u8,
    pub(crate) initiator_depth: u8,
    pub(crate) flow_control: bool,
    pub(crate) retry_count: u8,
    pub(crate) rnr_retry_count: u8,
    /// The queue pair receives into an SRQ; the device itself knows it of its own.
    pub(crate) srq: bool,
    pub(crate) private_data: Vec<u8>,
}

/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn param_of(id: *mut rdma_cm_id, param: *const rdma_conn_param) -> Param {
    let most = MOST_READS;
    // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
    let (qp, given) = unsafe { ((*id).qp, param.as_ref()) };
    // SAFETY: the object was found, and the program does not write to this field.
    let own = (!qp.is_null()).then(|| unsafe { (*qp).qp_num });
    let Some(given) = given else {
        return Param {
            qpn: Qpn::new(own.unwrap_or(0)),
            responder_resources: most,
            initiator_depth: most,
            flow_control: false,
            retry_count: 7,
            rnr_retry_count: 7,
            srq: false,
            private_data: Vec::new(),
        };
    };
    Param {
        qpn: Qpn::new(own.unwrap_or(given.qp_num)),
        responder_resources: given.responder_resources.min(most),
        initiator_depth: given.initiator_depth.min(most),
        flow_control: given.flow_control != 0,
        retry_count: given.retry_count.min(7),
        rnr_retry_count: given.rnr_retry_count.min(7),
        srq: given.srq != 0,
        // SAFETY: null, or as many bytes as the program says.
        private_data: unsafe { bytes(given.private_data, given.private_data_len) },
    }
}

/// # Safety
/// `length` bytes, or null.
pub(crate) unsafe fn bytes(data: *const c_void, length: u8) -> Vec<u8> {
    if data.is_null() || length == 0 {
        return Vec::new();
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data.cast::<u8>(), usize::from(length)) }.to_vec()
}

/// How a request is accepted; without parameters, with as many READs as its caller wants.
pub(crate) fn acceptance(state: &State, param: Option<Param>) -> Acceptance {
    let acceptance = Acceptance::new(Qpn::new(0), state.start_psn);
    let (ack_timeout, ece) = (state.options.ack_timeout, state.local_ece);
    let acceptance = Acceptance { ack_timeout, ece, ..acceptance };
    let Some(param) = param else {
        let (responder_resources, initiator_depth) = (MOST_READS, MOST_READS);
        return Acceptance { responder_resources, initiator_depth, ..acceptance };
    };
    Acceptance {
        qpn: param.qpn,
        responder_resources: param.responder_resources,
        initiator_depth: param.initiator_depth,
        flow_control: param.flow_control,
        rnr_retry_count: param.rnr_retry_count,
        srq: param.srq,
        private_data: param.private_data,
        ..acceptance
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::{null, null_mut};

    use uroce_device::cm::PortSpace;
    use uroce_ibverbs::object::zeroed;

    use super::*;
    use crate::create::create;
    use crate::destroy::rdma_destroy_id;

    #[test]
    fn a_program_that_gives_no_parameters_wants_as_much_as_there_is() {
        let id = create(null_mut(), null_mut(), PortSpace::Tcp).expect("a descriptor");
        // SAFETY: an id without a queue pair, and no parameters.
        let param = unsafe { param_of(id, null()) };
        assert_eq!((param.responder_resources, param.initiator_depth), (128, 128));
        assert_eq!((param.retry_count, param.rnr_retry_count), (7, 7));
        assert!(param.qpn.get() == 0 && param.private_data.is_empty() && !param.flow_control);
        // SAFETY: it is not used any more.
        assert_eq!(unsafe { rdma_destroy_id(id) }, 0);
    }

    #[test]
    fn parameters_are_cut_to_what_the_fields_of_a_message_hold() {
        let id = create(null_mut(), null_mut(), PortSpace::Tcp).expect("a descriptor");
        let data = *b"hello";
        // SAFETY: integers and a pointer; an id without a queue pair, and as much data as is said.
        let param = unsafe {
            let mut c: rdma_conn_param = zeroed();
            (c.responder_resources, c.initiator_depth) = (255, 3);
            (c.retry_count, c.rnr_retry_count, c.flow_control) = (9, 200, 1);
            (c.qp_num, c.private_data, c.private_data_len) = (0x1234, data.as_ptr().cast(), 5);
            param_of(id, &raw const c)
        };
        assert_eq!((param.responder_resources, param.initiator_depth), (128, 3));
        assert_eq!((param.retry_count, param.rnr_retry_count, param.flow_control), (7, 7, true));
        assert_eq!((param.qpn.get(), &param.private_data[..]), (0x1234, &b"hello"[..]));
        // SAFETY: null, or no bytes.
        unsafe {
            assert!(bytes(null(), 5).is_empty() && bytes(data.as_ptr().cast(), 0).is_empty());
            assert_eq!(rdma_destroy_id(id), 0);
        }
    }
}
