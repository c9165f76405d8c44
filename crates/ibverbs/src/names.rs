//! Numbers in words.

use std::ffi::CStr;

use libc::{c_char, c_int};

use crate::async_event::event_name;

/// The texts that users of libibverbs know and search for.
const STATUS: [&CStr; 24] = [
    c"success",
    c"local length error",
    c"local QP operation error",
    c"local EE context operation error",
    c"local protection error",
    c"Work Request Flushed Error",
    c"memory management operation error",
    c"bad response error",
    c"local access error",
    c"remote invalid request error",
    c"remote access error",
    c"remote operation error",
    c"transport retry counter exceeded",
    c"RNR retry counter exceeded",
    c"local RDD violation error",
    c"remote invalid RD request",
    c"aborted error",
    c"invalid EE context number",
    c"invalid EE context state",
    c"fatal error",
    c"response timeout error",
    c"general error",
    c"TM error",
    c"TM software rendezvous",
];

const NODES: [&CStr; 8] = [
    c"unknown",
    c"InfiniBand channel adapter",
    c"InfiniBand switch",
    c"InfiniBand router",
    c"iWARP NIC",
    c"usNIC",
    c"usNIC UDP",
    c"unspecified",
];

const PORT_STATES: [&CStr; 6] =
    [c"no state change (NOP)", c"down", c"init", c"armed", c"active", c"active defer"];

const OPCODES: [Option<&CStr>; 16] = [
    Some(c"rdma-write"),
    Some(c"rdma-write-with-imm"),
    Some(c"send"),
    Some(c"send-with-imm"),
    Some(c"rdma-read"),
    Some(c"atomic-cmp-and-swp"),
    Some(c"atomic-fetch-and-add"),
    Some(c"local-inv"),
    Some(c"bind-mw"),
    Some(c"send-with-inv"),
    Some(c"tso"),
    Some(c"driver1"),
    None,
    None,
    Some(c"flush"),
    Some(c"atomic-write"),
];

fn text(names: &[&'static CStr], number: c_int) -> *const c_char {
    let name = usize::try_from(number).ok().and_then(|index| names.get(index));
    name.copied().unwrap_or(c"unknown").as_ptr()
}

/// ibv_wc_status_str(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_wc_status_str(status: c_int) -> *const c_char {
    text(&STATUS, status)
}

/// ibv_wr_opcode_str(3), since rdma-core 47.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_wr_opcode_str(opcode: c_int) -> *const c_char {
    let name = usize::try_from(opcode).ok().and_then(|index| OPCODES.get(index).copied().flatten());
    name.unwrap_or(c"unknown").as_ptr()
}

/// ibv_node_type_str(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_node_type_str(node_type: c_int) -> *const c_char {
    text(&NODES, node_type)
}

/// ibv_port_state_str(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_port_state_str(state: c_int) -> *const c_char {
    text(&PORT_STATES, state)
}

/// ibv_event_type_str(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_event_type_str(event_type: c_int) -> *const c_char {
    event_name(event_type).as_ptr()
}
