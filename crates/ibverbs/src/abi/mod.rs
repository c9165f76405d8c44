//! The structs of `infiniband/verbs.h`, field by field, with the names they have there.
//!
//! Where two versions of rdma-core differ, the longer form is declared; programs built against the
//! shorter one never look at the rest. The tests compare every offset with the header of the system.
#![allow(non_camel_case_types)] // the names of the header

mod attr;
mod context;
mod cq;
mod memory;
mod ops;
mod qp;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use attr::*;
pub(crate) use context::*;
pub(crate) use cq::*;
pub(crate) use memory::*;
pub(crate) use ops::*;
pub(crate) use qp::*;
pub(crate) use work::*;

/// A function that nobody calls through this slot with arguments we know.
pub(crate) type Slot = Option<unsafe extern "C" fn() -> libc::c_int>;
