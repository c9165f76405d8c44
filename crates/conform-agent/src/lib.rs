//! The agent of `uroce conform`: it runs beside the NIC under test, and does through that machine's own libibverbs what
//! the tester asks of it over one TCP connection.
//!
//! libibverbs is loaded when the agent starts (rdma-core 28 or newer), and librdmacm if there is one; nothing of them is
//! needed to build. The agent does nothing that its user could not do. A client must name the token that it printed;
//! everything that a session asks for has a limit ([`uroce_conform::limits`]), and ends with the session.
//!
//! # Unsafe code
//!
//! Calls of libibverbs and librdmacm, and the memory that a NIC writes to. Each rests on the same facts: the structs are
//! those of [`uroce_verbs_abi`], compared with the headers of the system in its tests; an object lives
//! until its session destroys it, users before what they use; one thread makes all calls.
//! Another one only adds to a word, when it is asked to.
#![deny(unsafe_code)]

mod access_flags;
#[allow(unsafe_code, reason = "a word that a NIC writes to, and another thread")]
mod adding;
#[allow(unsafe_code, reason = "calls of librdmacm")]
mod cm;
#[allow(unsafe_code, reason = "calls of libibverbs")]
mod completion_queue;
mod counters;
#[allow(unsafe_code, reason = "calls of libibverbs")]
mod device;
#[allow(unsafe_code, reason = "calls of libibverbs")]
mod domain;
#[allow(unsafe_code, reason = "calls of libibverbs")]
mod extended;
#[allow(unsafe_code, reason = "loads libibverbs and librdmacm")]
mod library;
#[allow(unsafe_code, reason = "memory that a NIC writes to")]
mod memory;
mod outcome;
#[allow(unsafe_code, reason = "calls of libibverbs")]
mod queue_pair;
#[allow(unsafe_code, reason = "calls of libibverbs")]
mod region;
mod serve;
mod session;
#[allow(unsafe_code, reason = "calls of libibverbs")]
mod shared_queue;
#[allow(unsafe_code, reason = "functions that lie in front of a context")]
mod slots;
#[allow(unsafe_code, reason = "writes a struct of C into another")]
mod sockaddr;
mod timed;
#[allow(unsafe_code, reason = "calls of libibverbs")]
mod window;
#[allow(unsafe_code, reason = "calls of libibverbs")]
mod work;
#[allow(unsafe_code, reason = "calls of libibverbs")]
mod xrc;

pub use device::{Choice, DeviceError};
pub use library::LibraryError;
pub use serve::{Agent, AgentFailure, random_token};
