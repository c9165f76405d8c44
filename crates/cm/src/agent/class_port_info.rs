//! ClassPortInfo: what an agent can do (13.4.8.1).

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{Immutable, IntoBytes, Unaligned, transmute};

use super::Class;
use crate::mad::BASE_VERSION;

/// Bytes of the attribute.
const LEN: usize = 72;

/// Communication management: RC, UC, service id resolution (16.7.3).
const CM_CAPABILITIES: u16 = 1 << 9 | 1 << 12 | 1 << 13;
/// Performance management: all ports together; extended counters, without those that tell unicast from
/// multicast (16.1.3).
const PM_CAPABILITIES: u16 = 1 << 8 | 1 << 10;
/// An answer takes less than 4.096 us * 2^18, a second.
const RESPONSE_TIME: u32 = 18;

/// Where requests are to go instead, or traps are to go to: nowhere.
#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct Direction([u8; 32]);

#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct RawClassPortInfo {
    base_version: u8,
    class_version: u8,
    capability_mask: U16,
    /// 27 bits of capabilities, 5 bits of time code.
    capability_mask2_and_response_time: U32,
    redirect: Direction,
    trap: Direction,
}

pub(super) fn class_port_info(class: Class) -> [u8; LEN] {
    let capabilities = match class {
        Class::CommunicationManagement => CM_CAPABILITIES,
        Class::PerformanceManagement => PM_CAPABILITIES,
    };
    let raw = RawClassPortInfo {
        base_version: BASE_VERSION,
        class_version: class.version(),
        capability_mask: capabilities.into(),
        capability_mask2_and_response_time: RESPONSE_TIME.into(),
        redirect: Direction([0; 32]),
        trap: Direction([0; 32]),
    };
    transmute!(raw)
}
