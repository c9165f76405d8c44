//! System calls without a safe wrapper, and memory that another process writes to.

pub(crate) mod activation;
pub(crate) mod shared_memory;
