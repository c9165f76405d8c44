//! PortCounters and PortCountersExtended (16.1.3.5, 16.1.4).

use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{Immutable, IntoBytes, Unaligned, transmute};

/// Bytes of PortCounters.
const SHORT_LEN: usize = 44;
/// Bytes of PortCountersExtended.
const EXTENDED_LEN: usize = 72;
/// The attributes count data in words of four bytes.
const WORD: u64 = 4;

/// What a port has counted, as its device knows it. The attributes' other counters are of links that RoCE does
/// not have, and 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortCounters {
    /// Times the link went down.
    pub link_downed: u64,
    /// Packets that arrived damaged or malformed.
    pub rcv_errors: u64,
    /// Packets that could not be sent.
    pub xmit_discards: u64,
    /// Bytes sent.
    pub xmit_bytes: u64,
    /// Bytes received.
    pub rcv_bytes: u64,
    /// Packets sent.
    pub xmit_pkts: u64,
    /// Packets received.
    pub rcv_pkts: u64,
}

#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct Short {
    reserved: u8,
    port_select: u8,
    counter_select: U16,
    symbol_error_counter: U16,
    link_error_recovery_counter: u8,
    link_downed_counter: u8,
    port_rcv_errors: U16,
    port_rcv_remote_physical_errors: U16,
    port_rcv_switch_relay_errors: U16,
    port_xmit_discards: U16,
    port_xmit_constraint_errors: u8,
    port_rcv_constraint_errors: u8,
    counter_select2: u8,
    /// Four bits each.
    link_integrity_and_buffer_overrun_errors: u8,
    qp1_dropped: U16,
    vl15_dropped: U16,
    port_xmit_data: U32,
    port_rcv_data: U32,
    port_xmit_pkts: U32,
    port_rcv_pkts: U32,
    port_xmit_wait: U32,
}

#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct Extended {
    reserved: u8,
    port_select: u8,
    counter_select: U16,
    counter_select2: U32,
    port_xmit_data: U64,
    port_rcv_data: U64,
    port_xmit_pkts: U64,
    port_rcv_pkts: U64,
    /// Unicast and multicast, sent and received.
    not_told_apart: [U64; 4],
}

impl PortCounters {
    /// PortCounters: each counter stops at its largest value.
    pub(super) fn short(&self, port_select: u8) -> [u8; SHORT_LEN] {
        let raw = Short {
            reserved: 0,
            port_select,
            counter_select: 0.into(),
            symbol_error_counter: 0.into(),
            link_error_recovery_counter: 0,
            link_downed_counter: u8::try_from(self.link_downed).unwrap_or(u8::MAX),
            port_rcv_errors: saturate_16(self.rcv_errors),
            port_rcv_remote_physical_errors: 0.into(),
            port_rcv_switch_relay_errors: 0.into(),
            port_xmit_discards: saturate_16(self.xmit_discards),
            port_xmit_constraint_errors: 0,
            port_rcv_constraint_errors: 0,
            counter_select2: 0,
            link_integrity_and_buffer_overrun_errors: 0,
            qp1_dropped: 0.into(),
            vl15_dropped: 0.into(),
            port_xmit_data: saturate_32(self.xmit_bytes / WORD),
            port_rcv_data: saturate_32(self.rcv_bytes / WORD),
            port_xmit_pkts: saturate_32(self.xmit_pkts),
            port_rcv_pkts: saturate_32(self.rcv_pkts),
            port_xmit_wait: 0.into(),
        };
        transmute!(raw)
    }

    /// PortCountersExtended.
    pub(super) fn extended(&self, port_select: u8) -> [u8; EXTENDED_LEN] {
        let raw = Extended {
            reserved: 0,
            port_select,
            counter_select: 0.into(),
            counter_select2: 0.into(),
            port_xmit_data: (self.xmit_bytes / WORD).into(),
            port_rcv_data: (self.rcv_bytes / WORD).into(),
            port_xmit_pkts: self.xmit_pkts.into(),
            port_rcv_pkts: self.rcv_pkts.into(),
            not_told_apart: [U64::ZERO; 4],
        };
        transmute!(raw)
    }
}

fn saturate_16(count: u64) -> U16 {
    u16::try_from(count).unwrap_or(u16::MAX).into()
}

fn saturate_32(count: u64) -> U32 {
    u32::try_from(count).unwrap_or(u32::MAX).into()
}
