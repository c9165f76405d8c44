//! What is tried, and what rxe is known not to do.

use std::fmt;

use crate::rxe::matrix::cell::Role;

/// An operation of `operations.c` at a path MTU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// Its name there.
    pub operation: &'static str,
    /// The path MTU in bytes.
    pub mtu: u32,
}

/// All of them.
pub const CASES: [Case; 4] = [
    Case { operation: "flush", mtu: 1024 },
    Case { operation: "atomic-write", mtu: 1024 },
    Case { operation: "on-demand", mtu: 1024 },
    Case { operation: "on-demand", mtu: 4096 },
];

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at path MTU {}", self.operation, self.mtu)
    }
}

/// A part of what is printed where an operation fails for a reason of the kernel `version`; `None`: it works.
///
/// Linux 6.1 has none of them (the libibverbs of the guest lets a program post an ATOMIC WRITE all the same), and 6.12 no memory
/// on demand. FLUSH: docs/conform/rxe.md. In memory on demand, rxe puts
/// every packet at the beginning of a page, so that only packets of whole pages end where they belong.
pub fn known_defect(version: &str, case: Case, role: Role) -> Option<&'static str> {
    match (version, case.operation, case.mtu) {
        ("6.1", "atomic-write", _) => Some(match role {
            Role::Server => "local QP operation error",
            Role::Client => "transport retry counter exceeded",
        }),
        ("6.1", ..) | ("6.12", "on-demand", _) => Some("ibv_reg_mr"),
        (_, "flush", _) => Some("transport retry counter exceeded"),
        (_, "on-demand", 1024) => Some("was written"),
        _ => None,
    }
}
