//! The structs of `infiniband/verbs.h` and `rdma/rdma_cma.h`, field by field, with the names they have there.
//!
//! Where two versions of rdma-core differ, the longer form is declared; programs built against the
//! shorter one never look at the rest. The tests of this crate compare every offset and constant with the headers
//! of the system.
#![forbid(unsafe_code)]
#![allow(non_camel_case_types, reason = "the names of the header")]
#![allow(missing_docs, reason = "the manual pages of rdma-core describe every field")]
#![allow(missing_debug_implementations, reason = "most fields are pointers")]

mod address;
mod attr;
mod cm;
mod cm_constants;
mod constants;
mod context_slots;
mod cq_ex;
mod device;
mod extended;
mod init_attr;
mod objects;
mod qp_ex;
mod work;

pub use address::*;
pub use attr::*;
pub use cm::*;
pub use cm_constants::*;
pub use constants::*;
pub use context_slots::*;
pub use cq_ex::*;
pub use device::*;
pub use extended::*;
pub use init_attr::*;
pub use objects::*;
pub use qp_ex::*;
pub use work::*;

/// A slot whose function is not called with arguments that are known here.
pub type Slot = Option<unsafe extern "C" fn() -> libc::c_int>;
