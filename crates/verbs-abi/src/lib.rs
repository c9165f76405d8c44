//! The structs of `infiniband/verbs.h` and `rdma/rdma_cma.h`, field by field, with the names they have there.
//!
//! Where two versions of rdma-core differ, the longer form is declared; programs built against the
//! shorter one never look at the rest. The tests of `uroce-ibverbs` compare every offset with the headers
//! of the system.
#![forbid(unsafe_code)]
#![allow(non_camel_case_types, reason = "the names of the header")]
#![allow(missing_docs, reason = "the manual pages of rdma-core describe every field")]
#![allow(missing_debug_implementations, reason = "most fields are pointers")]

mod attr;
mod cm;
mod context;
mod cq;
mod memory;
mod ops;
mod qp;
mod work;

pub use attr::*;
pub use cm::*;
pub use context::*;
pub use cq::*;
pub use memory::*;
pub use ops::*;
pub use qp::*;
pub use work::*;

/// A function that nobody calls through this slot with arguments we know.
pub type Slot = Option<unsafe extern "C" fn() -> libc::c_int>;
